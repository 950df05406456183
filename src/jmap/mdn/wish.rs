//! An MDN as a client asks for it (RFC 9007 §2).

use serde_json::{Map, Value};

use crate::jmap::standard::InvalidProperties;
use crate::message::report::{
    ActionMode, DispositionType, MAX_VALUE_BYTES, SendingMode, is_extension,
};
use crate::model::limits;
use crate::wire::jmap::SetError;

/// Extension fields of one.
const MAX_EXTENSIONS: usize = 50;
/// What only the server sets.
const SERVER_SET: [&str; 4] = ["mdnGateway", "originalRecipient", "originalMessageId", "error"];

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MdnObject {
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

impl MdnObject {
    /// Reads it.
    ///
    /// # Errors
    /// `invalidProperties` with all that is wrong, `tooLarge`.
    pub(super) fn read(object: &Map<String, Value>) -> Result<Self, SetError> {
        let mut wrong = InvalidProperties::default();
        let given = |name: &str| object.get(name).filter(|value| !value.is_null());
        for name in object.keys() {
            if SERVER_SET.contains(&name.as_str()) && given(name).is_some() {
                wrong.add(name, "the server sets it");
            } else if !SERVER_SET.contains(&name.as_str()) && !PROPERTIES.contains(&name.as_str()) {
                wrong.add(name, "an MDN has no such property");
            }
        }
        let text = |name: &str| match given(name) {
            None => Ok(None),
            Some(value) => {
                value.as_str().map(str::to_owned).map(Some).ok_or_else(|| wanted(name, "a text"))
            }
        };
        let line = |name: &str| match text(name)? {
            Some(line) if !is_line(&line) => Err(wanted(name, "one line of up to 900 octets")),
            line => Ok(line),
        };
        let email = wrong.note(text("forEmailId"))?.flatten();
        if email.is_none() {
            wrong.add("forEmailId", "the id of an email is wanted");
        }
        let text_body = wrong.note(text("textBody"))?.flatten();
        if text_body.as_ref().is_some_and(|text| text.len() as u64 > limits::MAX_MESSAGE_BYTES) {
            return Err(SetError::TooLarge(format!(
                "more than {} octets",
                limits::MAX_MESSAGE_BYTES
            )));
        }
        let with_original = given("includeOriginalMessage").map_or(Some(false), Value::as_bool);
        if with_original.is_none() {
            wrong.add("includeOriginalMessage", "true or false is wanted");
        }
        let empty = Map::new();
        let disposition = given("disposition").and_then(Value::as_object);
        if disposition.is_none() {
            wrong.add("disposition", "an object is wanted");
        }
        let modes = disposition.unwrap_or(&empty);
        for other in modes
            .keys()
            .filter(|name| !["actionMode", "sendingMode", "type"].contains(&name.as_str()))
        {
            wrong.add(format!("disposition/{other}"), "there is no such property");
        }
        let action = word(modes, "actionMode", &ActionMode::ALL, ActionMode::name);
        let sending = word(modes, "sendingMode", &SendingMode::ALL, SendingMode::name);
        let kind = word(modes, "type", &DispositionType::ALL, DispositionType::name);
        if disposition.is_some() {
            wrong.note(action.clone())?;
            wrong.note(sending.clone())?;
            wrong.note(kind.clone())?;
        }
        let (subject, reporting_ua) =
            (wrong.note(line("subject"))?, wrong.note(line("reportingUA"))?);
        let final_recipient = wrong.note(line("finalRecipient"))?;
        let extensions = wrong.note(extensions(given("extensionFields")))?;
        wrong.finish()?;
        Ok(Self {
            email: email.unwrap_or_default(),
            subject: subject.flatten(),
            text: text_body,
            with_original: with_original.unwrap_or_default(),
            reporting_ua: reporting_ua.flatten(),
            action: action?,
            sending: sending?,
            kind: kind?,
            final_recipient: final_recipient.flatten(),
            extensions: extensions.unwrap_or_default(),
        })
    }
}

/// What the client may set.
const PROPERTIES: [&str; 8] = [
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
    !text.trim().is_empty() && text.len() <= MAX_VALUE_BYTES && !text.chars().any(char::is_control)
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
    let bad = || {
        wanted(
            "extensionFields",
            "an object of names of fields that RFC 8098 leaves free, and their texts",
        )
    };
    let members =
        given.as_object().filter(|members| members.len() <= MAX_EXTENSIONS).ok_or_else(bad)?;
    let mut out: Vec<(String, String)> = Vec::new();
    for (name, value) in members {
        let text =
            value.as_str().filter(|text| is_line(text) && is_extension(name)).ok_or_else(bad)?;
        if out.iter().any(|(known, _)| known.eq_ignore_ascii_case(name)) {
            return Err(bad());
        }
        out.push((name.clone(), text.to_owned()));
    }
    Ok(out)
}
