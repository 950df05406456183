//! Records which LMTP transactions were served, so that a retry is answered and not filed again.
//!
//! - A transaction is known by a hash of its envelope sender and its message (`deliver::apply`).
//! - A record is valid for `limits::DELIVERY_RETENTION` after the transaction was first served.

use std::cmp::Reverse;

use crate::model::{Address, EmailId, UtcMillis, limits};
use crate::store::engine::typed::{KeyRange, TypedRead as _};
use crate::store::error::Error;
use crate::store::row::{DeliveredEmail, DeliveryRow, RecipientOutcome};
use crate::store::table::codec::KeyTime;
use crate::store::table::keys::{DecisionKey, DeliveryKey, DeliveryTimeKey};
use crate::store::table::{Decisions, Deliveries, DeliveryByTime, Present, Table as _, decode_key};
use crate::store::txn::Txn;

/// About one delivery in this many, chosen by its hash, deletes expired records.
const EXPIRE_EVERY: u8 = 32;
/// The most records, and the most decisions, that such a delivery deletes.
const EXPIRY_BATCH: usize = 64;

impl Txn<'_> {
    /// Returns the record of a transaction that was served before, if it is still valid.
    pub fn delivery(&self, hash: &[u8; 32]) -> Result<Option<DeliveryRow>, Error> {
        let known = self.row::<Deliveries>(&self.delivery_key(hash))?;
        Ok(known.filter(|known| known.is_valid(self.now)))
    }

    /// Records that a transaction was served for these recipients, and which emails it filed
    /// (none: the message was not stored). If there is a valid record, adds to it and keeps its
    /// time; an expired one is replaced.
    ///
    /// What does not fit into the record is left out (`DeliveryRow::add_email`, `add_recipient`). A
    /// retry for a recipient that was left out is served again: no second email is created beside
    /// those of the record, but what scripts send is sent again.
    pub fn remember_delivery<'a>(
        &mut self,
        hash: &[u8; 32],
        emails: &[DeliveredEmail],
        recipients: impl IntoIterator<Item = (&'a Address, RecipientOutcome<'a>)>,
    ) -> Result<(), Error> {
        if hash.first().is_some_and(|byte| byte % EXPIRE_EVERY == 0) {
            self.expire_deliveries_and_decisions(EXPIRY_BATCH)?;
        }
        let known = self.delivery(hash)?;
        let mut row = known.clone().unwrap_or_else(|| DeliveryRow {
            emails: Vec::new(),
            accepted: Vec::new(),
            refusals: Vec::new(),
            at: self.now,
        });
        emails.iter().for_each(|filed| row.add_email(*filed));
        recipients.into_iter().for_each(|(address, outcome)| row.add_recipient(address, outcome));
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

    /// Deletes up to `limit` expired records of transactions, and up to `limit` decisions of at
    /// least the age `limits::DECISION_RETENTION`, oldest first; `limit` is at least 1. Returns
    /// whether more may be left.
    pub fn expire_deliveries_and_decisions(&mut self, limit: usize) -> Result<bool, Error> {
        let account = self.account;
        let mut expired = Vec::new();
        // Also those that expire now (`DeliveryRow::is_valid`).
        let before = UtcMillis(self.now.before(limits::DELIVERY_RETENTION).0.saturating_add(1));
        self.raw_rows(
            &KeyRange::<DeliveryByTime>::before(&(account,), &(account, KeyTime::from(before))),
            |key, _| {
                expired.push(key.to_vec());
                Ok(expired.len() < limit)
            },
        )?;
        let at = Reverse(self.now.before(limits::DECISION_RETENTION).into());
        let oldest =
            KeyRange::from(&(account,), &DecisionKey { account, at, email: EmailId(0) }).reversed();
        let decisions = self.delete_range::<Decisions>(&oldest, limit)?;
        let left = expired.len() >= limit || decisions >= limit;
        for key in expired {
            // Damaged keys and records are deleted, too: they must not stop deliveries.
            if let Ok(DeliveryTimeKey { hash, .. }) = decode_key::<DeliveryByTime>(&key) {
                self.delete::<Deliveries>(&self.delivery_key(&hash));
            }
            self.stage_row(DeliveryByTime::ID, key, None);
        }
        Ok(left)
    }
}
