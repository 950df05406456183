//! Stores messages, and collects those that nobody holds any more.
//!
//! - A message is stored in the same commit as a reference to it.
//! - A commit that deletes a reference adds a candidate (`blob_purge`). It does not check for other
//!   references: two accounts that delete theirs at the same time would each see the other's.
//! - After a grace time, the site deletes the candidates that have no reference and were not stored
//!   again. The commit asserts that the message's row is unchanged, for a delivery of the same
//!   message writes the row again together with its reference.
//! - A rare sweep over all messages finds those with neither a reference nor a candidate.

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

/// Bytes of messages after which a step reads no further one.
const BYTES_PER_STEP: u64 = 8 << 20;

/// The result of a step of collecting messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CollectResult {
    /// Messages that were deleted.
    pub blobs: usize,
    /// Bytes of these messages.
    pub bytes: u64,
    /// Whether more candidates may be left.
    pub left: bool,
}

impl Txn<'_> {
    /// Stages the rows of a message. The transaction must also stage an email that holds it.
    pub fn put_message(&mut self, message: &EncodedMessage, raw: &[u8]) {
        self.put_blob(&message.blob, raw);
    }

    /// Stages the rows of bytes with this hash. The transaction must also stage a reference to
    /// them.
    pub(in crate::store) fn put_blob(&mut self, hash: &BlobHash, raw: &[u8]) {
        self.put_bytes::<Blobs>(&BlobKey { blob: *hash }, blob_head(raw, self.now));
        for (key, frame) in blob_frames(hash, raw) {
            self.put_bytes::<BlobFrames>(&key, frame);
        }
    }

    /// Notes that a message lost a reference at this time, which makes it a candidate for
    /// collection.
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

    /// Examines at most `limit` candidates of `upto` or before, and deletes the messages that
    /// nobody holds and that were not stored since `upto`. Only for the site. `upto` must be longer
    /// ago than any commit takes. The commit fails with `Overtaken` if one of the messages was
    /// stored meanwhile; then nothing was deleted.
    ///
    /// # Errors
    /// Those of reading.
    pub fn collect_blobs(&mut self, upto: UtcMillis, limit: usize) -> Result<CollectResult, Error> {
        let end = UtcMillis(upto.0.saturating_add(1));
        let mut candidates = Vec::new();
        self.keys(&KeyRange::<BlobPurge>::before(&(), &(KeyTime::from(end),)), |key, _| {
            candidates.push(key);
            Ok(candidates.len() < limit)
        })?;
        let left = candidates.len() >= limit;
        let mut result = CollectResult { left, ..CollectResult::default() };
        let mut bytes_seen = 0;
        for candidate in candidates {
            if bytes_seen > BYTES_PER_STEP {
                result.left = true;
                break;
            }
            // The message is read before its references, so that a delivery in between is noticed
            // by the message's row.
            let key = BlobKey { blob: candidate.blob };
            let blob = self.bytes::<Blobs>(&key)?;
            self.delete::<BlobPurge>(&candidate);
            if self.is_held(candidate.blob)? {
                continue;
            }
            let Some(blob) = blob else { continue };
            let BlobRow { at: stored_at, bytes } = BlobRow::decode(&key.encode(), &blob)?;
            bytes_seen = bytes.len().saturating_add(bytes_seen);
            if stored_at > upto {
                self.note_blob_release(stored_at, candidate.blob);
                continue;
            }
            result.blobs += 1;
            result.bytes += bytes.len();
            for number in (0..bytes.frames()).filter_map(|number| u32::try_from(number).ok()) {
                self.delete::<BlobFrames>(&BlobFrameKey { blob: candidate.blob, number });
            }
            self.delete::<Blobs>(&key);
            self.assert_unchanged::<Blobs>(&key, blob);
        }
        Ok(result)
    }

    /// Runs a step, of at most `limit` messages, of the sweep that makes every message that nobody
    /// holds a candidate. Only for the site. A sweep begins at the earliest `every` after the last
    /// one began. Returns whether the sweep has more messages.
    ///
    /// # Errors
    /// Those of reading.
    pub fn sweep_blobs(&mut self, every: Duration, limit: usize) -> Result<bool, Error> {
        let Some(range) =
            self.begin_or_resume_sweep::<Blobs>(crate::store::txn::sweep::BLOBS, &(), every)?
        else {
            return Ok(false);
        };
        let (mut messages, mut bytes) = (Vec::new(), 0);
        let decode = |key: &[u8], row: &[u8]| Ok((BlobRow::decode(key, row)?.at, row.len() as u64));
        self.rows_with(&range, decode, |key, (stored_at, length)| {
            bytes += length;
            messages.push((key, stored_at));
            Ok(messages.len() < limit && bytes < BYTES_PER_STEP)
        })?;
        let last = messages
            .last()
            .map(|(key, _)| key.clone())
            .filter(|_| messages.len() >= limit || bytes >= BYTES_PER_STEP);
        for (BlobKey { blob }, stored_at) in messages {
            if !self.is_held(blob)? {
                self.note_blob_release(stored_at, blob);
            }
        }
        self.note_sweep_progress::<Blobs>(crate::store::txn::sweep::BLOBS, last.as_ref())
    }

    fn is_held(&self, blob: BlobHash) -> Result<bool, Error> {
        Ok(self.has_any(&KeyRange::<BlobRefs>::under(&(blob,)))?
            || self.has_any(&KeyRange::<OutboxBlobs>::under(&(blob,)))?
            || self.has_any(&KeyRange::<UploadBlobs>::under(&(blob,)))?)
    }
}
