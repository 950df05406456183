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
use crate::store::table::{DuplicateByTime, Duplicates, Present};
use crate::store::txn::Txn;

/// The most expired records that are deleted when one is written. It is more than one, so that
/// busy accounts leave little to upkeep (`expire_duplicates`).
const EXPIRED_PER_RECORD: usize = 4;

impl Txn<'_> {
    /// Remembers a message until a time. A later call for the same message replaces the time.
    /// Writes nothing if `until` is not in the future.
    pub fn remember_duplicate(&mut self, hash: &[u8; 32], until: UtcMillis) -> Result<(), Error> {
        if until <= self.now() {
            return Ok(());
        }
        self.expire_duplicates(EXPIRED_PER_RECORD)?;
        let key = DuplicateKey { account: self.account(), hash: *hash };
        if let Some(old) = self.row::<Duplicates>(&key)? {
            self.delete::<DuplicateByTime>(&self.duplicate_time_key(old.until, hash));
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
        self.keys(
            &KeyRange::<DuplicateByTime>::before(&(account,), &(account, KeyTime::from(before))),
            |key, _| {
                expired.push(key);
                Ok(expired.len() < limit)
            },
        )?;
        for key in &expired {
            self.delete::<DuplicateByTime>(key);
            self.delete::<Duplicates>(&DuplicateKey { account, hash: key.hash });
        }
        Ok(expired.len() >= limit)
    }

    fn duplicate_time_key(&self, until: UtcMillis, hash: &[u8; 32]) -> DuplicateTimeKey {
        DuplicateTimeKey { account: self.account(), until: until.into(), hash: *hash }
    }
}
