//! Writes what the `duplicate` test of Sieve scripts remembers (RFC 7352 §3).
//!
//! - A message is known by the hash of the handle and the value of the test
//!   (`restante_sieve::DupKey`). A record is expired from its `until` on.
//! - An account has at most `limits::MAX_DUPLICATES` records (RFC 7352 §6). The first byte of the
//!   hash divides them into groups, and each group has an equal share of that number, so that only
//!   a group must be counted. In a full group, the record that expires first makes room. A
//!   duplicate of its message is then taken for a new message, and no new message for a duplicate.

use crate::model::{UtcMillis, limits};
use crate::store::engine::typed::{KeyRange, TypedRead as _};
use crate::store::error::Error;
use crate::store::row::{DuplicateRow, RowFormat as _};
use crate::store::table::codec::{KeyTime, Prefix as _};
use crate::store::table::keys::{DuplicateKey, DuplicateTimeKey};
use crate::store::table::{DuplicateByTime, Duplicates, Present, Table as _, decode_key};
use crate::store::txn::Txn;

/// The most expired records that are deleted when one is written. It is more than one, so that
/// busy accounts leave little to upkeep (`expire_duplicates`).
const EXPIRED_PER_RECORD: usize = 4;
/// The most records of a group.
const MAX_IN_GROUP: usize = limits::MAX_DUPLICATES >> 8;
/// The most records above `MAX_IN_GROUP`, which an earlier version wrote, that are deleted when a
/// record is written.
const SURPLUS_PER_RECORD: usize = 4;

impl Txn<'_> {
    /// Remembers a message until a time. A later call for the same message replaces the time.
    /// Writes nothing if `until` is not in the future. If the group is full, deletes those of it
    /// that expire first. A damaged record is replaced: it must not keep mail from being delivered.
    pub fn remember_duplicate(&mut self, hash: &[u8; 32], until: UtcMillis) -> Result<(), Error> {
        if until <= self.now() {
            return Ok(());
        }
        self.expire_duplicates(EXPIRED_PER_RECORD)?;
        let key = DuplicateKey { account: self.account(), hash: *hash };
        match self.row_if_any::<Duplicates>(&key)? {
            Some(Ok(old)) => {
                self.delete::<DuplicateByTime>(&self.duplicate_time_key(old.until, hash));
            }
            Some(Err(_)) => self.forget_duplicate_times(hash)?,
            None => self.make_room_in_group(hash)?,
        }
        self.put::<Duplicates>(&key, &DuplicateRow { until });
        self.put::<DuplicateByTime>(&self.duplicate_time_key(until, hash), &Present);
        Ok(())
    }

    /// Deletes up to `limit` expired records, oldest first; `limit` is at least 1. Returns whether
    /// more may be left.
    pub fn expire_duplicates(&mut self, limit: usize) -> Result<bool, Error> {
        let account = self.account();
        // Also those whose `until` is now.
        let before = UtcMillis(self.now().0.saturating_add(1));
        let mut expired = Vec::new();
        self.raw_rows(
            &KeyRange::<DuplicateByTime>::before(&(account,), &(account, KeyTime::from(before))),
            |key, _| {
                expired.push(key.to_vec());
                Ok(expired.len() < limit)
            },
        )?;
        let has_more = expired.len() >= limit;
        for key in expired {
            if let Ok(DuplicateTimeKey { hash, .. }) = decode_key::<DuplicateByTime>(&key) {
                self.delete::<Duplicates>(&DuplicateKey { account, hash });
            }
            // Also if the key is damaged.
            self.stage_row(DuplicateByTime::ID, key, None);
        }
        Ok(has_more)
    }

    /// Deletes the records that expire first in the group of this hash, so that it has room for one
    /// more. Damaged records are not counted.
    fn make_room_in_group(&mut self, hash: &[u8; 32]) -> Result<(), Error> {
        let account = self.account();
        let (mut first, mut last) = ([0; 32], [u8::MAX; 32]);
        (first[0], last[0]) = (hash[0], hash[0]);
        let [first, last] = [first, last].map(|hash| DuplicateKey { account, hash });
        let (mut read, mut records) = (0, Vec::new());
        self.keys_or_damage(&KeyRange::<Duplicates>::through(&first, &last), |key, row| {
            read += 1;
            if let Ok(key) = key
                && let Ok(row) = DuplicateRow::from_bytes(Duplicates::ID, &key.encode(), row)
            {
                records.push((row.until, key.hash));
            }
            Ok(read < MAX_IN_GROUP + SURPLUS_PER_RECORD)
        })?;
        records.sort_unstable();
        let surplus = (records.len() + 1).saturating_sub(MAX_IN_GROUP);
        for (until, hash) in records.into_iter().take(surplus) {
            self.delete::<Duplicates>(&DuplicateKey { account, hash });
            self.delete::<DuplicateByTime>(&self.duplicate_time_key(until, &hash));
        }
        Ok(())
    }

    /// Deletes the rows by time of a record that does not tell its time. If one stayed, it would
    /// end the new record of the message.
    fn forget_duplicate_times(&mut self, hash: &[u8; 32]) -> Result<(), Error> {
        let mut times = Vec::new();
        self.keys_or_damage(&KeyRange::<DuplicateByTime>::under(&(self.account(),)), |key, _| {
            times.extend(key.ok().filter(|key| key.hash == *hash));
            Ok(true)
        })?;
        times.iter().for_each(|key| self.delete::<DuplicateByTime>(key));
        Ok(())
    }

    fn duplicate_time_key(&self, until: UtcMillis, hash: &[u8; 32]) -> DuplicateTimeKey {
        DuplicateTimeKey { account: self.account(), until: until.into(), hash: *hash }
    }
}
