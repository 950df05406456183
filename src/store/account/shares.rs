//! With whom mailboxes are shared (RFC 9670, RFC 8621 §2): the rights stand in the mailbox's row,
//! under the owner's lock.
//!
//! The table `shared` answers which accounts share something with a user. It has one row for each
//! such pair, written by the owner's commit, and is derived: where it differs from the mailboxes,
//! the mailboxes are right.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{AccountId, Mailbox, MailboxUid, ObjectId, ShareNotification, limits, mailbox};
use crate::store::error::{Error, MailboxFault};
use crate::store::table::keys::SharedKey;
use crate::store::table::{Present, Shared};
use crate::store::txn::Txn;

/// A change of somebody's rights in a mailbox (`Right::bit`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShareChange {
    /// The user whose rights changed.
    pub with: AccountId,
    pub mailbox: MailboxUid,
    /// The mailbox's name.
    pub name: String,
    /// The rights before the change; 0 is none.
    pub old: u16,
    /// The rights since the change; 0 is none.
    pub new: u16,
}

impl Txn<'_> {
    /// Returns the changes of rights that this commit makes so far, and forgets them. The caller
    /// notifies the users.
    pub fn take_share_changes(&mut self) -> Vec<ShareChange> {
        std::mem::take(&mut self.share_changes)
    }

    /// Checks that a mailbox may be shared as `row` says. Only users who are new to it are looked
    /// up.
    pub(in crate::store) fn prove_shares(
        &self,
        old: Option<&Mailbox>,
        row: &Mailbox,
    ) -> Result<(), Error> {
        let faulty =
            |what| Err(Error::Mailbox { name: row.name.clone(), fault: MailboxFault::Share(what) });
        if row.shares.len() > limits::MAX_SHARES {
            return faulty("it is shared with as many as it may be");
        }
        for (with, rights) in &row.shares {
            if *with == self.account || *with == AccountId::SITE {
                return faulty("nobody shares with himself");
            }
            if *rights == 0 || *rights & !mailbox::ALL_RIGHTS != 0 {
                return faulty("there is no such right");
            }
            let is_new = old.is_none_or(|old| !old.shares.contains_key(with));
            if is_new && self.snapshot().account(*with)?.is_none() {
                return faulty("there is no such account");
            }
        }
        Ok(())
    }

    /// Brings the table `shared` up to date with the changed rights of the mailbox `uid`.
    pub(in crate::store) fn note_shares(
        &mut self,
        uid: MailboxUid,
        name: &str,
        old: &BTreeMap<AccountId, u16>,
        new: &BTreeMap<AccountId, u16>,
    ) -> Result<(), Error> {
        let gone: BTreeSet<AccountId> =
            old.keys().filter(|with| !new.contains_key(with)).copied().collect();
        let others =
            if gone.is_empty() { Vec::new() } else { self.snapshot().mailboxes(self.account)? };
        for with in gone {
            let still =
                others.iter().any(|(other, row)| *other != uid && row.shares.contains_key(&with));
            if !still {
                self.delete::<Shared>(&SharedKey { with, account: self.account });
            }
        }
        for with in new.keys().filter(|with| !old.contains_key(with)) {
            self.put::<Shared>(&SharedKey { with: *with, account: self.account }, &Present);
        }
        let of = |shares: &BTreeMap<AccountId, u16>, with| {
            shares.get(&with).copied().unwrap_or_default()
        };
        let concerned: BTreeSet<AccountId> = old.keys().chain(new.keys()).copied().collect();
        let changes = concerned.into_iter().map(|with| (with, of(old, with), of(new, with)));
        let changes = changes.filter(|(_, old, new)| old != new);
        self.share_changes.extend(changes.map(|(with, old, new)| ShareChange {
            with,
            mailbox: uid,
            name: name.into(),
            old,
            new,
        }));
        Ok(())
    }

    /// Tells this account that its rights in a mailbox of another changed. What it was told of the
    /// same mailbox and did not dismiss is one with it; where there are too many, the oldest goes
    /// (RFC 9670 §3.1).
    ///
    /// # Errors
    /// Those of reading.
    pub fn add_share_notification(&mut self, told: &ShareNotification) -> Result<(), Error> {
        if self.snapshot().account(self.account)?.is_none() {
            return Ok(());
        }
        let mut told = told.clone();
        let mut all = self.snapshot().objects::<ShareNotification>(self.account)?;
        let same =
            |one: &ShareNotification| (one.account, one.mailbox) == (told.account, told.mailbox);
        let before: Vec<(ObjectId, u16)> =
            all.iter().filter(|(_, one)| same(one)).map(|(id, one)| (*id, one.old)).collect();
        for (id, old) in before {
            told.old = old;
            self.destroy_object::<ShareNotification>(id)?;
            all.retain(|(known, _)| *known != id);
        }
        if told.old == told.new {
            return Ok(());
        }
        for (id, _) in
            all.iter().take((all.len() + 1).saturating_sub(limits::MAX_SHARE_NOTIFICATIONS))
        {
            self.destroy_object::<ShareNotification>(*id)?;
        }
        self.create_object(&told).map(drop)
    }

    /// Shares nothing any more with these, in up to `most` mailboxes. Says whether more may be
    /// left.
    ///
    /// # Errors
    /// Those of reading.
    pub fn unshare(&mut self, with: &BTreeSet<AccountId>, most: usize) -> Result<bool, Error> {
        let shared = |row: &Mailbox| row.shares.keys().any(|known| with.contains(known));
        let mailboxes = self.snapshot().mailboxes(self.account)?.into_iter();
        let uids: Vec<MailboxUid> =
            mailboxes.filter(|(_, row)| shared(row)).map(|(uid, _)| uid).take(most).collect();
        for uid in &uids {
            self.update_mailbox(*uid, |row| row.shares.retain(|known, _| !with.contains(known)))?;
        }
        Ok(uids.len() >= most)
    }

    /// Takes the rights of accounts that no longer exist out of up to `most` mailboxes. Says
    /// whether more may be left.
    ///
    /// # Errors
    /// Those of reading.
    pub fn unshare_removed_accounts(&mut self, most: usize) -> Result<bool, Error> {
        let snapshot = self.snapshot();
        let mailboxes = snapshot.mailboxes(self.account)?;
        let mut gone: BTreeSet<AccountId> =
            mailboxes.iter().flat_map(|(_, row)| row.shares.keys().copied()).collect();
        for with in gone.clone() {
            if snapshot.account(with)?.is_some() {
                gone.remove(&with);
            }
        }
        drop(snapshot);
        if gone.is_empty() { Ok(false) } else { self.unshare(&gone, most) }
    }
}
