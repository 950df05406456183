//! `EmailSubmission`/query and /queryChanges (RFC 8621 §7.3, §7.4).

use serde_json::Value;

use crate::jmap::context::{Account, Args, Context};
use crate::jmap::standard::value::{text, utc_date, wanted};
use crate::jmap::standard::{Tree, objects, sort};
use crate::model::{EmailSubmission, ObjectId, UtcMillis};
use crate::store::Snapshot;
use crate::wire::jmap::MethodError;

/// A condition (RFC 8621 §7.3).
enum SubmissionCondition {
    Identities(Vec<String>),
    Emails(Vec<String>),
    Threads(Vec<String>),
    Undo(String),
    Before(UtcMillis),
    After(UtcMillis),
}

#[derive(Clone, Copy)]
enum SubmissionSortProperty {
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

fn results(view: &Snapshot<'_>, account: &Account, arguments: &Args<'_>) -> Result<Vec<String>, MethodError> {
    let filter = Tree::read(arguments, condition)?;
    let order = sort(arguments, |name| match name {
        "emailId" => Some(SubmissionSortProperty::Email),
        "threadId" => Some(SubmissionSortProperty::Thread),
        // RFC 8621 §7.3 names it sentAt; the property is sendAt.
        "sentAt" | "sendAt" => Some(SubmissionSortProperty::SendAt),
        _ => None,
    })?;
    let all = view.objects::<EmailSubmission>(account.id)?;
    let mut found: Vec<&(ObjectId, EmailSubmission)> =
        all.iter().filter(|(_, one)| filter.holds(&|is| holds(is, one))).collect();
    found.sort_by(|(one_id, one), (two_id, two)| {
        let by = |property: &SubmissionSortProperty, _| match property {
            SubmissionSortProperty::Email => one.email.to_string().cmp(&two.email.to_string()),
            SubmissionSortProperty::Thread => one.thread.to_string().cmp(&two.thread.to_string()),
            SubmissionSortProperty::SendAt => one.send_at.cmp(&two.send_at),
        };
        let found = order.iter().map(|order| order.compare(by)).find(|order| order.is_ne());
        found.unwrap_or_else(|| one_id.cmp(two_id))
    });
    Ok(found.iter().map(|(id, _)| id.to_string()).collect())
}

fn condition(name: &str, value: &Value) -> Result<SubmissionCondition, MethodError> {
    let ids = || {
        let ids = value.as_array().and_then(|all| all.iter().map(|id| id.as_str().map(str::to_owned)).collect());
        ids.ok_or_else(|| wanted(name, "an array of ids"))
    };
    Ok(match name {
        "identityIds" => SubmissionCondition::Identities(ids()?),
        "emailIds" => SubmissionCondition::Emails(ids()?),
        "threadIds" => SubmissionCondition::Threads(ids()?),
        "undoStatus" => SubmissionCondition::Undo(text(name, value)?.to_owned()),
        "before" => SubmissionCondition::Before(utc_date(name, value)?),
        "after" => SubmissionCondition::After(utc_date(name, value)?),
        _ => return Err(MethodError::UnsupportedFilter("no such condition of submissions".into())),
    })
}

fn holds(is: &SubmissionCondition, submission: &EmailSubmission) -> bool {
    match is {
        SubmissionCondition::Identities(ids) => ids.contains(&submission.identity.to_string()),
        SubmissionCondition::Emails(ids) => ids.contains(&submission.email.to_string()),
        SubmissionCondition::Threads(ids) => ids.contains(&submission.thread.to_string()),
        SubmissionCondition::Undo(status) => status == submission.undo.name(),
        SubmissionCondition::Before(at) => submission.send_at < *at,
        SubmissionCondition::After(at) => submission.send_at >= *at,
    }
}
