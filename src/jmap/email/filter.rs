//! The filter of Email/query as JSON (RFC 8621 §4.4.1, RFC 8620 §5.5).
//!
//! ```text
//! filter    = null / operator / condition
//! operator  = { "operator": "AND" / "OR" / "NOT", "conditions": [ *(operator / condition) ] }
//! condition = { *( property ": " value ) }        all of them hold; an empty one is true
//! ```
//!
//! What is no JSON of these forms is `invalidArguments`; what is well-formed and not known here, or beyond the bounds of
//! `model::limits`, is `unsupportedFilter`. A mailbox that is not there holds no email: that is no error.
//! What is returned passes `Filter::validate`.

use serde_json::{Map, Value};

use super::{date, flag, id, text, unsigned, wanted};
use crate::jmap::context::Args;
use crate::model::{MailboxUid, keyword, limits};
use crate::query::{Condition, Filter};
use crate::wire::jmap::{ADMIN, MethodError};

/// The filter of a call. Conditions of our own are known to who uses our capability (RFC 8620 §1.8).
///
/// # Errors
/// `invalidArguments`, `unsupportedFilter`.
pub(super) fn of(arguments: &Args<'_>) -> Result<Filter, MethodError> {
    let filter = filter(arguments.get("filter").unwrap_or(&Value::Null))?;
    if has_our_own(&filter) && !arguments.uses(ADMIN) {
        return Err(MethodError::UnsupportedFilter(format!("attachmentName and attachmentType belong to {ADMIN}")));
    }
    Ok(filter)
}

fn has_our_own(filter: &Filter) -> bool {
    match filter {
        Filter::And(parts) | Filter::Or(parts) | Filter::Not(parts) => parts.iter().any(has_our_own),
        Filter::Is(condition) => matches!(condition, Condition::AttachmentName(_) | Condition::AttachmentType(_)),
    }
}

/// Reads a filter.
///
/// # Errors
/// `invalidArguments`, `unsupportedFilter`.
pub fn filter(value: &Value) -> Result<Filter, MethodError> {
    if value.is_null() {
        return Ok(Filter::default());
    }
    let filter = node(value, limits::FILTER_DEPTH)?;
    filter.validate().map_err(|error| MethodError::UnsupportedFilter(error.to_string()))?;
    Ok(filter)
}

fn node(value: &Value, depth: usize) -> Result<Filter, MethodError> {
    let Value::Object(members) = value else { return Err(wanted("filter", "an object")) };
    let Some(operator) = members.get("operator") else { return condition(members) };
    let of = match text("operator", operator)? {
        "AND" => Filter::And,
        "OR" => Filter::Or,
        "NOT" => Filter::Not,
        // There are no others (RFC 8620 §5.5).
        _ => return Err(wanted("operator", "AND, OR or NOT")),
    };
    if let Some(other) = members.keys().find(|name| !matches!(name.as_str(), "operator" | "conditions")) {
        return Err(MethodError::InvalidArguments(format!("{} beside an operator", short(other))));
    }
    let Some(Value::Array(parts)) = members.get("conditions") else { return Err(wanted("conditions", "an array")) };
    let deeper = || MethodError::UnsupportedFilter("the filter is too deep".into());
    let depth = depth.checked_sub(1).ok_or_else(deeper)?;
    if parts.len() > limits::FILTER_CONDITIONS {
        return Err(MethodError::UnsupportedFilter("the filter has too many conditions".into()));
    }
    parts.iter().map(|part| node(part, depth)).collect::<Result<_, _>>().map(of)
}

fn condition(members: &Map<String, Value>) -> Result<Filter, MethodError> {
    let mut parts = Vec::with_capacity(members.len().min(limits::FILTER_CONDITIONS));
    // A condition that is null is none: clients write all that they know.
    for (name, value) in members.iter().filter(|(_, value)| !value.is_null()) {
        parts.push(property(name, value)?);
    }
    match <[Filter; 1]>::try_from(parts) {
        Ok([one]) => Ok(one),
        Err(parts) => Ok(Filter::And(parts)),
    }
}

fn property(name: &str, value: &Value) -> Result<Filter, MethodError> {
    let words = || text(name, value).map(str::to_owned);
    let word = || keyword(name, value);
    Ok(Filter::Is(match name {
        "inMailbox" => match id(name, value)?.parse() {
            Ok(uid) => Condition::InMailbox(uid),
            // No email is in what is not there.
            Err(_) => return Ok(Filter::Or(Vec::new())),
        },
        "inMailboxOtherThan" => Condition::InMailboxOtherThan(mailboxes(name, value)?),
        "before" => Condition::Before(date(name, value)?),
        "after" => Condition::After(date(name, value)?),
        "minSize" => Condition::MinSize(unsigned(name, value)?),
        "maxSize" => Condition::MaxSize(unsigned(name, value)?),
        "allInThreadHaveKeyword" => Condition::AllInThreadHaveKeyword(word()?),
        "someInThreadHaveKeyword" => Condition::SomeInThreadHaveKeyword(word()?),
        "noneInThreadHaveKeyword" => Condition::NoneInThreadHaveKeyword(word()?),
        "hasKeyword" => Condition::HasKeyword(word()?),
        "notKeyword" => Condition::NotKeyword(word()?),
        "hasAttachment" => Condition::HasAttachment(flag(name, value)?),
        "text" => Condition::Text(words()?),
        "from" => Condition::From(words()?),
        "to" => Condition::To(words()?),
        "cc" => Condition::Cc(words()?),
        "bcc" => Condition::Bcc(words()?),
        "subject" => Condition::Subject(words()?),
        "body" => Condition::Body(words()?),
        "header" => header(value)?,
        // Beside RFC 8621.
        "attachmentName" => Condition::AttachmentName(words()?),
        "attachmentType" => Condition::AttachmentType(words()?),
        other => return Err(MethodError::UnsupportedFilter(format!("no condition {}", short(other)))),
    }))
}

/// A keyword in normal form (RFC 8621 §4.1.1).
pub(super) fn keyword(name: &str, value: &Value) -> Result<String, MethodError> {
    let word = text(name, value)?;
    let no_keyword = || MethodError::UnsupportedFilter(format!("{name}: {} is no keyword", short(word)));
    keyword::normal(word).ok_or_else(no_keyword)
}

/// Mailboxes; those that are not there are left out, for no email is in them.
fn mailboxes(name: &str, value: &Value) -> Result<Vec<MailboxUid>, MethodError> {
    let Value::Array(ids) = value else { return Err(wanted(name, "an array of ids")) };
    let mut uids = Vec::with_capacity(ids.len().min(limits::FILTER_CONDITIONS));
    for value in ids {
        uids.extend(id(name, value)?.parse::<MailboxUid>());
    }
    Ok(uids)
}

/// The name of a field, and what its value holds where that is said.
fn header(value: &Value) -> Result<Condition, MethodError> {
    let texts: Option<Vec<&str>> = value.as_array().and_then(|all| all.iter().map(Value::as_str).collect());
    let (name, text) = match texts.as_deref() {
        Some([name]) => (*name, None),
        Some([name, text]) => (*name, Some((*text).to_owned())),
        _ => return Err(wanted("header", "an array of one or two texts")),
    };
    // RFC 5322 §2.2: printable ASCII but the colon.
    if name.is_empty() || !name.bytes().all(|octet| octet.is_ascii_graphic() && octet != b':') {
        return Err(wanted("header", "the name of a header field"));
    }
    Ok(Condition::Header { name: name.to_owned(), text })
}

/// The beginning of a text of the client's, for an error.
pub(super) fn short(text: &str) -> &str {
    text.get(..text.floor_char_boundary(64)).unwrap_or_default()
}
