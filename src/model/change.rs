//! What one commit altered: for push, for wake-ups and for tests.

use super::id::{AccountId, ModSeq};

/// A kind of object with a state of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DataType {
    /// RFC 8621 §4.
    Email = 0,
    /// RFC 8621 §1.5: moves only when new mail arrives.
    EmailDelivery = 1,
    /// RFC 8621 §3.
    Thread = 2,
    /// RFC 8621 §2, anything of a mailbox.
    Mailbox = 3,
    /// Only the counts of mailboxes.
    MailboxCounts = 4,
    /// RFC 8621 §8.
    VacationResponse = 5,
    /// The account itself.
    Account = 6,
    Outbox = 7,
    /// RFC 8621 §6.
    Identity = 8,
    /// RFC 8621 §7.
    EmailSubmission = 9,
    /// RFC 9670 §3.
    ShareNotification = 10,
}

impl DataType {
    /// All of them, in stored order.
    pub const ALL: [Self; 11] = [
        Self::Email,
        Self::EmailDelivery,
        Self::Thread,
        Self::Mailbox,
        Self::MailboxCounts,
        Self::VacationResponse,
        Self::Account,
        Self::Outbox,
        Self::Identity,
        Self::EmailSubmission,
        Self::ShareNotification,
    ];
}

/// The types that one commit changed in one account, with the newest change of each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    pub account: AccountId,
    /// What, and up to which change number.
    pub types: Vec<(DataType, ModSeq)>,
    /// Whether the store has remains of deleted rows that upkeep is to clear.
    pub remains: bool,
}
