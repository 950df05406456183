//! Fuzz bodies of what JMAP shows of a message, and of the messages that Email/set creates.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use serde_json::{Value as Json, json};

use super::bounded;
use super::requests::empty_service;
use crate::jmap::{CAPABILITIES, Context, run};
use crate::message::Message;
use crate::message::build::{EncodedField, FieldValue};
use crate::message::forms::{Form, FormValue, HeaderProperty, PropertyValue};
use crate::message::header::fields;
use crate::model::{AccountId, EmailAddress, EmailId, SentAt, limits};
use crate::wire::jmap::Request;

/// Reads the first line of the input as the name of a header property, and the rest as a message.
/// The structure is consistent, texts are truncated within their limits, and values of fields are
/// as `check_value` says.
pub fn structure(data: &[u8]) {
    let data = bounded(data);
    let end = data.iter().position(|byte| *byte == b'\n').unwrap_or(data.len());
    let (first, raw) =
        (String::from_utf8_lossy(&data[..end]), data.get(end + 1..).unwrap_or_default());
    let message = Message::parse(raw);
    // The length of the first line chooses where texts are truncated.
    check_parts(&message, first.len());
    if let Ok(property) = first.parse::<HeaderProperty>() {
        assert_eq!(property.to_string().parse(), Ok(property.clone()));
        match property.evaluate(fields(raw)) {
            PropertyValue::Last(value) => {
                value.iter().for_each(|value| check_value(property.form, value));
            }
            PropertyValue::All(values) => {
                values.iter().for_each(|value| check_value(property.form, value));
            }
        }
    }
    for field in fields(raw).take(20) {
        for form in [
            Form::Text,
            Form::Addresses,
            Form::GroupedAddresses,
            Form::MessageIds,
            Form::Date,
            Form::Urls,
        ] {
            check_value(form, &form.evaluate(&field));
        }
    }
}

/// Checks the parts of a message. Texts are truncated at `max` bytes, or not at all if it is 0.
fn check_parts(message: &Message<'_>, max: usize) {
    let structure = message.structure();
    let all = structure.root.flat();
    let numbers: BTreeSet<u32> = all.iter().map(|part| part.number).collect();
    assert!(
        all.len() <= limits::MAX_MIME_PARTS
            && numbers.len() == all.len()
            && structure.root.number == 0
    );
    for part in &all {
        assert_eq!(
            part.is_multipart,
            part.media_type.starts_with("multipart/"),
            "{}",
            part.media_type
        );
        assert!(part.is_multipart || part.children.is_empty());
        let decoded = message.decoded(part.number);
        assert_eq!(part.is_multipart, decoded.is_none());
        assert_eq!(decoded.map_or(0, |bytes| bytes.len()), part.size);
        let whole = message.body_value(part.number, 0);
        assert_eq!(whole.is_some(), part.is_text());
        let Some(whole) = whole else { continue };
        let cut = message.body_value(part.number, max).unwrap_or_default();
        assert!(max == 0 || cut.value.len() <= max);
        assert!(
            whole.value.starts_with(&cut.value)
                && cut.is_truncated == (cut.value.len() < whole.value.len())
        );
        assert!(!whole.is_truncated && !whole.value.contains("\r\n"));
    }
    for number in structure.text.iter().chain(&structure.html).chain(&structure.attachments) {
        assert!(all.iter().any(|part| part.number == *number && !part.is_multipart));
    }
}

/// Checks the value of a field in a form: texts have no control characters but tabs, except in the
/// raw form; an address is refused, or written as one field; a date can be written.
fn check_value(form: Form, value: &FormValue) {
    let clean = |text: &str| !text.chars().any(|c| c.is_control() && c != '\t');
    match value {
        FormValue::Text(text) => assert!(form == Form::Raw || clean(text), "{text:?}"),
        FormValue::Addresses(people) => people.iter().for_each(check_address),
        FormValue::Groups(groups) => {
            groups.iter().flat_map(|group| &group.addresses).for_each(check_address);
        }
        FormValue::Strings(list) => assert!(list.iter().flatten().all(|text| clean(text))),
        FormValue::Date(Some(date)) => {
            let written = EncodedField::new("Date", &FieldValue::Date(*date)).unwrap();
            // Compared are zones below 24 hours and the years from 1970 to 9999, which RFC 3339 can
            // express.
            let zone = (-24 * 60 + 1..24 * 60).contains(&date.offset_minutes);
            let year = (0..=253_402_300_799_999).contains(&date.at.0);
            if zone && year {
                assert_eq!(
                    SentAt::parse_rfc3339(&date.rfc3339()),
                    Some(*date),
                    "{}",
                    date.rfc3339()
                );
                assert!(written.bytes().is_ascii());
            }
        }
        FormValue::Date(None) => {}
    }
}

fn check_address(person: &EmailAddress) {
    let clean = |text: &str| !text.chars().any(char::is_control);
    assert!(clean(&person.email) && person.name.as_deref().is_none_or(clean));
    // An address is refused, or written as exactly one field.
    if let Ok(written) = EncodedField::new("To", &FieldValue::Addresses(vec![person.clone()])) {
        let bytes = written.bytes();
        assert_eq!(fields(bytes).count(), 1, "{}", bytes.escape_ascii());
    }
}

/// Each property of an email that sets a header field, and the name of the field.
const FIELDS: [(&str, &str); 11] = [
    ("messageId", "message-id"),
    ("inReplyTo", "in-reply-to"),
    ("references", "references"),
    ("sender", "sender"),
    ("from", "from"),
    ("to", "to"),
    ("cc", "cc"),
    ("bcc", "bcc"),
    ("replyTo", "reply-to"),
    ("subject", "subject"),
    ("sentAt", "date"),
];

/// Creates an email from any JSON object with Email/set. The object is refused, or the new message
/// has well-formed lines, and only header fields that the object names, that every message has, or
/// that describe the content.
pub fn draft(data: &[u8]) {
    let Ok(Json::Object(mut email)) = serde_json::from_slice::<Json>(bounded(data)) else { return };
    let (context, account, inbox) = service();
    email.insert("mailboxIds".into(), json!({inbox: true}));
    let mut allowed: BTreeSet<String> =
        ["message-id", "date", "mime-version"].map(str::to_owned).into();
    let root = email.get("bodyStructure").and_then(Json::as_object);
    for name in email.keys().chain(root.into_iter().flatten().map(|(name, _)| name)) {
        allowed.extend(
            FIELDS
                .iter()
                .find(|(property, _)| property == name)
                .map(|(_, field)| (*field).to_owned()),
        );
        allowed.extend(
            name.strip_prefix("header:")
                .and_then(|name| name.split(':').next())
                .map(str::to_lowercase),
        );
    }
    let made = call(
        context,
        "Email/set",
        &json!({"accountId": account.to_string(), "create": {"k": email}}),
    );
    let Some(id) = made["created"]["k"]["id"].as_str() else {
        assert!(made["notCreated"]["k"]["type"].is_string(), "{made}");
        return;
    };
    let number: EmailId = id.parse().unwrap();
    let raw = context.store.snapshot().message(*account, number).unwrap().unwrap();
    for line in raw.split_inclusive(|byte| *byte == b'\n') {
        let text = line.strip_suffix(b"\r\n").unwrap_or(line);
        assert!(
            text.len() <= 998 && !text.contains(&b'\n') && !text.contains(&0),
            "{}",
            line.escape_ascii()
        );
    }
    for field in fields(&raw) {
        let name = String::from_utf8_lossy(field.name).to_lowercase();
        assert!(
            allowed.contains(&name) || name.starts_with("content-"),
            "{name} was not asked for"
        );
    }
    let ask = json!({"accountId": account.to_string(), "ids": [id], "fetchAllBodyValues": true});
    let shown = call(context, "Email/get", &ask);
    assert_eq!(shown["list"][0]["size"], raw.len(), "{shown}");
    call(context, "Email/set", &json!({"accountId": account.to_string(), "destroy": [id]}));
}

/// Calls a method, and returns the arguments of its response. Arguments that are not I-JSON count
/// as an email that was refused.
fn call(context: &Context, name: &str, arguments: &Json) -> Json {
    let request = json!({"using": CAPABILITIES, "methodCalls": [[name, arguments, "c"]]});
    let request: Request =
        match crate::wire::jmap::parse(request.to_string().as_bytes(), CAPABILITIES) {
            Ok(request) => request,
            Err(_) => return json!({"notCreated": {"k": {"type": "notJSON"}}}),
        };
    let answer = run(context, request).unwrap().json()["methodResponses"][0].clone();
    assert_eq!(answer[0], name, "{answer}");
    answer[1].clone()
}

/// Returns the service with one empty account that all inputs share, and the id of the Inbox.
fn service() -> &'static (Context, AccountId, String) {
    static SERVICE: OnceLock<(Context, AccountId, String)> = OnceLock::new();
    SERVICE.get_or_init(|| {
        let (context, account) = empty_service();
        let (inbox, _) = context.store.snapshot().find_mailbox(account, "inbox").unwrap().unwrap();
        (context, account, inbox.to_string())
    })
}
