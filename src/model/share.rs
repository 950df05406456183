//! Notifications of a user about changed rights in another user's mailbox (RFC 9670 §3). They are
//! stored in the account of the notified user.

use super::clock::UtcMillis;
use super::id::{AccountId, MailboxUid};

/// A change of a guest's rights in a mailbox.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ShareNotification {
    pub created: UtcMillis,
    pub by: ChangedBy,
    /// The account to which the mailbox belongs.
    pub account: AccountId,
    pub mailbox: MailboxUid,
    /// The name of the mailbox at that time.
    pub name: String,
    /// The rights before the change (`Right::bit`).
    pub old: u16,
    pub new: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ChangedBy {
    pub name: String,
    /// `None` if the person has no address of this site.
    pub email: Option<String>,
    pub account: Option<AccountId>,
}
