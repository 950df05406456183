//! Reads and writes `EmailAddress[]` (RFC 8621 §4.1.2.3) as JSON.

use serde_json::{Value, json};

use crate::model::{Address, EmailAddress};

pub(in crate::jmap) fn to_json(addresses: &[EmailAddress]) -> Value {
    addresses.iter().map(|address| json!({"name": address.name, "email": address.email})).collect()
}

/// Reads up to `max` addresses; `None` for null.
///
/// # Errors
/// A text that says what is expected.
pub(in crate::jmap) fn read(
    value: &Value,
    max: usize,
) -> Result<Option<Vec<EmailAddress>>, String> {
    if value.is_null() {
        return Ok(None);
    }
    let all = value.as_array().filter(|all| all.len() <= max);
    let all = all.ok_or_else(|| format!("an array of up to {max} EmailAddress is expected"))?;
    all.iter().map(read_one).collect::<Result<_, _>>().map(Some)
}

/// Reads an `EmailAddress`.
///
/// # Errors
/// A text that says what is expected.
pub(in crate::jmap) fn read_one(value: &Value) -> Result<EmailAddress, String> {
    let one = || {
        let members = value.as_object()?;
        let name = match members.get("name") {
            None | Some(Value::Null) => None,
            Some(name) => {
                Some(name.as_str().filter(|name| !name.chars().any(char::is_control))?.to_owned())
            }
        };
        let email = members.get("email")?.as_str()?;
        Address::parse(email).ok()?;
        let has_no_more = members.keys().all(|key| key == "name" || key == "email");
        has_no_more.then(|| EmailAddress { name, email: email.to_owned() })
    };
    one().ok_or_else(|| {
        "an object is expected whose email is an address, and whose name, if any, is one line"
            .to_owned()
    })
}
