//! An email from what a client says of it (RFC 8621 §4.6): its rules, and the message that is
//! built.

mod part;
mod value;

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::filing;
use crate::jmap::context::{Account, Context};
use crate::jmap::failure::SetFailure;
use crate::jmap::standard::InvalidProperties;
use crate::message::build::{self, BadFieldValue, MessageTree};
use crate::message::forms::{Form, HeaderProperty};
use crate::model::hex::hex;
use crate::model::{SentAt, UtcMillis, limits};
use crate::wire::jmap::{MethodError, SetError};
use part::PartBuilder;

/// Properties that stand for a header field, with its name and form (RFC 8621 §4.1.3).
const FIELDS: [(&str, &str, Form); 11] = [
    ("messageId", "Message-ID", Form::MessageIds),
    ("inReplyTo", "In-Reply-To", Form::MessageIds),
    ("references", "References", Form::MessageIds),
    ("sender", "Sender", Form::Addresses),
    ("from", "From", Form::Addresses),
    ("to", "To", Form::Addresses),
    ("cc", "Cc", Form::Addresses),
    ("bcc", "Bcc", Form::Addresses),
    ("replyTo", "Reply-To", Form::Addresses),
    ("subject", "Subject", Form::Text),
    ("sentAt", "Date", Form::Date),
];
/// Properties that are about the body.
const BODY: [&str; 5] = ["bodyStructure", "bodyValues", "textBody", "htmlBody", "attachments"];

/// The header fields that an object has set: none twice (RFC 8621 §4.6).
#[derive(Debug, Default)]
struct HeaderFields {
    names: BTreeSet<String>,
    fields: Vec<build::EncodedField>,
}

impl HeaderFields {
    fn has(&self, name: &str) -> bool {
        self.names.contains(&name.to_ascii_lowercase())
    }

    /// Claims a name; says whether it was free.
    fn claim(&mut self, name: &str) -> bool {
        self.names.insert(name.to_ascii_lowercase())
    }

    fn set(
        &mut self,
        property: &HeaderProperty,
        json: &Value,
        path: &str,
        wrong: &mut InvalidProperties,
    ) {
        if !self.claim(&property.name) {
            wrong.add(path, "the same header field is set by two properties");
            return;
        }
        match value::fields(property, json) {
            Ok(fields) => self.fields.extend(fields),
            Err(BadFieldValue(why)) => wrong.add(path, why),
        }
    }
}

/// The message, built of an object of Email/set's `create`, of which so much is known to be wrong.
///
/// # Errors
/// `invalidProperties`, `blobNotFound`, `tooLarge`; what concerns the whole call.
pub(in crate::jmap::email) fn message(
    context: &Context,
    account: &Account,
    object: &Map<String, Value>,
    now: UtcMillis,
    mut wrong: InvalidProperties,
) -> Result<Vec<u8>, SetFailure> {
    let mut header = HeaderFields::default();
    for (name, value) in object.iter().filter(|(_, value)| !value.is_null()) {
        if filing::NAMES.contains(&name.as_str()) || BODY.contains(&name.as_str()) {
            continue;
        }
        if let Some((_, field, form)) = FIELDS.iter().find(|(known, ..)| known == name) {
            let property = HeaderProperty { name: (*field).to_owned(), form: *form, all: false };
            header.set(&property, value, name, &mut wrong);
        } else if name.starts_with("header:") {
            match name.parse::<HeaderProperty>() {
                Ok(property) if is_of_body(&property.name) => {
                    wrong.add(name, "it belongs to a body part")
                }
                Ok(property) => header.set(&property, value, name, &mut wrong),
                Err(error) => wrong.add(name, &error.to_string()),
            }
        } else {
            wrong.add(name, "an email that is made has no such property");
        }
    }
    let mut parts = PartBuilder::new(context, account, object, &header, &mut wrong);
    let body = parts.body()?;
    let (missing, octets, attached) =
        (std::mem::take(&mut parts.missing), parts.octets, parts.attached);
    // Where there is an error of its own for it, it is that and not `invalidProperties` (RFC 8620
    // §5.3).
    if !missing.is_empty() {
        return Err(SetError::BlobNotFound(missing).into());
    }
    wrong.finish()?;
    let too_large = || {
        SetFailure::Object(SetError::TooLarge(format!(
            "more than {} octets",
            limits::MAX_MESSAGE_BYTES
        )))
    };
    if attached > limits::MAX_ATTACHMENTS_BYTES {
        let most = limits::MAX_ATTACHMENTS_BYTES;
        return Err(SetError::TooLarge(format!("more than {most} octets of attachments")).into());
    }
    if octets > limits::MAX_MESSAGE_BYTES {
        return Err(too_large());
    }
    let (id, seed) = message_id(account).map_err(SetFailure::Call)?;
    let HeaderFields { names, mut fields } = header;
    let added = [
        ("Message-ID", build::FieldValue::MessageIds(vec![id])),
        ("Date", build::FieldValue::Date(SentAt { at: now, offset_minutes: 0 })),
    ];
    for (name, value) in added {
        // The root of a bodyStructure may have set it, too: that is the same header.
        if !names.contains(&name.to_ascii_lowercase())
            && !body.fields.iter().any(|field| field.is(name))
        {
            let field = build::EncodedField::new(name, &value);
            fields.push(
                field.map_err(|error| {
                    SetFailure::Call(MethodError::ServerFail(error.to_string()))
                })?,
            );
        }
    }
    let raw = build::build(&MessageTree { fields, body }, &seed);
    if raw.len() as u64 > limits::MAX_MESSAGE_BYTES { Err(too_large()) } else { Ok(raw) }
}

fn is_of_body(name: &str) -> bool {
    name.get(..8).is_some_and(|start| start.eq_ignore_ascii_case("Content-"))
}

/// A new Message-ID of an account's, and a word beside; nobody can guess either.
pub(in crate::jmap) fn message_id(account: &Account) -> Result<(String, String), MethodError> {
    let mut random = [0u8; 32];
    getrandom::fill(&mut random)
        .map_err(|error| MethodError::ServerUnavailable(format!("no randomness: {error}")))?;
    let hex = hex(&random);
    let (id, seed) = hex.split_at(32);
    Ok((format!("{id}@{}", domain(account)), seed.to_owned()))
}

/// The account's own domain, which is where an id is unique (RFC 5322 §3.6.4).
fn domain(account: &Account) -> String {
    let primary = account.row.primary.to_string();
    let domain = primary.rsplit('@').next().unwrap_or_default();
    let fits = !domain.is_empty()
        && domain.bytes().all(|octet| octet.is_ascii_alphanumeric() || b".-".contains(&octet));
    if fits { domain.to_owned() } else { "localhost".to_owned() }
}

#[cfg(test)]
mod tests;
