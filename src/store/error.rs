//! What can go wrong in the store, and whose fault it is.

pub(super) use crate::model::hex::hex;
use crate::model::{AccountId, MailboxUid};

/// An error of the store. Cheap to clone: one failed commit is told to everyone who shared it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// What was asked for is not there.
    #[error("not found: {0}")]
    NotFound(&'static str),
    /// What was asked for cannot be, for the reason given.
    #[error("{0}")]
    Conflict(String),
    /// A mailbox cannot be so.
    #[error("mailbox \"{name}\": {fault}")]
    Mailbox {
        /// Its name.
        name: String,
        /// Why not.
        fault: MailboxFault,
    },
    /// The account would hold more than it may.
    #[error("over quota")]
    Quota,
    /// The disk is full: temporary, and it heals when space returns.
    #[error("no space left on the disk")]
    Full,
    /// The account has as many queued actions as it may have: temporary.
    #[error("too much mail of account {0} waits to be sent: try again later")]
    QueueFull(AccountId),
    /// Somebody else changed what this change was built on, or an earlier change that it was built
    /// on was not written: it may be tried again.
    #[error(
        "a change of account {0} was not written, for another came first or an earlier one failed: try again"
    )]
    Overtaken(AccountId),
    /// The store cannot be reached just now: temporary, and nothing was written.
    #[error("the store cannot be reached: {0}")]
    #[cfg_attr(
        not(any(test, feature = "internals")),
        expect(
            dead_code,
            reason = "for engines on other machines: those of one process are never away"
        )
    )]
    Away(String),
    /// The account is being repaired: temporary.
    #[error("account {0} is being repaired: try again later")]
    Rebuilding(AccountId),
    /// It was stopped before it was done; what was done so far stays.
    #[error("stopped")]
    Stopped,
    /// A row that cannot be read.
    #[error("damaged row in {table}, key {key}: {what}")]
    Corrupt {
        /// Which table.
        table: &'static str,
        /// Which key, in hex.
        key: String,
        /// What is wrong.
        what: String,
    },
    /// A write failed in a way that leaves the disk's state unknown: no writes until the store is
    /// opened anew.
    #[error("the store takes no more writes since an earlier one failed: {0}; restart the service")]
    Poisoned(String),
    /// The store cannot be opened; what to do about it.
    #[error("{0}")]
    Open(String),
    /// The engine or the disk failed.
    #[error("storage: {0}")]
    Io(String),
}

impl Error {
    /// A row that another one names is not there.
    pub(super) fn missing(table: &'static str, key: &[u8]) -> Self {
        Self::Corrupt {
            table,
            key: hex(key),
            what: "the row is missing: run `restante repair`".into(),
        }
    }

    /// Whether the same request may succeed later without anyone changing it.
    #[cfg(test)]
    #[must_use]
    pub fn is_temporary(&self) -> bool {
        !matches!(self, Self::NotFound(_) | Self::Conflict(_) | Self::Mailbox { .. })
    }
}

/// Why a mailbox cannot be so (RFC 8621 §2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MailboxFault {
    /// Its name is none.
    #[error("a name has 1 to 255 octets and no control characters")]
    Name,
    /// Another beside it has its name.
    #[error("there is one of that name")]
    NameTaken(MailboxUid),
    /// Another has its role.
    #[error("mailbox {0} has that role")]
    RoleTaken(MailboxUid),
    /// Mail arrives in it.
    #[error("the inbox stays: mail arrives there")]
    Inbox,
    /// The one above it is not there.
    #[error("the mailbox above it is not there")]
    NoParent,
    /// It would lie under itself.
    #[error("it would lie under itself")]
    UnderItself,
    /// It would lie under too many.
    #[error("it would lie too deep")]
    TooDeep,
    /// The account has as many as it may have.
    #[error("the account has as many mailboxes as it may have")]
    TooMany,
    /// An attribute cannot be so.
    #[error("an attribute: {0}")]
    Attribute(&'static str),
    /// It cannot be shared so.
    #[error("{0}")]
    Share(&'static str),
    /// It has others under it.
    #[error("the mailbox has mailboxes under it")]
    HasChildren,
    /// It has emails in it.
    #[error("the mailbox has emails in it")]
    HasEmails,
}
