//! May this message be sent, as whom, and to whom (RFC 8621 §7, §7.5, §9.6).

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::jmap::identity::SenderAddresses;
use crate::message::header::{Field, body_offset, fields};
use crate::model::{Address, EmailAddress, EmailContent, EnvelopeAddress, SenderIdentity, limits};
use crate::outbox::submission::{BadEnvelope, derive_envelope};
use crate::wire::jmap::SetError;

/// From whom, and to whom.
pub(super) type SubmissionEnvelope = (EnvelopeAddress, Vec<EnvelopeAddress>);

/// Fields that a message has once at most (RFC 5322 §3.6), with the property that each is.
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

/// Refuses a message that is larger than may be sent.
///
/// # Errors
/// `tooLarge` with `maxSize`.
pub(super) fn prove_size(octets: u64, most: u64) -> Result<(), SetError> {
    if octets <= most {
        return Ok(());
    }
    let mut more = Map::new();
    more.insert("maxSize".into(), most.into());
    more.insert("description".into(), "the message is larger than may be sent".into());
    Err(SetError::Of("tooLarge", more))
}

/// The envelope, if the account may send this message with it and by this identity.
///
/// # Errors
/// `invalidEmail`, `forbiddenFrom`, `forbiddenMailFrom`, `invalidProperties`; `serverFail` where
/// the directory cannot tell whose an address is.
pub(super) fn prove(
    senders: &SenderAddresses,
    identity: &SenderIdentity,
    (raw, content): (&[u8], &EmailContent),
    given: Option<&Value>,
) -> Result<SubmissionEnvelope, SetError> {
    let given = given.filter(|given| !given.is_null());
    sendable(raw, content, given.is_some())?;
    let address = |email: &str| Address::parse(email).ok();
    let may_be =
        |email: &str| address(email).map_or(Ok(false), |address| senders.may_send_from(&address));
    for author in content.from.iter().chain(&content.sender) {
        if !may_be(&author.email)? {
            return Err(SetError::of(
                "forbiddenFrom",
                &format!("{} is none of the account's addresses", author.email),
            ));
        }
    }
    if !senders.may_use(identity)? {
        return Err(SetError::of(
            "forbiddenFrom",
            &format!("{} is no more the account's address", identity.email),
        ));
    }
    // Of these it is known that they are the account's.
    let is_own =
        |email: &str| address(email).is_some_and(|address| senders.belongs_to(identity, &address));
    let Some(own) = content.from.iter().find(|from| is_own(&from.email)) else {
        return Err(SetError::of(
            "forbiddenFrom",
            &format!("it is not from {}, as the identity is", identity.email),
        ));
    };
    let Some(given) = given else {
        let (mut from, to) = derive_envelope(content).map_err(bad)?;
        // RFC 8621 §7: what the identity does not allow, its own address takes the place of.
        if !is_own(&from.email) {
            let whole = identity.email.starts_with("*@");
            from.email.clone_from(if whole { &own.email } else { &identity.email });
        }
        return Ok((from, to));
    };
    let (from, to) = read(given)?;
    if !from.email.is_empty() && !may_be(&from.email)? {
        return Err(SetError::of(
            "forbiddenMailFrom",
            "the sender is none of the account's addresses",
        ));
    }
    Ok((from, to))
}

/// Whether a message is one that can be sent (RFC 5322 §3.6). Whom it goes to is proved with the
/// envelope where that is made of its fields.
fn sendable(raw: &[u8], content: &EmailContent, has_envelope: bool) -> Result<(), SetError> {
    if !limits::all_fields_are_seen(raw.get(..body_offset(raw)).unwrap_or(raw)) {
        return Err(invalid(&["headers"], "its header is larger than is looked through"));
    }
    let is_odd = |one: &EmailAddress| Address::parse(&one.email).is_err();
    let mut wrong: Vec<&str> = UNIQUE_FIELDS
        .into_iter()
        .filter(|(name, _)| fields(raw).filter(|field| field.is(name)).nth(1).is_some())
        .map(|(_, property)| property)
        .collect();
    let people =
        [("from", &content.from), ("sender", &content.sender), ("replyTo", &content.reply_to)];
    wrong.extend(
        people.iter().filter(|(_, all)| all.iter().any(is_odd)).map(|(property, _)| *property),
    );
    let authors = [("From", "from", &content.from), ("Sender", "sender", &content.sender)];
    for (name, property, people) in authors {
        if fields(raw).filter(|field| field.is(name)).any(|field| names_others(&field, people)) {
            wrong.push(property);
        }
    }
    let others = [("to", &content.to), ("cc", &content.cc)];
    wrong.extend(
        others
            .iter()
            .filter(|(_, all)| has_envelope && all.iter().any(is_odd))
            .map(|(property, _)| *property),
    );
    if content.from.is_empty() {
        wrong.push("from");
    }
    if content.sender.len() > 1 || (content.sender.is_empty() && content.from.len() > 1) {
        wrong.push("sender");
    }
    if content.sent_at.is_none() {
        wrong.push("sentAt");
    }
    wrong.sort_unstable();
    wrong.dedup();
    if wrong.is_empty() {
        return Ok(());
    }
    Err(invalid(&wrong, "RFC 5322 §3.6 does not let a message be so"))
}

fn invalid(properties: &[&str], description: &str) -> SetError {
    let mut more = Map::new();
    more.insert("properties".into(), properties.into());
    more.insert("description".into(), description.into());
    SetError::Of("invalidEmail", more)
}

/// Whether a field names somebody who is not among `people`, as whom we read it: another program
/// may take that one for the author (`<a@x> <b@x>`). Comments, quoted strings and encoded words
/// name nobody; what is no address but has an `@` does.
fn names_others(field: &Field<'_>, people: &[EmailAddress]) -> bool {
    if field.value.len() > limits::MAX_FIELD_BYTES {
        return true;
    }
    let folded = |text: &str| Address::parse(text).map(|address| address.folded());
    let known: BTreeSet<Address> =
        people.iter().filter_map(|one| folded(&one.email).ok()).collect();
    let mut words = vec![(String::new(), false)];
    let (mut is_quoted, mut is_escaped, mut is_literal) = (false, false, false);
    for c in field.without_comments().chars() {
        let was_escaped = std::mem::take(&mut is_escaped);
        match c {
            '\\' if is_quoted => is_escaped = !was_escaped,
            '"' if !was_escaped => is_quoted = !is_quoted,
            // The domain may be a literal, which has colons.
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
    // Behind a quote that does not close anything may stand.
    is_quoted
        || words
            .iter()
            .filter(|word| names(word))
            .any(|(word, _)| !folded(word).is_ok_and(|one| known.contains(&one)))
}

/// An envelope from JSON (RFC 8621 §7).
fn read(value: &Value) -> Result<SubmissionEnvelope, SetError> {
    let wanted = |path: &str, what: &str| SetError::property(path, format!("{what} is wanted"));
    let members = value.as_object().ok_or_else(|| wanted("envelope", "an object"))?;
    // aerc writes mailfrom.
    let known = |name: &str| matches!(name, "mailFrom" | "mailfrom" | "rcptTo");
    let both = members
        .contains_key("mailFrom")
        .then_some("mailfrom")
        .filter(|name| members.contains_key(*name));
    if let Some(other) = members.keys().map(String::as_str).find(|name| !known(name)).or(both) {
        return Err(SetError::property(&format!("envelope/{other}"), "there is no such property"));
    }
    let from = members
        .get("mailFrom")
        .or_else(|| members.get("mailfrom"))
        .ok_or_else(|| wanted("envelope/mailFrom", "an address"))?;
    let from = path(from)
        .ok_or_else(|| wanted("envelope/mailFrom", "an object with email and parameters"))?;
    let to = members.get("rcptTo").and_then(Value::as_array);
    let to = to.ok_or_else(|| wanted("envelope/rcptTo", "an array of addresses"))?;
    let to: Option<Vec<EnvelopeAddress>> = to.iter().map(path).collect();
    let to = to.ok_or_else(|| {
        wanted("envelope/rcptTo", "an array of objects with email and parameters")
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

/// What is wrong with an envelope.
pub(super) fn bad(error: BadEnvelope) -> SetError {
    let with = |kind, name: &str, value: Value| {
        let mut more = Map::new();
        more.insert(name.into(), value);
        SetError::Of(kind, more)
    };
    match error {
        BadEnvelope::Property(path, why) => SetError::property(&path, why),
        BadEnvelope::NoRecipients => SetError::of("noRecipients", "it has nobody to go to"),
        BadEnvelope::TooMany(most) => with("tooManyRecipients", "maxRecipients", most.into()),
        BadEnvelope::Recipients(wrong) => {
            with("invalidRecipients", "invalidRecipients", wrong.into())
        }
    }
}
