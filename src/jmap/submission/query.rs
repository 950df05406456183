//! `EmailSubmission`/query and /queryChanges (RFC 8621 §7.3, §7.4).

use serde_json::Value;

use crate::jmap::context::{Account, Args, Context, fail};
use crate::jmap::standard::value::{text, utc_date, wanted};
use crate::jmap::standard::{Tree, objects, sort};
use crate::model::{EmailSubmission, ObjectId, UtcMillis};
use crate::store::View;
use crate::wire::jmap::MethodError;

/// A condition (RFC 8621 §7.3).
enum Is {
    Identities(Vec<String>),
    Emails(Vec<String>),
    Threads(Vec<String>),
    Undo(String),
    Before(UtcMillis),
    After(UtcMillis),
}

#[derive(Clone, Copy)]
enum Property {
    Email,
    Thread,
    SendAt,
}

pub(in crate::jmap) fn query(context: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    let account = context.open(arguments)?;
    objects::query::<EmailSubmission>(context, &account, arguments, |view| results(view, &account, arguments))
}

pub(in crate::jmap) fn query_changes(context: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    let account = context.open(arguments)?;
    objects::queried::<EmailSubmission>(context, &account, arguments, |view| results(view, &account, arguments))
}

fn results(view: &View<'_>, account: &Account, arguments: &Args<'_>) -> Result<Vec<String>, MethodError> {
    let filter = Tree::read(arguments, condition)?;
    let order = sort(arguments, |name| match name {
        "emailId" => Some(Property::Email),
        "threadId" => Some(Property::Thread),
        // RFC 8621 §7.3 names it sentAt; the property is sendAt.
        "sentAt" | "sendAt" => Some(Property::SendAt),
        _ => None,
    })?;
    let all = view.objects::<EmailSubmission>(account.id).map_err(|error| fail(&error))?;
    let mut found: Vec<&(ObjectId, EmailSubmission)> =
        all.iter().filter(|(_, one)| filter.holds(&|is| holds(is, one))).collect();
    found.sort_by(|(one_id, one), (two_id, two)| {
        let by = |property: &Property, _| match property {
            Property::Email => one.email.to_string().cmp(&two.email.to_string()),
            Property::Thread => one.thread.to_string().cmp(&two.thread.to_string()),
            Property::SendAt => one.send_at.cmp(&two.send_at),
        };
        let found = order.iter().map(|order| order.compare(by)).find(|order| order.is_ne());
        found.unwrap_or_else(|| one_id.cmp(two_id))
    });
    Ok(found.iter().map(|(id, _)| id.to_string()).collect())
}

fn condition(name: &str, value: &Value) -> Result<Is, MethodError> {
    let ids = || {
        let ids = value.as_array().and_then(|all| all.iter().map(|id| id.as_str().map(str::to_owned)).collect());
        ids.ok_or_else(|| wanted(name, "an array of ids"))
    };
    Ok(match name {
        "identityIds" => Is::Identities(ids()?),
        "emailIds" => Is::Emails(ids()?),
        "threadIds" => Is::Threads(ids()?),
        "undoStatus" => Is::Undo(text(name, value)?.to_owned()),
        "before" => Is::Before(utc_date(name, value)?),
        "after" => Is::After(utc_date(name, value)?),
        _ => return Err(MethodError::UnsupportedFilter("no such condition of submissions".into())),
    })
}

fn holds(is: &Is, submission: &EmailSubmission) -> bool {
    match is {
        Is::Identities(ids) => ids.contains(&submission.identity.to_string()),
        Is::Emails(ids) => ids.contains(&submission.email.to_string()),
        Is::Threads(ids) => ids.contains(&submission.thread.to_string()),
        Is::Undo(status) => status == submission.undo.name(),
        Is::Before(at) => submission.send_at < *at,
        Is::After(at) => submission.send_at >= *at,
    }
}
