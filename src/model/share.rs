//! What a user is told of what was opened to him, and closed (RFC 9670 §3). It stands in his own account.

use super::clock::UtcMillis;
use super::id::{AccountId, MailboxUid};

/// A change of a user's rights in a mailbox of another.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ShareNotification {
    /// When.
    pub created: UtcMillis,
    /// Who changed them.
    pub by: ChangedBy,
    /// In which account the mailbox is.
    pub account: AccountId,
    /// Which.
    pub mailbox: MailboxUid,
    /// Its name at that time.
    pub name: String,
    /// His rights before (`Right::bit`).
    pub old: u16,
    /// And since.
    pub new: u16,
}

/// Who changed something.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ChangedBy {
    /// By which name he is known.
    pub name: String,
    /// His address, if he has one here.
    pub email: Option<String>,
    /// His account, if he has one.
    pub account: Option<AccountId>,
}
