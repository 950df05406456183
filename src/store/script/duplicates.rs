//! Writes what the `duplicate` test of Sieve scripts remembers (RFC 7352 §3).
//!
//! A message is known by the hash of the handle and the value of the test
//! (`restante_sieve::DupKey`). A record is expired from its `until` on.

use crate::model::UtcMillis;
use crate::store::engine::typed::{KeyRange, TypedRead as _};
use crate::store::error::Error;
use crate::store::row::DuplicateRow;
use crate::store::table::codec::KeyTime;
use crate::store::table::keys::{DuplicateKey, DuplicateTimeKey};
use crate::store::table::{DuplicateByTime, Duplicates, Present, Table as _, decode_key};
use crate::store::txn::Txn;

/// The most expired records that are deleted when one is written. It is more than one, so that
/// busy accounts leave little to upkeep (`expire_duplicates`).
const EXPIRED_PER_RECORD: usize = 4;

impl Txn<'_> {
    /// Remembers a message until a time. A later call for the same message replaces the time.
    /// Writes nothing if `until` is not in the future. A damaged record is replaced: it must not
    /// keep mail from being delivered.
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
            None => {}
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
