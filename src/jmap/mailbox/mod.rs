//! Mailbox (RFC 8621 §2).

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
    /// Those that change with every email.
    const COUNTS: [Self; 4] =
        [Self::TotalEmails, Self::UnreadEmails, Self::TotalThreads, Self::UnreadThreads];

    /// The properties that a request may ask for: what belongs to a capability, only where it is
    /// used (RFC 9670 §4). Attributes are what the owner chose for a mailbox, such as its color; a
    /// guest has none.
    fn known(call: &Call<'_>) -> Vec<Self> {
        let is_known = |property: &Self| match property {
            Self::ShareWith => call.uses(PRINCIPALS),
            Self::Attributes => call.uses(ADMIN),
            _ => true,
        };
        Self::ALL.iter().copied().filter(is_known).collect()
    }
}

/// The mailboxes of an account as the caller sees them.
pub(super) struct VisibleMailboxes(BTreeMap<MailboxUid, Mailbox>);

impl VisibleMailboxes {
    fn of(snapshot: &Snapshot<'_>, account: &Account) -> Result<Self, MethodError> {
        Ok(Self::read(snapshot, account)?)
    }

    fn read(snapshot: &Snapshot<'_>, account: &Account) -> Result<Self, Error> {
        let all: BTreeMap<MailboxUid, Mailbox> =
            snapshot.mailboxes(account.id)?.into_iter().collect();
        let Some(guest) = account.guest else { return Ok(Self(all)) };
        Ok(Self(opened(all, account.id, guest, &snapshot.subscribed_mailboxes(account.id, guest)?)))
    }

    /// Counts the unread threads for a guest, for whom `read` leaves them 0: a thread may be unread
    /// by an email that the guest does not see. This reads emails, so it is done only for an answer
    /// that tells the number, and never while the account is locked, and its rows are counted.
    /// Gives what the count says of the views that it read.
    ///
    /// # Errors
    /// `requestTooLarge` where the request walked over too many emails, and those of reading.
    fn count_unread(
        &mut self,
        snapshot: &Snapshot<'_>,
        account: &Account,
        budget: &Budget,
    ) -> Result<UnreadThreads, MethodError> {
        if account.guest.is_none() {
            return Ok(UnreadThreads::default());
        }
        let open = |(uid, row): (&MailboxUid, &Mailbox)| {
            (row.rights & Right::ReadItems.bit() != 0).then_some(*uid)
        };
        let scope: Scope = self.0.iter().filter_map(open).collect();
        budget.begin_walk()?;
        let unread = scope.unread_threads(snapshot, account.id, &budget.search_allowance())?;
        for (uid, count) in &unread.counts {
            if let Some(row) = self.0.get_mut(uid) {
                row.counts.unread_threads = *count;
            }
        }
        Ok(unread)
    }

    /// Whether since a state nothing of these mailboxes changed for the caller but their counts.
    /// How the tree was that a guest saw is not kept: it was this one if nothing of it changed and
    /// the same was open. For the owner it always is.
    fn is_same_since(
        &self,
        snapshot: &Snapshot<'_>,
        account: &Account,
        since: ModSeq,
    ) -> Result<bool, Error> {
        let is_same =
            account.guest.is_none() || self.0.values().all(|row| row.updated_not_counts <= since);
        Ok(is_same && same_access_since(snapshot, account, since)?)
    }

    /// One mailbox as the caller sees it; the unread threads of a guest are not counted.
    fn one(
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

    fn get(&self, id: &str) -> Option<(MailboxUid, &Mailbox)> {
        let uid = id.parse().ok()?;
        Some((uid, self.0.get(&uid)?))
    }

    /// The mailboxes above one, the nearest first. Bounded even where rows were damaged into a
    /// circle.
    fn above<'s>(
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

/// The mailboxes that a guest may know of, with the guest's rights and subscriptions: those in
/// which the guest has any right, and their ancestors, of which the guest learns the name alone.
/// The tree is thus the same for everybody.
fn opened(
    all: BTreeMap<MailboxUid, Mailbox>,
    owner: AccountId,
    guest: AccountId,
    subscribed: &BTreeSet<MailboxUid>,
) -> BTreeMap<MailboxUid, Mailbox> {
    let mut shown = BTreeSet::new();
    for (uid, _) in all.iter().filter(|(_, row)| row.rights_of(owner, guest) != 0) {
        let mut at = Some(*uid);
        while let Some(uid) = at.filter(|uid| shown.insert(*uid)) {
            at = all.get(&uid).and_then(|row| row.parent);
        }
    }
    let seen = |(uid, row): (MailboxUid, Mailbox)| {
        let rights = row.rights_of(owner, guest);
        // The account's unread threads count emails out of sight: `VisibleMailboxes::count_unread`
        // counts those in sight.
        let known = MailboxCounts { unread_threads: 0, ..row.counts };
        let counts =
            if rights & Right::ReadItems.bit() == 0 { MailboxCounts::default() } else { known };
        let role = row.role.filter(|_| rights != 0);
        let subscribed = subscribed.contains(&uid);
        let (shares, attributes) = (BTreeMap::new(), BTreeMap::new());
        (uid, Mailbox { rights, role, counts, subscribed, shares, attributes, ..row })
    };
    all.into_iter().filter(|(uid, _)| shown.contains(uid)).map(seen).collect()
}

/// These properties of a mailbox.
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
        MailboxProperty::MyRights => rights_object(mine(mailbox)).into(),
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

/// What the caller may do with one: nobody destroys the inbox.
fn mine(mailbox: &Mailbox) -> u16 {
    if mailbox.role == Some(Role::Inbox) {
        mailbox.rights & !Right::Delete.bit()
    } else {
        mailbox.rights
    }
}

#[cfg(test)]
mod tests;
