//! What the caller may see and do in an account (RFC 8621 §2 `myRights`, RFC 9670).
//!
//! - The owner has every right; a guest has those that the owner shared.
//! - A guest sees an email if it is in a mailbox that the guest may read, and of its mailboxes only
//!   those.
//! - A right that RFC 8621 §2 requires in "all mailboxes" of an email (maySetSeen, maySetKeywords)
//!   is also required in those that the guest does not see.
//! - Rights are read in the snapshot or commit of the objects that they protect.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::context::Account;
use crate::model::mailbox::Right;
use crate::model::{EmailMetadata, MailboxUid, ModSeq};
use crate::query::Scope;
use crate::store::{Error, Snapshot};
use crate::wire::jmap::SetError;

const SEEN: &str = "$seen";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Rights {
    /// Also an administrator.
    Owner,
    Guest(SharedMailboxes),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SharedMailboxes {
    /// As bits of [`Right`], without the mailboxes in which the guest has no right.
    rights: BTreeMap<MailboxUid, u16>,
}

impl Rights {
    /// Reads the rights of the caller in all mailboxes of an account.
    pub(super) fn in_account(snapshot: &Snapshot<'_>, account: &Account) -> Result<Self, Error> {
        let Some(guest) = account.guest else { return Ok(Self::Owner) };
        let mut shared = SharedMailboxes { rights: BTreeMap::new() };
        for (uid, row) in snapshot.mailboxes(account.id)? {
            let rights = row.rights_of(account.id, guest);
            if rights != 0 {
                shared.rights.insert(uid, rights);
            }
        }
        Ok(Self::Guest(shared))
    }

    pub(super) fn may(&self, uid: MailboxUid, right: Right) -> bool {
        match self {
            Self::Owner => true,
            Self::Guest(shared) => {
                shared.rights.get(&uid).is_some_and(|rights| rights & right.bit() != 0)
            }
        }
    }

    pub(super) fn may_read(&self, uid: MailboxUid) -> bool {
        self.may(uid, Right::ReadItems)
    }

    /// Returns the mailboxes that a guest may read; `None` for the owner, who may read all.
    pub(super) fn scope(&self) -> Option<Scope> {
        let Self::Guest(shared) = self else { return None };
        Some(shared.rights.keys().copied().filter(|uid| self.may_read(*uid)).collect())
    }

    pub(super) fn has_any_right(&self, uid: MailboxUid) -> bool {
        match self {
            Self::Owner => true,
            Self::Guest(shared) => shared.rights.contains_key(&uid),
        }
    }

    pub(super) fn may_read_email(&self, email: &EmailMetadata) -> bool {
        match self {
            Self::Owner => true,
            Self::Guest(_) => email.mailboxes.iter().any(|uid| self.may_read(*uid)),
        }
    }

    /// Returns the email with only the mailboxes that the caller may read; `None` if there are
    /// none.
    pub(super) fn visible_part(&self, email: EmailMetadata) -> Option<EmailMetadata> {
        if !self.may_read_email(&email) {
            return None;
        }
        let mailboxes = email.mailboxes.iter().copied().filter(|uid| self.may_read(*uid)).collect();
        Some(EmailMetadata { mailboxes, ..email })
    }

    /// Checks that the caller has a right in each of the mailboxes.
    ///
    /// # Errors
    /// `Forbidden`. The text names the mailbox only if the caller has any right in it.
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

    /// Checks that the caller may change the mailboxes and keywords of an email to `mailboxes` and
    /// `keywords`. `mailboxes` includes those that the caller may not read
    /// ([`Self::unreadable_mailboxes`]).
    ///
    /// # Errors
    /// `Forbidden`.
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
        for keyword in email.keywords.symmetric_difference(keywords) {
            let right = if keyword == SEEN { Right::SetSeen } else { Right::SetKeywords };
            self.require(&email.mailboxes, right)?;
        }
        Ok(())
    }

    /// Returns the mailboxes of an email that the caller may not read. An update by the caller
    /// leaves the email in them.
    pub(super) fn unreadable_mailboxes(&self, email: &EmailMetadata) -> BTreeSet<MailboxUid> {
        email.mailboxes.iter().copied().filter(|uid| !self.may_read(*uid)).collect()
    }
}

/// Whether no share in the account changed after `since`: neither with this guest nor with another
/// one. False also if that is not known any more. Always true for the owner.
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

/// Returns the object `MailboxRights` of RFC 8621 §2, with every right as true or false. `bits` are
/// those of [`Right`].
pub(super) fn rights_object(bits: u16) -> Map<String, Value> {
    Right::all().map(|right| (right.name().to_owned(), (bits & right.bit() != 0).into())).collect()
}
