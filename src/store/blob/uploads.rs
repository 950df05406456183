//! Uploads: octets that a client put here and that no object holds yet (RFC 8620 §6, §6.1).
//!
//! - Their octets stand with the messages, once however many hold them; a row says who uploaded
//!   them, where and when.
//! - They are their uploader's alone, in shared accounts too, and count against a bound of their
//!   own, for each user in each account. An upload that would go over it makes the oldest ones go
//!   first, however young they are (RFC 8620 §6: "the server MUST delete unreferenced blobs in date
//!   order, oldest first, until there is room"); without that need none goes before its time.
//! - The same octets again are the same upload, and its time begins anew.
//!
//! The rows of one user in one account are few (`limits::MAX_UPLOADS`), so nothing orders them by
//! time but who looks.

use crate::model::{AccountId, BlobHash, UtcMillis, limits};
use crate::store::engine::typed::{KeyRange, TypedRead as _};
use crate::store::error::Error;
use crate::store::row::{BlobBytes, BlobRow, UploadRow};
use crate::store::table::codec::Prefix as _;
use crate::store::table::keys::{BlobKey, UploadBlobKey, UploadKey};
use crate::store::table::{Blobs, Present, UploadBlobs, Uploads};
use crate::store::txn::Txn;

impl Txn<'_> {
    /// Puts octets with this hash into the account for a user, whose uploads may come to `room`
    /// octets there.
    ///
    /// # Errors
    /// `Quota` where they alone are more than that; `Conflict` for a media type that nobody has;
    /// those of reading.
    pub fn put_upload(
        &mut self,
        user: AccountId,
        hash: &BlobHash,
        raw: &[u8],
        media_type: &str,
        room: u64,
    ) -> Result<UploadRow, Error> {
        let upload = self.note_upload(user, hash, raw.len() as u64, media_type, room)?;
        self.put_blob(hash, raw);
        Ok(upload)
    }

    /// The same with octets that are in the store already, whoever holds them there: whether the
    /// user may have them is not asked here. They are not read, but for those that one row has. The
    /// ticket fails with `Overtaken` where they were put or collected meanwhile: then it may be
    /// tried again.
    ///
    /// # Errors
    /// `NotFound` where there are no such octets; those of `put_upload`.
    pub fn hold_upload(
        &mut self,
        user: AccountId,
        hash: &BlobHash,
        media_type: &str,
        room: u64,
    ) -> Result<UploadRow, Error> {
        let key = BlobKey { blob: *hash };
        let row = self.bytes::<Blobs>(&key)?.ok_or(Error::NotFound("blob"))?;
        let blob = BlobRow::decode(&key.encode(), &row)?;
        let upload = self.note_upload(user, hash, blob.bytes.len(), media_type, room)?;
        // As if put anew, so that the collection leaves them; but a head whose frames were
        // collected must not come back.
        let (anew, is_framed) =
            (BlobRow { at: self.now, ..blob }.encode(), matches!(blob.bytes, BlobBytes::Framed(_)));
        if is_framed {
            self.assert_unchanged::<Blobs>(&key, row);
        }
        self.put_bytes::<Blobs>(&key, anew);
        Ok(upload)
    }

    /// Forgets up to `most` uploads that were last uploaded at `upto` or before. Says whether more
    /// may be left.
    ///
    /// # Errors
    /// Those of reading.
    pub fn expire_uploads(&mut self, upto: UtcMillis, most: usize) -> Result<bool, Error> {
        let mut over = Vec::new();
        self.rows(&KeyRange::<Uploads>::under(&(self.account,)), |key, upload| {
            if upload.at <= upto {
                over.push(key);
            }
            Ok(over.len() < most)
        })?;
        let left = over.len() >= most;
        over.iter().for_each(|key| self.forget_upload(key));
        Ok(left)
    }

    fn note_upload(
        &mut self,
        user: AccountId,
        hash: &BlobHash,
        size: u64,
        media_type: &str,
        room: u64,
    ) -> Result<UploadRow, Error> {
        if size > room {
            return Err(Error::Quota);
        }
        if media_type.len() > limits::MAX_MEDIA_TYPE_BYTES
            || media_type.chars().any(char::is_control)
        {
            return Err(Error::Conflict("no media type is written so".into()));
        }
        let own = UploadKey { account: self.account, user, blob: *hash };
        let mut others: Vec<(UtcMillis, UploadKey, u64)> = Vec::new();
        self.rows(&KeyRange::<Uploads>::under(&(self.account, user)), |key, known| {
            if key != own {
                others.push((known.at, key, known.size));
            }
            Ok(true)
        })?;
        others.sort_unstable();
        let (mut count, mut held) =
            (others.len(), others.iter().fold(0u64, |sum, (.., size)| sum.saturating_add(*size)));
        for (_, key, octets) in others {
            if count < limits::MAX_UPLOADS && held.saturating_add(size) <= room {
                break;
            }
            self.forget_upload(&key);
            (count, held) = (count.saturating_sub(1), held.saturating_sub(octets));
        }
        let upload = UploadRow { size, media_type: media_type.to_owned(), at: self.now };
        self.put::<Uploads>(&own, &upload);
        self.put::<UploadBlobs>(
            &UploadBlobKey { blob: *hash, account: self.account, user },
            &Present,
        );
        Ok(upload)
    }

    /// Takes away an upload, and its hold of its octets.
    pub(in crate::store) fn forget_upload(&mut self, key: &UploadKey) {
        let UploadKey { account, user, blob } = *key;
        self.delete::<UploadBlobs>(&UploadBlobKey { blob, account, user });
        self.note_blob_release(self.now, blob);
        self.delete::<Uploads>(key);
    }
}
