//! SearchSnippet/get (RFC 8621 §5.1).

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::filter;
use crate::jmap::context::{Args, Context};
use crate::jmap::rights::Rights;
use crate::model::limits;
use crate::query::{Finder, QuerySpec, explain};
use crate::wire::jmap::MethodError;

pub(in crate::jmap) fn snippets(context: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    let account = context.open_shared(arguments)?;
    if arguments.get("emailIds").is_none() {
        return Err(MethodError::InvalidArguments("emailIds: an array of ids is wanted".into()));
    }
    let ids = arguments.texts("emailIds")?;
    if ids.len() > limits::OBJECTS_IN_GET {
        return Err(MethodError::RequestTooLarge("maxObjectsInGet"));
    }
    let view = context.store.view();
    let rights = Rights::of(&view, &account)?;
    let results = QuerySpec {
        account: account.id,
        filter: filter::of(arguments)?,
        scope: rights.scope(),
        ..QuerySpec::default()
    };
    // What cannot be answered as a query has no snippets either.
    explain(&view, &results)?;
    let finder = Finder::new(&results.filter, context.store.secrets());
    let is_seen = |id| match view.email(account.id, id) {
        Ok(email) => {
            let Some(email) = email.filter(|email| rights.sees(email)) else {
                return Ok::<bool, MethodError>(false);
            };
            context.budget.read(if finder.reads_text() { email.size } else { 0 })?;
            Ok(true)
        }
        Err(error) => Err(error.into()),
    };
    let (mut list, mut not_found, mut seen) = (Vec::new(), Vec::new(), BTreeSet::new());
    for id in ids {
        let id = arguments.created().resolve(&id).unwrap_or(id);
        if !seen.insert(id.clone()) {
            continue;
        }
        let found = match id.parse() {
            Ok(email) if is_seen(email)? => finder.snippet(&view, account.id, email)?,
            _ => None,
        };
        match found {
            Some(found) => {
                let found = json!({"emailId": id, "subject": found.subject, "preview": found.preview});
                context.budget.tell(&found)?;
                list.push(found);
            }
            None => not_found.push(id),
        }
    }
    let not_found = if not_found.is_empty() { Value::Null } else { json!(not_found) };
    Ok(json!({"accountId": account.id.to_string(), "list": list, "notFound": not_found}))
}
