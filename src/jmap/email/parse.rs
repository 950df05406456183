//! Email/parse (RFC 8621 §4.9): a blob as an email, without keeping it.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::blobs::octets;
use super::body::{Bodies, TracedMessage};
use super::property::{CONTENT, RequestedProperties, USUAL_BODY};
use crate::jmap::context::{Args, Context};
use crate::message::content::content;
use crate::message::header::is_message;
use crate::message::{Message, catch_parser_panic};
use crate::model::{BlobId, limits};
use crate::wire::jmap::MethodError;

pub(in crate::jmap) fn parse(context: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    let account = context.open_shared(arguments)?;
    if arguments.get("blobIds").is_none() {
        return Err(MethodError::InvalidArguments("blobIds: an array of ids is wanted".into()));
    }
    let ids: BTreeSet<String> = arguments.texts("blobIds")?.into_iter().collect();
    if ids.len() > limits::OBJECTS_IN_GET {
        return Err(MethodError::RequestTooLarge("maxObjectsInGet"));
    }
    let names = match arguments.get("properties") {
        Some(_) => arguments.distinct("properties")?,
        None => CONTENT.iter().chain(&USUAL_BODY).map(|name| (*name).to_owned()).collect(),
    };
    let (wanted, bodies) = (RequestedProperties::read(&names)?, Bodies::read(context, arguments)?);
    let (mut parsed, mut not_parsable, mut not_found) = (Map::new(), Vec::new(), Vec::new());
    for id in ids {
        let raw = octets(context, &account, &id)?;
        let (Some(raw), Ok(blob)) = (raw, id.parse::<BlobId>()) else {
            not_found.push(id);
            continue;
        };
        if !is_message(&raw) {
            not_parsable.push(id);
            continue;
        }
        let mut object = Map::new();
        for name in ["id", "threadId", "mailboxIds", "keywords", "receivedAt"].iter().filter(|name| wanted.has(name)) {
            object.insert((*name).to_owned(), Value::Null);
        }
        for (name, value) in [("blobId", json!(id)), ("size", json!(raw.len()))] {
            if wanted.has(name) {
                object.insert(name.into(), value);
            }
        }
        if wanted.content() {
            let content = catch_parser_panic("a message", || content(&Message::parse(&raw))).unwrap_or_default();
            wanted.of_content(&content, &mut object);
        }
        if wanted.message() {
            bodies.of(&wanted, TracedMessage { prefix: &[], raw: &raw, blob: &blob }, &mut object)?;
        }
        let object = Value::Object(object);
        context.budget.tell(&object)?;
        parsed.insert(id, object);
    }
    let or_null = |ids: Vec<String>| if ids.is_empty() { Value::Null } else { json!(ids) };
    Ok(json!({
        "accountId": account.id.to_string(),
        "parsed": if parsed.is_empty() { Value::Null } else { Value::Object(parsed) },
        "notParsable": or_null(not_parsable), "notFound": or_null(not_found),
    }))
}
