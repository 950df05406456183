//! The sort of Email/query as JSON (RFC 8621 §4.4.2, RFC 8620 §5.5): an array of
//! `{ "property", "isAscending": true, "collation", "keyword" }`.
//!
//! A property or collation that is not known here is `unsupportedSort`; what is no comparator is `invalidArguments`.

use serde_json::Value;

use super::filter::{keyword, short};
use super::{flag, text, wanted};
use crate::model::limits;
use crate::query::{Collation, Comparator, SortProperty};
use crate::wire::jmap::MethodError;

/// Reads a sort.
///
/// # Errors
/// `invalidArguments`, `unsupportedSort`.
pub fn sort(value: &Value) -> Result<Vec<Comparator>, MethodError> {
    match value {
        Value::Null => Ok(Vec::new()),
        Value::Array(all) if all.len() > limits::SORT_COMPARATORS => {
            Err(MethodError::UnsupportedSort("the sort has too many comparators".into()))
        }
        Value::Array(all) => all.iter().map(comparator).collect(),
        _ => Err(wanted("sort", "an array")),
    }
}

fn comparator(value: &Value) -> Result<Comparator, MethodError> {
    let Value::Object(members) = value else { return Err(wanted("sort", "an array of comparators")) };
    let (mut property, mut ascending, mut collation, mut word) = (None, true, Collation::default(), None);
    // meli writes null for what it leaves to the server.
    for (name, value) in members.iter().filter(|(_, value)| !value.is_null()) {
        match name.as_str() {
            "property" => property = Some(text(name, value)?),
            "isAscending" => ascending = flag(name, value)?,
            "collation" => {
                let wanted = text(name, value)?;
                let unknown = || MethodError::UnsupportedSort(format!("no collation {}", short(wanted)));
                collation = Collation::from_name(wanted).ok_or_else(unknown)?;
            }
            "keyword" => {
                let found = keyword(name, value);
                word = Some(found.map_err(|error| match error {
                    MethodError::UnsupportedFilter(what) => MethodError::UnsupportedSort(what),
                    other => other,
                })?);
            }
            // Clients write more into it than it has; what is not known means nothing.
            _ => {}
        }
    }
    // aerc asks for the keyword alone.
    let of_word = word.as_ref().map(|_| "hasKeyword");
    let name = property.or(of_word).ok_or_else(|| wanted("property", "a text"))?;
    let of_keyword = |of: fn(String) -> SortProperty, word: Option<String>| {
        word.map(of).ok_or_else(|| wanted("keyword", &format!("the keyword of {name}")))
    };
    let property = match name {
        "hasKeyword" => of_keyword(SortProperty::HasKeyword, word)?,
        "allInThreadHaveKeyword" => of_keyword(SortProperty::AllInThreadHaveKeyword, word)?,
        "someInThreadHaveKeyword" => of_keyword(SortProperty::SomeInThreadHaveKeyword, word)?,
        _ if word.is_some() => {
            return Err(MethodError::InvalidArguments(format!("{} has no keyword", short(name))));
        }
        "receivedAt" => SortProperty::ReceivedAt,
        "sentAt" => SortProperty::SentAt,
        "size" => SortProperty::Size,
        "from" => SortProperty::From,
        "to" => SortProperty::To,
        "subject" => SortProperty::Subject,
        other => return Err(MethodError::UnsupportedSort(format!("no sort by {}", short(other)))),
    };
    Ok(Comparator { property, ascending, collation })
}
