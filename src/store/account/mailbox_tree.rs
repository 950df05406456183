//! The names, roles and parents of an account's mailboxes, in the memory of one transaction, so that
//! a call that changes many mailboxes does not read all of them for each change.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{Mailbox, MailboxUid, Role, limits, mailbox};
use crate::store::error::{Error, MailboxFault};

/// The live mailboxes of an account. In a damaged store several may have the same name or role.
#[derive(Debug, Clone, Default)]
pub(in crate::store) struct MailboxTree {
    mailboxes: BTreeMap<MailboxUid, Place>,
    names: BTreeSet<(Option<MailboxUid>, String, MailboxUid)>,
    roles: BTreeSet<(Role, MailboxUid)>,
}

#[derive(Debug, Clone)]
struct Place {
    parent: Option<MailboxUid>,
    name: String,
    role: Option<Role>,
}

impl MailboxTree {
    pub(in crate::store) fn new(rows: &[(MailboxUid, Mailbox)]) -> Self {
        let mut tree = Self::default();
        for (uid, row) in rows {
            tree.set(*uid, row);
        }
        tree
    }

    /// Adds a mailbox, or gives it another name, parent and role.
    pub(in crate::store) fn set(&mut self, uid: MailboxUid, row: &Mailbox) {
        self.remove(uid);
        self.names.insert((row.parent, row.name.clone(), uid));
        self.roles.extend(row.role.map(|role| (role, uid)));
        let place = Place { parent: row.parent, name: row.name.clone(), role: row.role };
        self.mailboxes.insert(uid, place);
    }

    pub(in crate::store) fn remove(&mut self, uid: MailboxUid) {
        let Some(place) = self.mailboxes.remove(&uid) else { return };
        self.names.remove(&(place.parent, place.name, uid));
        if let Some(role) = place.role {
            self.roles.remove(&(role, uid));
        }
    }

    pub(in crate::store) fn has_children(&self, uid: MailboxUid) -> bool {
        self.children(uid).next().is_some()
    }

    fn children(&self, uid: MailboxUid) -> impl Iterator<Item = MailboxUid> {
        let first = (Some(uid), String::new(), MailboxUid(0));
        let children =
            self.names.range(first..).take_while(move |(parent, ..)| *parent == Some(uid));
        children.map(|(.., child)| *child)
    }

    /// Checks the row that a mailbox is to get by the rules of `MailboxFault`, except those for
    /// shares, for destroying a mailbox and for the role of the Inbox. `old` is the mailbox's uid
    /// and its stored row; `None` for a new mailbox. The tree may have the old or the new row.
    ///
    /// # Errors
    /// `Mailbox` with the first rule that is broken.
    pub(in crate::store) fn prove(
        &self,
        old: Option<(MailboxUid, &Mailbox)>,
        row: &Mailbox,
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
        if uid.is_none() && self.mailboxes.len() >= limits::MAX_MAILBOXES {
            return faulty(MailboxFault::TooMany);
        }
        if let Some(other) = self.other_with_name(uid, row) {
            return faulty(MailboxFault::NameTaken(other));
        }
        if let Some(other) = row.role.and_then(|role| self.other_with_role(uid, role)) {
            return faulty(MailboxFault::RoleTaken(other));
        }
        let (mut above, mut depth) = (row.parent, 1);
        while let Some(parent) = above {
            if Some(parent) == uid {
                return faulty(MailboxFault::UnderItself);
            }
            if depth >= limits::MAX_MAILBOX_DEPTH {
                return faulty(MailboxFault::TooDeep);
            }
            let Some(place) = self.mailboxes.get(&parent) else {
                return faulty(MailboxFault::NoParent);
            };
            above = place.parent;
            depth += 1;
        }
        // The children of a mailbox move with it.
        let moves = old.filter(|(_, old)| old.parent != row.parent);
        if moves.is_some_and(|(uid, _)| depth + self.height(uid) > limits::MAX_MAILBOX_DEPTH) {
            return faulty(MailboxFault::TooDeep);
        }
        Ok(())
    }

    /// Returns another mailbox with the parent and the name of `row`.
    fn other_with_name(&self, uid: Option<MailboxUid>, row: &Mailbox) -> Option<MailboxUid> {
        let first = (row.parent, row.name.clone(), MailboxUid(0));
        let same = self
            .names
            .range(first..)
            .take_while(|(parent, name, _)| *parent == row.parent && *name == row.name);
        same.map(|(.., other)| *other).find(|other| Some(*other) != uid)
    }

    fn other_with_role(&self, uid: Option<MailboxUid>, role: Role) -> Option<MailboxUid> {
        let same = self.roles.range((role, MailboxUid(0))..).take_while(|(own, _)| *own == role);
        same.map(|(_, other)| *other).find(|other| Some(*other) != uid)
    }

    /// How many levels of mailboxes are below this one, `limits::MAX_MAILBOX_DEPTH` at most. (More
    /// are only in a damaged store, where mailboxes may be their own ancestors.)
    fn height(&self, uid: MailboxUid) -> usize {
        let mut level = vec![uid];
        for height in 0..limits::MAX_MAILBOX_DEPTH {
            level = level.iter().flat_map(|parent| self.children(*parent)).collect();
            if level.is_empty() {
                return height;
            }
        }
        limits::MAX_MAILBOX_DEPTH
    }
}
