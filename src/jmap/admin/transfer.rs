//! What import and export ask beside the octets themselves: which mailboxes there are, where mail is to go, and of which
//! emails an account consists.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::mail::rows;
use crate::jmap::context::{Args, Context};
use crate::model::{EmailId, Mailbox, MailboxUid, Role};
use crate::store::{Error, NewMailbox, Txn};
use crate::wire::jmap::MethodError;

/// All emails of an account, newest first, a page at a time; and its mailboxes, each with its way from the top or from the
/// Inbox.
pub(super) fn index(context: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    let (account, _) = context.account(arguments)?;
    let after = arguments.maybe_text("after")?.map(|id| id.parse::<EmailId>()).transpose();
    let after = after.map_err(|_| MethodError::InvalidArguments("after: an email id is wanted".into()))?;
    let limit = rows(arguments)?;
    let snapshot = context.store.snapshot();
    let all: BTreeMap<_, _> = snapshot.mailboxes(account)?.into_iter().collect();
    let mailboxes: Vec<Value> = all
        .iter()
        .map(|(uid, mailbox)| {
            let (inbox, names) = way(&all, mailbox);
            json!({"id": uid.to_string(), "inbox": inbox, "names": names, "role": mailbox.role.map(Role::name)})
        })
        .collect();
    let emails = snapshot.emails(account, after, limit)?;
    let mut list = Vec::with_capacity(emails.len());
    for (id, email) in emails {
        let mailboxes: Vec<String> = email.mailboxes.iter().map(ToString::to_string).collect();
        let row =
            json!({"id": id.to_string(), "mailboxIds": mailboxes, "keywords": email.keywords, "size": email.size});
        context.budget.tell(&row)?;
        list.push(row);
    }
    Ok(json!({"mailboxes": mailboxes, "list": list}))
}

fn way(all: &BTreeMap<MailboxUid, Mailbox>, mailbox: &Mailbox) -> (bool, Vec<String>) {
    let (mut names, mut at) = (Vec::new(), Some(mailbox));
    while let Some(mailbox) = at.filter(|_| names.len() <= all.len()) {
        if mailbox.role == Some(Role::Inbox) {
            names.reverse();
            return (true, names);
        }
        names.push(mailbox.name.clone());
        at = mailbox.parent.and_then(|uid| all.get(&uid));
    }
    names.reverse();
    (false, names)
}

/// The mailbox at the end of a way, which is made where it is not there. A name is found in any case where none is equal;
/// a mailbox that is not there is the one that has its role, if any.
pub(super) fn mailbox(context: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    let (account, _) = context.account(arguments)?;
    let (inbox, names) = (arguments.flag("inbox")?, arguments.texts("names")?);
    let role = arguments.maybe_text("role")?;
    let role =
        role.map(|name| Role::from_name(&name).ok_or_else(|| MethodError::InvalidArguments(format!("role: {name}"))));
    let role = role.transpose()?.filter(|role| *role != Role::Inbox);
    if names.is_empty() && !inbox {
        return Err(MethodError::InvalidArguments("names: a way is wanted".into()));
    }
    let made = context.store.commit(account, |txn| ensure(txn, inbox, &names, role));
    let (uid, ticket) = made?;
    ticket.wait_blocking()?;
    Ok(json!({"id": uid.to_string()}))
}

fn ensure(txn: &mut Txn<'_>, inbox: bool, names: &[String], role: Option<Role>) -> Result<MailboxUid, Error> {
    let all = txn.snapshot().mailboxes(txn.account())?;
    let mut at = None;
    if inbox {
        let found = all.iter().find(|(_, mailbox)| mailbox.role == Some(Role::Inbox));
        at = Some(found.ok_or(Error::NotFound("mailbox"))?.0);
    }
    for (depth, name) in names.iter().enumerate() {
        let role = role.filter(|_| depth + 1 == names.len());
        let here = || all.iter().filter(|(_, mailbox)| mailbox.parent == at);
        let exact = here().find(|(_, mailbox)| mailbox.name == *name);
        let loose = || here().find(|(_, mailbox)| mailbox.name.to_lowercase() == name.to_lowercase());
        let by_role = || all.iter().find(|(_, mailbox)| role.is_some() && mailbox.role == role);
        let found = exact.or_else(loose).or_else(by_role).map(|(uid, _)| *uid);
        at = Some(match found {
            Some(uid) => uid,
            None => txn.create_mailbox(&NewMailbox { name: name.clone(), parent: at, role, sort_order: 0 })?,
        });
    }
    at.ok_or(Error::NotFound("mailbox"))
}
