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
    /// The rights after the change, in the same bits.
    pub new: u16,
}

/// Who changed the rights.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ChangedBy {
    /// The display name or else the name of the account. Without an account, the name of the Unix
    /// user; empty if that is not known.
    pub name: String,
    /// The primary address of the account; `None` without an account.
    pub email: Option<String>,
    /// `None` for a caller of the control socket, who is known as a Unix user only.
    pub account: Option<AccountId>,
}
