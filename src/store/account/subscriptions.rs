//! Subscribes users to mailboxes (RFC 8621 §2 isSubscribed).
//!
//! - The owner's subscription is a field of the mailbox's row. A guest's is a row of its own, so
//!   that the mailbox's row, which every delivery writes, does not grow with the guests.
//! - A change of either gives the mailbox a new modseq.
//! - Whether a guest may read the mailbox is not checked here.

use crate::model::{AccountId, DataType, MailboxUid};
use crate::store::engine::typed::TypedRead as _;
use crate::store::error::Error;
use crate::store::table::keys::SubscriptionKey;
use crate::store::table::{Mailboxes, Present, Subscriptions};
use crate::store::txn::Txn;

impl Txn<'_> {
    /// Subscribes `subscriber` to a mailbox of this account (`on`), or ends the subscription.
    /// Returns whether anything changed.
    ///
    /// # Errors
    /// `NotFound` if there is no such mailbox, or if a guest who is to be subscribed has no row in
    /// `accounts`; those of reading.
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
