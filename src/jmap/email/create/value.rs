//! JSON as values of header fields.

use serde_json::Value;

use crate::message::build::{self, BadValue, Field};
use crate::message::forms::{self, Form, HeaderProperty};
use crate::message::parse::Group;
use crate::model::{EmailAddress, SentAt, limits};

/// The fields that a property makes: one, or with `:all` one for each value.
pub(super) fn fields(property: &HeaderProperty, json: &Value) -> Result<Vec<Field>, BadValue> {
    if !property.all {
        return Ok(one(property, json)?.into_iter().collect());
    }
    let all = json.as_array().ok_or(BadValue("an array is wanted"))?;
    if all.len() > limits::ADDRESSES {
        return Err(BadValue("too many values"));
    }
    let made: Result<Vec<Option<Field>>, BadValue> = all.iter().map(|json| one(property, json)).collect();
    Ok(made?.into_iter().flatten().collect())
}

/// An empty list is no field: RFC 5322 §3.6 knows no field of addresses, ids or URLs without any.
fn one(property: &HeaderProperty, json: &Value) -> Result<Option<Field>, BadValue> {
    let value = match property.form {
        Form::Raw => build::Value::Raw(text(json)?),
        Form::Text => build::Value::Text(text(json)?),
        Form::Addresses => build::Value::Addresses(addresses(json)?),
        Form::GroupedAddresses => build::Value::Groups(list(json, group)?),
        Form::MessageIds => build::Value::MessageIds(list(json, text)?),
        Form::Urls => build::Value::Urls(list(json, text)?),
        Form::Date => {
            let date = json.as_str().and_then(SentAt::parse_rfc3339);
            build::Value::Date(date.ok_or(BadValue("a Date such as 2026-12-24T09:00:00+01:00 is wanted"))?)
        }
    };
    let empty = match &value {
        build::Value::MessageIds(all) | build::Value::Urls(all) => all.is_empty(),
        build::Value::Addresses(all) => all.is_empty(),
        build::Value::Groups(all) => all.iter().all(|group| group.name.is_none() && group.addresses.is_empty()),
        build::Value::Raw(text) => text.trim().is_empty() && forms::needs_value(&property.name),
        build::Value::Text(_) | build::Value::Date(_) => false,
    };
    if empty { Ok(None) } else { Field::new(&property.name, &value).map(Some) }
}

fn text(json: &Value) -> Result<String, BadValue> {
    json.as_str().map(str::to_owned).ok_or(BadValue("a text is wanted"))
}

fn list<T>(json: &Value, one: impl Fn(&Value) -> Result<T, BadValue>) -> Result<Vec<T>, BadValue> {
    json.as_array().ok_or(BadValue("an array is wanted"))?.iter().map(one).collect()
}

fn addresses(json: &Value) -> Result<Vec<EmailAddress>, BadValue> {
    list(json, |json| {
        let object = json.as_object().ok_or(BadValue("an array of objects with name and email is wanted"))?;
        if object.keys().any(|key| key != "name" && key != "email") {
            return Err(BadValue("an address has a name and an email"));
        }
        let name = object.get("name").filter(|name| !name.is_null()).map(text).transpose()?;
        Ok(EmailAddress { name, email: text(object.get("email").unwrap_or(&Value::Null))? })
    })
}

fn group(json: &Value) -> Result<Group, BadValue> {
    let object = json.as_object().ok_or(BadValue("an array of objects with name and addresses is wanted"))?;
    if object.keys().any(|key| key != "name" && key != "addresses") {
        return Err(BadValue("a group has a name and addresses"));
    }
    let name = object.get("name").filter(|name| !name.is_null()).map(text).transpose()?;
    Ok(Group { name, addresses: addresses(object.get("addresses").unwrap_or(&Value::Null))? })
}
