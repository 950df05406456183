//! The filter of Email/query (RFC 8621 §4.4.1): its conditions, and what room `query` makes of
//! them.
//!
//! - A condition that is null is left out: clients write all that they know.
//! - A mailbox that is not there holds no email: that is no error.
//! - A keyword that cannot be one is `unsupportedFilter`.
//! - What is returned passes `Filter::validate`.

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
    /// Not in RFC 8621; so the next.
    AttachmentName(String),
    AttachmentType(String),
}

/// The filter of a call. Conditions of our own are known to a request that uses our capability (RFC
/// 8620 §1.8).
///
/// # Errors
/// `invalidArguments`, `unsupportedFilter`.
pub(in crate::jmap::email) fn of(
    call: &Call<'_>,
    given: Option<&Value>,
) -> Result<Filter, MethodError> {
    let filter = filter(given)?;
    if has_our_own(&filter) && !call.uses(ADMIN) {
        return Err(MethodError::UnsupportedFilter(format!(
            "attachmentName and attachmentType belong to {ADMIN}"
        )));
    }
    Ok(filter)
}

fn has_our_own(filter: &Filter) -> bool {
    match filter {
        Filter::And(parts) | Filter::Or(parts) | Filter::Not(parts) => {
            parts.iter().any(has_our_own)
        }
        Filter::Is(condition) => {
            matches!(condition, Condition::AttachmentName(_) | Condition::AttachmentType(_))
        }
    }
}

/// Reads a filter; without one every email matches.
///
/// # Errors
/// `invalidArguments`, `unsupportedFilter`.
pub fn filter(given: Option<&Value>) -> Result<Filter, MethodError> {
    let tree = FilterTree::of(given, |name, value| {
        if value.is_null() { Ok(None) } else { condition::<EmailCondition>(name, value).map(Some) }
    })?;
    let filter = of_tree(tree)?;
    filter.validate().map_err(|error| MethodError::UnsupportedFilter(error.to_string()))?;
    Ok(filter)
}

fn of_tree(tree: FilterTree<EmailCondition>) -> Result<Filter, MethodError> {
    let all = |parts: Vec<FilterTree<EmailCondition>>| {
        parts.into_iter().map(of_tree).collect::<Result<Vec<Filter>, _>>()
    };
    match tree {
        FilterTree::And(parts) => all(parts).map(Filter::And),
        FilterTree::Or(parts) => all(parts).map(Filter::Or),
        FilterTree::Not(parts) => all(parts).map(Filter::Not),
        FilterTree::Is(condition) => of_condition(condition),
    }
}

fn of_condition(condition: EmailCondition) -> Result<Filter, MethodError> {
    let word = |name: &str, word: &str| keyword(name, word).map_err(MethodError::UnsupportedFilter);
    Ok(Filter::Is(match condition {
        EmailCondition::InMailbox(Id(id)) => match id.parse() {
            Ok(uid) => Condition::InMailbox(uid),
            // No email is in what is not there.
            Err(_) => return Ok(Filter::Or(Vec::new())),
        },
        EmailCondition::InMailboxOtherThan(ids) => {
            Condition::InMailboxOtherThan(ids.iter().filter_map(|Id(id)| id.parse().ok()).collect())
        }
        EmailCondition::Before(Date(at)) => Condition::Before(at),
        EmailCondition::After(Date(at)) => Condition::After(at),
        EmailCondition::MinSize(UnsignedInt(size)) => Condition::MinSize(size),
        EmailCondition::MaxSize(UnsignedInt(size)) => Condition::MaxSize(size),
        EmailCondition::AllInThreadHaveKeyword(all) => {
            Condition::AllInThreadHaveKeyword(word("allInThreadHaveKeyword", &all)?)
        }
        EmailCondition::SomeInThreadHaveKeyword(some) => {
            Condition::SomeInThreadHaveKeyword(word("someInThreadHaveKeyword", &some)?)
        }
        EmailCondition::NoneInThreadHaveKeyword(none) => {
            Condition::NoneInThreadHaveKeyword(word("noneInThreadHaveKeyword", &none)?)
        }
        EmailCondition::HasKeyword(has) => Condition::HasKeyword(word("hasKeyword", &has)?),
        EmailCondition::NotKeyword(not) => Condition::NotKeyword(word("notKeyword", &not)?),
        EmailCondition::HasAttachment(has) => Condition::HasAttachment(has),
        EmailCondition::Text(text) => Condition::Text(text),
        EmailCondition::From(text) => Condition::From(text),
        EmailCondition::To(text) => Condition::To(text),
        EmailCondition::Cc(text) => Condition::Cc(text),
        EmailCondition::Bcc(text) => Condition::Bcc(text),
        EmailCondition::Subject(text) => Condition::Subject(text),
        EmailCondition::Body(text) => Condition::Body(text),
        EmailCondition::Header(texts) => header(texts)?,
        EmailCondition::AttachmentName(text) => Condition::AttachmentName(text),
        EmailCondition::AttachmentType(text) => Condition::AttachmentType(text),
    }))
}

/// A keyword in normal form (RFC 8621 §4.1.1).
///
/// # Errors
/// What is wrong with it.
pub(in crate::jmap::email) fn keyword(name: &str, word: &str) -> Result<String, String> {
    keyword::normalize(word).ok_or_else(|| format!("{name}: {} is no keyword", short(word)))
}

/// The name of a field, and what its value holds where that is said.
fn header(texts: Vec<String>) -> Result<Condition, MethodError> {
    let mut texts = texts.into_iter();
    let (Some(name), text, None) = (texts.next(), texts.next(), texts.next()) else {
        return Err(expected("header", "an array of one or two texts"));
    };
    // RFC 5322 §2.2: printable ASCII but the colon.
    if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b':') {
        return Err(expected("header", "the name of a header field"));
    }
    Ok(Condition::Header { name, text })
}
