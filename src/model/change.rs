//! Which data types of an account a commit changed, for the listeners of `Store::on_change`.

use super::id::{AccountId, ModSeq};

/// A type of data for which changes are counted. Most are JMAP types with a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DataType {
    /// RFC 8621 §4.
    Email = 0,
    /// RFC 8621 §1.5: changes when an email is created, and not when one is changed.
    EmailDelivery = 1,
    /// RFC 8621 §3.
    Thread = 2,
    /// RFC 8621 §2: any property of a mailbox.
    Mailbox = 3,
    /// Changes when a count of a mailbox does. `Mailbox` changes then, too.
    MailboxCounts = 4,
    /// RFC 8621 §8.
    VacationResponse = 5,
    /// The row of the account.
    Account = 6,
    /// The actions of the account.
    Outbox = 7,
    /// RFC 8621 §6.
    Identity = 8,
    /// RFC 8621 §7.
    EmailSubmission = 9,
    /// RFC 9670 §3.
    ShareNotification = 10,
    /// RFC 9661 §2: scripts, and which of them is active.
    SieveScript = 11,
}

impl DataType {
    /// All types, in the order of their stored numbers.
    pub const ALL: [Self; 12] = [
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
        Self::SieveScript,
    ];
}

/// What one commit changed in one account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    pub account: AccountId,
    /// The changed types, each with the number of its newest change.
    pub types: Vec<(DataType, ModSeq)>,
    /// Whether a push subscription of the account was created or changed.
    pub writes_push_subscription: bool,
    /// Whether the remains of deleted rows have piled up somewhere in the store, by this change or
    /// an earlier one, so that upkeep should clear them (`Engine::clear_remains`).
    pub remains: bool,
}
