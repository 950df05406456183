//! MDN/parse (RFC 9007 §2.2): a message as an MDN, without keeping it.

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

/// Originals that one call looks for; beyond them it is not said which they are (RFC 9007 §2.2).
const MAX_ORIGINALS: usize = 100;
/// Emails with the id in their Message-ID field that are looked at.
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
    /// MDNs by the ids of their blobs.
    parsed: Option<JsonObject>,
    not_parsable: Option<Vec<String>>,
    not_found: Option<Vec<String>>,
}

impl Answer for MdnParseAnswer {}

impl Method for MdnParse {
    type Args = MdnParseArgs;
    type Answer = MdnParseAnswer;

    fn call(call: &Call<'_>, args: MdnParseArgs) -> Result<MdnParseAnswer, MethodError> {
        let account = super::open(call, &args.account_id)?;
        let wanted = || MethodError::InvalidArguments("blobIds is wanted".into());
        parse(call.context, &account, args.blob_ids.ok_or_else(wanted)?)
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
    let mut originals = Originals { context, account, known: BTreeMap::new() };
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
    let some = |ids: Vec<String>| Some(ids).filter(|ids| !ids.is_empty());
    Ok(MdnParseAnswer {
        account_id: account.id.to_string(),
        parsed: Some(parsed).filter(|parsed| !parsed.is_empty()),
        not_parsable: some(not_parsable),
        not_found: some(not_found),
    })
}

/// The emails that MDNs are about.
struct Originals<'a> {
    context: &'a Context,
    account: &'a Account,
    /// By Message-ID.
    known: BTreeMap<String, Option<EmailId>>,
}

impl Originals<'_> {
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
            "forEmailId": email.map(|id| id.to_string()), "subject": first(raw, "Subject").map(|field| field.decoded()),
            "textBody": found.text, "includeOriginalMessage": found.has_original, "reportingUA": about.reporting_ua,
            "disposition": disposition(about), "mdnGateway": about.gateway,
            "originalRecipient": about.original_recipient, "finalRecipient": about.final_recipient,
            "originalMessageId": about.original_message_id,
            "error": Some(&about.errors).filter(|errors| !errors.is_empty()), "extensionFields": or_null(extensions),
        }))
    }

    /// The one email of that Message-ID; of several none is meant more than the others.
    fn find(&mut self, id: String) -> Result<Option<EmailId>, MethodError> {
        if let Some(known) = self.known.get(&id) {
            return Ok(*known);
        }
        if self.known.len() >= MAX_ORIGINALS || id.len() > limits::MAX_FILTER_TEXT_BYTES {
            return Ok(None);
        }
        let account = self.account.id;
        let filter =
            Filter::Is(Condition::Header { name: "Message-ID".into(), text: Some(id.clone()) });
        let query = Query {
            results: QuerySpec {
                account,
                filter,
                reads: self.context.budget.search_allowance(),
                ..QuerySpec::default()
            },
            window: Window { limit: Some(MAX_CANDIDATES), ..Window::default() },
            total: false,
        };
        let snapshot = self.context.store.snapshot();
        let likely = match query::query(&snapshot, self.context.store.secrets(), &query) {
            Ok(found) => found.answer.ids,
            // Nothing more is sought: it is not said which email it is.
            Err(query::Error::TooMuchRead | query::Error::TooMuchWalked) => Vec::new(),
            Err(error) => return Err(error.into()),
        };
        let mut same = Vec::new();
        for email in &likely {
            let content = snapshot.content(account, *email)?;
            if content.is_some_and(|(_, content)| content.message_id.contains(&id)) {
                same.push(*email);
            }
        }
        let found =
            same.first().copied().filter(|_| same.len() == 1 && likely.len() < MAX_CANDIDATES);
        self.known.insert(id, found);
        Ok(found)
    }
}
