//! Who is subscribed to a mailbox: each user for himself (RFC 8621 §2 isSubscribed).
//!
//! The owner's word stands in the mailbox's row, which is read anyway. That of others is a row
//! each, so that the mailbox's own, which every delivery writes, does not grow with them; it is
//! written under the owner's lock, and moves the mailbox's change number, for it is by the states
//! of the owner's account that all its users learn of it. Whether somebody may read the mailbox is
//! not asked here.

use crate::model::{AccountId, DataType, MailboxUid};
use crate::store::engine::typed::TypedRead as _;
use crate::store::error::Error;
use crate::store::table::keys::SubscriptionKey;
use crate::store::table::{Mailboxes, Present, Subscriptions};
use crate::store::txn::Txn;

impl Txn<'_> {
    /// Subscribes an account to a mailbox of this one, or ends that. Says whether anything changed.
    ///
    /// # Errors
    /// `NotFound` where there is no such mailbox, or no such subscriber.
    pub fn subscribe(
        &mut self,
        uid: MailboxUid,
        subscriber: AccountId,
        on: bool,
    ) -> Result<bool, Error> {
        if subscriber == self.account {
            return self.update_mailbox(uid, |row| row.subscribed = on);
        }
        let mut row = self.live_mailbox(uid)?;
        if on && self.snapshot().account(subscriber)?.is_none() {
            return Err(Error::NotFound("account"));
        }
        let own = SubscriptionKey { account: self.account, mailbox: uid, subscriber };
        if self.bytes::<Subscriptions>(&own)?.is_some() == on {
            return Ok(false);
        }
        if on {
            self.put::<Subscriptions>(&own, &Present);
        } else {
            self.delete::<Subscriptions>(&own);
        }
        let modseq = self.next_modseq();
        row.updated = modseq;
        row.updated_not_counts = modseq;
        self.put::<Mailboxes>(&self.mailbox_key(uid), &row);
        self.touch(DataType::Mailbox);
        Ok(true)
    }
}
