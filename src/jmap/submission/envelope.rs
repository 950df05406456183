//! Checks whether a message may be sent, and with which envelope (RFC 8621 §7, §7.5, §9.6).

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::jmap::identity::SenderAddresses;
use crate::message::header::{Field, body_offset, fields};
use crate::message::parse::all_addresses;
use crate::model::{Address, EmailAddress, EmailContent, EnvelopeAddress, SenderIdentity, limits};
use crate::outbox::submission::{BadEnvelope, derive_envelope};
use crate::wire::jmap::SetError;

/// The sender (`mailFrom`) and the recipients (`rcptTo`).
pub(super) type SubmissionEnvelope = (EnvelopeAddress, Vec<EnvelopeAddress>);

/// The fields that a message has at most once (RFC 5322 §3.6), with their JMAP properties.
const UNIQUE_FIELDS: [(&str, &str); 11] = [
    ("Date", "sentAt"),
    ("From", "from"),
    ("Sender", "sender"),
    ("Reply-To", "replyTo"),
    ("To", "to"),
    ("Cc", "cc"),
    ("Bcc", "bcc"),
    ("Message-ID", "messageId"),
    ("In-Reply-To", "inReplyTo"),
    ("References", "references"),
    ("Subject", "subject"),
];

/// Checks that a message of `bytes` bytes has at most `max`.
///
/// # Errors
/// `tooLarge` with `maxSize`.
pub(super) fn check_size(bytes: u64, max: u64) -> Result<(), SetError> {
    if bytes <= max {
        return Ok(());
    }
    let mut more = Map::new();
    more.insert("maxSize".into(), max.into());
    more.insert("description".into(), "the message is too large to be sent".into());
    Err(SetError::Other("tooLarge", more))
}

/// Returns the envelope with which a message is sent by an identity: the one that the client has
/// `given`, or one made from the header. Refuses a message, an envelope or an identity with which
/// the account may not send.
///
/// # Errors
/// `invalidEmail`, `forbiddenFrom`, `forbiddenMailFrom`, `invalidProperties`; those of
/// `envelope_error`; `serverFail` if the directory cannot tell to whom an address belongs.
pub(super) fn checked_envelope(
    senders: &SenderAddresses,
    identity: &SenderIdentity,
    (raw, content): (&[u8], &EmailContent),
    given: Option<&Value>,
) -> Result<SubmissionEnvelope, SetError> {
    let given = given.filter(|given| !given.is_null());
    check_message(raw, content, given.is_some())?;
    let address = |email: &str| Address::parse(email).ok();
    let may_send_from =
        |email: &str| address(email).map_or(Ok(false), |address| senders.may_send_from(&address));
    for author in content.from.iter().chain(&content.sender) {
        if !may_send_from(&author.email)? {
            return Err(SetError::other(
                "forbiddenFrom",
                &format!("{} is not an address of the account", author.email),
            ));
        }
    }
    if !senders.may_use(identity)? {
        return Err(SetError::other(
            "forbiddenFrom",
            &format!("{} is no longer an address of the account", identity.email),
        ));
    }
    // `belongs_to` does not ask whether the account has the address: `may_send_from` did, above.
    let is_own =
        |email: &str| address(email).is_some_and(|address| senders.belongs_to(identity, &address));
    let Some(own) = content.from.iter().find(|from| is_own(&from.email)) else {
        return Err(SetError::other(
            "forbiddenFrom",
            &format!("the message is not from {}, the address of the identity", identity.email),
        ));
    };
    let Some(given) = given else {
        let (mut from, to) = recipients(raw)
            .and_then(|recipients| derive_envelope(content, &recipients))
            .map_err(envelope_error)?;
        // RFC 8621 §7: the address of the identity replaces a sender that the identity does not
        // allow.
        if !is_own(&from.email) {
            let is_whole_domain = identity.email.starts_with("*@");
            from.email.clone_from(if is_whole_domain { &own.email } else { &identity.email });
        }
        return Ok((from, to));
    };
    let (from, to) = read(given)?;
    if !from.email.is_empty() && !may_send_from(&from.email)? {
        return Err(SetError::other(
            "forbiddenMailFrom",
            "the sender is not an address of the account",
        ));
    }
    Ok((from, to))
}

/// Checks that the header of a message is valid (RFC 5322 §3.6). If the client gives no envelope,
/// `parse_envelope` checks the recipients.
fn check_message(raw: &[u8], content: &EmailContent, has_envelope: bool) -> Result<(), SetError> {
    if !limits::all_fields_are_seen(raw.get(..body_offset(raw)).unwrap_or(raw)) {
        return Err(invalid(&["headers"], "the header is too large to be checked"));
    }
    let is_invalid = |one: &EmailAddress| Address::parse(&one.email).is_err();
    let mut invalid_properties: Vec<&str> = UNIQUE_FIELDS
        .into_iter()
        .filter(|(name, _)| fields(raw).filter(|field| field.is(name)).nth(1).is_some())
        .map(|(_, property)| property)
        .collect();
    let people =
        [("from", &content.from), ("sender", &content.sender), ("replyTo", &content.reply_to)];
    invalid_properties.extend(
        people.iter().filter(|(_, all)| all.iter().any(is_invalid)).map(|(property, _)| *property),
    );
    let authors = [("From", "from", &content.from), ("Sender", "sender", &content.sender)];
    for (name, property, people) in authors {
        if fields(raw).filter(|field| field.is(name)).any(|field| names_others(&field, people)) {
            invalid_properties.push(property);
        }
    }
    let others = [("to", &content.to), ("cc", &content.cc)];
    invalid_properties.extend(
        others
            .iter()
            .filter(|(_, all)| has_envelope && all.iter().any(is_invalid))
            .map(|(property, _)| *property),
    );
    if content.from.is_empty() {
        invalid_properties.push("from");
    }
    if content.sender.len() > 1 || (content.sender.is_empty() && content.from.len() > 1) {
        invalid_properties.push("sender");
    }
    if content.sent_at.is_none() {
        invalid_properties.push("sentAt");
    }
    invalid_properties.sort_unstable();
    invalid_properties.dedup();
    if invalid_properties.is_empty() {
        return Ok(());
    }
    Err(invalid(&invalid_properties, "RFC 5322 §3.6 does not allow these fields"))
}

/// Returns all addresses in To, Cc and Bcc. They are read from the message itself, since content
/// that was stored by an earlier version may have one less.
///
/// # Errors
/// `TooMany` if a field has more than is read.
fn recipients(raw: &[u8]) -> Result<Vec<EmailAddress>, BadEnvelope> {
    let mut all = Vec::new();
    for name in ["To", "Cc", "Bcc"] {
        for field in fields(raw).filter(|field| field.is(name)) {
            let is_whole = field.value.len() <= limits::MAX_FIELD_BYTES;
            let found = all_addresses(field.readable().as_bytes()).filter(|_| is_whole);
            all.extend(found.ok_or(BadEnvelope::TooMany(limits::MAX_RECIPIENTS))?);
        }
    }
    Ok(all)
}

fn invalid(properties: &[&str], description: &str) -> SetError {
    let mut more = Map::new();
    more.insert("properties".into(), properties.into());
    more.insert("description".into(), description.into());
    SetError::Other("invalidEmail", more)
}

/// Whether another program may find an author in a field who is not among the `known_authors` that
/// our parser found: in `<a@x> <b@x>` it may take either address. Every word with an `@` that is no
/// comment, quoted string or encoded word must be a known author. Also true for a field that is too
/// long, or in which a quoted string is not closed.
fn names_others(field: &Field<'_>, known_authors: &[EmailAddress]) -> bool {
    if field.value.len() > limits::MAX_FIELD_BYTES {
        return true;
    }
    let folded = |text: &str| Address::parse(text).map(|address| address.folded());
    let authors: BTreeSet<Address> =
        known_authors.iter().filter_map(|one| folded(&one.email).ok()).collect();
    let mut words = vec![(String::new(), false)];
    let (mut is_quoted, mut is_escaped, mut is_literal) = (false, false, false);
    for c in field.without_comments().chars() {
        let was_escaped = std::mem::take(&mut is_escaped);
        match c {
            '\\' if is_quoted => is_escaped = !was_escaped,
            '"' if !was_escaped => is_quoted = !is_quoted,
            // A domain literal may contain colons.
            '[' | ']' if !is_quoted => is_literal = c == '[',
            _ => {}
        }
        if !is_quoted && (c.is_whitespace() || ",;<>".contains(c) || (c == ':' && !is_literal)) {
            words.push((String::new(), false));
        } else if let Some((word, has_at)) = words.last_mut() {
            word.push(c);
            *has_at |= c == '@' && !is_quoted;
        }
    }
    let is_encoded = |word: &str| word.starts_with("=?") && word.ends_with("?=");
    let names = |(word, has_at): &(String, bool)| *has_at && !is_encoded(word);
    // An unclosed quoted string may hide anything.
    is_quoted
        || words
            .iter()
            .filter(|word| names(word))
            .any(|(word, _)| !folded(word).is_ok_and(|one| authors.contains(&one)))
}

/// Reads the envelope that a client gives (RFC 8621 §7).
fn read(value: &Value) -> Result<SubmissionEnvelope, SetError> {
    let expected = |path: &str, what: &str| SetError::property(path, format!("{what} is expected"));
    let members = value.as_object().ok_or_else(|| expected("envelope", "an object"))?;
    // The client aerc writes `mailfrom`.
    let is_property = |name: &str| matches!(name, "mailFrom" | "mailfrom" | "rcptTo");
    // If both spellings are there, `mailfrom` is refused.
    let both = members
        .contains_key("mailFrom")
        .then_some("mailfrom")
        .filter(|name| members.contains_key(*name));
    if let Some(other) = members.keys().map(String::as_str).find(|name| !is_property(name)).or(both)
    {
        return Err(SetError::property(&format!("envelope/{other}"), "there is no such property"));
    }
    let from = members
        .get("mailFrom")
        .or_else(|| members.get("mailfrom"))
        .ok_or_else(|| expected("envelope/mailFrom", "an address"))?;
    let from = path(from)
        .ok_or_else(|| expected("envelope/mailFrom", "an object with email and parameters"))?;
    let to = members.get("rcptTo").and_then(Value::as_array);
    let to = to.ok_or_else(|| expected("envelope/rcptTo", "an array of addresses"))?;
    let to: Option<Vec<EnvelopeAddress>> = to.iter().map(path).collect();
    let to = to.ok_or_else(|| {
        expected("envelope/rcptTo", "an array of objects with email and parameters")
    })?;
    Ok((from, to))
}

fn path(value: &Value) -> Option<EnvelopeAddress> {
    let members = value.as_object()?;
    let email = members.get("email")?.as_str()?.to_owned();
    let one = |(name, value): (&String, &Value)| match value {
        Value::Null => Some((name.clone(), None)),
        value => Some((name.clone(), Some(value.as_str()?.to_owned()))),
    };
    let parameters = match members.get("parameters") {
        None | Some(Value::Null) => None,
        Some(value) => Some(value.as_object()?.iter().map(one).collect::<Option<_>>()?),
    };
    members
        .keys()
        .all(|name| name == "email" || name == "parameters")
        .then_some(EnvelopeAddress { email, parameters })
}

/// Returns the `SetError` for an envelope that cannot be used.
pub(super) fn envelope_error(error: BadEnvelope) -> SetError {
    let with = |kind, name: &str, value: Value| {
        let mut more = Map::new();
        more.insert(name.into(), value);
        SetError::Other(kind, more)
    };
    match error {
        BadEnvelope::Property(path, why) => SetError::property(&path, why),
        BadEnvelope::NoRecipients => {
            SetError::other("noRecipients", "the submission has no recipients")
        }
        BadEnvelope::TooMany(max) => with("tooManyRecipients", "maxRecipients", max.into()),
        BadEnvelope::Recipients(invalid) => {
            with("invalidRecipients", "invalidRecipients", invalid.into())
        }
    }
}
