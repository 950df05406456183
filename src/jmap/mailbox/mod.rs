//! Mailbox (RFC 8621 §2).

mod get;
mod query;
mod set;
mod sharing;

pub(super) use get::{changes, get};
pub(super) use query::{query, query_changes};
pub(super) use set::set;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::context::{Account, fail};
use crate::model::mailbox::Right;
use crate::model::{AccountId, Counts, Mailbox, MailboxUid, Role};
use crate::store::{Error, View};
use crate::wire::jmap::MethodError;
use crate::wire::jmap::json::{members, or_null};

/// The properties. The last is there for those alone who use `PRINCIPALS` (RFC 9670 §4).
const PROPERTIES: [&str; 12] = [
    "id",
    "name",
    "parentId",
    "role",
    "sortOrder",
    "totalEmails",
    "unreadEmails",
    "totalThreads",
    "unreadThreads",
    "myRights",
    "isSubscribed",
    SHARE_WITH,
];
const SHARE_WITH: &str = "shareWith";
/// Those that change with every email.
const COUNTS: [&str; 4] = ["totalEmails", "unreadEmails", "totalThreads", "unreadThreads"];

/// The mailboxes of an account as the caller sees them.
struct Seen(BTreeMap<MailboxUid, Mailbox>);

impl Seen {
    fn of(view: &View<'_>, account: &Account) -> Result<Self, MethodError> {
        Self::read(view, account).map_err(|error| fail(&error))
    }

    fn read(view: &View<'_>, account: &Account) -> Result<Self, Error> {
        let all: BTreeMap<MailboxUid, Mailbox> = view.mailboxes(account.id)?.into_iter().collect();
        match account.guest {
            None => Ok(Self(all)),
            Some(guest) => Ok(Self(opened(all, account.id, guest, &view.subscribed(account.id, guest)?))),
        }
    }

    /// One mailbox as the caller sees it.
    fn one(view: &View<'_>, account: &Account, uid: MailboxUid) -> Result<Option<Mailbox>, Error> {
        match account.guest {
            None => view.mailbox(account.id, uid),
            Some(_) => Ok(Self::read(view, account)?.0.remove(&uid)),
        }
    }

    fn get(&self, id: &str) -> Option<(MailboxUid, &Mailbox)> {
        let uid = id.parse().ok()?;
        Some((uid, self.0.get(&uid)?))
    }

    /// The mailboxes above one, the nearest first. Bounded even where rows were damaged into a circle.
    fn above<'s>(&'s self, mailbox: &'s Mailbox) -> impl Iterator<Item = (MailboxUid, &'s Mailbox)> {
        let first = mailbox.parent.and_then(|uid| Some((uid, self.0.get(&uid)?)));
        let next =
            |(_, mailbox): &(MailboxUid, &'s Mailbox)| mailbox.parent.and_then(|uid| Some((uid, self.0.get(&uid)?)));
        std::iter::successors(first, next).take(self.0.len())
    }
}

/// The mailboxes that a guest knows of, with his rights and subscriptions: those in which he has any right, and those above
/// them, of which he learns the name and nothing else, so that the tree is what it is for everybody.
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
        let counts = if rights & Right::ReadItems.bit() == 0 { Counts::default() } else { row.counts };
        let role = row.role.filter(|_| rights != 0);
        let subscribed = subscribed.contains(&uid);
        (uid, Mailbox { rights, role, counts, subscribed, shares: BTreeMap::new(), ..row })
    };
    all.into_iter().filter(|(uid, _)| shown.contains(uid)).map(seen).collect()
}

/// All properties of one.
fn object(uid: MailboxUid, mailbox: &Mailbox) -> Map<String, Value> {
    let counts = mailbox.counts;
    let shares: Map<String, Value> =
        mailbox.shares.iter().map(|(with, bits)| (with.to_string(), rights(*bits).into())).collect();
    members(json!({
        "id": uid.to_string(), "name": mailbox.name, "parentId": mailbox.parent.map(|uid| uid.to_string()),
        "role": mailbox.role.map(Role::name), "sortOrder": mailbox.sort_order,
        "totalEmails": counts.total_emails, "unreadEmails": counts.unread_emails,
        "totalThreads": counts.total_threads, "unreadThreads": counts.unread_threads,
        "myRights": rights(mine(mailbox)), "isSubscribed": mailbox.subscribed, SHARE_WITH: or_null(shares),
    }))
}

/// What the caller may do with one: nobody destroys the inbox.
fn mine(mailbox: &Mailbox) -> u16 {
    if mailbox.role == Some(Role::Inbox) { mailbox.rights & !Right::Delete.bit() } else { mailbox.rights }
}

/// `MailboxRights` (RFC 8621 §2).
pub(in crate::jmap) fn rights(bits: u16) -> Map<String, Value> {
    Right::all().map(|right| (right.name().to_owned(), (bits & right.bit() != 0).into())).collect()
}

#[cfg(test)]
mod tests;
