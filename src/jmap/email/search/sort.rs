//! Reads the sort of Email/query (RFC 8621 §4.4.2).

use serde::Deserialize;

use super::filter::normal_keyword;
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

/// Reads the `sort` argument of Email/query; null is no comparator.
///
/// # Errors
/// `invalidArguments` for a malformed sort; those of `comparators`.
#[cfg(any(test, feature = "internals"))]
pub fn parse_sort(value: &serde_json::Value) -> Result<Vec<Comparator>, MethodError> {
    let sort = Option::<Vec<SortComparator>>::deserialize(value);
    comparators(sort.map_err(|error| {
        MethodError::InvalidArguments(format!(
            "sort: {}",
            crate::wire::jmap::arguments::short(&error.to_string())
        ))
    })?)
}

/// Converts the `sort` argument of Email/query, with keywords in normal form. A comparator that has
/// a keyword and no property is one by `hasKeyword`.
///
/// # Errors
/// `invalidArguments` for a comparator without property and keyword, one that lacks its keyword, or
/// has a needless keyword; `unsupportedSort` for an unknown property or collation, an invalid
/// keyword, or too many comparators.
pub(in crate::jmap) fn comparators(
    sort: Option<Vec<SortComparator>>,
) -> Result<Vec<Comparator>, MethodError> {
    let mut sort = sort.unwrap_or_default();
    for comparator in &mut sort {
        // aerc sends only the keyword.
        if comparator.property.is_none() && comparator.keyword.is_some() {
            comparator.property = Some("hasKeyword".into());
        }
    }
    sort_by::<EmailSort>(Some(sort))?.into_iter().map(comparator).collect()
}

fn comparator(sort: PropertyComparator<EmailSort>) -> Result<Comparator, MethodError> {
    let PropertyComparator { property, ascending, collation, keyword } = sort;
    let by_keyword = |sort: fn(String) -> SortProperty, name: &str, keyword: Option<String>| {
        let keyword =
            keyword.ok_or_else(|| expected("keyword", &format!("the keyword of {name}")))?;
        normal_keyword("keyword", &keyword).map(sort).map_err(MethodError::UnsupportedSort)
    };
    let without_keyword = |property: SortProperty, keyword: Option<String>| match keyword {
        None => Ok(property),
        Some(_) => Err(MethodError::InvalidArguments(
            "sort: only a comparator by keyword may have a keyword".into(),
        )),
    };
    let property = match property {
        EmailSort::ReceivedAt => without_keyword(SortProperty::ReceivedAt, keyword),
        EmailSort::SentAt => without_keyword(SortProperty::SentAt, keyword),
        EmailSort::Size => without_keyword(SortProperty::Size, keyword),
        EmailSort::From => without_keyword(SortProperty::From, keyword),
        EmailSort::To => without_keyword(SortProperty::To, keyword),
        EmailSort::Subject => without_keyword(SortProperty::Subject, keyword),
        EmailSort::HasKeyword => by_keyword(SortProperty::HasKeyword, "hasKeyword", keyword),
        EmailSort::AllInThreadHaveKeyword => {
            by_keyword(SortProperty::AllInThreadHaveKeyword, "allInThreadHaveKeyword", keyword)
        }
        EmailSort::SomeInThreadHaveKeyword => {
            by_keyword(SortProperty::SomeInThreadHaveKeyword, "someInThreadHaveKeyword", keyword)
        }
    };
    Ok(Comparator { property: property?, ascending, collation })
}
