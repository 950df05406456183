//! Creates, changes, empties and destroys mailboxes (RFC 8621 §2.5).
//!
//! - A change that is refused (`NotFound`, `Mailbox`) leaves the transaction as it was.
//! - The listings and the history of a destroyed mailbox are deleted later, in steps
//!   (`clear_destroyed_mailboxes`).

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{
    DataType, Listing, ListingFilter, Mailbox, MailboxUid, MaintainedListing, ModSeq, Role, Shape,
    ThreadId, mailbox,
};
use crate::store::account::mailbox_tree::MailboxTree;
use crate::store::engine::typed::{KeyRange, TypedRead as _};
use crate::store::error::{Error, MailboxFault};
use crate::store::listing::write::missing_row;
use crate::store::row::Thread;
use crate::store::table::{self, MailboxEmailIndex, Mailboxes, Threads};
use crate::store::txn::Txn;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewMailbox {
    /// Should be in NFC, which is not checked.
    pub name: String,
    pub parent: Option<MailboxUid>,
    pub role: Option<Role>,
    pub sort_order: u32,
}

impl Txn<'_> {
    /// Creates a mailbox, and returns its uid.
    ///
    /// # Errors
    /// `Mailbox` if the mailbox is refused: see `MailboxFault`; those of reading.
    pub fn create_mailbox(&mut self, new: &NewMailbox) -> Result<MailboxUid, Error> {
        let row = Mailbox {
            name: new.name.clone(),
            parent: new.parent,
            role: new.role,
            sort_order: new.sort_order,
            rights: mailbox::ALL_RIGHTS,
            subscribed: true,
            listings: vec![MaintainedListing::empty(ListingFilter::Every, ModSeq(0))],
            ..Mailbox::default()
        };
        self.mailbox_tree()?.prove(None, &row)?;
        let modseq = self.next_modseq();
        self.state.last_mailbox += 1;
        let uid = MailboxUid(self.state.last_mailbox);
        let row = Mailbox { created: modseq, updated: modseq, updated_not_counts: modseq, ..row };
        self.put::<Mailboxes>(&self.mailbox_key(uid), &row);
        self.mailbox_tree()?.set(uid, &row);
        self.note_inbox(uid, row.role);
        if row.role == Some(Role::Trash) {
            // The account had no Trash, and this one is empty: no thread is counted anew.
            self.state.trash = uid;
        }
        self.touch(DataType::Mailbox);
        Ok(uid)
    }

    /// Applies `change` to the fields that a client may change (`with_changes`); what it does to
    /// other fields is ignored. Returns whether anything changed. The Inbox may lose its role: it
    /// is for the caller to refuse that.
    ///
    /// # Errors
    /// `NotFound` if there is no such mailbox; `Mailbox` if the change is refused; those of
    /// reading.
    pub fn update_mailbox(
        &mut self,
        uid: MailboxUid,
        change: impl FnOnce(&mut Mailbox),
    ) -> Result<bool, Error> {
        let old = self.live_mailbox(uid)?;
        let mut changed = old.clone();
        change(&mut changed);
        let new = with_changes(&old, changed);
        if new == old {
            return Ok(false);
        }
        self.mailbox_tree()?.prove(Some((uid, &old)), &new)?;
        self.prove_shares(Some(&old), &new)?;
        self.write_mailbox(uid, &old, new)?;
        Ok(true)
    }

    /// Changes several mailboxes at once, each to the row beside its uid, as `update_mailbox`
    /// would: all of them or none. Only the result is checked, so two mailboxes may exchange their
    /// names (RFC 8620 §5.3).
    ///
    /// # Errors
    /// As `update_mailbox`, with the mailbox whose change is refused. An error of reading comes
    /// with any of the mailboxes.
    pub fn update_mailboxes(
        &mut self,
        rows: &[(MailboxUid, Mailbox)],
    ) -> Result<(), (MailboxUid, Error)> {
        let mut changes = Vec::with_capacity(rows.len());
        for (uid, row) in rows {
            let old = self.live_mailbox(*uid).map_err(|error| (*uid, error))?;
            let new = with_changes(&old, row.clone());
            changes.push((*uid, old, new));
        }
        let Some((first, ..)) = rows.first() else { return Ok(()) };
        let tree = self.mailbox_tree().map_err(|error| (*first, error))?;
        for (uid, _, new) in &changes {
            tree.set(*uid, new);
        }
        let mut proved = changes.iter().try_for_each(|(uid, old, new)| {
            tree.prove(Some((*uid, old)), new).map_err(|error| (*uid, error))
        });
        // Each is written below, or none.
        for (uid, old, _) in &changes {
            tree.set(*uid, old);
        }
        for (uid, old, new) in &changes {
            proved = proved
                .and_then(|()| self.prove_shares(Some(old), new).map_err(|error| (*uid, error)));
        }
        proved?;
        for (uid, _, new) in changes {
            // An earlier change of the Trash may have recounted this mailbox.
            let old = self.live_mailbox(uid).map_err(|error| (uid, error))?;
            let new = with_changes(&old, new);
            if new != old {
                self.write_mailbox(uid, &old, new).map_err(|error| (uid, error))?;
            }
        }
        Ok(())
    }

    /// Writes the changed row of a mailbox with a new modseq, and what follows if its shares or its
    /// role changed.
    fn write_mailbox(
        &mut self,
        uid: MailboxUid,
        old: &Mailbox,
        mut new: Mailbox,
    ) -> Result<(), Error> {
        self.note_shares(uid, &new.name, &old.shares, &new.shares)?;
        let modseq = self.next_modseq();
        new.updated = modseq;
        new.updated_not_counts = modseq;
        if new.shares != old.shares {
            new.updated_shares = modseq;
            self.touch_shared();
        }
        self.put::<Mailboxes>(&self.mailbox_key(uid), &new);
        self.mailbox_tree()?.set(uid, &new);
        self.touch(DataType::Mailbox);
        if old.role != new.role {
            if self.state.inbox == uid {
                self.state.inbox = MailboxUid(0);
            }
            self.note_inbox(uid, new.role);
            // If two mailboxes exchange the role, `state.trash` may name the other one already,
            // which stays the Trash.
            if new.role == Some(Role::Trash) {
                self.set_trash(uid)?;
            } else if self.state.trash == uid {
                self.set_trash(MailboxUid(0))?;
            }
        }
        Ok(())
    }

    /// Moves the states of emails and threads: a change of shares changes which emails and threads
    /// guests see.
    fn touch_shared(&mut self) {
        self.touch(DataType::Email);
        self.touch(DataType::Thread);
    }

    /// Removes up to `limit` emails from a mailbox, and destroys those that are in no other
    /// mailbox. Returns whether any email may be left.
    ///
    /// # Errors
    /// `NotFound` if there is no such mailbox; those of reading.
    pub fn empty_mailbox(&mut self, uid: MailboxUid, limit: usize) -> Result<bool, Error> {
        self.live_mailbox(uid)?;
        let listing = Listing { uid, filter: ListingFilter::Every, shape: Shape::Emails };
        let mut emails = Vec::new();
        self.keys(&KeyRange::<MailboxEmailIndex>::under(&(self.account, listing)), |key, _| {
            emails.push(key.email);
            Ok(emails.len() < limit)
        })?;
        let left = emails.len() >= limit;
        for id in emails {
            let email = self.live_email(id)?;
            let elsewhere: BTreeSet<MailboxUid> =
                email.mailboxes.iter().copied().filter(|at| *at != uid).collect();
            if elsewhere.is_empty() {
                self.destroy_email(id)?;
            } else {
                self.update_email(id, elsewhere, email.keywords)?;
            }
        }
        Ok(left)
    }

    /// Returns a mailbox that can be destroyed once it is empty. A caller that empties a mailbox to
    /// destroy it asks before each step, so that no other mailbox loses its emails.
    ///
    /// # Errors
    /// `NotFound` if there is no such mailbox; `Mailbox` if it has children, or is the Inbox; those
    /// of reading.
    pub fn destroyable_mailbox(&mut self, uid: MailboxUid) -> Result<Mailbox, Error> {
        let row = self.live_mailbox(uid)?;
        let refuse = |fault| Err(Error::Mailbox { name: row.name.clone(), fault });
        if row.role == Some(Role::Inbox) {
            return refuse(MailboxFault::Inbox);
        }
        if self.mailbox_tree()?.has_children(uid) {
            return refuse(MailboxFault::HasChildren);
        }
        Ok(row)
    }

    /// Destroys an empty mailbox without children. Its row becomes a tombstone.
    ///
    /// # Errors
    /// Those of `destroyable_mailbox`; `Mailbox` if it has emails.
    pub fn destroy_mailbox(&mut self, uid: MailboxUid) -> Result<(), Error> {
        let mut row = self.destroyable_mailbox(uid)?;
        if row.counts.total_emails > 0 {
            return Err(Error::Mailbox { name: row.name, fault: MailboxFault::HasEmails });
        }
        let modseq = self.next_modseq();
        row.listings.clear();
        let shares = std::mem::take(&mut row.shares);
        self.note_shares(uid, &row.name, &shares, &row.shares)?;
        if !shares.is_empty() {
            row.updated_shares = modseq;
            self.touch_shared();
        }
        row.updated = modseq;
        row.updated_not_counts = modseq;
        row.destroyed = true;
        self.put::<Mailboxes>(&self.mailbox_key(uid), &row);
        self.mailbox_tree()?.remove(uid);
        if row.role == Some(Role::Trash) {
            self.set_trash(MailboxUid(0))?;
        }
        self.touch(DataType::Mailbox);
        Ok(())
    }

    /// Returns a mailbox; `NotFound` if it is destroyed or does not exist.
    pub(in crate::store) fn live_mailbox(&self, uid: MailboxUid) -> Result<Mailbox, Error> {
        let found = self.row::<Mailboxes>(&self.mailbox_key(uid))?;
        found.filter(|mailbox| !mailbox.destroyed).ok_or(Error::NotFound("mailbox"))
    }

    /// The names, roles and parents of the mailboxes, as this transaction leaves them. The first
    /// call reads them.
    fn mailbox_tree(&mut self) -> Result<&mut MailboxTree, Error> {
        if self.mailbox_tree.is_none() {
            let rows = self.snapshot().mailboxes(self.account)?;
            self.mailbox_tree = Some(MailboxTree::new(&rows));
        }
        Ok(self.mailbox_tree.get_or_insert_default())
    }

    /// Notes in the account's state that a mailbox is the Inbox. Does nothing for another role: the
    /// callers note the Trash themselves.
    fn note_inbox(&mut self, uid: MailboxUid, role: Option<Role>) {
        if role == Some(Role::Inbox) {
            self.state.inbox = uid;
        }
    }

    /// Makes another mailbox the Trash (uid 0: there is none any more). Recounts each thread that
    /// has an email in the old or the new Trash, and corrects the unread threads of all mailboxes
    /// that such a thread is in. So it reads all emails of these threads.
    fn set_trash(&mut self, uid: MailboxUid) -> Result<(), Error> {
        let old_trash = std::mem::replace(&mut self.state.trash, uid);
        let mut threads: BTreeSet<ThreadId> = BTreeSet::new();
        for at in [old_trash, uid].into_iter().filter(|at| *at != MailboxUid(0)) {
            let listing = Listing { uid: at, filter: ListingFilter::Every, shape: Shape::Threads };
            self.rows(
                &KeyRange::<MailboxEmailIndex>::under(&(self.account, listing)),
                |_, (_, thread)| {
                    threads.insert(thread);
                    Ok(true)
                },
            )?;
        }
        let mut mailboxes: BTreeMap<MailboxUid, Mailbox> = BTreeMap::new();
        for id in threads {
            let thread_key = self.thread_key(id);
            let was = self
                .row::<Threads>(&thread_key)?
                .ok_or_else(|| missing_row::<Threads>(self.account, &thread_key))?;
            let mut now = Thread {
                created: was.created,
                updated: was.updated,
                latest: was.latest,
                ..Thread::default()
            };
            for email in self.snapshot().thread_emails(self.account, id)? {
                let key = self.email_key(email);
                let row = self.email_row(email)?;
                now.count(
                    &row.ok_or_else(|| missing_row::<table::EmailMetadata>(self.account, &key))?,
                    uid,
                    true,
                );
            }
            for at in was.members.keys() {
                let mut mailbox = match mailboxes.remove(at) {
                    Some(mailbox) => mailbox,
                    None => self.live_mailbox(*at)?,
                };
                // Of the four counts of a mailbox, only that of unread threads can change.
                let unread_thread = |is_unread| [false, false, false, is_unread];
                self.move_counts(
                    &mut mailbox,
                    unread_thread(was.unread_in(*at, old_trash)),
                    unread_thread(now.unread_in(*at, uid)),
                );
                mailboxes.insert(*at, mailbox);
            }
            if now != was {
                self.put::<Threads>(&thread_key, &now);
            }
        }
        for (at, mailbox) in mailboxes {
            self.put::<Mailboxes>(&self.mailbox_key(at), &mailbox);
        }
        Ok(())
    }
}

/// Returns `old` with those fields of `changed` that a client may change.
fn with_changes(old: &Mailbox, changed: Mailbox) -> Mailbox {
    Mailbox {
        name: changed.name,
        parent: changed.parent,
        role: changed.role,
        sort_order: changed.sort_order,
        rights: changed.rights,
        subscribed: changed.subscribed,
        attributes: changed.attributes,
        shares: changed.shares,
        ..old.clone()
    }
}
