//! What the caller may see of an account, and do in it (RFC 8621 §2 `myRights`, RFC 9670).
//!
//! The owner may do everything that the rows of the mailboxes allow. A guest may use the mailboxes
//! that the owner shared, each with rights of its own.
//!
//! - A guest sees an email if it is in at least one mailbox that the guest may read.
//! - Of the mailboxes of such an email, the guest sees those in which the guest has any right.
//! - What a guest does not see does not exist in any answer to that guest.
//! - A right that RFC 8621 §2 requires in "all mailboxes" of an email (maySetSeen, maySetKeywords)
//!   is required in those too that the guest does not see.
//! - Rights are read in the same snapshot, or the same commit, as the objects that they guard.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::context::Account;
use crate::model::mailbox::Right;
use crate::model::{EmailMetadata, MailboxUid, ModSeq};
use crate::query::Scope;
use crate::store::{Error, Snapshot};
use crate::wire::jmap::SetError;

/// The keyword that `maySetSeen` is about.
const SEEN: &str = "$seen";

/// What the caller may do in which mailbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Rights {
    /// The caller owns the account and has every right.
    Owner,
    /// The caller has the rights that the owner shared.
    Guest(SharedMailboxes),
}

/// The mailboxes of an account as a guest has them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SharedMailboxes {
    /// The rights, as bits of [`Right`], of each mailbox in which the guest has any.
    rights: BTreeMap<MailboxUid, u16>,
}

impl Rights {
    /// Reads the rights of the caller in an account.
    ///
    /// # Errors
    /// Those of reading.
    pub(super) fn of(snapshot: &Snapshot<'_>, account: &Account) -> Result<Self, Error> {
        let Some(guest) = account.guest else { return Ok(Self::Owner) };
        let mut opened = SharedMailboxes { rights: BTreeMap::new() };
        for (uid, row) in snapshot.mailboxes(account.id)? {
            let rights = row.rights_of(account.id, guest);
            if rights != 0 {
                opened.rights.insert(uid, rights);
            }
        }
        Ok(Self::Guest(opened))
    }

    /// Whether the caller has a right in a mailbox.
    pub(super) fn may(&self, uid: MailboxUid, right: Right) -> bool {
        match self {
            Self::Owner => true,
            Self::Guest(opened) => {
                opened.rights.get(&uid).is_some_and(|rights| rights & right.bit() != 0)
            }
        }
    }

    /// Whether the caller may read a mailbox.
    pub(super) fn may_read(&self, uid: MailboxUid) -> bool {
        self.may(uid, Right::ReadItems)
    }

    /// What a guest may see of the account; `None` for the owner, who sees all of it.
    pub(super) fn scope(&self) -> Option<Scope> {
        let Self::Guest(opened) = self else { return None };
        Some(opened.rights.keys().copied().filter(|uid| self.may_read(*uid)).collect())
    }

    /// Whether the caller has any right in a mailbox, and so may know that it exists.
    pub(super) fn has_any_right(&self, uid: MailboxUid) -> bool {
        match self {
            Self::Owner => true,
            Self::Guest(opened) => opened.rights.contains_key(&uid),
        }
    }

    /// Whether the caller may read an email.
    pub(super) fn may_read_email(&self, email: &EmailMetadata) -> bool {
        match self {
            Self::Owner => true,
            Self::Guest(_) => email.mailboxes.iter().any(|uid| self.may_read(*uid)),
        }
    }

    /// The email with only the mailboxes that the caller may read; `None` if there is none.
    pub(super) fn visible_part(&self, email: EmailMetadata) -> Option<EmailMetadata> {
        if !self.may_read_email(&email) {
            return None;
        }
        let mailboxes = email.mailboxes.iter().copied().filter(|uid| self.may_read(*uid)).collect();
        Some(EmailMetadata { mailboxes, ..email })
    }

    /// Proves that the caller has a right in each of these mailboxes.
    ///
    /// # Errors
    /// `forbidden`.
    pub(super) fn require<'m>(
        &self,
        mailboxes: impl IntoIterator<Item = &'m MailboxUid>,
        right: Right,
    ) -> Result<(), SetError> {
        match mailboxes.into_iter().find(|uid| !self.may(**uid, right)) {
            None => Ok(()),
            Some(uid) if self.has_any_right(*uid) => {
                Err(SetError::Forbidden(format!("no {} in {uid}", right.name())))
            }
            Some(_) => {
                Err(SetError::Forbidden(format!("no {} in all of its mailboxes", right.name())))
            }
        }
    }

    /// Proves that the caller may give an email these mailboxes and keywords.
    ///
    /// # Errors
    /// `forbidden`.
    pub(super) fn require_for_change(
        &self,
        email: &EmailMetadata,
        mailboxes: &BTreeSet<MailboxUid>,
        keywords: &BTreeSet<String>,
    ) -> Result<(), SetError> {
        if *self == Self::Owner {
            return Ok(());
        }
        self.require(mailboxes.difference(&email.mailboxes), Right::AddItems)?;
        self.require(email.mailboxes.difference(mailboxes), Right::RemoveItems)?;
        for word in email.keywords.symmetric_difference(keywords) {
            let right = if word == SEEN { Right::SetSeen } else { Right::SetKeywords };
            self.require(&email.mailboxes, right)?;
        }
        Ok(())
    }

    /// The mailboxes of an email that the caller does not see. An update by the caller leaves them
    /// as they are.
    pub(super) fn unreadable_mailboxes(&self, email: &EmailMetadata) -> BTreeSet<MailboxUid> {
        email.mailboxes.iter().copied().filter(|uid| !self.may_read(*uid)).collect()
    }
}

/// Whether the same was open to the caller at a state: then what changed since can be told from
/// what changed of the objects alone. Of an account of his own it always can.
///
/// # Errors
/// Those of reading.
pub(super) fn same_access_since(
    snapshot: &Snapshot<'_>,
    account: &Account,
    since: ModSeq,
) -> Result<bool, Error> {
    if account.guest.is_none() {
        Ok(true)
    } else {
        snapshot.is_sharing_unchanged_since(account.id, since)
    }
}

/// `MailboxRights` (RFC 8621 §2).
pub(super) fn rights_object(bits: u16) -> Map<String, Value> {
    Right::all().map(|right| (right.name().to_owned(), (bits & right.bit() != 0).into())).collect()
}
