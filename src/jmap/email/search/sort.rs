//! The sort of Email/query (RFC 8621 §4.4.2): the properties that emails can be sorted by.

use serde::Deserialize;

use super::filter::keyword;
use crate::jmap::standard::value::expected;
use crate::jmap::standard::{PropertyComparator, sort_by};
use crate::query::{Comparator, SortProperty};
use crate::wire::jmap::MethodError;
use crate::wire::jmap::standard::SortComparator;

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "camelCase")]
enum EmailSort {
    ReceivedAt,
    SentAt,
    Size,
    From,
    To,
    Subject,
    HasKeyword,
    AllInThreadHaveKeyword,
    SomeInThreadHaveKeyword,
}

/// Reads a sort from JSON.
///
/// # Errors
/// `invalidArguments`, `unsupportedSort`.
#[cfg(any(test, feature = "internals"))]
pub fn sort(value: &serde_json::Value) -> Result<Vec<Comparator>, MethodError> {
    let given = Option::<Vec<SortComparator>>::deserialize(value);
    of(given.map_err(|error| {
        MethodError::InvalidArguments(format!(
            "sort: {}",
            crate::wire::jmap::arguments::short(&error.to_string())
        ))
    })?)
}

/// The sort of a call.
///
/// # Errors
/// `invalidArguments`, `unsupportedSort`.
pub(in crate::jmap) fn of(
    given: Option<Vec<SortComparator>>,
) -> Result<Vec<Comparator>, MethodError> {
    let mut given = given.unwrap_or_default();
    for comparator in &mut given {
        // aerc asks for the keyword alone.
        if comparator.property.is_none() && comparator.keyword.is_some() {
            comparator.property = Some("hasKeyword".into());
        }
    }
    sort_by::<EmailSort>(Some(given))?.into_iter().map(comparator).collect()
}

fn comparator(given: PropertyComparator<EmailSort>) -> Result<Comparator, MethodError> {
    let PropertyComparator { property, ascending, collation, keyword: word } = given;
    let of_keyword = |of: fn(String) -> SortProperty, name: &str, word: Option<String>| {
        let word = word.ok_or_else(|| expected("keyword", &format!("the keyword of {name}")))?;
        keyword("keyword", &word).map(of).map_err(MethodError::UnsupportedSort)
    };
    let plain = |property: SortProperty, word: Option<String>| match word {
        None => Ok(property),
        Some(_) => Err(MethodError::InvalidArguments(
            "sort: only a property of keywords has a keyword".into(),
        )),
    };
    let property = match property {
        EmailSort::ReceivedAt => plain(SortProperty::ReceivedAt, word),
        EmailSort::SentAt => plain(SortProperty::SentAt, word),
        EmailSort::Size => plain(SortProperty::Size, word),
        EmailSort::From => plain(SortProperty::From, word),
        EmailSort::To => plain(SortProperty::To, word),
        EmailSort::Subject => plain(SortProperty::Subject, word),
        EmailSort::HasKeyword => of_keyword(SortProperty::HasKeyword, "hasKeyword", word),
        EmailSort::AllInThreadHaveKeyword => {
            of_keyword(SortProperty::AllInThreadHaveKeyword, "allInThreadHaveKeyword", word)
        }
        EmailSort::SomeInThreadHaveKeyword => {
            of_keyword(SortProperty::SomeInThreadHaveKeyword, "someInThreadHaveKeyword", word)
        }
    };
    Ok(Comparator { property: property?, ascending, collation })
}
