//! Mailbox (RFC 8621 §2).

mod get;
mod query;
mod set;

pub(super) use get::{changes, get};
pub(super) use query::{query, query_changes};
pub(super) use set::set;

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::context::{Account, fail};
use crate::model::{Mailbox, MailboxUid, Role};
use crate::store::View;
use crate::wire::jmap::MethodError;
use crate::wire::jmap::json::members;

/// The names of the rights (RFC 8621 §2 `MailboxRights`), in the order of their bits.
const RIGHTS: [&str; 9] = [
    "mayReadItems",
    "mayAddItems",
    "mayRemoveItems",
    "maySetSeen",
    "maySetKeywords",
    "mayCreateChild",
    "mayRename",
    "mayDelete",
    "maySubmit",
];
/// The bit of mayDelete.
const MAY_DELETE: u16 = 1 << 7;

/// The properties.
const PROPERTIES: [&str; 11] = [
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
];
/// Those that change with every email.
const COUNTS: [&str; 4] = ["totalEmails", "unreadEmails", "totalThreads", "unreadThreads"];

/// The mailboxes of an account as the caller sees them.
struct Seen(BTreeMap<MailboxUid, Mailbox>);

impl Seen {
    fn of(view: &View<'_>, account: &Account) -> Result<Self, MethodError> {
        let all = view.mailboxes(account.id).map_err(|error| fail(&error))?;
        Ok(Self(all.into_iter().collect()))
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

/// All properties of one.
fn object(uid: MailboxUid, mailbox: &Mailbox) -> Map<String, Value> {
    let counts = mailbox.counts;
    members(json!({
        "id": uid.to_string(), "name": mailbox.name, "parentId": mailbox.parent.map(|uid| uid.to_string()),
        "role": mailbox.role.map(Role::name), "sortOrder": mailbox.sort_order,
        "totalEmails": counts.total_emails, "unreadEmails": counts.unread_emails,
        "totalThreads": counts.total_threads, "unreadThreads": counts.unread_threads,
        "myRights": rights(mailbox), "isSubscribed": mailbox.subscribed,
    }))
}

fn rights(mailbox: &Mailbox) -> Map<String, Value> {
    let mut bits = mailbox.rights;
    if mailbox.role == Some(Role::Inbox) {
        bits &= !MAY_DELETE;
    }
    RIGHTS.iter().enumerate().map(|(bit, name)| ((*name).to_owned(), (bits >> bit & 1 == 1).into())).collect()
}

#[cfg(test)]
mod tests;
