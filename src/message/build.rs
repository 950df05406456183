//! Builds a message from its fields and parts, for `Email/set` (RFC 8621 §4.6).
//!
//! - Lines end in CRLF. Header lines are ASCII, except addresses, which may be UTF-8 (RFC 6532
//!   §3.2).
//! - Bodies are 7-bit, or are encoded so that they are. A message within the message may stay
//!   8-bit, since it must not be encoded (RFC 2046 §5.2.1). One that is given as bytes is encoded
//!   all the same if its lines are too long or do not end in CRLF, or if it has a NUL.
//! - `build` checks nothing. `EncodedField::new` refuses control characters, and so does
//!   `PartDraft::check`, which the caller must call for each part.

mod field;
mod part;
mod word;

pub use field::{BadFieldValue, EncodedField, FieldValue};
pub use part::{PartContent, PartDraft};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageTree {
    /// The header, without the fields that describe the body.
    pub fields: Vec<EncodedField>,
    pub body: PartDraft,
}

/// The order in which these fields are written. Others follow them, before the fields of the body.
const FIELD_ORDER: [&str; 10] = [
    "Date",
    "From",
    "Sender",
    "Reply-To",
    "To",
    "Cc",
    "Bcc",
    "Subject",
    "Message-ID",
    "In-Reply-To",
];

/// Returns the bytes of the message. The boundaries are made from `seed`, which must be a text that
/// the author of a part cannot know, so that no author can guess a boundary.
#[must_use]
pub fn build(mail: &MessageTree, seed: &str) -> Vec<u8> {
    let position = |field: &&EncodedField| {
        FIELD_ORDER.iter().position(|name| field.is(name)).unwrap_or(FIELD_ORDER.len())
    };
    let mut fields: Vec<&EncodedField> = mail.fields.iter().collect();
    fields.sort_by_key(position);
    let mut out = Vec::new();
    for field in &fields {
        out.extend_from_slice(field.bytes());
    }
    // The fields of the root part are in the header too.
    if !fields.iter().copied().chain(&mail.body.fields).any(|field| field.is("MIME-Version")) {
        out.extend_from_slice(b"MIME-Version: 1.0\r\n");
    }
    part::write(&mail.body, seed, &mut out);
    out
}

#[cfg(test)]
mod tests;
