//! Email/parse (RFC 8621 §4.9): shows a blob as an email, without storing it.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::Value;

use super::body::{BodyArgs, MessageRenderer, TracedMessage};
use super::property::{EmailProperty, MetadataProperty, RequestedProperties};
use crate::jmap::method::{Call, Method};
use crate::message::content::content;
use crate::message::header::is_message;
use crate::message::{Message, catch_parser_panic};
use crate::model::{BlobId, limits};
use crate::wire::jmap::json::or_null;
use crate::wire::jmap::{Answer, JsonObject, MethodError, With};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::jmap) struct ParseArgs {
    account_id: String,
    blob_ids: BTreeSet<String>,
    properties: Option<Vec<EmailProperty>>,
}

#[derive(Debug, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::jmap) struct ParseAnswer {
    account_id: String,
    parsed: JsonObject,
    not_parsable: Vec<String>,
    not_found: Vec<String>,
}

impl Answer for ParseAnswer {
    /// Moves the parsed objects, which may be large. An empty member is null.
    fn into_value(self) -> serde_json::Result<Value> {
        let ids = |ids: Vec<String>| if ids.is_empty() { Value::Null } else { ids.into() };
        let mut answer = JsonObject::new();
        answer.insert("accountId".into(), self.account_id.into());
        answer.insert("parsed".into(), or_null(self.parsed));
        answer.insert("notParsable".into(), ids(self.not_parsable));
        answer.insert("notFound".into(), ids(self.not_found));
        Ok(Value::Object(answer))
    }
}

pub(in crate::jmap) struct EmailParse;

impl Method for EmailParse {
    type Args = With<ParseArgs, BodyArgs>;
    type Answer = ParseAnswer;

    fn call(call: &Call<'_>, With(args, body): Self::Args) -> Result<ParseAnswer, MethodError> {
        let (context, account) = (call.context, call.account(&args.account_id)?);
        if args.blob_ids.len() > limits::MAX_OBJECTS_IN_GET {
            return Err(MethodError::RequestTooLarge("maxObjectsInGet"));
        }
        let properties = match args.properties {
            Some(named) => RequestedProperties::new(named)?,
            None => RequestedProperties::parse_defaults(),
        };
        let renderer = MessageRenderer::new(context, body)?;
        let (mut parsed, mut not_parsable, mut not_found) =
            (JsonObject::new(), Vec::new(), Vec::new());
        for id in args.blob_ids {
            let raw = context.bytes_by_id(&account, &id)?;
            let (Some(raw), Ok(blob)) = (raw, id.parse::<BlobId>()) else {
                not_found.push(id);
                continue;
            };
            if !is_message(&raw) {
                not_parsable.push(id);
                continue;
            }
            let object = Value::Object(object(&properties, &renderer, &raw, (&id, &blob))?);
            context.budget.add_to_answer(&object)?;
            parsed.insert(id, object);
        }
        Ok(ParseAnswer { account_id: account.id.to_string(), parsed, not_parsable, not_found })
    }
}

/// Returns the object of a message. `id` is the blob id of the message as the client wrote it, and
/// `blob` the parsed id. Properties that only a stored email has are null.
fn object(
    properties: &RequestedProperties,
    renderer: &MessageRenderer,
    raw: &[u8],
    (id, blob): (&str, &BlobId),
) -> Result<JsonObject, MethodError> {
    let mut object = JsonObject::new();
    for property in &properties.metadata {
        let value = match property {
            MetadataProperty::BlobId => id.into(),
            MetadataProperty::Size => raw.len().into(),
            MetadataProperty::Id
            | MetadataProperty::ThreadId
            | MetadataProperty::MailboxIds
            | MetadataProperty::Keywords
            | MetadataProperty::ReceivedAt => Value::Null,
        };
        object.insert(property.as_str().to_owned(), value);
    }
    if properties.needs_content() {
        let content =
            catch_parser_panic("a message", || content(&Message::parse(raw))).unwrap_or_default();
        properties.add_content(content, &mut object);
    }
    if properties.needs_message() {
        renderer.add_message(properties, TracedMessage { prefix: &[], raw, blob }, &mut object)?;
    }
    Ok(object)
}
