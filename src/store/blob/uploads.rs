//! Uploads: bytes that a client uploaded, so that it can make objects of them (RFC 8620 §6, §6.1).
//!
//! - The bytes are stored with the messages, once for all that refer to them. A row says who
//!   uploaded them, to which account, and when.
//! - An email that is imported from an upload has a reference of its own to the bytes. The upload
//!   stays as it is until it expires.
//! - An upload belongs only to its uploader, in shared accounts too. Each user has a quota for
//!   uploads in each account, and `limits::MAX_UPLOADS` of them at most. If an upload exceeds
//!   either, the oldest uploads are deleted first, however young they are (RFC 8620 §6: "the server
//!   MUST delete unreferenced blobs in date order, oldest first, until there is room"). Otherwise
//!   no upload is deleted before its time.
//! - The same bytes again are the same upload, with a new time and media type.
//! - A user's uploads in an account are few, so they have no index by time.

use crate::model::{AccountId, BlobHash, UtcMillis, limits};
use crate::store::engine::typed::{KeyRange, TypedRead as _};
use crate::store::error::Error;
use crate::store::row::{BlobBytes, BlobRow, UploadRow};
use crate::store::table::codec::Prefix as _;
use crate::store::table::keys::{BlobKey, UploadBlobKey, UploadKey};
use crate::store::table::{Blobs, Present, UploadBlobs, Uploads};
use crate::store::txn::Txn;

impl Txn<'_> {
    /// Stores an upload of a user in this account, and returns its row. The user's uploads there
    /// may have at most `quota` bytes: older ones are deleted to make room. `hash` must be the hash
    /// of `raw`.
    ///
    /// # Errors
    /// `Quota` if the bytes alone are more than the quota; `Conflict` if the media type is
    /// malformed; those of `put_blob`.
    pub fn put_upload(
        &mut self,
        user: AccountId,
        hash: &BlobHash,
        raw: &[u8],
        media_type: &str,
        quota: u64,
    ) -> Result<UploadRow, Error> {
        let upload = self.note_upload(user, hash, raw.len() as u64, media_type, quota)?;
        self.put_blob(hash, raw)?;
        Ok(upload)
    }

    /// Does as `put_upload` with bytes that the store already has (Blob/copy). Does not check
    /// whether the user may have them. Reads only the row of `blobs`. If the bytes are not in this
    /// row, the ticket fails with `Overtaken` if they were stored again, moved or collected
    /// meanwhile: then it may be tried again.
    ///
    /// # Errors
    /// `NotFound` if the store does not have the bytes; those of `put_upload`.
    pub fn hold_upload(
        &mut self,
        user: AccountId,
        hash: &BlobHash,
        media_type: &str,
        quota: u64,
    ) -> Result<UploadRow, Error> {
        let key = BlobKey { blob: *hash };
        let row = self.bytes::<Blobs>(&key)?.ok_or(Error::NotFound("blob"))?;
        let blob = BlobRow::decode(&key.encode(), &row)?;
        let upload = self.note_upload(user, hash, blob.bytes.len(), media_type, quota)?;
        // The time in the row is renewed, so that the bytes are not collected. But a row without
        // the bytes must not be written again after these were collected or moved.
        let is_inline = matches!(blob.bytes, BlobBytes::Inline(_));
        let renewed = BlobRow { at: self.now, ..blob }.encode();
        if !is_inline {
            self.assert_unchanged::<Blobs>(&key, row);
        }
        self.put_bytes::<Blobs>(&key, renewed);
        Ok(upload)
    }

    /// Deletes at most `limit` uploads of this account, of any user, that were last uploaded at
    /// `upto` or before, and returns whether more may be left.
    ///
    /// # Errors
    /// Those of reading.
    pub fn expire_uploads(&mut self, upto: UtcMillis, limit: usize) -> Result<bool, Error> {
        let mut expired = Vec::new();
        self.rows(&KeyRange::<Uploads>::under(&(self.account,)), |key, upload| {
            if upload.at <= upto {
                expired.push(key);
            }
            Ok(expired.len() < limit)
        })?;
        let has_more = expired.len() >= limit;
        expired.iter().for_each(|key| self.forget_upload(key));
        Ok(has_more)
    }

    /// Stages the rows of an upload, but not its bytes. Deletes the oldest of the user's other
    /// uploads first, until there is room for it by `quota` and `limits::MAX_UPLOADS`.
    fn note_upload(
        &mut self,
        user: AccountId,
        hash: &BlobHash,
        size: u64,
        media_type: &str,
        quota: u64,
    ) -> Result<UploadRow, Error> {
        if size > quota {
            return Err(Error::Quota);
        }
        if media_type.len() > limits::MAX_MEDIA_TYPE_BYTES
            || media_type.chars().any(char::is_control)
        {
            return Err(Error::Conflict("the media type is malformed".into()));
        }
        let own = UploadKey { account: self.account, user, blob: *hash };
        let mut others: Vec<(UtcMillis, UploadKey, u64)> = Vec::new();
        self.rows(&KeyRange::<Uploads>::under(&(self.account, user)), |key, upload| {
            if key != own {
                others.push((upload.at, key, upload.size));
            }
            Ok(true)
        })?;
        others.sort_unstable();
        let (mut count, mut bytes) =
            (others.len(), others.iter().fold(0u64, |sum, (.., size)| sum.saturating_add(*size)));
        for (_, key, size_of_other) in others {
            if count < limits::MAX_UPLOADS && bytes.saturating_add(size) <= quota {
                break;
            }
            self.forget_upload(&key);
            (count, bytes) = (count.saturating_sub(1), bytes.saturating_sub(size_of_other));
        }
        let upload = UploadRow { size, media_type: media_type.to_owned(), at: self.now };
        self.put::<Uploads>(&own, &upload);
        self.put::<UploadBlobs>(
            &UploadBlobKey { blob: *hash, account: self.account, user },
            &Present,
        );
        Ok(upload)
    }

    /// Deletes an upload and its reference to the bytes, and adds a candidate
    /// (`note_blob_release`).
    pub(in crate::store) fn forget_upload(&mut self, key: &UploadKey) {
        let UploadKey { account, user, blob } = *key;
        self.delete::<UploadBlobs>(&UploadBlobKey { blob, account, user });
        self.note_blob_release(self.now, blob);
        self.delete::<Uploads>(key);
    }
}
