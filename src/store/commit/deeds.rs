//! Served transactions: in the same commit as what came of them.

use super::Txn;
use crate::model::{Address, EmailId, UtcMillis, limits};
use crate::store::engine::{Read as _, Table, after};
use crate::store::error::Error;
use crate::store::key::{self, Parts};
use crate::store::row::Delivery;

/// One delivery of so many, by its hash, looks for what is over its time.
const EXPIRE_EVERY: u8 = 32;
/// How much of each kind it then removes, at most.
const EXPIRED_AT_ONCE: usize = 64;

impl Txn<'_> {
    /// Whether this transaction was served before: a retry is answered, not repeated. What was served longer ago than any
    /// queue tries again is not a retry.
    ///
    /// # Errors
    /// Those of reading.
    pub fn delivery(&self, hash: &[u8; 32]) -> Result<Option<Delivery>, Error> {
        let known = self.row::<Delivery>(&key::delivery(self.account, hash))?;
        Ok(known.filter(|known| known.at.after(limits::DELIVERIES_KEPT) > self.now))
    }

    /// Remembers that a transaction was served for these recipients; those of an earlier serving stay.
    ///
    /// # Errors
    /// Those of reading.
    pub fn remember_delivery(
        &mut self,
        hash: &[u8; 32],
        email: Option<EmailId>,
        recipients: &[Address],
    ) -> Result<(), Error> {
        if hash.first().is_some_and(|octet| octet % EXPIRE_EVERY == 0) {
            self.expire_deeds(EXPIRED_AT_ONCE)?;
        }
        let known = self.delivery(hash)?;
        let mut row = match known.clone() {
            Some(known) => known,
            None => Delivery { email, recipients: Vec::new(), at: self.now },
        };
        for recipient in recipients {
            if !row.recipients.contains(recipient) {
                row.recipients.push(recipient.clone());
            }
        }
        if known.as_ref() != Some(&row) {
            if known.is_none() {
                self.forget_delivery(hash)?;
                self.put(Table::DeliveryByTime, key::delivery_by_time(self.account, row.at, hash), vec![1]);
            }
            self.put_row(key::delivery(self.account, hash), &row);
        }
        Ok(())
    }

    fn forget_delivery(&mut self, hash: &[u8; 32]) -> Result<(), Error> {
        let key = key::delivery(self.account, hash);
        if let Some(old) = self.row::<Delivery>(&key)? {
            self.delete(Table::DeliveryByTime, key::delivery_by_time(self.account, old.at, hash));
            self.delete(Table::Deliveries, key);
        }
        Ok(())
    }

    /// Forgets up to `most` served transactions and as many decisions that were kept for their time, the oldest first; says
    /// whether more may be left. Deliveries do so by and by; upkeep does it for accounts that get none.
    ///
    /// # Errors
    /// Those of reading.
    pub fn expire_deeds(&mut self, most: usize) -> Result<bool, Error> {
        let account = self.account;
        let mut served: Vec<[u8; 32]> = Vec::new();
        let over = UtcMillis(self.now.before(limits::DELIVERIES_KEPT).0.saturating_add(1));
        let (from, to) = (key::account(account), key::delivery_by_time(account, over, &[0; 32]));
        self.scan(Table::DeliveryByTime, &from, &to, false, &mut |key, _| {
            served.push(Parts::of(Table::DeliveryByTime, key).take()?);
            Ok(served.len() < most)
        })?;
        let mut decided: Vec<Vec<u8>> = Vec::new();
        let from = key::decision(account, self.now.before(limits::DECISIONS_KEPT), EmailId(0));
        self.scan(Table::Decisions, &from, &after(&key::account(account)), true, &mut |key, _| {
            decided.push(key.to_vec());
            Ok(decided.len() < most)
        })?;
        let left = served.len() >= most || decided.len() >= most;
        served.iter().try_for_each(|hash| self.forget_delivery(hash))?;
        decided.into_iter().for_each(|key| self.delete(Table::Decisions, key));
        Ok(left)
    }
}
