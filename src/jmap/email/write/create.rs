//! Builds the message of an email that a client creates (RFC 8621 §4.6).

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

/// The properties that stand for a header field, with its name and form (RFC 8621 §4.1.3).
const HEADER_PROPERTIES: [(&str, &str, Form); 11] = [
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
const BODY_PROPERTIES: [&str; 5] =
    ["bodyStructure", "bodyValues", "textBody", "htmlBody", "attachments"];

/// The header fields that a client sets, none of them by two properties (RFC 8621 §4.6).
#[derive(Debug, Default)]
struct HeaderFields {
    /// In lower case. Also has fields that were refused.
    names: BTreeSet<String>,
    fields: Vec<build::EncodedField>,
}

impl HeaderFields {
    fn has(&self, name: &str) -> bool {
        self.names.contains(&name.to_ascii_lowercase())
    }

    /// Notes that a field is set. Returns false if it was set before.
    fn claim(&mut self, name: &str) -> bool {
        self.names.insert(name.to_ascii_lowercase())
    }

    /// Sets the fields that a property makes, or adds a problem at `path`.
    fn set(
        &mut self,
        property: &HeaderProperty,
        json: &Value,
        path: &str,
        problems: &mut InvalidProperties,
    ) {
        if !self.claim(&property.name) {
            problems.add(path, "the same header field is set by two properties");
            return;
        }
        match value::encode_fields(property, json) {
            Ok(fields) => self.fields.extend(fields),
            Err(BadFieldValue(why)) => problems.add(path, why),
        }
    }
}

/// Builds the message of an object in `create` of Email/set. `problems` holds those found so far.
///
/// # Errors
/// `blobNotFound`, also if there are invalid properties; `invalidProperties`; `tooLarge`;
/// `rateLimit` if the request reads too much; an error of the call if a blob cannot be read or the
/// system gives no random bytes.
pub(in crate::jmap::email) fn build_message(
    context: &Context,
    account: &Account,
    object: &Map<String, Value>,
    now: UtcMillis,
    mut problems: InvalidProperties,
) -> Result<Vec<u8>, SetFailure> {
    let mut header = HeaderFields::default();
    for (name, value) in object.iter().filter(|(_, value)| !value.is_null()) {
        if filing::PROPERTIES.contains(&name.as_str()) || BODY_PROPERTIES.contains(&name.as_str()) {
            continue;
        }
        if let Some((_, field, form)) = HEADER_PROPERTIES.iter().find(|(own, ..)| own == name) {
            let property = HeaderProperty { name: (*field).to_owned(), form: *form, all: false };
            header.set(&property, value, name, &mut problems);
        } else if name.starts_with("header:") {
            match name.parse::<HeaderProperty>() {
                Ok(property) if is_content_field(&property.name) => {
                    problems.add(name, "this header field can be set only on a body part");
                }
                Ok(property) => header.set(&property, value, name, &mut problems),
                Err(error) => problems.add(name, &error.to_string()),
            }
        } else {
            problems.add(name, "an email cannot be created with this property");
        }
    }
    let mut parts = PartBuilder::new(context, account, object, &header, &mut problems);
    let body = parts.body()?;
    let (missing_blobs, total_bytes, blob_bytes) =
        (std::mem::take(&mut parts.missing_blobs), parts.total_bytes, parts.blob_bytes);
    // RFC 8620 §5.3: a more specific error takes precedence over `invalidProperties`.
    if !missing_blobs.is_empty() {
        return Err(SetError::BlobNotFound(missing_blobs).into());
    }
    problems.finish()?;
    let too_large = || {
        SetFailure::Object(SetError::TooLarge(format!(
            "more than {} bytes",
            limits::MAX_MESSAGE_BYTES
        )))
    };
    if blob_bytes > limits::MAX_ATTACHMENTS_BYTES {
        let max = limits::MAX_ATTACHMENTS_BYTES;
        return Err(SetError::TooLarge(format!("more than {max} bytes of attachments")).into());
    }
    if total_bytes > limits::MAX_MESSAGE_BYTES {
        return Err(too_large());
    }
    let (id, seed) = new_message_id(account).map_err(SetFailure::Call)?;
    let mut fields = header.fields;
    let defaults = [
        ("Message-ID", build::FieldValue::MessageIds(vec![id])),
        ("Date", build::FieldValue::Date(SentAt { at: now, offset_minutes: 0 })),
    ];
    for (name, value) in defaults {
        // The root of a bodyStructure shares the header of the message, so it may have set the
        // field. An empty list or a blank value made none.
        if !fields.iter().chain(&body.fields).any(|field| field.is(name)) {
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

fn is_content_field(name: &str) -> bool {
    name.get(..8).is_some_and(|start| start.eq_ignore_ascii_case("Content-"))
}

/// Returns a new Message-ID in the domain of an account, without angle brackets, and a seed for
/// MIME boundaries. Both are random.
///
/// # Errors
/// `serverUnavailable` if the system gives no random bytes.
pub(in crate::jmap) fn new_message_id(account: &Account) -> Result<(String, String), MethodError> {
    let mut random = [0u8; 32];
    getrandom::fill(&mut random)
        .map_err(|error| MethodError::ServerUnavailable(format!("no random bytes: {error}")))?;
    let hex = hex(&random);
    let (id, seed) = hex.split_at(32);
    Ok((format!("{id}@{}", domain(account)), seed.to_owned()))
}

/// Returns the domain for a Message-ID (RFC 5322 §3.6.4): that of the primary address if it has
/// only ASCII letters, digits, dots and hyphens, else `localhost`.
fn domain(account: &Account) -> String {
    let primary = account.row.primary.to_string();
    let domain = primary.rsplit('@').next().unwrap_or_default();
    let is_valid = !domain.is_empty()
        && domain.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-".contains(&byte));
    if is_valid { domain.to_owned() } else { "localhost".to_owned() }
}

#[cfg(test)]
mod tests;
