//! The mailboxes of an account: listed, made, changed, destroyed. A mailbox is named by its path (names with `/` between
//! them), its role or its id.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::jmap::context::{Args, Context};
use crate::jmap::{principal, share};
use crate::model::mailbox::Right;
use crate::model::{AccountId, Mailbox, MailboxUid, Role};
use crate::store::{Error, NewMailbox, Txn};
use crate::wire::jmap::MethodError;

/// Emails that are taken out of a mailbox in one commit.
const EMAILS_PER_COMMIT: usize = 64;

/// The mailbox of that name.
pub(super) fn named(context: &Context, account: AccountId, name: &str) -> Result<(MailboxUid, Mailbox), MethodError> {
    let snapshot = context.store.snapshot();
    let found = snapshot.find_mailbox(account, name)?;
    let by_id = || name.parse::<MailboxUid>().ok().and_then(|uid| known(context, account, uid).ok());
    found.or_else(by_id).ok_or_else(|| MethodError::NotFound(format!("no mailbox {name}")))
}

fn known(context: &Context, account: AccountId, uid: MailboxUid) -> Result<(MailboxUid, Mailbox), MethodError> {
    let found = context.store.snapshot().mailbox(account, uid)?;
    found.map(|row| (uid, row)).ok_or_else(|| MethodError::NotFound("no such mailbox".into()))
}

pub(super) fn list(context: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    let (account, _) = context.account(arguments)?;
    let all = context.store.snapshot().mailboxes(account)?;
    let mut list = Vec::with_capacity(all.len());
    for (uid, mailbox) in &all {
        let row = describe(context, &all, *uid, mailbox)?;
        context.budget.tell(&row)?;
        list.push((path(&all, mailbox), row));
    }
    list.sort_by(|(one, _), (other, _)| one.cmp(other));
    Ok(json!({ "list": list.into_iter().map(|(_, row)| row).collect::<Vec<Value>>() }))
}

fn path(all: &[(MailboxUid, Mailbox)], mailbox: &Mailbox) -> String {
    let (mut path, mut parent) = (mailbox.name.clone(), mailbox.parent);
    // Bounded even where rows were damaged into a circle.
    for _ in 0..all.len() {
        let Some((_, above)) = parent.and_then(|uid| all.iter().find(|(other, _)| *other == uid)) else { break };
        path = format!("{}/{path}", above.name);
        parent = above.parent;
    }
    path
}

/// With whom it is shared is told by names of accounts, and of rights.
fn describe(
    context: &Context,
    all: &[(MailboxUid, Mailbox)],
    uid: MailboxUid,
    mailbox: &Mailbox,
) -> Result<Value, MethodError> {
    let counts = mailbox.counts;
    let mut shared = Map::new();
    for (with, bits) in &mailbox.shares {
        let found = context.directory.find_account(&with.to_string())?;
        let name = found.map_or_else(|| with.to_string(), |(_, row)| row.name);
        let rights = Right::all().filter(|right| bits & right.bit() != 0).map(|right| Value::from(right.name()));
        shared.insert(name, rights.collect());
    }
    Ok(json!({
        "id": uid.to_string(), "path": path(all, mailbox), "name": mailbox.name,
        "parentId": mailbox.parent.map(|uid| uid.to_string()), "role": mailbox.role.map(Role::name),
        "sortOrder": mailbox.sort_order, "isSubscribed": mailbox.subscribed,
        "attributes": mailbox.attributes,
        "shareWith": shared,
        "totalEmails": counts.total_emails, "unreadEmails": counts.unread_emails,
        "totalThreads": counts.total_threads, "unreadThreads": counts.unread_threads,
    }))
}

/// A commit, and the mailbox after it. Who has other rights in it now is told.
fn done(
    context: &Context,
    account: AccountId,
    mut change: impl FnMut(&mut Txn<'_>) -> Result<MailboxUid, Error>,
) -> Result<Value, MethodError> {
    let done = context.store.commit(account, |txn| change(txn).map(|uid| (uid, txn.take_share_changes())));
    let ((uid, shared), ticket) = done?;
    ticket.wait_blocking()?;
    share::tell(context, account, shared);
    let all = context.store.snapshot().mailboxes(account)?;
    let (_, mailbox) = known(context, account, uid)?;
    describe(context, &all, uid, &mailbox)
}

/// A role by its name; "" is none.
fn role(arguments: &Args<'_>) -> Result<Option<Option<Role>>, MethodError> {
    let Some(name) = arguments.maybe_text("role")? else { return Ok(None) };
    if name.is_empty() {
        return Ok(Some(None));
    }
    let unknown = || MethodError::InvalidArguments(format!("role: `{name}` is none (RFC 8621 §2)"));
    Role::from_name(&name.to_lowercase()).map(|role| Some(Some(role))).ok_or_else(unknown)
}

fn sort_order(arguments: &Args<'_>) -> Result<Option<u32>, MethodError> {
    let large = |_| MethodError::InvalidArguments("sortOrder: too large".into());
    arguments.number("sortOrder")?.map(u32::try_from).transpose().map_err(large)
}

pub(super) fn add(context: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    let (account, _) = context.account(arguments)?;
    let path = arguments.text("path")?;
    let (parent, name) = match path.rsplit_once('/') {
        Some((above, name)) => (Some(named(context, account, above)?.0), name),
        None => (None, path.as_str()),
    };
    let role = role(arguments)?.flatten();
    let sort_order = sort_order(arguments)?.unwrap_or(0);
    let new = NewMailbox { name: name.to_owned(), parent, role, sort_order };
    let attributes = arguments.patch("attributes")?;
    done(context, account, |txn| {
        let uid = txn.create_mailbox(&new)?;
        txn.update_mailbox(uid, |row| patch(row, attributes.clone()))?;
        Ok(uid)
    })
}

pub(super) fn change(context: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    let (account, _) = context.account(arguments)?;
    let (uid, old) = named(context, account, &arguments.text("mailbox")?)?;
    let shares = shares(context, account, &old, arguments)?;
    let name = arguments.maybe_text("name")?;
    if name.as_ref().is_some_and(|name| name.contains('/')) {
        return Err(MethodError::InvalidArguments("name: the last part of a path alone; parent moves it".into()));
    }
    let parent = match arguments.maybe_text("parent")? {
        None => None,
        Some(above) if above.is_empty() => Some(None),
        Some(above) => Some(Some(named(context, account, &above)?.0)),
    };
    let (role, sort_order) = (role(arguments)?, sort_order(arguments)?);
    let subscribed = arguments.get("isSubscribed").map(|_| arguments.flag("isSubscribed")).transpose()?;
    let attributes = arguments.patch("attributes")?;
    done(context, account, |txn| {
        txn.update_mailbox(uid, |row| {
            patch(row, attributes.clone());
            for (&with, &rights) in &shares {
                if rights == 0 {
                    row.shares.remove(&with);
                } else {
                    row.shares.insert(with, rights);
                }
            }
            if let Some(name) = &name {
                row.name.clone_from(name);
            }
            row.parent = parent.unwrap_or(row.parent);
            row.role = role.unwrap_or(row.role);
            row.sort_order = sort_order.unwrap_or(row.sort_order);
            row.subscribed = subscribed.unwrap_or(row.subscribed);
        })?;
        Ok(uid)
    })
}

/// With whom else a mailbox is to be shared, and with which rights, 0 for none: the accounts that `shareWith` names, each with
/// the names of its rights between commas, or null.
fn shares(
    context: &Context,
    account: AccountId,
    mailbox: &Mailbox,
    arguments: &Args<'_>,
) -> Result<BTreeMap<AccountId, u16>, MethodError> {
    let bad = |what: String| MethodError::InvalidArguments(format!("shareWith: {what}"));
    let mut shares = BTreeMap::new();
    for (name, rights) in arguments.patch("shareWith")? {
        let found = context.directory.find_account(&name)?;
        // Who may not see all accounts is told of one that he may not know as of one that is not there.
        let stranger = || bad(format!("no account {name} to share with"));
        let (with, _) = found.filter(|(id, _)| *id != account).ok_or_else(stranger)?;
        let may = mailbox.shares.contains_key(&with) || principal::may_know(context, account, with)?;
        if !may {
            return Err(stranger());
        }
        let mut bits = 0;
        for name in rights.iter().flat_map(|rights| rights.split(',')).filter(|name| !name.is_empty()) {
            bits |= Right::from_name(name).ok_or_else(|| bad(format!("no right {name}")))?.bit();
        }
        shares.insert(with, bits);
    }
    Ok(shares)
}

fn patch(row: &mut Mailbox, attributes: Vec<(String, Option<String>)>) {
    for (name, value) in attributes {
        match value {
            Some(value) => drop(row.attributes.insert(name, value)),
            None => drop(row.attributes.remove(&name)),
        }
    }
}

/// With its emails: those that are in no other mailbox are destroyed, in steps; a stop in between leaves a mailbox that
/// holds fewer.
pub(super) fn remove(context: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    let (account, _) = context.account(arguments)?;
    let (uid, mailbox) = named(context, account, &arguments.text("mailbox")?)?;
    let mut emails = 0;
    if arguments.flag("emails")? {
        // What would refuse it in the end refuses it before anything is touched.
        let all = context.store.snapshot().mailboxes(account)?;
        if mailbox.role == Some(Role::Inbox) || all.iter().any(|(_, other)| other.parent == Some(uid)) {
            return Err(MethodError::Conflict("the Inbox stays, and so does a mailbox with mailboxes under it".into()));
        }
        emails = mailbox.counts.total_emails;
        loop {
            let step = context.store.commit(account, |txn| txn.empty_mailbox(uid, EMAILS_PER_COMMIT));
            let (left, ticket) = step?;
            ticket.wait_blocking()?;
            if !left {
                break;
            }
        }
    }
    let done = context.store.commit(account, |txn| txn.destroy_mailbox(uid).map(|()| txn.take_share_changes()));
    let (shared, ticket) = done?;
    ticket.wait_blocking()?;
    share::tell(context, account, shared);
    Ok(json!({ "emails": emails }))
}
