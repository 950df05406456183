//! Emails after filing: moved, flagged, destroyed, restored, purged. Of each named email it is said what became of it: one
//! that is refused is nothing to the others.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::mail::{facts, rows};
use super::mailboxes;
use crate::jmap::context::{Args, Context, date};
use crate::message::rows_or_bare;
use crate::model::{AccountId, EmailId, keyword, limits};
use crate::store::{EncodedMessage, Error, Txn};
use crate::wire::jmap::MethodError;

/// Emails of one commit.
const EMAILS_PER_COMMIT: usize = 64;

/// What became of each.
struct Outcomes {
    done: Map<String, Value>,
    refused: Map<String, Value>,
}

impl Outcomes {
    fn new() -> Self {
        Self { done: Map::new(), refused: Map::new() }
    }

    fn add(&mut self, id: &str, outcome: Result<Value, Error>) {
        match outcome {
            Ok(value) => drop(self.done.insert(id.to_owned(), value)),
            Err(error) => drop(self.refused.insert(id.to_owned(), MethodError::from(error).arguments())),
        }
    }

    fn answer(self, done: &str, refused: &str) -> Value {
        json!({ done: self.done, refused: self.refused })
    }
}

/// The named emails, each once, with their ids where they are any.
fn ids(arguments: &Args<'_>) -> Result<Vec<(String, Option<EmailId>)>, MethodError> {
    let texts: BTreeSet<String> = arguments.texts("ids")?.into_iter().collect();
    if texts.is_empty() || texts.len() > limits::MAX_LISTED_ROWS {
        return Err(MethodError::InvalidArguments(format!(
            "ids: 1 to {} email ids are wanted",
            limits::MAX_LISTED_ROWS
        )));
    }
    Ok(texts.into_iter().map(|text| (text.clone(), text.parse().ok())).collect())
}

/// Does the same with each email, several in a commit; where a commit fails, its emails are refused.
fn each(
    context: &Context,
    account: AccountId,
    ids: &[(String, Option<EmailId>)],
    mut change: impl FnMut(&mut Txn<'_>, EmailId) -> Result<Value, Error>,
) -> Outcomes {
    let mut outcomes = Outcomes::new();
    for chunk in ids.chunks(EMAILS_PER_COMMIT) {
        let done = context.store.commit(account, |txn| {
            let one = |(_, id): &(String, Option<EmailId>)| match id
                .map_or(Err(Error::NotFound("email")), |id| change(txn, id))
            {
                // These are found out before anything is staged.
                Err(error @ (Error::NotFound(_) | Error::Conflict(_) | Error::Quota)) => Ok(Err(error)),
                other => other.map(Ok),
            };
            chunk.iter().map(one).collect::<Result<Vec<Result<Value, Error>>, Error>>()
        });
        match done.and_then(|(made, ticket)| ticket.wait_blocking().map(|()| made)) {
            Ok(made) => chunk.iter().zip(made).for_each(|((text, _), outcome)| outcomes.add(text, outcome)),
            Err(error) => chunk.iter().for_each(|(text, _)| outcomes.add(text, Err(error.clone()))),
        }
    }
    outcomes
}

pub(super) fn destroy(context: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    let (account, _) = context.account(arguments)?;
    let outcomes = each(context, account, &ids(arguments)?, |txn, id| txn.destroy_email(id).map(|()| Value::Null));
    Ok(outcomes.answer("destroyed", "notDestroyed"))
}

/// What can be restored.
pub(super) fn destroyed(context: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    let (account, _) = context.account(arguments)?;
    let snapshot = context.store.snapshot();
    let since = context.store.clock().now().before(context.restore);
    let all = snapshot.destroyed_emails(account, since, rows(arguments)?)?;
    let mut list = Vec::with_capacity(all.len());
    for one in all {
        let content = snapshot.content(account, one.id)?;
        let (_, content) = content.unwrap_or_default();
        let mut row = facts(one.id, one.email.thread, &one.email, &content);
        if let Some(members) = row.as_object_mut() {
            members.insert("destroyedAt".into(), date(Some(one.at)));
            members.insert("restorableUntil".into(), date(Some(one.at.after(context.restore))));
        }
        context.budget.tell(&row)?;
        list.push(row);
    }
    Ok(json!({ "list": list }))
}

/// One commit for each, for each message is parsed anew, and not while the account is locked.
pub(super) fn restore(context: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    let (account, _) = context.account(arguments)?;
    let mut outcomes = Outcomes::new();
    for (text, id) in ids(arguments)? {
        let missing = || MethodError::from(Error::NotFound("destroyed email")).arguments();
        match id.ok_or_else(missing).and_then(|id| restore_one(context, account, id)) {
            Ok(id) => drop(outcomes.done.insert(text, id.to_string().into())),
            Err(why) => drop(outcomes.refused.insert(text, why)),
        }
    }
    Ok(outcomes.answer("restored", "notRestored"))
}

/// Restores one; else says why not, as an error's object.
fn restore_one(context: &Context, account: AccountId, id: EmailId) -> Result<EmailId, Value> {
    let failed = |error: Error| MethodError::from(error).arguments();
    let missing = || failed(Error::NotFound("destroyed email"));
    let message = {
        let snapshot = context.store.snapshot();
        let old = snapshot.email_or_tombstone(account, id).map_err(failed)?.ok_or_else(missing)?;
        context.budget.read(old.size).map_err(|error| error.arguments())?;
        context.budget.file(old.size).map_err(|error| error.object())?;
        let raw = snapshot.raw_message(&old.blob).map_err(failed)?.ok_or_else(missing)?;
        EncodedMessage::new(&rows_or_bare(&raw, context.store.secrets()))
    };
    let made = context.store.commit(account, |txn| txn.restore_email(id, &message, context.restore));
    let ((id, _), ticket) = made.map_err(failed)?;
    ticket.wait_blocking().map_err(failed)?;
    Ok(id)
}

/// Takes what was destroyed away for good, before its time.
pub(super) fn purge(context: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    let (account, _) = context.account(arguments)?;
    match (arguments.flag("all")?, arguments.get("ids").is_some()) {
        (true, false) => {
            let mut count = 0;
            loop {
                let done = context.store.commit(account, |txn| txn.purge_emails(txn.now(), EMAILS_PER_COMMIT));
                let (purged, ticket) = done?;
                ticket.wait_blocking()?;
                count += purged.emails;
                if !purged.left {
                    return Ok(json!({ "count": count }));
                }
            }
        }
        (false, true) => {
            let outcomes =
                each(context, account, &ids(arguments)?, |txn, id| txn.purge_email(id).map(|()| Value::Null));
            Ok(outcomes.answer("purged", "notPurged"))
        }
        _ => Err(MethodError::InvalidArguments("either ids or all is wanted".into())),
    }
}

pub(super) fn move_to(context: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    let (account, _) = context.account(arguments)?;
    let (uid, _) = mailboxes::named(context, account, &arguments.text("mailbox")?)?;
    let also = arguments.flag("also")?;
    let outcomes = each(context, account, &ids(arguments)?, |txn, id| {
        let email = txn.snapshot().email(account, id)?.ok_or(Error::NotFound("email"))?;
        let mut mailboxes = if also { email.mailboxes } else { BTreeSet::new() };
        mailboxes.insert(uid);
        txn.update_email(id, mailboxes, email.keywords).map(|_| Value::Null)
    });
    Ok(outcomes.answer("moved", "notMoved"))
}

pub(super) fn flag(context: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    let (account, _) = context.account(arguments)?;
    let words = |key: &str| -> Result<BTreeSet<String>, MethodError> {
        let bad =
            |text: &str| MethodError::InvalidArguments(format!("{key}: \"{text}\" is no keyword (RFC 8621 §4.1.1)"));
        arguments.texts(key)?.iter().map(|text| keyword::normal(text).ok_or_else(|| bad(text))).collect()
    };
    let (add, remove) = (words("add")?, words("remove")?);
    if add.is_empty() && remove.is_empty() {
        return Err(MethodError::InvalidArguments("add or remove: keywords are wanted".into()));
    }
    let outcomes = each(context, account, &ids(arguments)?, |txn, id| {
        let email = txn.snapshot().email(account, id)?.ok_or(Error::NotFound("email"))?;
        let keywords: BTreeSet<String> = email.keywords.difference(&remove).chain(&add).cloned().collect();
        if keywords.len() > limits::MAX_KEYWORDS {
            return Err(Error::Conflict(format!("more than {} keywords", limits::MAX_KEYWORDS)));
        }
        txn.update_email(id, email.mailboxes, keywords.clone())?;
        Ok(json!(keywords))
    });
    Ok(outcomes.answer("flagged", "notFlagged"))
}
