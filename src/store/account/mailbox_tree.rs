//! The names, roles and parents of an account's mailboxes, in the memory of one transaction, so
//! that a call that changes many mailboxes does not read all of them for each change.

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

    /// How many levels of mailboxes are below this one, `limits::MAX_MAILBOX_DEPTH` at most. In a
    /// damaged store a mailbox may be its own ancestor, and is not counted among those below
    /// itself.
    fn height(&self, uid: MailboxUid) -> usize {
        let mut level = vec![uid];
        for height in 0..limits::MAX_MAILBOX_DEPTH {
            let children = level.iter().flat_map(|parent| self.children(*parent));
            level = children.filter(|child| *child != uid).collect();
            if level.is_empty() {
                return height;
            }
        }
        limits::MAX_MAILBOX_DEPTH
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn mailbox(parent: Option<MailboxUid>, name: u8, role: Option<Role>) -> Mailbox {
        Mailbox { name: format!("n{name}"), parent, role, ..Mailbox::default() }
    }

    /// A mailbox of a possibly damaged account: names and roles may be used twice, and mailboxes
    /// may be below each other in a circle.
    fn any_mailbox() -> impl Strategy<Value = Mailbox> {
        let parent = prop::option::weighted(0.8, (1_u32..8).prop_map(MailboxUid));
        let role = prop::option::weighted(0.2, prop::sample::select(vec![Role::Junk, Role::Trash]));
        (parent, 0_u8..3, role).prop_map(|(parent, name, role)| mailbox(parent, name, role))
    }

    /// Checks as `MailboxTree::prove` does, with a walk over all mailboxes.
    fn prove_by_walks(
        all: &BTreeMap<MailboxUid, Mailbox>,
        old: Option<(MailboxUid, &Mailbox)>,
        row: &Mailbox,
    ) -> Option<MailboxFault> {
        let uid = old.map(|(uid, _)| uid);
        let mut others = all.iter().filter(|(other, _)| Some(**other) != uid);
        let is_namesake = |other: &Mailbox| other.parent == row.parent && other.name == row.name;
        if let Some((other, _)) = others.clone().find(|(_, other)| is_namesake(other)) {
            return Some(MailboxFault::NameTaken(*other));
        }
        if let Some((other, _)) =
            others.find(|(_, other)| row.role.is_some() && other.role == row.role)
        {
            return Some(MailboxFault::RoleTaken(*other));
        }
        let parent = |at: &MailboxUid| all.get(at).and_then(|row| row.parent);
        let mut above = Vec::new();
        let mut at = row.parent;
        while let Some(uid) = at {
            above.push(uid);
            if above.len() > limits::MAX_MAILBOX_DEPTH {
                break;
            }
            at = parent(&uid);
        }
        for (index, at) in above.iter().enumerate() {
            if Some(*at) == uid {
                return Some(MailboxFault::UnderItself);
            }
            if index + 1 >= limits::MAX_MAILBOX_DEPTH {
                return Some(MailboxFault::TooDeep);
            }
            if !all.contains_key(at) {
                return Some(MailboxFault::NoParent);
            }
        }
        let (uid, old) = old?;
        let below = |at: &MailboxUid| {
            let up = std::iter::successors(parent(at), |at| parent(at));
            up.take(limits::MAX_MAILBOX_DEPTH).position(|at| at == uid).map_or(0, |steps| steps + 1)
        };
        let height = all.keys().filter(|at| **at != uid).map(below).max().unwrap_or_default();
        let is_too_deep = above.len() + 1 + height > limits::MAX_MAILBOX_DEPTH;
        (old.parent != row.parent && is_too_deep).then_some(MailboxFault::TooDeep)
    }

    proptest! {
        #[test]
        fn change_is_refused_for_the_reason_that_a_walk_over_all_mailboxes_finds(
            rows in prop::collection::vec((1_u32..8, any_mailbox()), 0..20),
            removed in prop::collection::vec(1_u32..8, 0..3),
            uid in 0_u32..8,
            new in any_mailbox(),
        ) {
            let (mut tree, mut all) = (MailboxTree::default(), BTreeMap::new());
            for (uid, row) in rows {
                tree.set(MailboxUid(uid), &row);
                all.insert(MailboxUid(uid), row);
            }
            for uid in removed {
                tree.remove(MailboxUid(uid));
                all.remove(&MailboxUid(uid));
            }
            let old = all.get(&MailboxUid(uid)).map(|row| (MailboxUid(uid), row));
            let fault = match tree.prove(old, &new) {
                Ok(()) => None,
                Err(Error::Mailbox { fault, .. }) => Some(fault),
                Err(other) => panic!("{other}"),
            };
            prop_assert_eq!(fault, prove_by_walks(&all, old, &new));
            let is_parent = |at: &MailboxUid| all.values().any(|row| row.parent == Some(*at));
            let wrong = all.keys().find(|at| tree.has_children(**at) != is_parent(at));
            prop_assert_eq!(wrong, None);
        }
    }

    #[test]
    fn mailbox_that_moves_with_its_children_stays_within_the_greatest_depth() {
        let mut tree = MailboxTree::default();
        let depth = u32::try_from(limits::MAX_MAILBOX_DEPTH).unwrap();
        // Two chains: one of nearly the greatest depth, and one of two mailboxes.
        for at in 1..depth {
            let parent = (at > 1).then(|| MailboxUid(at - 1));
            tree.set(MailboxUid(at), &mailbox(parent, 0, None));
        }
        let top = mailbox(None, 1, None);
        tree.set(MailboxUid(90), &top);
        tree.set(MailboxUid(91), &mailbox(Some(MailboxUid(90)), 1, None));
        let moved = |below: u32| {
            let row = mailbox(Some(MailboxUid(below)), 1, None);
            tree.prove(Some((MailboxUid(90), &top)), &row).is_ok()
        };
        assert_eq!((moved(depth - 2), moved(depth - 1)), (true, false));
    }
}
