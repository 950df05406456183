//! Notifications of a user that rights in a mailbox were given to the user or taken away (RFC 9670
//! §3). They stand in the account of that user.

use super::clock::UtcMillis;
use super::id::{AccountId, MailboxUid};

/// A change of a user's rights in a mailbox of another.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ShareNotification {
    pub created: UtcMillis,
    /// Who changed them.
    pub by: ChangedBy,
    /// In which account the mailbox is.
    pub account: AccountId,
    pub mailbox: MailboxUid,
    /// Its name at that time.
    pub name: String,
    /// The user's rights before (`Right::bit`).
    pub old: u16,
    /// The user's rights since then.
    pub new: u16,
}

/// Who changed something.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ChangedBy {
    /// Name by which the person is known.
    pub name: String,
    /// Address of the person, if there is one here.
    pub email: Option<String>,
    /// Account of the person, if there is one.
    pub account: Option<AccountId>,
}
