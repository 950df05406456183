//! What identifies a vacation response, and how often it is sent (RFC 5230).

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The context of the key derivation, which separates these hashes from all others made with
/// BLAKE3.
const HASH_CONTEXT: &str = "restante-sieve 2026-11 vacation handle";

/// Identifies a response in the record of who was answered (RFC 5230 §4.2).
///
/// It is the first 16 bytes of a hash of the kind of the handle and its fields. The kind is a
/// number: each function that makes handles has its own. Before each field stand a byte, 1 if the
/// field is there and 0 if not, and its length, so that no two lists of fields give the same bytes.
///
/// The handles of a script are computed when it is checked, so its arguments count before variables
/// are expanded (RFC 5230 §4.2).
///
/// Serialised as 32 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VacationHandle([u8; 16]);

impl VacationHandle {
    /// Returns the handle of the response that an account has outside its scripts. With another
    /// generation, senders who were answered before are answered anew.
    #[must_use]
    pub fn of_account(generation: u64) -> Self {
        Self::hash(0, &[Some(&generation.to_be_bytes())])
    }

    /// Returns the handle that `:handle` names.
    #[must_use]
    pub fn named(handle: &str) -> Self {
        Self::hash(1, &[Some(handle.as_bytes())])
    }

    /// Returns the handle of a `vacation` without `:handle`. The arguments are the strings of the
    /// script after escapes are processed and before variables are expanded. All other arguments,
    /// such as `:addresses`, `:days` and `:fcc`, do not count.
    #[must_use]
    pub fn of_arguments(
        subject: Option<&str>,
        from: Option<&str>,
        is_mime: bool,
        reason: &str,
    ) -> Self {
        let mime = [u8::from(is_mime)];
        Self::hash(
            2,
            &[
                subject.map(str::as_bytes),
                from.map(str::as_bytes),
                Some(&mime),
                Some(reason.as_bytes()),
            ],
        )
    }

    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    fn hash(kind: u8, fields: &[Option<&[u8]>]) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key(HASH_CONTEXT);
        hasher.update(&[kind]);
        for field in fields {
            let bytes = field.unwrap_or_default();
            hasher.update(&[u8::from(field.is_some())]);
            hasher.update(&(bytes.len() as u64).to_be_bytes());
            hasher.update(bytes);
        }
        let mut handle = [0; 16];
        hasher.finalize_xof().fill(&mut handle);
        Self(handle)
    }
}

impl fmt::Display for VacationHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for VacationHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VacationHandle({self})")
    }
}

impl Serialize for VacationHandle {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for VacationHandle {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        parse_hex(&text).map(Self).ok_or_else(|| serde::de::Error::custom("no vacation handle"))
    }
}

fn parse_hex(text: &str) -> Option<[u8; 16]> {
    if text.len() != 32 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    u128::from_str_radix(text, 16).ok().map(u128::to_be_bytes)
}

/// The least time between two responses to one sender, as the script says. The host applies its
/// own bounds and its default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Period {
    /// The script says nothing; 7 days is the default of RFC 5230 §4.1.
    #[default]
    Unset,
    /// `:days` as written (RFC 5230 §4.1). The host takes 0 for 1.
    Days(u64),
    /// `:seconds` as written (RFC 6131 §2). 0 asks for an answer to every message.
    Seconds(u64),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_kinds_and_fields_give_different_handles() {
        let of = VacationHandle::of_arguments;
        let handles = [
            of(None, None, false, "ab"),
            of(Some(""), None, false, "ab"),
            of(None, Some(""), false, "ab"),
            of(Some("a"), None, false, "b"),
            of(None, Some("a"), false, "b"),
            of(Some("ab"), None, false, ""),
            of(None, None, true, "ab"),
            of(None, None, false, "AB"),
            VacationHandle::named("ab"),
            VacationHandle::named("AB"),
            VacationHandle::of_account(0),
            VacationHandle::of_account(1),
        ];
        for (index, handle) in handles.iter().enumerate() {
            assert!(!handles[..index].contains(handle), "{index}");
        }
        assert_eq!(of(Some("a"), None, false, "b"), of(Some("a"), None, false, "b"));
    }

    #[test]
    fn handles_stay_the_same_between_releases() {
        let arguments = VacationHandle::of_arguments(Some("s"), Some("f@example.org"), true, "r");
        let named = VacationHandle::named("winter");
        assert_eq!(named.to_string(), "b1cd7b4241e572879c7f1eb8d236d4ac");
        assert_eq!(arguments.to_string(), "1df58fab0a5e364e62ba770a921f5d8d");
        let account = VacationHandle::of_account(7);
        assert_eq!(account.to_string(), "568d7d7bc2d8584f71d00e1c45df2202");
    }

    #[test]
    fn a_handle_is_serialised_as_hexadecimal_digits() {
        let handle = VacationHandle::named("x");
        let json = serde_json::to_string(&handle).unwrap();
        // 32 digits, between two quotation marks.
        assert_eq!(json.len(), 34);
        assert_eq!(serde_json::from_str::<VacationHandle>(&json).unwrap(), handle);
        assert!(serde_json::from_str::<VacationHandle>("\"00\"").is_err());
        assert_eq!(VacationHandle::from_bytes(*handle.as_bytes()), handle);
    }
}
