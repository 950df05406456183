//! The errors of the store.

use std::io::{self, ErrorKind};

pub(super) use crate::model::hex::hex;
use crate::model::{AccountId, MailboxUid, ObjectId};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// An object of this kind does not exist.
    #[error("not found: {0}")]
    NotFound(&'static str),
    /// The request contradicts what is stored, exceeds a bound, or is refused otherwise. The text
    /// says why.
    #[error("{0}")]
    Conflict(String),
    #[error("mailbox \"{name}\": {fault}")]
    Mailbox { name: String, fault: MailboxFault },
    #[error("script: {0}")]
    Script(ScriptFault),
    /// The account or the user would exceed a quota, or have too many objects of a kind.
    #[error("over quota")]
    Quota,
    /// Temporary: the store goes on by itself when there is space.
    #[error("no space left on the disk")]
    Full,
    /// The account has as many queued actions as it may have. Temporary.
    #[error("too much mail of account {0} waits to be sent: try again later")]
    QueueFull(AccountId),
    /// Another writer changed the account first, or an earlier change, on which this one was built,
    /// was not written. The change may be run again.
    #[error(
        "a change of account {0} was not written, for another came first or an earlier one \
         failed: try again"
    )]
    Overtaken(AccountId),
    /// The store cannot be reached. Temporary.
    #[error("the store cannot be reached: {0}")]
    #[cfg_attr(
        not(any(test, feature = "internals")),
        expect(
            dead_code,
            reason = "for engines on other machines: the engines of one process are never away"
        )
    )]
    Away(String),
    /// The account is being repaired, in any scope (`RepairScope`). Temporary.
    #[error("account {0} is being repaired: try again later")]
    Rebuilding(AccountId),
    /// The progress function of a check or a repair returned `false`.
    #[error("stopped")]
    Stopped,
    #[error("damaged row in {table}, key {key}: {what}")]
    Corrupt {
        table: &'static str,
        /// The key in hex.
        key: String,
        what: String,
    },
    /// A write failed, and the state of the disk is unknown; or the committer panicked. The store
    /// takes no writes until it is opened again.
    #[error("the store takes no more writes since an earlier one failed: {0}; restart the service")]
    Poisoned(String),
    /// The store cannot be opened. The text says why, and mostly what helps.
    #[error("{0}")]
    Open(String),
    #[error("storage: {0}")]
    Io(String),
}

impl Error {
    /// A `Corrupt` error for a row that is missing although another row names it.
    pub(super) fn missing(table: &'static str, key: &[u8]) -> Self {
        Self::Corrupt {
            table,
            key: hex(key),
            what: "the row is missing: run `restante repair`".into(),
        }
    }

    /// Makes the error for a write to a file that failed; `what` names the file. A full disk, an
    /// exceeded quota and a limit on the size of files are `Full`, everything else is `Io`.
    pub fn of_write(what: &str, error: &io::Error) -> Self {
        match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
                Self::Full
            }
            _ => Self::Io(format!("{what}: {error}")),
        }
    }

    /// Whether the same request may succeed later, perhaps only after a restart or a repair.
    #[cfg(test)]
    #[must_use]
    pub fn is_temporary(&self) -> bool {
        !matches!(
            self,
            Self::NotFound(_) | Self::Conflict(_) | Self::Mailbox { .. } | Self::Script(_)
        )
    }
}

/// Why a mailbox cannot be created, changed or deleted (RFC 8621 §2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MailboxFault {
    #[error("a name must have 1 to 255 bytes and no control characters")]
    Name,
    /// The value is the mailbox that has the name.
    #[error("the parent has another mailbox of that name")]
    NameTaken(MailboxUid),
    #[error("mailbox {0} has that role")]
    RoleTaken(MailboxUid),
    #[error("the inbox cannot be deleted, nor lose its role: mail arrives there")]
    Inbox,
    #[error("the parent mailbox does not exist")]
    NoParent,
    #[error("a mailbox cannot be its own ancestor")]
    UnderItself,
    #[error("the mailbox would be nested too deep")]
    TooDeep,
    #[error("the account has as many mailboxes as it may have")]
    TooMany,
    #[error("an attribute: {0}")]
    Attribute(&'static str),
    #[error("{0}")]
    Share(&'static str),
    #[error("the mailbox has child mailboxes")]
    HasChildren,
    #[error("the mailbox has emails in it")]
    HasEmails,
}

/// Why a Sieve script cannot be stored or destroyed (RFC 5804 §1.3, RFC 9661 §2.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ScriptFault {
    #[error("a name must have 1 to 128 characters, and no control characters or line separators")]
    Name,
    /// The value is the script that has the name.
    #[error("the account has another script of that name")]
    NameTaken(ObjectId),
    #[error("the account has as many scripts as it may have")]
    TooMany,
    /// The value is the number of bytes that a script may have.
    #[error("a script may have at most {0} bytes")]
    TooLarge(usize),
    #[error("the active script cannot be deleted")]
    Active,
}
