//! A message from its parts: what `Email/set` makes of what a client asked for (RFC 8621 §4.6).
//!
//! What is written reads back as it was given: `forms` and `structure` are the other side. Lines
//! are CRLF, header lines of ASCII (addresses alone may be UTF-8, RFC 6532 §3.2), bodies 7-bit or
//! encoded so; but a message within the message, which may not be encoded (RFC 2046 §5.2.1), stays
//! 8-bit. A value is checked when its field is made, and a control character in it is refused:
//! nothing that a client says begins another field. Which rules of RFC 8621 an email keeps, and its
//! date and id, are the caller's business.

mod field;
mod part;
mod word;

pub use field::{BadFieldValue, EncodedField, FieldValue};
pub use part::{PartContent, PartDraft};

/// A message to be built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageTree {
    /// The header, without what describes the body.
    pub fields: Vec<EncodedField>,
    pub body: PartDraft,
}

/// In what order fields are written; others stand between these and the body's own.
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

/// The message's bytes. `seed` is a text that no sender of a part can know: it keeps boundaries
/// from being guessed.
#[must_use]
pub fn build(mail: &MessageTree, seed: &str) -> Vec<u8> {
    let place = |field: &&EncodedField| {
        FIELD_ORDER.iter().position(|name| field.is(name)).unwrap_or(FIELD_ORDER.len())
    };
    let mut fields: Vec<&EncodedField> = mail.fields.iter().collect();
    fields.sort_by_key(place);
    let mut out = Vec::new();
    for field in &fields {
        out.extend_from_slice(field.bytes());
    }
    // A field of the body's own part is one of the header, too.
    if !fields.iter().copied().chain(&mail.body.fields).any(|field| field.is("MIME-Version")) {
        out.extend_from_slice(b"MIME-Version: 1.0\r\n");
    }
    part::write(&mail.body, seed, &mut out);
    out
}

#[cfg(test)]
mod tests;
