//! What the caller may see of an account, and do in it (RFC 8621 §2 `myRights`, RFC 9670).
//!
//! Its owner may do all that the mailboxes' own rows allow. To anyone else, a guest, single mailboxes were opened, each
//! with rights of its own. What must hold: a guest sees an email if it is in a mailbox that he may read, and of the mailboxes
//! that it is in those alone that he has any right in; what he does not see is, to him, not there. A right that an email
//! needs in "its mailboxes" it needs in all of them, those that he does not see among them (RFC 8621 §2 maySetSeen,
//! maySetKeywords).
//!
//! Rights are read in the same view, or the same commit, as what they are asked for.

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
    /// All, for the account is his.
    Owner,
    /// What was opened to him.
    Guest(SharedMailboxes),
}

/// The mailboxes of an account as a guest has them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SharedMailboxes {
    /// Those in which he has any right.
    rights: BTreeMap<MailboxUid, u16>,
}

impl Rights {
    /// Of the caller in an account.
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

    /// Whether he has a right in a mailbox.
    pub(super) fn may(&self, uid: MailboxUid, right: Right) -> bool {
        match self {
            Self::Owner => true,
            Self::Guest(opened) => opened.rights.get(&uid).is_some_and(|rights| rights & right.bit() != 0),
        }
    }

    /// Whether he may read a mailbox.
    pub(super) fn reads(&self, uid: MailboxUid) -> bool {
        self.may(uid, Right::ReadItems)
    }

    /// What a guest may see of the account; `None` for the owner, who sees all of it.
    pub(super) fn scope(&self) -> Option<Scope> {
        let Self::Guest(opened) = self else { return None };
        Some(opened.rights.keys().copied().filter(|uid| self.reads(*uid)).collect())
    }

    /// Whether he has any right in a mailbox, and so knows of it.
    pub(super) fn knows(&self, uid: MailboxUid) -> bool {
        match self {
            Self::Owner => true,
            Self::Guest(opened) => opened.rights.contains_key(&uid),
        }
    }

    /// Whether he may read an email.
    pub(super) fn sees(&self, email: &EmailMetadata) -> bool {
        match self {
            Self::Owner => true,
            Self::Guest(_) => email.mailboxes.iter().any(|uid| self.reads(*uid)),
        }
    }

    /// An email as he sees it, if he does.
    pub(super) fn seen(&self, email: EmailMetadata) -> Option<EmailMetadata> {
        if !self.sees(&email) {
            return None;
        }
        let mailboxes = email.mailboxes.iter().copied().filter(|uid| self.reads(*uid)).collect();
        Some(EmailMetadata { mailboxes, ..email })
    }

    /// Whether he has a right in all of these mailboxes.
    ///
    /// # Errors
    /// `forbidden`.
    pub(super) fn prove<'m>(
        &self,
        mailboxes: impl IntoIterator<Item = &'m MailboxUid>,
        right: Right,
    ) -> Result<(), SetError> {
        match mailboxes.into_iter().find(|uid| !self.may(**uid, right)) {
            None => Ok(()),
            Some(uid) if self.knows(*uid) => Err(SetError::Forbidden(format!("no {} in {uid}", right.name()))),
            Some(_) => Err(SetError::Forbidden(format!("no {} in all of its mailboxes", right.name()))),
        }
    }

    /// Whether he may change an email so.
    ///
    /// # Errors
    /// `forbidden`.
    pub(super) fn prove_change(
        &self,
        email: &EmailMetadata,
        mailboxes: &BTreeSet<MailboxUid>,
        keywords: &BTreeSet<String>,
    ) -> Result<(), SetError> {
        if *self == Self::Owner {
            return Ok(());
        }
        self.prove(mailboxes.difference(&email.mailboxes), Right::AddItems)?;
        self.prove(email.mailboxes.difference(mailboxes), Right::RemoveItems)?;
        for word in email.keywords.symmetric_difference(keywords) {
            let right = if word == SEEN { Right::SetSeen } else { Right::SetKeywords };
            self.prove(&email.mailboxes, right)?;
        }
        Ok(())
    }

    /// The mailboxes of an email that he does not read: what he says of the others leaves them as they are.
    pub(super) fn unread(&self, email: &EmailMetadata) -> BTreeSet<MailboxUid> {
        email.mailboxes.iter().copied().filter(|uid| !self.reads(*uid)).collect()
    }
}

/// Whether the same was open to the caller at a state: then what changed since can be told from what changed of the objects
/// alone. Of an account of his own it always can.
///
/// # Errors
/// Those of reading.
pub(super) fn unchanged_since(snapshot: &Snapshot<'_>, account: &Account, since: ModSeq) -> Result<bool, Error> {
    if account.guest.is_none() { Ok(true) } else { snapshot.is_sharing_unchanged_since(account.id, since) }
}

/// `MailboxRights` (RFC 8621 §2).
pub(super) fn rights_object(bits: u16) -> Map<String, Value> {
    Right::all().map(|right| (right.name().to_owned(), (bits & right.bit() != 0).into())).collect()
}
