//! The methods of Mailbox (RFC 8621 §2), and the mailboxes of an account as the caller sees them.
//!
//! - A guest sees the mailboxes in which the guest has any right, and the names of their ancestors.
//! - A guest gets the guest's own rights and subscriptions, and the unread threads among the emails
//!   that the guest may read.

mod get;
mod query;
mod set;
mod sharing;

pub(super) use set::MailboxSet;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::budget::Budget;
use super::context::Account;
use super::method::Call;
use super::rights::{rights_object, same_access_since};
use super::standard::object_of;
use crate::model::mailbox::Right;
use crate::model::{AccountId, Mailbox, MailboxCounts, MailboxUid, ModSeq, Role};
use crate::query::{Scope, UnreadThreads};
use crate::store::{Error, Snapshot};
use crate::wire::jmap::json::or_null;
use crate::wire::jmap::{ADMIN, JsonObject, MethodError, PRINCIPALS, properties};

properties! {
    pub(super) enum MailboxProperty {
        Id = "id",
        Name = "name",
        ParentId = "parentId",
        Role = "role",
        SortOrder = "sortOrder",
        TotalEmails = "totalEmails",
        UnreadEmails = "unreadEmails",
        TotalThreads = "totalThreads",
        UnreadThreads = "unreadThreads",
        MyRights = "myRights",
        IsSubscribed = "isSubscribed",
        ShareWith = "shareWith",
        Attributes = "attributes",
    }
}

impl MailboxProperty {
    const COUNTS: [Self; 4] =
        [Self::TotalEmails, Self::UnreadEmails, Self::TotalThreads, Self::UnreadThreads];

    /// The properties that a request may ask for. Those of a capability require that the request
    /// uses it (RFC 9670 §4).
    fn available(call: &Call<'_>) -> Vec<Self> {
        let is_available = |property: &Self| match property {
            Self::ShareWith => call.uses(PRINCIPALS),
            Self::Attributes => call.uses(ADMIN),
            _ => true,
        };
        Self::ALL.iter().copied().filter(is_available).collect()
    }
}

/// The mailboxes of an account that the caller sees. The rows of a guest are those that
/// [`visible_to_guest`] returns.
pub(super) struct VisibleMailboxes(BTreeMap<MailboxUid, Mailbox>);

impl VisibleMailboxes {
    /// Reads all mailboxes that the caller sees. For a guest, the unread threads are 0
    /// (`count_unread_threads`).
    fn read(snapshot: &Snapshot<'_>, account: &Account) -> Result<Self, Error> {
        let all: BTreeMap<MailboxUid, Mailbox> =
            snapshot.mailboxes(account.id)?.into_iter().collect();
        let Some(guest) = account.guest else { return Ok(Self(all)) };
        let subscribed = snapshot.subscribed_mailboxes(account.id, guest)?;
        Ok(Self(visible_to_guest(all, account.id, guest, &subscribed)))
    }

    /// Counts the unread threads for a guest, for whom `read` leaves them 0. Does nothing for the
    /// owner.
    ///
    /// This reads emails, so it must not run while the account is locked. The rows that it reads
    /// are charged to the request. The result also says which listings the count used or would have
    /// used, for `UnreadThreads::listing_requests`.
    ///
    /// # Errors
    /// `requestTooLarge` if the request has walked over too many emails; errors of the store.
    fn count_unread_threads(
        &mut self,
        snapshot: &Snapshot<'_>,
        account: &Account,
        budget: &Budget,
    ) -> Result<UnreadThreads, MethodError> {
        if account.guest.is_none() {
            return Ok(UnreadThreads::default());
        }
        let readable = |(uid, row): (&MailboxUid, &Mailbox)| {
            (row.rights & Right::ReadItems.bit() != 0).then_some(*uid)
        };
        let scope: Scope = self.0.iter().filter_map(readable).collect();
        budget.begin_walk()?;
        let unread = scope.unread_threads(snapshot, account.id, &budget.search_allowance())?;
        for (uid, count) in &unread.counts {
            if let Some(row) = self.0.get_mut(uid) {
                row.counts.unread_threads = *count;
            }
        }
        Ok(unread)
    }

    /// For a guest: whether no share of the account changed since a state, and the mailboxes that
    /// the guest sees changed in nothing but their counts. Only then /changes can be answered,
    /// because the store has no history of the tree of a guest. Always true for the owner.
    fn is_tree_unchanged_since(
        &self,
        snapshot: &Snapshot<'_>,
        account: &Account,
        since: ModSeq,
    ) -> Result<bool, Error> {
        let is_unchanged =
            account.guest.is_none() || self.0.values().all(|row| row.updated_not_counts <= since);
        Ok(is_unchanged && same_access_since(snapshot, account, since)?)
    }

    /// Reads one mailbox as the caller sees it, but without the unread threads for a guest.
    fn read_one(
        snapshot: &Snapshot<'_>,
        account: &Account,
        uid: MailboxUid,
    ) -> Result<Option<Mailbox>, Error> {
        match account.guest {
            None => snapshot.mailbox(account.id, uid),
            Some(_) if snapshot.mailbox(account.id, uid)?.is_none() => Ok(None),
            Some(_) => Ok(Self::read(snapshot, account)?.0.remove(&uid)),
        }
    }

    /// Finds a mailbox by the text of its id.
    fn get(&self, id: &str) -> Option<(MailboxUid, &Mailbox)> {
        let uid = id.parse().ok()?;
        Some((uid, self.0.get(&uid)?))
    }

    /// The ancestors of a mailbox, the nearest first. Ends even if damaged rows form a cycle.
    fn ancestors<'s>(
        &'s self,
        mailbox: &'s Mailbox,
    ) -> impl Iterator<Item = (MailboxUid, &'s Mailbox)> {
        let first = mailbox.parent.and_then(|uid| Some((uid, self.0.get(&uid)?)));
        let next = |(_, mailbox): &(MailboxUid, &'s Mailbox)| {
            mailbox.parent.and_then(|uid| Some((uid, self.0.get(&uid)?)))
        };
        std::iter::successors(first, next).take(self.0.len())
    }
}

/// Returns the mailboxes in which a guest has any right, and their ancestors, with the rights and
/// subscriptions of the guest. An ancestor without rights has no role, and a mailbox that the guest
/// may not read has no counts. None has unread threads, shares or attributes.
fn visible_to_guest(
    all: BTreeMap<MailboxUid, Mailbox>,
    owner: AccountId,
    guest: AccountId,
    subscribed: &BTreeSet<MailboxUid>,
) -> BTreeMap<MailboxUid, Mailbox> {
    let mut visible = BTreeSet::new();
    for (uid, _) in all.iter().filter(|(_, row)| row.rights_of(owner, guest) != 0) {
        let mut next = Some(*uid);
        while let Some(uid) = next.filter(|uid| visible.insert(*uid)) {
            next = all.get(&uid).and_then(|row| row.parent);
        }
    }
    let as_guest = |(uid, row): (MailboxUid, Mailbox)| {
        let rights = row.rights_of(owner, guest);
        // `VisibleMailboxes::count_unread_threads` counts the unread threads.
        let counts = if rights & Right::ReadItems.bit() == 0 {
            MailboxCounts::default()
        } else {
            MailboxCounts { unread_threads: 0, ..row.counts }
        };
        let role = row.role.filter(|_| rights != 0);
        let subscribed = subscribed.contains(&uid);
        let (shares, attributes) = (BTreeMap::new(), BTreeMap::new());
        (uid, Mailbox { rights, role, counts, subscribed, shares, attributes, ..row })
    };
    all.into_iter().filter(|(uid, _)| visible.contains(uid)).map(as_guest).collect()
}

fn object(uid: MailboxUid, mailbox: &Mailbox, properties: &[MailboxProperty]) -> JsonObject {
    object_of(properties, |property| value(uid, mailbox, *property))
}

fn value(uid: MailboxUid, mailbox: &Mailbox, property: MailboxProperty) -> Value {
    let counts = &mailbox.counts;
    match property {
        MailboxProperty::Id => uid.to_string().into(),
        MailboxProperty::Name => mailbox.name.clone().into(),
        MailboxProperty::ParentId => mailbox.parent.map(|uid| uid.to_string()).into(),
        MailboxProperty::Role => mailbox.role.map(Role::name).into(),
        MailboxProperty::SortOrder => mailbox.sort_order.into(),
        MailboxProperty::TotalEmails => counts.total_emails.into(),
        MailboxProperty::UnreadEmails => counts.unread_emails.into(),
        MailboxProperty::TotalThreads => counts.total_threads.into(),
        MailboxProperty::UnreadThreads => counts.unread_threads.into(),
        MailboxProperty::MyRights => rights_object(caller_rights(mailbox)).into(),
        MailboxProperty::IsSubscribed => mailbox.subscribed.into(),
        MailboxProperty::ShareWith => {
            let shares = mailbox.shares.iter();
            or_null(
                shares
                    .map(|(with, bits)| (with.to_string(), rights_object(*bits).into()))
                    .collect(),
            )
        }
        MailboxProperty::Attributes => {
            mailbox.attributes.iter().map(|(name, text)| (name.clone(), text.clone())).collect()
        }
    }
}

/// Returns the rights of the caller in a mailbox, as bits of [`Right`]. Nobody may destroy the
/// inbox.
fn caller_rights(mailbox: &Mailbox) -> u16 {
    if mailbox.role == Some(Role::Inbox) {
        mailbox.rights & !Right::Delete.bit()
    } else {
        mailbox.rights
    }
}

#[cfg(test)]
mod tests;
