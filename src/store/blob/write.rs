//! Stores the bytes of messages and uploads, and deletes those to which nothing refers any more.
//! What is said here of messages is true of uploads, too. A *blob* here is either.
//!
//! - The references to a message are the rows of `blob_refs` (emails and their tombstones),
//!   `outbox_blobs` (actions) and `upload_blobs` (uploads). An object *holds* a message if it has
//!   such a reference.
//! - A message is stored in the same commit as a reference to it.
//! - A commit that deletes a reference adds a candidate (`blob_purge`), unless it gives the message
//!   to another email (`restore_email`). It does not check for other references: if two accounts
//!   delete the last two at the same time, each still sees the other's.
//! - After a grace time, a commit of the site (`collect_blobs`) deletes the candidates that have no
//!   reference and were not stored again. It does not hold the locks of the accounts, so it asserts
//!   that the row of the message is unchanged: a delivery of the same message writes the row again,
//!   with a new time, together with its reference.
//! - A rare sweep over all messages (`sweep_blobs`) finds those with neither a reference nor a
//!   candidate.

use std::time::Duration;

use super::read::whole;
use crate::model::{Action, BlobHash, EmailId, UtcMillis};
use crate::store::engine::segments::{Extent, StreamedValue};
use crate::store::engine::typed::{KeyRange, TypedRead as _};
use crate::store::engine::{Put, RowReader, Table};
use crate::store::error::Error;
use crate::store::row::{BlobBytes, BlobRow, EncodedMessage, FRAME_BYTES, blob_frames};
use crate::store::table::codec::{KeyTime, Prefix as _};
use crate::store::table::keys::{ActionBlobKey, BlobKey, BlobPurgeKey, BlobRefKey};
use crate::store::table::{
    BlobFrames, BlobPurge, BlobRefs, Blobs, OutboxBlobs, Present, Table as _, UploadBlobs,
    decode_key,
};
use crate::store::txn::Txn;

/// A step takes no further message once the rows of those that it has taken have about this many
/// bytes. Bytes in segments do not count.
const BYTES_PER_STEP: u64 = 8 << 20;

/// The result of a step of collecting messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CollectResult {
    /// Messages that were deleted.
    pub blobs: usize,
    /// Bytes of these messages.
    pub bytes: u64,
    /// Bytes that they took in segments.
    pub segment_bytes: u64,
    /// Whether candidates of `upto` or before may be left that the step did not examine.
    pub has_more: bool,
}

/// Returns the rows that store a message at the time `at`, in the order of tables and keys. A
/// message that belongs into a segment (`Segments::takes`) is first written to one, so that its row
/// can name the place: `streamed` becomes a segment if it is this message, and otherwise `raw` is
/// appended. No segment is written if the store has the message undamaged in one that is not to be
/// deleted: the row then names that place.
///
/// The caller holds a guard of the segments from before the call until the rows are written.
///
/// # Errors
/// `Full` if the disk has no space for a segment; those of reading and of segments.
pub(in crate::store) fn blob_rows(
    read: &dyn RowReader,
    hash: &BlobHash,
    raw: &[u8],
    streamed: Option<StreamedValue>,
    at: UtcMillis,
) -> Result<Vec<Put>, Error> {
    let key = BlobKey { blob: *hash };
    let head = |bytes| Put::bytes::<Blobs>(&key, BlobRow { at, bytes }.encode());
    if let Some(segments) = read.segments().filter(|segments| segments.takes(raw.len())) {
        let row = read.bytes::<Blobs>(&key)?;
        // A damaged row is written anew.
        let old = row.as_deref().and_then(|row| BlobRow::decode(&key.encode(), row).ok());
        let old = old.map(|old| old.bytes);
        let is_kept = |old: &BlobBytes<'_>| {
            old.extent().is_some_and(|extent| segments.may_name(&extent))
                && old.len() == raw.len() as u64
                && row
                    .as_deref()
                    .is_some_and(|row| whole(read, hash, row).is_ok_and(|found| found == raw))
        };
        let bytes = match old.filter(is_kept) {
            Some(old) => old,
            None => BlobBytes::Located(match streamed.filter(|value| value.hash() == hash.0) {
                Some(value) => segments.add(value)?,
                None => segments.append(&hash.0, raw)?,
            }),
        };
        let old_frames = old.into_iter().flat_map(|old| old.frame_keys(*hash)).map(|key| Put {
            table: Table::BlobFrames,
            key: key.encode(),
            value: None,
        });
        return Ok(std::iter::once(head(bytes)).chain(old_frames).collect());
    }
    if raw.len() <= FRAME_BYTES {
        return Ok(vec![head(BlobBytes::Inline(raw))]);
    }
    let frames = blob_frames(hash, raw).map(|(key, value)| Put::bytes::<BlobFrames>(&key, value));
    Ok(std::iter::once(head(BlobBytes::Framed(raw.len() as u64))).chain(frames).collect())
}

impl Txn<'_> {
    /// Stages the rows of a message: `raw`, from which `message` was made. The transaction must
    /// also stage an email with the message.
    ///
    /// # Errors
    /// Those of `put_blob`.
    pub fn put_message(&mut self, message: &EncodedMessage, raw: &[u8]) -> Result<(), Error> {
        self.put_blob(&message.blob, raw)
    }

    /// Stages the rows of `raw`, whose hash is `hash`. The transaction must also stage a reference
    /// to it.
    ///
    /// # Errors
    /// `Full` if the disk has no space for a segment; those of reading and of segments.
    pub(in crate::store) fn put_blob(&mut self, hash: &BlobHash, raw: &[u8]) -> Result<(), Error> {
        for Put { table, key, value } in blob_rows(self, hash, raw, None, self.now)? {
            self.stage_row(table, key, value);
        }
        Ok(())
    }

    /// Adds a candidate: a message that may have had no reference since `at`. `collect_blobs` looks
    /// at it when its `upto` has come to `at`.
    pub(in crate::store) fn note_blob_release(&mut self, at: UtcMillis, blob: BlobHash) {
        self.put::<BlobPurge>(&BlobPurgeKey { at: at.into(), blob }, &Present);
    }

    /// Deletes the reference of an email of this account to its message, and adds a candidate.
    pub(in crate::store) fn release_email_blob(&mut self, blob: &BlobHash, id: EmailId) {
        self.delete::<BlobRefs>(&BlobRefKey { blob: *blob, account: self.account, email: id });
        self.note_blob_release(self.now, *blob);
    }

    /// Deletes the reference of an action of this account to its message, and adds a candidate.
    /// Does nothing if the bytes of the action are not in `blobs`.
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

    /// Examines at most `limit` candidates of `upto` or before, oldest first, and deletes the
    /// messages that have no reference and were not stored after `upto`. `limit` is at least 1. An
    /// examined candidate is deleted, too; one whose message was stored later gets that later time
    /// instead. A candidate whose key is damaged is only deleted: the sweep (`sweep_blobs`) finds
    /// its message again. A candidate whose message has a damaged row is only deleted, too: the row
    /// stays for a person to look at, and must not stop the collection of the other messages.
    ///
    /// The transaction must be one of the site. Its commit fails with `Overtaken` if one of the
    /// messages was stored meanwhile; then nothing was deleted. `upto` must be longer ago than any
    /// commit takes: then a message that is stored meanwhile gets a row with a later time than that
    /// of the deleted row, which the assertion notices.
    ///
    /// # Errors
    /// Those of reading.
    pub fn collect_blobs(&mut self, upto: UtcMillis, limit: usize) -> Result<CollectResult, Error> {
        let end = UtcMillis(upto.0.saturating_add(1));
        let (mut candidates, mut damaged) = (Vec::new(), Vec::new());
        let range = KeyRange::<BlobPurge>::before(&(), &(KeyTime::from(end),));
        self.raw_rows(&range, |key, _| {
            match decode_key::<BlobPurge>(key) {
                Ok(candidate) => candidates.push(candidate),
                Err(_) => damaged.push(key.to_vec()),
            }
            Ok(candidates.len() + damaged.len() < limit)
        })?;
        let has_more = candidates.len() + damaged.len() >= limit;
        for key in damaged {
            self.stage_row(BlobPurge::ID, key, None);
        }
        let mut result = CollectResult { has_more, ..CollectResult::default() };
        let mut bytes_seen = 0;
        for candidate in candidates {
            if bytes_seen > BYTES_PER_STEP {
                result.has_more = true;
                break;
            }
            // The message is read before its references: a delivery between the two reads changes
            // the message's row, so the assertion below fails.
            let key = BlobKey { blob: candidate.blob };
            let blob = self.bytes::<Blobs>(&key)?;
            self.delete::<BlobPurge>(&candidate);
            if self.has_reference(candidate.blob)? {
                continue;
            }
            let Some(blob) = blob else { continue };
            // A check reports a row that cannot be read.
            let Ok(row) = BlobRow::decode(&key.encode(), &blob) else { continue };
            let BlobRow { at: stored_at, bytes } = row;
            // Of a message in a segment, only the row was read.
            bytes_seen += bytes.extent().map_or(bytes.len(), |_| 0);
            if stored_at > upto {
                self.note_blob_release(stored_at, candidate.blob);
                continue;
            }
            result.blobs += 1;
            result.bytes += bytes.len();
            result.segment_bytes += bytes.extent().map_or(0, Extent::stored_bytes);
            for key in bytes.frame_keys(candidate.blob) {
                self.delete::<BlobFrames>(&key);
            }
            self.delete::<Blobs>(&key);
            self.assert_unchanged::<Blobs>(&key, blob);
        }
        Ok(result)
    }

    /// Runs a step of the sweep over all messages, which turns every message without a reference
    /// into a candidate, of the time when it was last stored. The step examines at most `limit`
    /// messages. The transaction must be one of the site. A sweep does not begin before `every` has
    /// passed since the last one began. Returns whether the sweep has more messages. Damaged rows
    /// are passed over; a check reports them.
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
        self.raw_rows(&range, |key, row| {
            if let (Ok(decoded), Ok(blob)) = (decode_key::<Blobs>(key), BlobRow::decode(key, row)) {
                bytes += row.len() as u64;
                messages.push((decoded, blob.at));
            }
            Ok(messages.len() < limit && bytes < BYTES_PER_STEP)
        })?;
        let last = messages
            .last()
            .map(|(key, _)| key.clone())
            .filter(|_| messages.len() >= limit || bytes >= BYTES_PER_STEP);
        for (BlobKey { blob }, stored_at) in messages {
            if !self.has_reference(blob)? {
                self.note_blob_release(stored_at, blob);
            }
        }
        self.note_sweep_progress::<Blobs>(crate::store::txn::sweep::BLOBS, last.as_ref())
    }

    /// Whether an email, an action or an upload refers to a message.
    fn has_reference(&self, blob: BlobHash) -> Result<bool, Error> {
        Ok(self.has_any(&KeyRange::<BlobRefs>::under(&(blob,)))?
            || self.has_any(&KeyRange::<OutboxBlobs>::under(&(blob,)))?
            || self.has_any(&KeyRange::<UploadBlobs>::under(&(blob,)))?)
    }
}
