//! Mailboxes: made, changed, destroyed (RFC 8621 §2.5). Name, place and role are checked here for
//! every caller.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{
    DataType, Listing, ListingFilter, Mailbox, MailboxUid, MaintainedListing, ModSeq, Role, Shape,
    ThreadId, limits, mailbox,
};
use crate::store::engine::typed::{KeyRange, TypedRead as _};
use crate::store::error::{Error, MailboxFault};
use crate::store::listing::write::missing_row;
use crate::store::row::Thread;
use crate::store::table::{self, MailboxEmailIndex, Mailboxes, Threads};
use crate::store::txn::Txn;

/// A mailbox to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewMailbox {
    /// Its name, NFC; no other mailbox under the same parent has it.
    pub name: String,
    /// The mailbox above it.
    pub parent: Option<MailboxUid>,
    /// Its role; no other mailbox has it.
    pub role: Option<Role>,
    /// RFC 8621 §2 sortOrder.
    pub sort_order: u32,
}

impl Txn<'_> {
    /// Makes a mailbox.
    ///
    /// # Errors
    /// `Mailbox` where name or role is taken or the name is empty, too long or holds control
    /// characters, where it would lie too deep, or where there are too many, or its parent is not
    /// there.
    pub fn create_mailbox(&mut self, new: &NewMailbox) -> Result<MailboxUid, Error> {
        let row = Mailbox {
            name: new.name.clone(),
            parent: new.parent,
            role: new.role,
            sort_order: new.sort_order,
            rights: mailbox::ALL_RIGHTS,
            subscribed: true,
            listings: vec![MaintainedListing::standard(ListingFilter::Every, ModSeq(0))],
            ..Mailbox::default()
        };
        self.prove_mailbox(None, &row)?;
        let modseq = self.next_modseq();
        self.state.last_mailbox += 1;
        let uid = MailboxUid(self.state.last_mailbox);
        let row = Mailbox { created: modseq, updated: modseq, updated_not_counts: modseq, ..row };
        self.put::<Mailboxes>(&self.mailbox_key(uid), &row);
        self.note_role(uid, row.role);
        if row.role == Some(Role::Trash) {
            self.state.trash = uid;
        }
        self.touch(DataType::Mailbox);
        Ok(uid)
    }

    /// Changes name, parent, role, sort order, subscription (the owner's), attributes, rights or
    /// shares: what `change` does to the row, of which the rest is kept as it is. Says whether
    /// anything changed.
    ///
    /// # Errors
    /// `NotFound`; `Mailbox` as for `create_mailbox`, and where a mailbox would lie under itself,
    /// or its attributes are too many, too long or malformed, or it cannot be shared so.
    pub fn update_mailbox(
        &mut self,
        uid: MailboxUid,
        change: impl FnOnce(&mut Mailbox),
    ) -> Result<bool, Error> {
        let old = self.live_mailbox(uid)?;
        let mut wish = old.clone();
        change(&mut wish);
        let new = wished(&old, wish);
        if new == old {
            return Ok(false);
        }
        self.prove_mailbox(Some((uid, &old)), &new)?;
        self.prove_shares(Some(&old), &new)?;
        self.write_mailbox(uid, &old, new)?;
        Ok(true)
    }

    /// Changes several mailboxes, each to what stands beside it, where they may be so all together
    /// but not one after another: two that exchange their names (RFC 8620 §5.3). All change, or
    /// none.
    ///
    /// # Errors
    /// As `update_mailbox`, with the mailbox that cannot be so.
    pub fn update_mailboxes(
        &mut self,
        wishes: &[(MailboxUid, Mailbox)],
    ) -> Result<(), (MailboxUid, Error)> {
        let mut changes = Vec::with_capacity(wishes.len());
        for (uid, wish) in wishes {
            let old = self.live_mailbox(*uid).map_err(|error| (*uid, error))?;
            let new = wished(&old, wish.clone());
            changes.push((*uid, old, new));
        }
        let Some((first, ..)) = wishes.first() else { return Ok(()) };
        let known = self.snapshot().mailboxes(self.account).map_err(|error| (*first, error))?;
        let mut all: BTreeMap<MailboxUid, Mailbox> = known.into_iter().collect();
        all.extend(changes.iter().map(|(uid, _, new)| (*uid, new.clone())));
        for (uid, old, new) in &changes {
            let proved = prove_among(Some((*uid, old)), new, &all)
                .and_then(|()| self.prove_shares(Some(old), new));
            proved.map_err(|error| (*uid, error))?;
        }
        for (uid, old, new) in changes {
            if new != old {
                self.write_mailbox(uid, &old, new).map_err(|error| (uid, error))?;
            }
        }
        Ok(())
    }

    /// Writes what was proved.
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
        self.touch(DataType::Mailbox);
        if old.role != new.role {
            if self.state.inbox == uid {
                self.state.inbox = MailboxUid(0);
            }
            self.note_role(uid, new.role);
            // Of two that exchange it the other may be the Trash by now.
            if new.role == Some(Role::Trash) {
                self.set_trash(uid)?;
            } else if self.state.trash == uid {
                self.set_trash(MailboxUid(0))?;
            }
        }
        Ok(())
    }

    /// Which emails and threads there are changed, for some: their states say so to all.
    fn touch_shared(&mut self) {
        self.touch(DataType::Email);
        self.touch(DataType::Thread);
    }

    /// Takes up to `most` emails out of a mailbox; those that are in no other are destroyed. Says
    /// whether any is left.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn empty_mailbox(&mut self, uid: MailboxUid, most: usize) -> Result<bool, Error> {
        self.live_mailbox(uid)?;
        let listing = Listing { uid, filter: ListingFilter::Every, shape: Shape::Emails };
        let mut emails = Vec::new();
        self.keys(&KeyRange::<MailboxEmailIndex>::under(&(self.account, listing)), |key, _| {
            emails.push(key.email);
            Ok(emails.len() < most)
        })?;
        let left = emails.len() >= most;
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

    /// Destroys an empty mailbox. Its history goes later, by steps.
    ///
    /// # Errors
    /// `NotFound`; `Mailbox` where it has emails or children, or is the Inbox.
    pub fn destroy_mailbox(&mut self, uid: MailboxUid) -> Result<(), Error> {
        let mut row = self.live_mailbox(uid)?;
        let stays = |fault| Err(Error::Mailbox { name: row.name.clone(), fault });
        if row.role == Some(Role::Inbox) {
            return stays(MailboxFault::Inbox);
        }
        if self
            .snapshot()
            .mailboxes(self.account)?
            .iter()
            .any(|(_, other)| other.parent == Some(uid))
        {
            return stays(MailboxFault::HasChildren);
        }
        if row.counts.total_emails > 0 {
            return stays(MailboxFault::HasEmails);
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
        row.deleted = true;
        self.put::<Mailboxes>(&self.mailbox_key(uid), &row);
        if row.role == Some(Role::Trash) {
            self.set_trash(MailboxUid(0))?;
        }
        self.touch(DataType::Mailbox);
        Ok(())
    }

    pub(in crate::store) fn live_mailbox(&self, uid: MailboxUid) -> Result<Mailbox, Error> {
        let found = self.row::<Mailboxes>(&self.mailbox_key(uid))?;
        found.filter(|mailbox| !mailbox.deleted).ok_or(Error::NotFound("mailbox"))
    }

    /// Whether a mailbox may be so.
    fn prove_mailbox(
        &self,
        old: Option<(MailboxUid, &Mailbox)>,
        row: &Mailbox,
    ) -> Result<(), Error> {
        prove_among(old, row, &self.snapshot().mailboxes(self.account)?.into_iter().collect())
    }

    fn note_role(&mut self, uid: MailboxUid, role: Option<Role>) {
        if role == Some(Role::Inbox) {
            self.state.inbox = uid;
        }
    }

    /// Another mailbox is the Trash now: of the threads with emails in the old or the new one, what
    /// counts as unread may change, and in which mailboxes. The one change whose cost is that of a
    /// mailbox.
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
        let mut boxes: BTreeMap<MailboxUid, Mailbox> = BTreeMap::new();
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
                let mut mailbox = match boxes.remove(at) {
                    Some(known) => known,
                    None => self.live_mailbox(*at)?,
                };
                let unread = |unread| [false, false, false, unread];
                self.move_counts(
                    &mut mailbox,
                    unread(was.unread_in(*at, old_trash)),
                    unread(now.unread_in(*at, uid)),
                );
                boxes.insert(*at, mailbox);
            }
            if now != was {
                self.put::<Threads>(&thread_key, &now);
            }
        }
        for (at, mailbox) in boxes {
            self.put::<Mailboxes>(&self.mailbox_key(at), &mailbox);
        }
        Ok(())
    }
}

/// A mailbox with what may be changed of it.
fn wished(old: &Mailbox, wish: Mailbox) -> Mailbox {
    Mailbox {
        name: wish.name,
        parent: wish.parent,
        role: wish.role,
        sort_order: wish.sort_order,
        rights: wish.rights,
        subscribed: wish.subscribed,
        attributes: wish.attributes,
        shares: wish.shares,
        ..old.clone()
    }
}

/// Whether a mailbox may be so among all mailboxes of its account; `old` is what it was.
fn prove_among(
    old: Option<(MailboxUid, &Mailbox)>,
    row: &Mailbox,
    all: &BTreeMap<MailboxUid, Mailbox>,
) -> Result<(), Error> {
    let uid = old.map(|(uid, _)| uid);
    let faulty = |fault| Err(Error::Mailbox { name: row.name.clone(), fault });
    if row.name.is_empty()
        || row.name.len() > limits::MAX_MAILBOX_NAME_BYTES
        || row.name.chars().any(char::is_control)
    {
        return faulty(MailboxFault::Name);
    }
    if let Err(wanted) = mailbox::check_attributes(&row.attributes) {
        return faulty(MailboxFault::Attribute(wanted));
    }
    if uid.is_none() && all.len() >= limits::MAX_MAILBOXES {
        return faulty(MailboxFault::TooMany);
    }
    for (other, known) in all.iter().filter(|(other, _)| Some(**other) != uid) {
        if known.parent == row.parent && known.name == row.name {
            return faulty(MailboxFault::NameTaken(*other));
        }
        if row.role.is_some() && known.role == row.role {
            return faulty(MailboxFault::RoleTaken(*other));
        }
    }
    let (mut above, mut depth) = (row.parent, 1);
    while let Some(parent) = above {
        if Some(parent) == uid {
            return faulty(MailboxFault::UnderItself);
        }
        if depth >= limits::MAX_MAILBOX_DEPTH {
            return faulty(MailboxFault::TooDeep);
        }
        let Some(known) = all.get(&parent) else { return faulty(MailboxFault::NoParent) };
        above = known.parent;
        depth += 1;
    }
    // What is under it moves with it.
    let moves = old.filter(|(_, old)| old.parent != row.parent);
    if moves.is_some_and(|(uid, _)| depth + height(uid, all) > limits::MAX_MAILBOX_DEPTH) {
        return faulty(MailboxFault::TooDeep);
    }
    Ok(())
}

/// How many mailboxes lie under one another below this one, no more than may.
fn height(uid: MailboxUid, all: &BTreeMap<MailboxUid, Mailbox>) -> usize {
    let below = |mailbox: &Mailbox| {
        let up = std::iter::successors(mailbox.parent, |at| all.get(at)?.parent);
        up.take(limits::MAX_MAILBOX_DEPTH).position(|at| at == uid).map(|steps| steps + 1)
    };
    all.values().filter_map(below).max().unwrap_or_default()
}
