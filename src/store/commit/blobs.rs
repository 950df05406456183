//! Messages that nobody holds any more.
//!
//! Who lets go of a message leaves a candidate, without asking whether others hold it: two accounts that let go at the same
//! time would each see the other's reference. After a grace time the site looks: what has a reference again, or was put
//! anew, stays. What goes, goes only if its row is still the one that was looked at, for a delivery of the same message
//! puts the row anew together with its reference. A message is put together with a reference or not at all; what is
//! without both reference and candidate nevertheless is found by a rare round over all messages.

use std::time::Duration;

use super::Txn;
use crate::model::{Action, BlobHash, EmailId, UtcMillis};
use crate::store::engine::{Read, Table, after};
use crate::store::error::Error;
use crate::store::key::{self, Parts};
use crate::store::row::{Blob, EncodedMessage, blob_rows};

/// Octets of messages that one step looks at.
const STEP_OCTETS: u64 = 8 << 20;

/// What a step of collecting did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Collected {
    /// Messages that are gone.
    pub blobs: usize,
    /// Their octets.
    pub octets: u64,
    /// Whether more may be left.
    pub left: bool,
}

impl Txn<'_> {
    /// Puts a message that an email of this very change holds: it is written with it or not at all.
    pub fn put_message(&mut self, message: &EncodedMessage, raw: &[u8]) {
        self.put_octets(&message.blob, raw);
    }

    /// Puts octets with this hash, for something of this very change that holds them.
    pub(super) fn put_octets(&mut self, hash: &BlobHash, raw: &[u8]) {
        for put in blob_rows(hash, raw, self.now) {
            if let Some(value) = put.value {
                self.put(put.table, put.key, value);
            }
        }
    }

    /// Takes away an email's hold of a message.
    pub(super) fn let_go(&mut self, blob: &BlobHash, id: EmailId) {
        self.delete(Table::BlobRefs, key::blob_ref(blob, self.account, id));
        self.put(Table::BlobPurge, key::blob_purge(self.now, blob), vec![1]);
    }

    /// Takes away an action's hold of a message.
    pub(super) fn release_blob(&mut self, action: &Action) {
        if let Some(blob) = &action.blob {
            self.delete(Table::OutboxBlobs, key::action_blob(blob, self.account, action.id));
            self.put(Table::BlobPurge, key::blob_purge(self.now, blob), vec![1]);
        }
    }

    /// Of the site: looks at up to `most` candidates of `upto` or before, and deletes the messages that nobody holds and
    /// that were not put since then. `upto` lies a grace time back, longer than any commit takes. The commit fails with
    /// `Conflict` where one of them was put meanwhile; then nothing was done.
    ///
    /// # Errors
    /// Those of reading.
    pub fn collect_blobs(&mut self, upto: UtcMillis, most: usize) -> Result<Collected, Error> {
        let over = UtcMillis(upto.0.saturating_add(1));
        let mut rows: Vec<(Vec<u8>, BlobHash)> = Vec::new();
        self.scan(Table::BlobPurge, &[], &key::blob_purge(over, &BlobHash([0; 32])), false, &mut |key, _| {
            rows.push((key.to_vec(), BlobHash(Parts::of(Table::BlobPurge, key).take()?)));
            Ok(rows.len() < most)
        })?;
        let mut done = Collected { left: rows.len() >= most, ..Collected::default() };
        let mut seen = 0;
        for (row, hash) in rows {
            if seen > STEP_OCTETS {
                done.left = true;
                break;
            }
            // First the message, then who holds it: a delivery in between changes the message's row, and is noticed.
            let blob_key = key::blob(&hash);
            let blob = self.get_raw(Table::Blobs, &blob_key)?;
            self.delete(Table::BlobPurge, row);
            if self.is_held(&hash)? {
                continue;
            }
            let Some(blob) = blob else { continue };
            let Blob { at: put, octets } = Blob::decode(&blob_key, &blob)?;
            seen = octets.len().saturating_add(seen);
            if put > upto {
                self.put(Table::BlobPurge, key::blob_purge(put, &hash), vec![1]);
                continue;
            }
            done.blobs += 1;
            done.octets += octets.len();
            for number in (0..octets.frames()).filter_map(|number| u32::try_from(number).ok()) {
                self.delete(Table::BlobFrames, key::blob_frame(&hash, number));
            }
            self.delete(Table::Blobs, blob_key.clone());
            self.assert_unchanged(Table::Blobs, blob_key, blob);
        }
        Ok(done)
    }

    /// Of the site: a step, of `most` messages at most, of a round that makes a candidate of every message that nobody
    /// holds. A round begins no sooner than `every` after the last one began. Says whether more of it is left.
    ///
    /// # Errors
    /// Those of reading.
    pub fn sweep_blobs(&mut self, every: Duration, most: usize) -> Result<bool, Error> {
        let Some(from) = self.sweep_from(super::sweep::BLOBS, &[], every)? else { return Ok(false) };
        let (mut seen, mut octets) = (Vec::new(), 0);
        self.scan(Table::Blobs, &from, &after(&[]), false, &mut |key, value| {
            octets += value.len() as u64;
            seen.push((key.to_vec(), Blob::decode(key, value)?.at));
            Ok(seen.len() < most && octets < STEP_OCTETS)
        })?;
        let next = (seen.len() >= most || octets >= STEP_OCTETS).then(|| seen.last().map(|(key, _)| key.clone()));
        for (key, put) in seen {
            let hash = BlobHash(Parts::of(Table::Blobs, &key).take()?);
            if !self.is_held(&hash)? {
                self.put(Table::BlobPurge, key::blob_purge(put, &hash), vec![1]);
            }
        }
        self.swept_to(super::sweep::BLOBS, next.flatten())
    }

    fn is_held(&self, blob: &BlobHash) -> Result<bool, Error> {
        let prefix = key::blob(blob);
        let mut held = false;
        for table in [Table::BlobRefs, Table::OutboxBlobs, Table::UploadBlobs] {
            self.scan(table, &prefix, &after(&prefix), false, &mut |_, _| {
                held = true;
                Ok(false)
            })?;
        }
        Ok(held)
    }
}
