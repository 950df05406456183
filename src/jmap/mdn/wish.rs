//! An MDN as a client asks for it (RFC 9007 §2).

use serde_json::{Map, Value};

use crate::message::report::{ActionMode, DispositionType, SendingMode, VALUE, is_extension};
use crate::model::limits;
use crate::wire::jmap::SetError;

/// Extension fields of one.
const EXTENSIONS: usize = 50;
/// What only the server sets.
const FIXED: [&str; 4] = ["mdnGateway", "originalRecipient", "originalMessageId", "error"];

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wish {
    /// `forEmailId`, a creation id perhaps.
    pub(super) email: String,
    pub(super) subject: Option<String>,
    pub(super) text: Option<String>,
    pub(super) with_original: bool,
    pub(super) reporting_ua: Option<String>,
    pub(super) action: ActionMode,
    pub(super) sending: SendingMode,
    pub(super) kind: DispositionType,
    pub(super) final_recipient: Option<String>,
    pub(super) extensions: Vec<(String, String)>,
}

impl Wish {
    /// Reads it.
    ///
    /// # Errors
    /// `invalidProperties`, `tooLarge`.
    pub(super) fn read(object: &Map<String, Value>) -> Result<Self, SetError> {
        let given = |name: &str| object.get(name).filter(|value| !value.is_null());
        for name in object.keys() {
            if FIXED.contains(&name.as_str()) && given(name).is_some() {
                return Err(SetError::property(name, "the server sets it"));
            }
            if !FIXED.contains(&name.as_str()) && !KNOWN.contains(&name.as_str()) {
                return Err(SetError::property(name, "an MDN has no such property"));
            }
        }
        let text = |name: &str| match given(name) {
            None => Ok(None),
            Some(value) => value.as_str().map(str::to_owned).map(Some).ok_or_else(|| wanted(name, "a text")),
        };
        let line = |name: &str| match text(name)? {
            Some(line) if !is_line(&line) => Err(wanted(name, "one line of up to 900 octets")),
            line => Ok(line),
        };
        let email = text("forEmailId")?.ok_or_else(|| wanted("forEmailId", "the id of an email"))?;
        let text_body = text("textBody")?;
        if text_body.as_ref().is_some_and(|text| text.len() as u64 > limits::MESSAGE_OCTETS) {
            return Err(SetError::TooLarge(format!("more than {} octets", limits::MESSAGE_OCTETS)));
        }
        let with_original = given("includeOriginalMessage").map_or(Some(false), Value::as_bool);
        let disposition = given("disposition").and_then(Value::as_object);
        let disposition = disposition.ok_or_else(|| wanted("disposition", "an object"))?;
        if let Some(other) =
            disposition.keys().find(|name| !["actionMode", "sendingMode", "type"].contains(&name.as_str()))
        {
            return Err(SetError::property(&format!("disposition/{other}"), "there is no such property"));
        }
        Ok(Self {
            email,
            subject: line("subject")?,
            text: text_body,
            with_original: with_original.ok_or_else(|| wanted("includeOriginalMessage", "true or false"))?,
            reporting_ua: line("reportingUA")?,
            action: word(disposition, "actionMode", &ActionMode::ALL, ActionMode::name)?,
            sending: word(disposition, "sendingMode", &SendingMode::ALL, SendingMode::name)?,
            kind: word(disposition, "type", &DispositionType::ALL, DispositionType::name)?,
            final_recipient: line("finalRecipient")?,
            extensions: extensions(given("extensionFields"))?,
        })
    }
}

/// What the client may set.
const KNOWN: [&str; 8] = [
    "forEmailId",
    "subject",
    "textBody",
    "includeOriginalMessage",
    "reportingUA",
    "disposition",
    "finalRecipient",
    "extensionFields",
];

fn wanted(name: &str, what: &str) -> SetError {
    SetError::property(name, format!("{what} is wanted"))
}

fn is_line(text: &str) -> bool {
    !text.trim().is_empty() && text.len() <= VALUE && !text.chars().any(char::is_control)
}

/// One of these words, in this case (RFC 9007 §2).
fn word<T: Copy>(
    object: &Map<String, Value>,
    name: &str,
    all: &[T],
    of: impl Fn(T) -> &'static str,
) -> Result<T, SetError> {
    let said = object.get(name).and_then(Value::as_str);
    let found = said.and_then(|said| all.iter().copied().find(|one| of(*one) == said));
    found.ok_or_else(|| {
        let words: Vec<&str> = all.iter().map(|one| of(*one)).collect();
        wanted(&format!("disposition/{name}"), &words.join(" or "))
    })
}

/// RFC 8098 §3.3.
fn extensions(given: Option<&Value>) -> Result<Vec<(String, String)>, SetError> {
    let Some(given) = given else { return Ok(Vec::new()) };
    let bad = || wanted("extensionFields", "an object of names of fields that RFC 8098 leaves free, and their texts");
    let members = given.as_object().filter(|members| members.len() <= EXTENSIONS).ok_or_else(bad)?;
    let mut out: Vec<(String, String)> = Vec::new();
    for (name, value) in members {
        let text = value.as_str().filter(|text| is_line(text) && is_extension(name)).ok_or_else(bad)?;
        if out.iter().any(|(known, _)| known.eq_ignore_ascii_case(name)) {
            return Err(bad());
        }
        out.push((name.clone(), text.to_owned()));
    }
    Ok(out)
}
