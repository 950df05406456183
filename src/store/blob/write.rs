//! Messages that nobody holds any more.
//!
//! Who lets go of a message leaves a candidate, without asking whether others hold it: two accounts
//! that let go at the same time would each see the other's reference. After a grace time the site
//! looks: what has a reference again, or was put anew, stays. What goes, goes only if its row is
//! still the one that was looked at, for a delivery of the same message puts the row anew together
//! with its reference. A message is put together with a reference or not at all; what is without
//! both reference and candidate nevertheless is found by a rare round over all messages.

use std::time::Duration;

use crate::model::{Action, BlobHash, EmailId, UtcMillis};
use crate::store::engine::typed::{KeyRange, TypedRead as _};
use crate::store::error::Error;
use crate::store::row::{BlobRow, EncodedMessage, blob_frames, blob_head};
use crate::store::table::codec::{KeyTime, Prefix as _};
use crate::store::table::keys::{ActionBlobKey, BlobFrameKey, BlobKey, BlobPurgeKey, BlobRefKey};
use crate::store::table::{
    BlobFrames, BlobPurge, BlobRefs, Blobs, OutboxBlobs, Present, UploadBlobs,
};
use crate::store::txn::Txn;

/// Octets of messages that one step looks at.
const BYTES_PER_STEP: u64 = 8 << 20;

/// What a step of collecting did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CollectResult {
    /// Messages that are gone.
    pub blobs: usize,
    pub bytes: u64,
    /// Whether more may be left.
    pub left: bool,
}

impl Txn<'_> {
    /// Puts a message that an email of this very change holds: it is written with it or not at all.
    pub fn put_message(&mut self, message: &EncodedMessage, raw: &[u8]) {
        self.put_blob(&message.blob, raw);
    }

    /// Puts octets with this hash, for something of this very change that holds them.
    pub(in crate::store) fn put_blob(&mut self, hash: &BlobHash, raw: &[u8]) {
        self.put_bytes::<Blobs>(&BlobKey { blob: *hash }, blob_head(raw, self.now));
        for (key, frame) in blob_frames(hash, raw) {
            self.put_bytes::<BlobFrames>(&key, frame);
        }
    }

    /// Notes that a message lost a reference at this time, so that the collection looks whether
    /// another is left.
    pub(in crate::store) fn note_blob_release(&mut self, at: UtcMillis, blob: BlobHash) {
        self.put::<BlobPurge>(&BlobPurgeKey { at: at.into(), blob }, &Present);
    }

    /// Deletes the reference of an email to its message.
    pub(in crate::store) fn release_email_blob(&mut self, blob: &BlobHash, id: EmailId) {
        self.delete::<BlobRefs>(&BlobRefKey { blob: *blob, account: self.account, email: id });
        self.note_blob_release(self.now, *blob);
    }

    /// Deletes the reference of an action to its message.
    pub(in crate::store) fn release_action_blob(&mut self, action: &Action) {
        if let Some(blob) = action.blob {
            self.delete::<OutboxBlobs>(&ActionBlobKey {
                blob,
                account: self.account,
                action: action.id,
            });
            self.note_blob_release(self.now, blob);
        }
    }

    /// Of the site: looks at up to `most` candidates of `upto` or before, and deletes the messages
    /// that nobody holds and that were not put since then. `upto` lies a grace time back, longer
    /// than any commit takes. The commit fails with `Overtaken` where one of them was put
    /// meanwhile; then nothing was done.
    ///
    /// # Errors
    /// Those of reading.
    pub fn collect_blobs(&mut self, upto: UtcMillis, most: usize) -> Result<CollectResult, Error> {
        let over = UtcMillis(upto.0.saturating_add(1));
        let mut rows = Vec::new();
        self.keys(&KeyRange::<BlobPurge>::before(&(), &(KeyTime::from(over),)), |key, _| {
            rows.push(key);
            Ok(rows.len() < most)
        })?;
        let mut done = CollectResult { left: rows.len() >= most, ..CollectResult::default() };
        let mut seen = 0;
        for row in rows {
            if seen > BYTES_PER_STEP {
                done.left = true;
                break;
            }
            // First the message, then who holds it: a delivery in between changes the message's
            // row, and is noticed.
            let key = BlobKey { blob: row.blob };
            let blob = self.bytes::<Blobs>(&key)?;
            self.delete::<BlobPurge>(&row);
            if self.is_held(row.blob)? {
                continue;
            }
            let Some(blob) = blob else { continue };
            let BlobRow { at: put, bytes } = BlobRow::decode(&key.encode(), &blob)?;
            seen = bytes.len().saturating_add(seen);
            if put > upto {
                self.note_blob_release(put, row.blob);
                continue;
            }
            done.blobs += 1;
            done.bytes += bytes.len();
            for number in (0..bytes.frames()).filter_map(|number| u32::try_from(number).ok()) {
                self.delete::<BlobFrames>(&BlobFrameKey { blob: row.blob, number });
            }
            self.delete::<Blobs>(&key);
            self.assert_unchanged::<Blobs>(&key, blob);
        }
        Ok(done)
    }

    /// Of the site: a step, of `most` messages at most, of a round that makes a candidate of every
    /// message that nobody holds. A round begins no sooner than `every` after the last one began.
    /// Says whether more of it is left.
    ///
    /// # Errors
    /// Those of reading.
    pub fn sweep_blobs(&mut self, every: Duration, most: usize) -> Result<bool, Error> {
        let Some(range) =
            self.begin_or_resume_sweep::<Blobs>(crate::store::txn::sweep::BLOBS, &(), every)?
        else {
            return Ok(false);
        };
        let (mut seen, mut octets) = (Vec::new(), 0);
        let decode = |key: &[u8], row: &[u8]| Ok((BlobRow::decode(key, row)?.at, row.len() as u64));
        self.rows_with(&range, decode, |key, (put, length)| {
            octets += length;
            seen.push((key, put));
            Ok(seen.len() < most && octets < BYTES_PER_STEP)
        })?;
        let next = seen
            .last()
            .map(|(key, _)| key.clone())
            .filter(|_| seen.len() >= most || octets >= BYTES_PER_STEP);
        for (BlobKey { blob }, put) in seen {
            if !self.is_held(blob)? {
                self.note_blob_release(put, blob);
            }
        }
        self.note_sweep_progress::<Blobs>(crate::store::txn::sweep::BLOBS, next.as_ref())
    }

    fn is_held(&self, blob: BlobHash) -> Result<bool, Error> {
        Ok(self.has_any(&KeyRange::<BlobRefs>::under(&(blob,)))?
            || self.has_any(&KeyRange::<OutboxBlobs>::under(&(blob,)))?
            || self.has_any(&KeyRange::<UploadBlobs>::under(&(blob,)))?)
    }
}
