//! Encodes JSON values as header fields.

use serde_json::Value;

use crate::message::build::{self, BadFieldValue, EncodedField};
use crate::message::forms::{self, Form, HeaderProperty};
use crate::message::parse::Group;
use crate::message::refs;
use crate::model::{EmailAddress, SentAt, limits};

/// The fields with the ids of other messages, which need not be ids that can be written.
const REPLY_FIELDS: [&str; 2] = ["In-Reply-To", "References"];

/// Returns the fields that a property makes: at most one, or with `:all` at most one for each
/// value.
///
/// # Errors
/// `BadFieldValue` if the value has another form than the property, has too many values, or cannot
/// be encoded.
pub(super) fn encode_fields(
    property: &HeaderProperty,
    json: &Value,
) -> Result<Vec<EncodedField>, BadFieldValue> {
    if !property.all {
        return Ok(encode_field(property, json)?.into_iter().collect());
    }
    let all = json.as_array().ok_or(BadFieldValue("an array is expected"))?;
    if all.len() > limits::MAX_FIELD_ADDRESSES {
        return Err(BadFieldValue("too many values"));
    }
    let fields: Result<Vec<Option<EncodedField>>, BadFieldValue> =
        all.iter().map(|json| encode_field(property, json)).collect();
    Ok(fields?.into_iter().flatten().collect())
}

/// Returns `None` for an empty list, for groups that have neither a name nor an address, and for a
/// blank raw value of a field that must have a value (RFC 5322 §3.6).
fn encode_field(
    property: &HeaderProperty,
    json: &Value,
) -> Result<Option<EncodedField>, BadFieldValue> {
    let is = |name: &str| property.name.eq_ignore_ascii_case(name);
    let value = match property.form {
        Form::Raw => build::FieldValue::Raw(text(json)?),
        Form::Text => build::FieldValue::Text(text(json)?),
        Form::Addresses => build::FieldValue::Addresses(addresses(json)?),
        Form::GroupedAddresses => build::FieldValue::Groups(list(json, group)?),
        Form::MessageIds if REPLY_FIELDS.iter().any(|name| is(name)) => {
            build::FieldValue::MessageIds(refs::writable(list(json, text)?))
        }
        Form::MessageIds => build::FieldValue::MessageIds(list(json, text)?),
        Form::Urls => build::FieldValue::Urls(list(json, text)?),
        Form::Date => {
            let date = json.as_str().and_then(SentAt::parse_rfc3339);
            build::FieldValue::Date(
                date.ok_or(BadFieldValue("a Date such as 2026-12-24T09:00:00+01:00 is expected"))?,
            )
        }
    };
    let is_empty = match &value {
        build::FieldValue::MessageIds(all) | build::FieldValue::Urls(all) => all.is_empty(),
        build::FieldValue::Addresses(all) => all.is_empty(),
        build::FieldValue::Groups(all) => {
            all.iter().all(|group| group.name.is_none() && group.addresses.is_empty())
        }
        build::FieldValue::Raw(text) => {
            text.trim().is_empty() && forms::needs_value(&property.name)
        }
        build::FieldValue::Text(_) | build::FieldValue::Date(_) => false,
    };
    if is_empty { Ok(None) } else { EncodedField::new(&property.name, &value).map(Some) }
}

fn text(json: &Value) -> Result<String, BadFieldValue> {
    json.as_str().map(str::to_owned).ok_or(BadFieldValue("a text is expected"))
}

fn list<T>(
    json: &Value,
    read: impl Fn(&Value) -> Result<T, BadFieldValue>,
) -> Result<Vec<T>, BadFieldValue> {
    json.as_array().ok_or(BadFieldValue("an array is expected"))?.iter().map(read).collect()
}

fn addresses(json: &Value) -> Result<Vec<EmailAddress>, BadFieldValue> {
    list(json, |json| {
        let object = json
            .as_object()
            .ok_or(BadFieldValue("an array of objects with name and email is expected"))?;
        if object.keys().any(|key| key != "name" && key != "email") {
            return Err(BadFieldValue("an address has a name and an email"));
        }
        let name = object.get("name").filter(|name| !name.is_null()).map(text).transpose()?;
        Ok(EmailAddress { name, email: text(object.get("email").unwrap_or(&Value::Null))? })
    })
}

fn group(json: &Value) -> Result<Group, BadFieldValue> {
    let object = json
        .as_object()
        .ok_or(BadFieldValue("an array of objects with name and addresses is expected"))?;
    if object.keys().any(|key| key != "name" && key != "addresses") {
        return Err(BadFieldValue("a group has a name and addresses"));
    }
    let name = object.get("name").filter(|name| !name.is_null()).map(text).transpose()?;
    Ok(Group { name, addresses: addresses(object.get("addresses").unwrap_or(&Value::Null))? })
}
