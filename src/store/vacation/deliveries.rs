//! Served transactions: in the same commit as what came of them.

use std::cmp::Reverse;

use crate::model::{Address, EmailId, UtcMillis, limits};
use crate::store::engine::typed::{KeyRange, TypedRead as _};
use crate::store::error::Error;
use crate::store::row::DeliveryRow;
use crate::store::table::codec::KeyTime;
use crate::store::table::keys::{DecisionKey, DeliveryKey, DeliveryTimeKey};
use crate::store::table::{Decisions, Deliveries, DeliveryByTime, Present};
use crate::store::txn::Txn;

/// One delivery of so many, by its hash, looks for what is over its time.
const EXPIRE_EVERY: u8 = 32;
/// How much of each kind it then removes, at most.
const EXPIRY_BATCH: usize = 64;

impl Txn<'_> {
    /// Whether this transaction was served before: a retry is answered, not repeated. What was
    /// served longer ago than any queue tries again is not a retry.
    ///
    /// # Errors
    /// Those of reading.
    pub fn delivery(&self, hash: &[u8; 32]) -> Result<Option<DeliveryRow>, Error> {
        let known = self.row::<Deliveries>(&self.delivery_key(hash))?;
        Ok(known.filter(|known| known.at.after(limits::DELIVERY_RETENTION) > self.now))
    }

    /// Remembers that a transaction was served for these recipients; those of an earlier serving
    /// stay.
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
            self.expire_deliveries_and_decisions(EXPIRY_BATCH)?;
        }
        let known = self.delivery(hash)?;
        let mut row = match known.clone() {
            Some(known) => known,
            None => DeliveryRow { email, recipients: Vec::new(), at: self.now },
        };
        for recipient in recipients {
            if !row.recipients.contains(recipient) {
                row.recipients.push(recipient.clone());
            }
        }
        if known.as_ref() != Some(&row) {
            if known.is_none() {
                self.forget_delivery(hash)?;
                self.put::<DeliveryByTime>(&self.delivery_time_key(row.at, hash), &Present);
            }
            self.put::<Deliveries>(&self.delivery_key(hash), &row);
        }
        Ok(())
    }

    fn delivery_key(&self, hash: &[u8; 32]) -> DeliveryKey {
        DeliveryKey { account: self.account, hash: *hash }
    }

    fn delivery_time_key(&self, at: UtcMillis, hash: &[u8; 32]) -> DeliveryTimeKey {
        DeliveryTimeKey { account: self.account, at: at.into(), hash: *hash }
    }

    fn forget_delivery(&mut self, hash: &[u8; 32]) -> Result<(), Error> {
        let key = self.delivery_key(hash);
        if let Some(old) = self.row::<Deliveries>(&key)? {
            self.delete::<DeliveryByTime>(&self.delivery_time_key(old.at, hash));
            self.delete::<Deliveries>(&key);
        }
        Ok(())
    }

    /// Forgets up to `most` served transactions and as many decisions that were kept for their
    /// time, the oldest first; says whether more may be left. Deliveries do so by and by; upkeep
    /// does it for accounts that get none.
    ///
    /// # Errors
    /// Those of reading.
    pub fn expire_deliveries_and_decisions(&mut self, most: usize) -> Result<bool, Error> {
        let account = self.account;
        let mut served: Vec<[u8; 32]> = Vec::new();
        let over = UtcMillis(self.now.before(limits::DELIVERY_RETENTION).0.saturating_add(1));
        self.keys(
            &KeyRange::<DeliveryByTime>::before(&(account,), &(account, KeyTime::from(over))),
            |key, _| {
                served.push(key.hash);
                Ok(served.len() < most)
            },
        )?;
        let at = Reverse(self.now.before(limits::DECISION_RETENTION).into());
        let oldest =
            KeyRange::from(&(account,), &DecisionKey { account, at, email: EmailId(0) }).reversed();
        let decided = self.delete_range::<Decisions>(&oldest, most)?;
        let left = served.len() >= most || decided >= most;
        served.iter().try_for_each(|hash| self.forget_delivery(hash))?;
        Ok(left)
    }
}
