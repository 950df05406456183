//! The properties of an email by their names (RFC 8621 §4.1), and what those say that are read from a row or a header.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::jmap::context::date;
use crate::message::forms::{FormValue, HeaderProperty, PropertyValue, raw};
use crate::message::header::Field;
use crate::message::parse::Group;
use crate::model::{EmailAddress, EmailContent, EmailMetadata, limits};
use crate::wire::jmap::MethodError;

/// What is said of the email as the server keeps it.
pub(super) const METADATA: [&str; 7] = ["id", "blobId", "threadId", "mailboxIds", "keywords", "size", "receivedAt"];
/// What stands in the content row.
pub(super) const CONTENT: [&str; 13] = [
    "messageId",
    "inReplyTo",
    "references",
    "sender",
    "from",
    "to",
    "cc",
    "bcc",
    "replyTo",
    "subject",
    "sentAt",
    "hasAttachment",
    "preview",
];
/// The header, field by field.
const HEADERS: &str = "headers";
/// What is in the message alone.
pub(super) const BODY: [&str; 6] = [HEADERS, "bodyStructure", "bodyValues", "textBody", "htmlBody", "attachments"];
/// Of these, what is given where nothing is asked for (RFC 8621 §4.2, §4.9).
pub(super) const USUAL_BODY: [&str; 4] = ["bodyValues", "textBody", "htmlBody", "attachments"];

/// The properties that are asked for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct RequestedProperties {
    names: Vec<String>,
    headers: Vec<(String, HeaderProperty)>,
}

impl RequestedProperties {
    /// Reads their names.
    ///
    /// # Errors
    /// `invalidArguments` where one is no property, or a form is not for its field (RFC 8621 §4.1.3).
    pub(super) fn read(names: &[String]) -> Result<Self, MethodError> {
        let (mut wanted, mut seen) = (Self::default(), BTreeSet::new());
        for name in names.iter().filter(|name| seen.insert(*name)) {
            if name.starts_with("header:") {
                wanted.headers.push((name.clone(), header(name)?));
            } else if [&METADATA[..], &CONTENT, &BODY].iter().any(|known| known.contains(&name.as_str())) {
                wanted.names.push(name.clone());
            } else {
                return Err(MethodError::InvalidArguments(format!("properties: {name} is no property")));
            }
        }
        prove_headers(&wanted.headers)?;
        Ok(wanted)
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.names.iter().any(|wanted| wanted == name)
    }

    fn any(&self, names: &[&str]) -> bool {
        names.iter().any(|name| self.has(name))
    }

    /// Whether the content row is needed.
    pub(super) fn content(&self) -> bool {
        self.any(&CONTENT)
    }

    /// Whether the message or its header must be read.
    pub(super) fn message(&self) -> bool {
        self.any(&BODY) || !self.headers.is_empty()
    }

    /// Whether more of the message must be read than its header.
    pub(super) fn body(&self) -> bool {
        BODY.iter().any(|name| *name != HEADERS && self.has(name))
    }

    /// What the metadata says.
    pub(super) fn of_metadata(&self, id: &str, blob: &str, email: &EmailMetadata, object: &mut Map<String, Value>) {
        let set = |keys: &mut dyn Iterator<Item = String>| {
            Value::Object(keys.map(|key| (key, Value::Bool(true))).collect::<Map<String, Value>>())
        };
        for name in METADATA.iter().filter(|name| self.has(name)) {
            let value = match *name {
                "id" => id.into(),
                "blobId" => blob.into(),
                "threadId" => email.thread.to_string().into(),
                "mailboxIds" => set(&mut email.mailboxes.iter().map(ToString::to_string)),
                "keywords" => set(&mut email.keywords.iter().cloned()),
                "size" => email.size.into(),
                _ => date(Some(email.received_at)),
            };
            object.insert((*name).to_owned(), value);
        }
    }

    /// What the content row says.
    pub(super) fn of_content(&self, content: &EmailContent, object: &mut Map<String, Value>) {
        let list = |ids: &[String]| if ids.is_empty() { Value::Null } else { json!(ids) };
        let with = |bit: u8, all: &[EmailAddress]| {
            if all.is_empty() && content.blank >> bit & 1 == 0 { Value::Null } else { people(all) }
        };
        for name in CONTENT.iter().filter(|name| self.has(name)) {
            let value = match *name {
                "messageId" => list(&content.message_id),
                "inReplyTo" => list(&content.in_reply_to),
                "references" => list(&content.references),
                "from" => with(0, &content.from),
                "to" => with(1, &content.to),
                "cc" => with(2, &content.cc),
                "bcc" => with(3, &content.bcc),
                "sender" => with(4, &content.sender),
                "replyTo" => with(5, &content.reply_to),
                "subject" => json!(content.subject),
                "sentAt" => json!(content.sent_at.map(crate::model::SentAt::rfc3339)),
                "hasAttachment" => content.has_attachment.into(),
                _ => json!(content.preview),
            };
            object.insert((*name).to_owned(), value);
        }
    }

    /// What `header:` properties show of a header.
    pub(super) fn of_header<'f>(
        &self,
        header: &(impl Iterator<Item = Field<'f>> + Clone),
        object: &mut Map<String, Value>,
        grow: &ValueCheck<'_>,
    ) -> Result<(), MethodError> {
        shown(&self.headers, header, object, grow)?;
        if self.has(HEADERS) {
            object.insert(HEADERS.into(), all_fields(header.clone(), grow)?);
        }
        Ok(())
    }
}

/// A property `header:…`.
///
/// # Errors
/// `invalidArguments`.
pub(super) fn header(name: &str) -> Result<HeaderProperty, MethodError> {
    name.parse().map_err(|error| MethodError::InvalidArguments(format!("{name}: {error}")))
}

/// Refuses more `header:` properties than one call may ask for.
///
/// # Errors
/// `requestTooLarge`.
pub(super) fn prove_headers(headers: &[(String, HeaderProperty)]) -> Result<(), MethodError> {
    if headers.len() > limits::HEADER_PROPERTIES {
        return Err(MethodError::RequestTooLarge("more header: properties than one call may ask for"));
    }
    Ok(())
}

/// Told of each value before it becomes part of the answer; an error ends the call.
pub(super) type ValueCheck<'a> = dyn Fn(&Value) -> Result<(), MethodError> + 'a;

/// What properties `header:…` show of a header.
pub(super) fn shown<'f>(
    properties: &[(String, HeaderProperty)],
    header: &(impl Iterator<Item = Field<'f>> + Clone),
    object: &mut Map<String, Value>,
    grow: &ValueCheck<'_>,
) -> Result<(), MethodError> {
    for (name, property) in properties {
        let value = match property.evaluate(header.clone()) {
            PropertyValue::Last(value) => value.as_ref().map_or(Value::Null, in_json),
            PropertyValue::All(values) => values.iter().map(in_json).collect(),
        };
        grow(&value)?;
        object.insert(name.clone(), value);
    }
    Ok(())
}

/// `EmailHeader[]` (RFC 8621 §4.1.3).
pub(super) fn all_fields<'f>(
    header: impl Iterator<Item = Field<'f>>,
    grow: &ValueCheck<'_>,
) -> Result<Value, MethodError> {
    let all = header.map(|field| {
        let field = json!({"name": String::from_utf8_lossy(field.name), "value": raw(&field)});
        grow(&field).map(|()| field)
    });
    all.collect::<Result<_, _>>().map(Value::Array)
}

fn in_json(value: &FormValue) -> Value {
    let group = |group: &Group| json!({"name": group.name, "addresses": people(&group.addresses)});
    match value {
        FormValue::Text(text) => text.as_str().into(),
        FormValue::Addresses(all) => people(all),
        FormValue::Groups(groups) => groups.iter().map(group).collect(),
        FormValue::Strings(list) => json!(list),
        FormValue::Date(at) => json!(at.map(crate::model::SentAt::rfc3339)),
    }
}

fn people(all: &[EmailAddress]) -> Value {
    all.iter().map(|one| json!({"name": one.name, "email": one.email})).collect()
}
