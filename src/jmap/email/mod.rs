//! Email, as JMAP has it (RFC 8621 §4): how a question is asked. The methods join with their issue.

pub mod filter;
pub(super) mod listings;
pub mod sort;
pub mod window;

use serde_json::Value;

use super::context::fail;
use crate::model::UtcMillis;
use crate::query;
use crate::wire::jmap::MethodError;

/// The largest `UnsignedInt`, and `Int` either way (RFC 8620 §1.3).
const WHOLE: u64 = (1 << 53) - 1;

/// A question's error as a method's.
pub(super) fn refused(error: query::Error) -> MethodError {
    match error {
        query::Error::Unsupported(what) => MethodError::UnsupportedFilter(what.into()),
        query::Error::AnchorNotFound => MethodError::AnchorNotFound,
        query::Error::CannotCalculateChanges => MethodError::CannotCalculateChanges,
        query::Error::TooManyChanges => MethodError::TooManyChanges,
        query::Error::Store(error) => fail(&error),
    }
}

fn wanted(name: &str, what: &str) -> MethodError {
    MethodError::InvalidArguments(format!("{name}: {what} is wanted"))
}

/// `String` (RFC 8620 §1.1).
fn text<'v>(name: &str, value: &'v Value) -> Result<&'v str, MethodError> {
    value.as_str().ok_or_else(|| wanted(name, "a text"))
}

/// `Id` (RFC 8620 §1.2).
fn id<'v>(name: &str, value: &'v Value) -> Result<&'v str, MethodError> {
    let is_id = |text: &&str| {
        (1..=255).contains(&text.len())
            && text.bytes().all(|octet| octet.is_ascii_alphanumeric() || matches!(octet, b'-' | b'_'))
    };
    value.as_str().filter(is_id).ok_or_else(|| wanted(name, "an id"))
}

/// `UnsignedInt` (RFC 8620 §1.3).
fn unsigned(name: &str, value: &Value) -> Result<u64, MethodError> {
    value.as_u64().filter(|number| *number <= WHOLE).ok_or_else(|| wanted(name, "a whole number"))
}

/// `Int` (RFC 8620 §1.3).
fn int(name: &str, value: &Value) -> Result<i64, MethodError> {
    let number = value.as_i64().filter(|number| number.unsigned_abs() <= WHOLE);
    number.ok_or_else(|| wanted(name, "a whole number"))
}

/// `Boolean` (RFC 8620 §1.1).
fn flag(name: &str, value: &Value) -> Result<bool, MethodError> {
    value.as_bool().ok_or_else(|| wanted(name, "true or false"))
}

/// `UTCDate` (RFC 8620 §1.4).
fn utc_date(name: &str, value: &Value) -> Result<UtcMillis, MethodError> {
    let is_utc = |text: &&str| text.ends_with('Z') && text.as_bytes().get(10) == Some(&b'T');
    let at = value.as_str().filter(is_utc).and_then(UtcMillis::parse_rfc3339);
    at.ok_or_else(|| wanted(name, "a UTCDate such as 2026-12-24T09:00:00Z"))
}

#[cfg(test)]
mod tests;
