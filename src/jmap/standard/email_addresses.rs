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
) -> Result<Option<Vec<EmailAddress>>, &'static str> {
    const EXPECTED: &str =
        "an array of objects with email, an address, and name, one line, is expected";
    if value.is_null() {
        return Ok(None);
    }
    let all = value.as_array().filter(|all| all.len() <= max).ok_or(EXPECTED)?;
    let one = |one: &Value| {
        let members = one.as_object()?;
        let name = match members.get("name") {
            None | Some(Value::Null) => None,
            Some(name) => {
                Some(name.as_str().filter(|name| !name.chars().any(char::is_control))?.to_owned())
            }
        };
        let email = members
            .get("email")?
            .as_str()
            .filter(|email| Address::parse(email).is_ok())?
            .to_owned();
        members
            .keys()
            .all(|key| key == "name" || key == "email")
            .then_some(EmailAddress { name, email })
    };
    all.iter().map(one).collect::<Option<_>>().map(Some).ok_or(EXPECTED)
}
