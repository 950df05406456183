//! What JMAP shows of a message: its structure, its texts, its fields in their forms.

use std::collections::BTreeSet;

use super::bounded;
use crate::message::Message;
use crate::message::build::{Field, Value};
use crate::message::forms::{Form, FormValue, HeaderProperty, Shown};
use crate::message::header::fields;
use crate::model::{EmailAddress, SentAt, limits};

/// A property's name, and a message below it. Whatever both are: the structure is bounded and whole, what is cut is cut
/// within its bound, and what a field shows as addresses, ids or a date can be written and reads the same.
pub fn structure(data: &[u8]) {
    let data = bounded(data);
    let end = data.iter().position(|octet| *octet == b'\n').unwrap_or(data.len());
    let (first, raw) = (String::from_utf8_lossy(&data[..end]), data.get(end + 1..).unwrap_or_default());
    let message = Message::parse(raw);
    parts(&message, first.len());
    if let Ok(property) = first.parse::<HeaderProperty>() {
        assert_eq!(property.to_string().parse(), Ok(property.clone()));
        match property.of(fields(raw)) {
            Shown::Last(value) => value.iter().for_each(|value| shown(property.form, value)),
            Shown::All(values) => values.iter().for_each(|value| shown(property.form, value)),
        }
    }
    for field in fields(raw).take(20) {
        for form in [Form::Text, Form::Addresses, Form::GroupedAddresses, Form::MessageIds, Form::Date, Form::Urls] {
            shown(form, &form.of(&field));
        }
    }
}

fn parts(message: &Message<'_>, most: usize) {
    let structure = message.structure();
    let all = structure.root.flat();
    let numbers: BTreeSet<u32> = all.iter().map(|part| part.number).collect();
    assert!(all.len() <= limits::PARTS && numbers.len() == all.len() && structure.root.number == 0);
    for part in &all {
        assert_eq!(part.is_multipart, part.media_type.starts_with("multipart/"), "{}", part.media_type);
        assert!(part.is_multipart || part.children.is_empty());
        let decoded = message.decoded(part.number);
        assert_eq!(part.is_multipart, decoded.is_none());
        assert_eq!(decoded.map_or(0, |octets| octets.len()), part.size);
        let whole = message.body_value(part.number, 0);
        assert_eq!(whole.is_some(), part.is_text());
        let Some(whole) = whole else { continue };
        let cut = message.body_value(part.number, most).unwrap_or_default();
        assert!(most == 0 || cut.value.len() <= most);
        assert!(whole.value.starts_with(&cut.value) && cut.is_truncated == (cut.value.len() < whole.value.len()));
        assert!(!whole.is_truncated && !whole.value.contains("\r\n"));
    }
    for number in structure.text.iter().chain(&structure.html).chain(&structure.attachments) {
        assert!(all.iter().any(|part| part.number == *number && !part.is_multipart));
    }
}

fn shown(form: Form, value: &FormValue) {
    let clean = |text: &str| !text.chars().any(|c| c.is_control() && c != '\t');
    match value {
        FormValue::Text(text) => assert!(form == Form::Raw || clean(text), "{text:?}"),
        FormValue::Addresses(people) => people.iter().for_each(person),
        FormValue::Groups(groups) => groups.iter().flat_map(|group| &group.addresses).for_each(person),
        FormValue::Strings(list) => assert!(list.iter().flatten().all(|text| clean(text))),
        FormValue::Date(Some(date)) => {
            let written = Field::new("Date", &Value::Date(*date)).unwrap();
            let zone = (-24 * 60 + 1..24 * 60).contains(&date.offset_minutes);
            let year = (0..=253_402_300_799_999).contains(&date.at.0);
            if zone && year {
                assert_eq!(SentAt::parse_rfc3339(&date.rfc3339()), Some(*date), "{}", date.rfc3339());
                assert!(written.octets().is_ascii());
            }
        }
        FormValue::Date(None) => {}
    }
}

fn person(person: &EmailAddress) {
    let clean = |text: &str| !text.chars().any(char::is_control);
    assert!(clean(&person.email) && person.name.as_deref().is_none_or(clean));
    // What cannot be written is refused; whatever is written is one field.
    if let Ok(written) = Field::new("To", &Value::Addresses(vec![person.clone()])) {
        let octets = written.octets();
        assert_eq!(fields(octets).count(), 1, "{}", octets.escape_ascii());
    }
}
