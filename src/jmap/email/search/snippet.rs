//! SearchSnippet/get (RFC 8621 §5.1).

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::filter;
use crate::jmap::context::distinct;
use crate::jmap::method::{Call, Method};
use crate::jmap::rights::Rights;
use crate::model::limits;
use crate::query::{Finder, QuerySpec, explain};
use crate::wire::jmap::{Answer, MethodError};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::jmap) struct SnippetArgs {
    account_id: String,
    filter: Option<Value>,
    email_ids: Vec<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::jmap) struct SnippetAnswer {
    account_id: String,
    list: Vec<Value>,
    not_found: Option<Vec<String>>,
}

impl Answer for SnippetAnswer {}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct SearchSnippet<'a> {
    email_id: &'a str,
    subject: Option<String>,
    preview: Option<String>,
}

pub(in crate::jmap) struct SnippetGet;

impl Method for SnippetGet {
    type Args = SnippetArgs;
    type Answer = SnippetAnswer;

    fn call(call: &Call<'_>, args: SnippetArgs) -> Result<SnippetAnswer, MethodError> {
        let (context, account) = (call.context, call.account(&args.account_id)?);
        if args.email_ids.len() > limits::MAX_OBJECTS_IN_GET {
            return Err(MethodError::RequestTooLarge("maxObjectsInGet"));
        }
        let snapshot = context.store.snapshot();
        let rights = Rights::in_account(&snapshot, &account)?;
        let filter = filter::parse_filter_of_call(call, args.filter.as_ref())?;
        let spec = QuerySpec {
            account: account.id,
            filter,
            scope: rights.scope(),
            ..QuerySpec::default()
        };
        // A filter that Email/query would refuse is refused here, too.
        explain(&snapshot, &spec)?;
        let finder = Finder::new(&spec.filter, context.store.secrets());
        // Whether the caller sees an email. Charges what `finder` will read of it.
        let is_visible = |id| -> Result<bool, MethodError> {
            let Some(email) =
                snapshot.email(account.id, id)?.filter(|email| rights.may_read_email(email))
            else {
                return Ok(false);
            };
            context.budget.charge_read(if finder.reads_text() { email.size } else { 0 })?;
            Ok(true)
        };
        let (mut list, mut not_found) = (Vec::new(), Vec::new());
        for id in distinct(args.email_ids.into_iter().map(|id| call.resolve_id(id))) {
            let snippet = match id.parse() {
                Ok(email) if is_visible(email)? => finder.snippet(&snapshot, account.id, email)?,
                _ => None,
            };
            let Some(snippet) = snippet else {
                not_found.push(id);
                continue;
            };
            let snippet =
                SearchSnippet { email_id: &id, subject: snippet.subject, preview: snippet.preview };
            let snippet = serde_json::to_value(snippet)
                .map_err(|error| MethodError::ServerFail(error.to_string()))?;
            context.budget.add_to_answer(&snippet)?;
            list.push(snippet);
        }
        let not_found = Some(not_found).filter(|ids| !ids.is_empty());
        Ok(SnippetAnswer { account_id: account.id.to_string(), list, not_found })
    }
}
