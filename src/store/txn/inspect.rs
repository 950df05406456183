//! Reads that only tests and fuzz targets need.

use crate::model::{
    AccountId, Action, AddressRow, Decision, EmailId, Listing, ListingFilter, MailboxUid,
    MaintainedListing, ModSeq, ThreadId, Tokens,
};
use crate::store::engine::typed::{KeyRange, TypedRead as _};
use crate::store::error::Error;
use crate::store::row::{DeliveryRow, decode_tokens};
use crate::store::table::keys::{AddressKey, EmailKey, SubscriptionKey};
use crate::store::table::{
    Addresses, Decisions, Deliveries, EmailTokens, MailboxEmailList, MailboxThreadIndex,
    Subscriptions,
};
use crate::store::txn::snapshot::Snapshot;

impl Snapshot<'_> {
    pub fn addresses(&self) -> Result<Vec<(String, AddressRow)>, Error> {
        let mut out = Vec::new();
        self.read.rows::<Addresses>(&KeyRange::under(&()), |AddressKey(address), row| {
            out.push((address, row));
            Ok(true)
        })?;
        Ok(out)
    }

    /// Returns the newest `limit` decisions, newest first.
    pub fn decisions(&self, account: AccountId, limit: usize) -> Result<Vec<Decision>, Error> {
        let mut out = Vec::new();
        if limit > 0 {
            self.read.rows::<Decisions>(&KeyRange::under(&(account,)), |_, row| {
                out.push(row);
                Ok(out.len() < limit)
            })?;
        }
        Ok(out)
    }

    /// Returns the records of LMTP transactions, in the order of their hashes.
    pub fn deliveries(&self, account: AccountId) -> Result<Vec<DeliveryRow>, Error> {
        let mut out = Vec::new();
        self.read.rows::<Deliveries>(&KeyRange::under(&(account,)), |_, row| {
            out.push(row);
            Ok(true)
        })?;
        Ok(out)
    }

    /// Returns the search tokens of an email that is in no fold yet.
    pub fn tokens(&self, account: AccountId, id: EmailId) -> Result<Option<Tokens>, Error> {
        self.read.row_with::<EmailTokens, _>(&EmailKey { account, email: id }, decode_tokens)
    }

    /// Returns at most `limit` users who are subscribed to a mailbox, without the owner, ascending
    /// from `from` on.
    pub fn subscribers(
        &self,
        account: AccountId,
        uid: MailboxUid,
        from: AccountId,
        limit: usize,
    ) -> Result<Vec<AccountId>, Error> {
        let mut out = Vec::new();
        if limit > 0 {
            let first = SubscriptionKey { account, mailbox: uid, subscriber: from };
            self.read.keys::<Subscriptions>(
                &KeyRange::from(&(account, uid), &first),
                |key, _| {
                    out.push(key.subscriber);
                    Ok(out.len() < limit)
                },
            )?;
        }
        Ok(out)
    }

    /// Returns the number of the newest change that a listing still tells of, or its low mark if
    /// that is higher.
    pub fn listing_state(
        &self,
        account: AccountId,
        listing: Listing,
        maintained: &MaintainedListing,
    ) -> Result<ModSeq, Error> {
        let shown = KeyRange::under(&(account, listing, ModSeq(0)));
        let left = KeyRange::from(&(account, listing), &(account, listing, ModSeq(1)));
        let last_added =
            self.read.first_key::<MailboxEmailList>(&shown.reversed())?.map(|key| key.added);
        let last_removed =
            self.read.first_key::<MailboxEmailList>(&left.reversed())?.map(|key| key.removed);
        let low = maintained.stats(listing.shape).low;
        Ok(low.max(last_added.unwrap_or_default()).max(last_removed.unwrap_or_default()))
    }

    /// Returns the emails of a thread in a mailbox, newest first.
    pub fn thread_emails_in_mailbox(
        &self,
        account: AccountId,
        uid: MailboxUid,
        thread: ThreadId,
    ) -> Result<Vec<EmailId>, Error> {
        if uid == MailboxUid::ALL {
            return self.thread_emails(account, thread);
        }
        let mut out = Vec::new();
        let range =
            KeyRange::<MailboxThreadIndex>::under(&(account, uid, ListingFilter::Every, thread));
        self.read.keys(&range, |key, _| {
            out.push(key.email);
            Ok(true)
        })?;
        Ok(out)
    }

    pub fn outbox(&self, account: AccountId) -> Result<Vec<Action>, Error> {
        self.actions(account, None, usize::MAX)
    }
}
