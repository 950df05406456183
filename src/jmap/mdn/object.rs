//! Reads the MDN object that a client wants to send (RFC 9007 §2).

use serde_json::{Map, Value};

use crate::jmap::standard::InvalidProperties;
use crate::message::report::{
    ActionMode, DispositionType, MAX_VALUE_BYTES, SendingMode, is_extension,
};
use crate::model::limits;
use crate::wire::jmap::SetError;

/// The most extension fields of an MDN.
const MAX_EXTENSIONS: usize = 50;
/// The properties that only the server sets. A client may send null for them.
const SERVER_SET: [&str; 4] = ["mdnGateway", "originalRecipient", "originalMessageId", "error"];

/// An MDN that a client wants to send. A text is `None` if the client sent null or nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MdnObject {
    /// `forEmailId`: an id or a creation id.
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
    /// Reads an MDN object that a client sends (RFC 9007 §2).
    ///
    /// # Errors
    /// `InvalidProperties` with all invalid properties; `TooLarge` if the text is larger than the
    /// largest message.
    pub(super) fn read(object: &Map<String, Value>) -> Result<Self, SetError> {
        let mut problems = InvalidProperties::default();
        let given = |name: &str| object.get(name).filter(|value| !value.is_null());
        for name in object.keys() {
            if SERVER_SET.contains(&name.as_str()) && given(name).is_some() {
                problems.add(name, "only the server sets this property");
            } else if !SERVER_SET.contains(&name.as_str()) && !PROPERTIES.contains(&name.as_str()) {
                problems.add(name, "an MDN has no such property");
            }
        }
        let text = |name: &str| match given(name) {
            None => Ok(None),
            Some(value) => {
                value.as_str().map(str::to_owned).map(Some).ok_or_else(|| expected(name, "a text"))
            }
        };
        let line = |name: &str| match text(name)? {
            Some(line) if !is_line(&line) => Err(expected(name, "one line of 1 to 900 bytes")),
            line => Ok(line),
        };
        let email = problems.note(text("forEmailId"))?.flatten();
        if email.is_none() {
            problems.add("forEmailId", "the id of an email is expected");
        }
        let text_body = problems.note(text("textBody"))?.flatten();
        if text_body.as_ref().is_some_and(|text| text.len() as u64 > limits::MAX_MESSAGE_BYTES) {
            return Err(SetError::TooLarge(format!(
                "the text is larger than {} bytes",
                limits::MAX_MESSAGE_BYTES
            )));
        }
        let with_original = given("includeOriginalMessage").map_or(Some(false), Value::as_bool);
        if with_original.is_none() {
            problems.add("includeOriginalMessage", "true or false is expected");
        }
        let empty = Map::new();
        let disposition = given("disposition").and_then(Value::as_object);
        if disposition.is_none() {
            problems.add("disposition", "an object is expected");
        }
        let modes = disposition.unwrap_or(&empty);
        for other in modes
            .keys()
            .filter(|name| !["actionMode", "sendingMode", "type"].contains(&name.as_str()))
        {
            problems.add(format!("disposition/{other}"), "there is no such property");
        }
        let action = word(modes, "actionMode", &ActionMode::ALL, ActionMode::name);
        let sending = word(modes, "sendingMode", &SendingMode::ALL, SendingMode::name);
        let kind = word(modes, "type", &DispositionType::ALL, DispositionType::name);
        // If `disposition` itself is missing, its properties are not named, too.
        if disposition.is_some() {
            problems.note(action.clone())?;
            problems.note(sending.clone())?;
            problems.note(kind.clone())?;
        }
        let (subject, reporting_ua) =
            (problems.note(line("subject"))?, problems.note(line("reportingUA"))?);
        let final_recipient = problems.note(line("finalRecipient"))?;
        let extensions = problems.note(extensions(given("extensionFields")))?;
        problems.finish()?;
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

fn expected(name: &str, what: &str) -> SetError {
    SetError::property(name, format!("{what} is expected"))
}

/// Whether a text is one line, not blank, and not too long.
fn is_line(text: &str) -> bool {
    !text.trim().is_empty() && text.len() <= MAX_VALUE_BYTES && !text.chars().any(char::is_control)
}

/// Reads a word of the disposition, which must be one of `all`. Words are case-sensitive (RFC 9007
/// §2).
fn word<T: Copy>(
    object: &Map<String, Value>,
    name: &str,
    all: &[T],
    name_of: impl Fn(T) -> &'static str,
) -> Result<T, SetError> {
    let given = object.get(name).and_then(Value::as_str);
    let found = given.and_then(|given| all.iter().copied().find(|one| name_of(*one) == given));
    found.ok_or_else(|| {
        let words: Vec<&str> = all.iter().map(|one| name_of(*one)).collect();
        expected(&format!("disposition/{name}"), &words.join(" or "))
    })
}

/// Reads `extensionFields`: up to `MAX_EXTENSIONS` names of extension fields (RFC 8098 §3.3), which
/// differ in more than case, each with one line of text.
fn extensions(given: Option<&Value>) -> Result<Vec<(String, String)>, SetError> {
    let Some(given) = given else { return Ok(Vec::new()) };
    let invalid = || {
        expected(
            "extensionFields",
            "an object of up to 50 extension fields (RFC 8098 §3.3), each with one line of text,",
        )
    };
    let members =
        given.as_object().filter(|members| members.len() <= MAX_EXTENSIONS).ok_or_else(invalid)?;
    let mut out: Vec<(String, String)> = Vec::new();
    for (name, value) in members {
        let text = value
            .as_str()
            .filter(|text| is_line(text) && is_extension(name))
            .ok_or_else(invalid)?;
        if out.iter().any(|(other, _)| other.eq_ignore_ascii_case(name)) {
            return Err(invalid());
        }
        out.push((name.clone(), text.to_owned()));
    }
    Ok(out)
}
