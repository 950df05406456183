//! Reads the filter of Email/query (RFC 8621 §4.4.1) into the `Filter` of room `query`.
//!
//! - A condition whose value is null is ignored, because some clients send every condition they
//!   know.
//! - It is no error to name a mailbox that does not exist.
//! - The filters have passed `Filter::validate`.

use serde::Deserialize;
use serde_json::Value;

use crate::jmap::method::Call;
use crate::jmap::standard::value::expected;
use crate::jmap::standard::{FilterTree, condition};
use crate::model::keyword;
use crate::query::{Condition, Filter};
use crate::wire::jmap::arguments::short;
use crate::wire::jmap::primitive::{Date, Id, UnsignedInt};
use crate::wire::jmap::{ADMIN, MethodError};

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
enum EmailCondition {
    InMailbox(Id),
    InMailboxOtherThan(Vec<Id>),
    Before(Date),
    After(Date),
    MinSize(UnsignedInt),
    MaxSize(UnsignedInt),
    AllInThreadHaveKeyword(String),
    SomeInThreadHaveKeyword(String),
    NoneInThreadHaveKeyword(String),
    HasKeyword(String),
    NotKeyword(String),
    HasAttachment(bool),
    Text(String),
    From(String),
    To(String),
    Cc(String),
    Bcc(String),
    Subject(String),
    Body(String),
    Header(Vec<String>),
    // The next two are a vendor extension, not in RFC 8621.
    AttachmentName(String),
    AttachmentType(String),
}

/// Reads the filter of a call. The vendor extension requires that the request uses the vendor
/// capability (RFC 8620 §1.8).
///
/// # Errors
/// Those of `parse_filter`; `unsupportedFilter` without the capability.
pub(in crate::jmap::email) fn parse_filter_of_call(
    call: &Call<'_>,
    json: Option<&Value>,
) -> Result<Filter, MethodError> {
    let filter = parse_filter(json)?;
    if uses_extension(&filter) && !call.uses(ADMIN) {
        return Err(MethodError::UnsupportedFilter(format!(
            "attachmentName and attachmentType belong to {ADMIN}"
        )));
    }
    Ok(filter)
}

fn uses_extension(filter: &Filter) -> bool {
    match filter {
        Filter::And(parts) | Filter::Or(parts) | Filter::Not(parts) => {
            parts.iter().any(uses_extension)
        }
        Filter::Is(condition) => {
            matches!(condition, Condition::AttachmentName(_) | Condition::AttachmentType(_))
        }
    }
}

/// Reads a filter; `None` gives one that matches every email.
///
/// # Errors
/// `invalidArguments` for a malformed filter; `unsupportedFilter` for an unknown condition or an
/// invalid keyword, or beyond the bounds of `model::limits`.
pub fn parse_filter(json: Option<&Value>) -> Result<Filter, MethodError> {
    let tree = FilterTree::read(json, |name, value| {
        if value.is_null() { Ok(None) } else { condition::<EmailCondition>(name, value).map(Some) }
    })?;
    let filter = filter_of_tree(tree)?;
    filter.validate().map_err(|error| MethodError::UnsupportedFilter(error.to_string()))?;
    Ok(filter)
}

fn filter_of_tree(tree: FilterTree<EmailCondition>) -> Result<Filter, MethodError> {
    let all = |parts: Vec<FilterTree<EmailCondition>>| {
        parts.into_iter().map(filter_of_tree).collect::<Result<Vec<Filter>, _>>()
    };
    match tree {
        FilterTree::And(parts) => all(parts).map(Filter::And),
        FilterTree::Or(parts) => all(parts).map(Filter::Or),
        FilterTree::Not(parts) => all(parts).map(Filter::Not),
        FilterTree::Is(condition) => filter_of_condition(condition),
    }
}

fn filter_of_condition(condition: EmailCondition) -> Result<Filter, MethodError> {
    let normal =
        |name: &str, word: &str| normal_keyword(name, word).map_err(MethodError::UnsupportedFilter);
    Ok(Filter::Is(match condition {
        EmailCondition::InMailbox(Id(id)) => match id.parse() {
            Ok(uid) => Condition::InMailbox(uid),
            // No mailbox has this id. An `Or` of nothing matches no email.
            Err(_) => return Ok(Filter::Or(Vec::new())),
        },
        EmailCondition::InMailboxOtherThan(ids) => {
            Condition::InMailboxOtherThan(ids.iter().filter_map(|Id(id)| id.parse().ok()).collect())
        }
        EmailCondition::Before(Date(at)) => Condition::Before(at),
        EmailCondition::After(Date(at)) => Condition::After(at),
        EmailCondition::MinSize(UnsignedInt(size)) => Condition::MinSize(size),
        EmailCondition::MaxSize(UnsignedInt(size)) => Condition::MaxSize(size),
        EmailCondition::AllInThreadHaveKeyword(word) => {
            Condition::AllInThreadHaveKeyword(normal("allInThreadHaveKeyword", &word)?)
        }
        EmailCondition::SomeInThreadHaveKeyword(word) => {
            Condition::SomeInThreadHaveKeyword(normal("someInThreadHaveKeyword", &word)?)
        }
        EmailCondition::NoneInThreadHaveKeyword(word) => {
            Condition::NoneInThreadHaveKeyword(normal("noneInThreadHaveKeyword", &word)?)
        }
        EmailCondition::HasKeyword(word) => Condition::HasKeyword(normal("hasKeyword", &word)?),
        EmailCondition::NotKeyword(word) => Condition::NotKeyword(normal("notKeyword", &word)?),
        EmailCondition::HasAttachment(has) => Condition::HasAttachment(has),
        EmailCondition::Text(text) => Condition::Text(text),
        EmailCondition::From(text) => Condition::From(text),
        EmailCondition::To(text) => Condition::To(text),
        EmailCondition::Cc(text) => Condition::Cc(text),
        EmailCondition::Bcc(text) => Condition::Bcc(text),
        EmailCondition::Subject(text) => Condition::Subject(text),
        EmailCondition::Body(text) => Condition::Body(text),
        EmailCondition::Header(texts) => header_condition(texts)?,
        EmailCondition::AttachmentName(text) => Condition::AttachmentName(text),
        EmailCondition::AttachmentType(text) => Condition::AttachmentType(text),
    }))
}

/// Returns a keyword in its normal form (RFC 8621 §4.1.1).
///
/// # Errors
/// A description of the problem. `name` is the property that holds the keyword.
pub(in crate::jmap::email) fn normal_keyword(name: &str, word: &str) -> Result<String, String> {
    keyword::normalize(word)
        .ok_or_else(|| format!("{name}: {} is not a valid keyword", short(word)))
}

/// Reads the name of a field, and optionally a text that its value contains.
fn header_condition(texts: Vec<String>) -> Result<Condition, MethodError> {
    let mut texts = texts.into_iter();
    let (Some(name), text, None) = (texts.next(), texts.next(), texts.next()) else {
        return Err(expected("header", "an array of one or two texts"));
    };
    // RFC 5322 §2.2.
    if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b':') {
        return Err(expected("header", "the name of a header field"));
    }
    Ok(Condition::Header { name, text })
}
