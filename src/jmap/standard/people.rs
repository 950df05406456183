//! `EmailAddress[]` (RFC 8621 §4.1.2.3) as it is set and shown.

use serde_json::{Value, json};

use crate::model::{Address, EmailAddress};

/// As JSON.
pub(in crate::jmap) fn object(people: &[EmailAddress]) -> Value {
    people.iter().map(one).collect()
}

fn one(person: &EmailAddress) -> Value {
    json!({"name": person.name, "email": person.email})
}

/// From JSON; null is none at all.
///
/// # Errors
/// What is wanted.
pub(in crate::jmap) fn read(
    value: &Value,
    most: usize,
) -> Result<Option<Vec<EmailAddress>>, &'static str> {
    const WANTED: &str =
        "an array of objects with email, an address, and name, one line, is wanted";
    if value.is_null() {
        return Ok(None);
    }
    let all = value.as_array().filter(|all| all.len() <= most).ok_or(WANTED)?;
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
    all.iter().map(one).collect::<Option<_>>().map(Some).ok_or(WANTED)
}
