//! The basic data types of JMAP (RFC 8620 §1) in arguments. Each is checked when it is read, and
//! a value that it does not allow is an error of reading.

use serde::de::{Deserialize, Deserializer, Error, Unexpected};

use super::json::MAX_SAFE_INTEGER;
use crate::model::UtcMillis;

/// An id (RFC 8620 §1.2), checked by `is_id`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Id(pub String);

/// A whole number from 0 to 2^53 - 1 (RFC 8620 §1.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnsignedInt(pub u64);

/// RFC 8620 §1.4. Any time zone is accepted, also for a `UTCDate`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Date(pub UtcMillis);

/// Whether a text is an `Id`: 1 to 255 ASCII letters, digits, `-` and `_`.
#[must_use]
pub fn is_id(text: &str) -> bool {
    (1..=255).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        if is_id(&text) { Ok(Self(text)) } else { Err(D::Error::custom("an id is expected")) }
    }
}

impl<'de> Deserialize<'de> for UnsignedInt {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let number = u64::deserialize(from)?;
        if number > MAX_SAFE_INTEGER {
            return Err(D::Error::invalid_value(
                Unexpected::Unsigned(number),
                &"a whole number below 2^53",
            ));
        }
        Ok(Self(number))
    }
}

impl<'de> Deserialize<'de> for Date {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let at = UtcMillis::parse_rfc3339(&String::deserialize(from)?);
        at.map(Self)
            .ok_or_else(|| D::Error::custom("a date such as 2026-12-24T09:00:00Z is expected"))
    }
}
