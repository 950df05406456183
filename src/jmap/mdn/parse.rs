//! MDN/parse (RFC 9007 §2.2): reads a blob as an MDN, without storing anything.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::disposition;
use crate::jmap::context::{Account, Context};
use crate::jmap::method::{Call, Method};
use crate::message::header::first;
use crate::message::refs::message_ids;
use crate::message::report::{Report, ReportContent, report};
use crate::message::{Message, catch_parser_panic};
use crate::model::{EmailId, limits};
use crate::query::{self, Condition, Filter, Query, QuerySpec, Window};
use crate::wire::jmap::json::or_null;
use crate::wire::jmap::{Answer, JsonObject, MethodError};

/// How many original messages one call looks for. For MDNs about further ones, `forEmailId` is null
/// (RFC 9007 §2.2).
const MAX_ORIGINALS: usize = 100;
/// How many emails whose Message-ID field contains the text of the id are examined. If that many
/// are found, none is named.
const MAX_CANDIDATES: usize = 4;

pub(in crate::jmap) struct MdnParse;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::jmap) struct MdnParseArgs {
    account_id: String,
    blob_ids: Option<BTreeSet<String>>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::jmap) struct MdnParseAnswer {
    account_id: String,
    /// MDNs by blob id.
    parsed: Option<JsonObject>,
    not_parsable: Option<Vec<String>>,
    not_found: Option<Vec<String>>,
}

impl Answer for MdnParseAnswer {}

impl Method for MdnParse {
    type Args = MdnParseArgs;
    type Answer = MdnParseAnswer;

    fn call(call: &Call<'_>, args: MdnParseArgs) -> Result<MdnParseAnswer, MethodError> {
        let account = super::managed_account(call, &args.account_id)?;
        let missing = || MethodError::InvalidArguments("blobIds is required".into());
        parse(call.context, &account, args.blob_ids.ok_or_else(missing)?)
    }
}

fn parse(
    context: &Context,
    account: &Account,
    ids: BTreeSet<String>,
) -> Result<MdnParseAnswer, MethodError> {
    if ids.len() > limits::MAX_OBJECTS_IN_GET {
        return Err(MethodError::RequestTooLarge("maxObjectsInGet"));
    }
    let mut originals = Originals { context, account, searched: BTreeMap::new() };
    let (mut parsed, mut not_parsable, mut not_found) = (JsonObject::new(), Vec::new(), Vec::new());
    for id in ids {
        let Some(raw) = context.bytes_by_id(account, &id)? else {
            not_found.push(id);
            continue;
        };
        match catch_parser_panic("a report", || report(&Message::parse(&raw))).flatten() {
            Some(found) if matches!(found.content, ReportContent::Disposition(_)) => {
                let object = originals.object(&raw, &found)?;
                context.budget.add_to_answer(&object)?;
                parsed.insert(id, object);
            }
            _ => not_parsable.push(id),
        }
    }
    let none_if_empty = |ids: Vec<String>| Some(ids).filter(|ids| !ids.is_empty());
    Ok(MdnParseAnswer {
        account_id: account.id.to_string(),
        parsed: Some(parsed).filter(|parsed| !parsed.is_empty()),
        not_parsable: none_if_empty(not_parsable),
        not_found: none_if_empty(not_found),
    })
}

/// Finds the emails to which MDNs refer.
struct Originals<'a> {
    context: &'a Context,
    account: &'a Account,
    /// What `find` returned, by Message-ID.
    searched: BTreeMap<String, Option<EmailId>>,
}

impl Originals<'_> {
    /// Returns the MDN object of a report, which must be a disposition notification.
    fn object(&mut self, raw: &[u8], found: &Report) -> Result<Value, MethodError> {
        let ReportContent::Disposition(about) = &found.content else { return Ok(Value::Null) };
        let id = about
            .original_message_id
            .as_deref()
            .and_then(|id| message_ids(id.as_bytes()).into_iter().next());
        let email = id.map(|id| self.find(id)).transpose()?.flatten();
        let extensions: JsonObject = about
            .extensions
            .iter()
            .map(|(name, text)| (name.clone(), text.clone().into()))
            .collect();
        Ok(json!({
            "forEmailId": email.map(|id| id.to_string()),
            "subject": first(raw, "Subject").map(|field| field.decoded()),
            "textBody": found.text,
            "includeOriginalMessage": found.has_original,
            "reportingUA": about.reporting_ua,
            "disposition": disposition(about),
            "mdnGateway": about.gateway,
            "originalRecipient": about.original_recipient,
            "finalRecipient": about.final_recipient,
            "originalMessageId": about.original_message_id,
            "error": Some(&about.errors).filter(|errors| !errors.is_empty()),
            "extensionFields": or_null(extensions),
        }))
    }

    /// Finds the only email with this Message-ID; `None` if there are none or several, or if a
    /// bound on the search prevents the decision.
    fn find(&mut self, id: String) -> Result<Option<EmailId>, MethodError> {
        if let Some(email) = self.searched.get(&id) {
            return Ok(*email);
        }
        if self.searched.len() >= MAX_ORIGINALS || id.len() > limits::MAX_FILTER_TEXT_BYTES {
            return Ok(None);
        }
        let account = self.account.id;
        let filter =
            Filter::Is(Condition::Header { name: "Message-ID".into(), text: Some(id.clone()) });
        let query = Query {
            spec: QuerySpec {
                account,
                filter,
                reads: self.context.budget.search_allowance(),
                ..QuerySpec::default()
            },
            window: Window { limit: Some(MAX_CANDIDATES), ..Window::default() },
            total: false,
        };
        let snapshot = self.context.store.snapshot();
        let candidates = match query::query(&snapshot, self.context.store.secrets(), &query) {
            Ok(found) => found.answer.ids,
            // The request may search no more: the original stays unknown.
            Err(query::Error::TooMuchRead | query::Error::TooMuchWalked) => Vec::new(),
            Err(error) => return Err(error.into()),
        };
        let mut matching = Vec::new();
        for email in &candidates {
            let content = snapshot.content(account, *email)?;
            if content.is_some_and(|(_, content)| content.message_id.contains(&id)) {
                matching.push(*email);
            }
        }
        let found = matching
            .first()
            .copied()
            .filter(|_| matching.len() == 1 && candidates.len() < MAX_CANDIDATES);
        self.searched.insert(id, found);
        Ok(found)
    }
}
