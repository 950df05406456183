//! Notifications of a user about changed rights in another user's mailbox (RFC 9670 §3). They are
//! stored in the account of the notified user.

use super::clock::UtcMillis;
use super::id::{AccountId, MailboxUid};

/// A change of a guest's rights in a mailbox.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ShareNotification {
    pub created: UtcMillis,
    /// The person who changed the rights.
    pub by: ChangedBy,
    /// The account to which the mailbox belongs.
    pub account: AccountId,
    pub mailbox: MailboxUid,
    /// The name of the mailbox at that time.
    pub name: String,
    /// The rights of the guest before the change (`Right::bit`).
    pub old: u16,
    /// The rights of the guest after the change.
    pub new: u16,
}

/// The person who changed the rights.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ChangedBy {
    pub name: String,
    /// The address of the person, if it is an address of this site.
    pub email: Option<String>,
    /// The account of the person, if there is one at this site.
    pub account: Option<AccountId>,
}
