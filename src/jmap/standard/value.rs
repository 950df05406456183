//! Reads JSON values as the types of RFC 8620 §1. The errors of the functions begin with the name
//! of the argument or property.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::model::UtcMillis;
use crate::wire::jmap::MethodError;
use crate::wire::jmap::json::MAX_SAFE_INTEGER;

/// Returns the error of the argument or property `name` whose value is not `what`.
pub(in crate::jmap) fn expected(name: &str, what: &str) -> MethodError {
    MethodError::InvalidArguments(format!("{name}: {what} is expected"))
}

/// Reads a `String` (RFC 8620 §1.1).
pub(in crate::jmap) fn text<'v>(name: &str, value: &'v Value) -> Result<&'v str, MethodError> {
    value.as_str().ok_or_else(|| expected(name, "a text"))
}

/// Reads an `UnsignedInt` (RFC 8620 §1.3), which is at most `MAX_SAFE_INTEGER`.
pub(in crate::jmap) fn unsigned(name: &str, value: &Value) -> Result<u64, MethodError> {
    value
        .as_u64()
        .filter(|number| *number <= MAX_SAFE_INTEGER)
        .ok_or_else(|| expected(name, "a whole number"))
}

/// Reads a `Boolean` (RFC 8620 §1.1).
pub(in crate::jmap) fn flag(name: &str, value: &Value) -> Result<bool, MethodError> {
    value.as_bool().ok_or_else(|| expected(name, "true or false"))
}

/// Reads a `UTCDate` (RFC 8620 §1.4).
pub(in crate::jmap) fn utc_date(name: &str, value: &Value) -> Result<UtcMillis, MethodError> {
    let is_utc = |text: &&str| text.ends_with('Z');
    let at = value.as_str().filter(is_utc).and_then(UtcMillis::parse_rfc3339);
    at.ok_or_else(|| expected(name, "a UTCDate such as 2026-12-24T09:00:00Z"))
}

/// A `UTCDate` that serde reads. Its error does not name the argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::jmap) struct UtcDate(pub(in crate::jmap) UtcMillis);

impl<'de> Deserialize<'de> for UtcDate {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let at = Some(&text)
            .filter(|text| text.ends_with('Z'))
            .and_then(|text| UtcMillis::parse_rfc3339(text));
        at.map(Self)
            .ok_or_else(|| D::Error::custom("a UTCDate such as 2026-12-24T09:00:00Z is expected"))
    }
}
