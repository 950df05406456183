//! Writes with whom mailboxes are shared (RFC 9670, RFC 8621 §2).
//!
//! The rights of a guest are in the row of the mailbox. The table `shared` is derived from them:
//! one row for each pair of owner and guest.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{AccountId, Mailbox, MailboxUid, ObjectId, ShareNotification, limits, mailbox};
use crate::store::error::{Error, MailboxFault};
use crate::store::table::keys::SharedKey;
use crate::store::table::{Present, Shared};
use crate::store::txn::Txn;

/// A change of a guest's rights in a mailbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShareChange {
    /// The guest whose rights changed.
    pub with: AccountId,
    pub mailbox: MailboxUid,
    /// The name of the mailbox.
    pub name: String,
    /// The rights before the change, as bits of `Right::bit`; 0 for none.
    pub old: u16,
    /// The rights after the change.
    pub new: u16,
}

impl Txn<'_> {
    /// Returns the changes of rights that this transaction has made since the last call, so that
    /// the caller notifies the guests (`add_share_notification`).
    pub fn take_share_changes(&mut self) -> Vec<ShareChange> {
        std::mem::take(&mut self.share_changes)
    }

    /// Checks that a mailbox may be shared as `row` says. Only guests who are not in `old`, the row
    /// before the change, must have an account.
    ///
    /// # Errors
    /// `Mailbox` with `MailboxFault::Share`; those of reading.
    pub(in crate::store) fn prove_shares(
        &self,
        old: Option<&Mailbox>,
        row: &Mailbox,
    ) -> Result<(), Error> {
        let faulty =
            |what| Err(Error::Mailbox { name: row.name.clone(), fault: MailboxFault::Share(what) });
        if row.shares.len() > limits::MAX_SHARES {
            return faulty("it cannot be shared with more accounts");
        }
        for (with, rights) in &row.shares {
            if *with == self.account {
                return faulty("a mailbox is not shared with its own account");
            }
            if *with == AccountId::SITE {
                return faulty("there is no such account");
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

    /// Brings the table `shared` up to date with the rights of the guests of the mailbox `uid`,
    /// which change from `old` to `new`, and notes the changes for `take_share_changes`. The caller
    /// stores the mailbox.
    pub(in crate::store) fn note_shares(
        &mut self,
        uid: MailboxUid,
        name: &str,
        old: &BTreeMap<AccountId, u16>,
        new: &BTreeMap<AccountId, u16>,
    ) -> Result<(), Error> {
        let removed: BTreeSet<AccountId> =
            old.keys().filter(|with| !new.contains_key(with)).copied().collect();
        let others = if removed.is_empty() {
            Vec::new()
        } else {
            self.snapshot().mailboxes(self.account)?
        };
        for with in removed {
            let is_still_guest =
                others.iter().any(|(other, row)| *other != uid && row.shares.contains_key(&with));
            if !is_still_guest {
                self.delete::<Shared>(&SharedKey { user: with, account: self.account });
            }
        }
        for with in new.keys().filter(|with| !old.contains_key(with)) {
            self.put::<Shared>(&SharedKey { user: *with, account: self.account }, &Present);
        }
        let rights_of = |shares: &BTreeMap<AccountId, u16>, with| {
            shares.get(&with).copied().unwrap_or_default()
        };
        let guests: BTreeSet<AccountId> = old.keys().chain(new.keys()).copied().collect();
        let changes =
            guests.into_iter().map(|with| (with, rights_of(old, with), rights_of(new, with)));
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

    /// Notifies this account that its rights in a mailbox of another account changed (RFC 9670
    /// §3.1). An earlier notification of the same mailbox is deleted, and the new one gets the old
    /// rights of the earlier one; if its new rights equal these, it is not stored either. If there
    /// would be more notifications than `limits::MAX_SHARE_NOTIFICATIONS`, the oldest are deleted.
    /// Does nothing if this account has no row.
    pub fn add_share_notification(&mut self, new: &ShareNotification) -> Result<(), Error> {
        if self.snapshot().account(self.account)?.is_none() {
            return Ok(());
        }
        let mut new = new.clone();
        let mut all = self.snapshot().objects::<ShareNotification>(self.account)?;
        let same =
            |one: &ShareNotification| (one.account, one.mailbox) == (new.account, new.mailbox);
        let before: Vec<(ObjectId, u16)> =
            all.iter().filter(|(_, one)| same(one)).map(|(id, one)| (*id, one.old)).collect();
        for (id, old) in before {
            new.old = old;
            self.destroy_object::<ShareNotification>(id)?;
            all.retain(|(other, _)| *other != id);
        }
        if new.old == new.new {
            return Ok(());
        }
        for (id, _) in
            all.iter().take((all.len() + 1).saturating_sub(limits::MAX_SHARE_NOTIFICATIONS))
        {
            self.destroy_object::<ShareNotification>(*id)?;
        }
        self.create_object(&new).map(drop)
    }

    /// Removes all rights of the accounts `with` from up to `limit` mailboxes. Returns whether more
    /// may be left.
    pub fn unshare(&mut self, with: &BTreeSet<AccountId>, limit: usize) -> Result<bool, Error> {
        let is_shared = |row: &Mailbox| row.shares.keys().any(|guest| with.contains(guest));
        let mailboxes = self.snapshot().mailboxes(self.account)?.into_iter();
        let uids: Vec<MailboxUid> =
            mailboxes.filter(|(_, row)| is_shared(row)).map(|(uid, _)| uid).take(limit).collect();
        for uid in &uids {
            self.update_mailbox(*uid, |row| row.shares.retain(|guest, _| !with.contains(guest)))?;
        }
        Ok(uids.len() >= limit)
    }

    /// Does as `unshare` with those guests of this account who have no row in `accounts`.
    pub fn unshare_removed_accounts(&mut self, limit: usize) -> Result<bool, Error> {
        let snapshot = self.snapshot();
        let mailboxes = snapshot.mailboxes(self.account)?;
        let mut removed: BTreeSet<AccountId> =
            mailboxes.iter().flat_map(|(_, row)| row.shares.keys().copied()).collect();
        for with in removed.clone() {
            if snapshot.account(with)?.is_some() {
                removed.remove(&with);
            }
        }
        drop(snapshot);
        if removed.is_empty() { Ok(false) } else { self.unshare(&removed, limit) }
    }
}
