//! The order of the results (RFC 8621 §4.4.2, RFC 8620 §5.5).
//!
//! - Results that are equal by all comparators are sorted by id, newest first. If `receivedAt`
//!   ascending is a comparator, they are sorted oldest first instead, so that this comparator alone
//!   gives the reverse order of the ids.
//! - An email without a Date is sorted as if sent before all others. One without From, To or
//!   Subject is sorted by the empty text.

use super::Error;
use crate::model::{EmailId, ListingFilter, keyword, limits};
use crate::query::collation::Collation;
use crate::query::filter::Dependencies;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Comparator {
    pub property: SortProperty,
    pub ascending: bool,
    /// Used for From, To and Subject only.
    pub collation: Collation,
}

/// A property to sort by (RFC 8621 §4.4.2). Keywords are in normal form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SortProperty {
    ReceivedAt,
    SentAt,
    Size,
    /// The name of the first person in the field From, or the address if there is no name.
    From,
    /// As `From`, of the field To.
    To,
    /// The base subject (RFC 5256 §2.1).
    Subject,
    HasKeyword(String),
    AllInThreadHaveKeyword(String),
    SomeInThreadHaveKeyword(String),
}

impl SortProperty {
    fn dependencies(&self) -> Dependencies {
        let threads =
            matches!(self, Self::AllInThreadHaveKeyword(_) | Self::SomeInThreadHaveKeyword(_));
        Dependencies { mutable: threads || matches!(self, Self::HasKeyword(_)), threads }
    }

    fn keyword(&self) -> Option<&str> {
        match self {
            Self::HasKeyword(word)
            | Self::AllInThreadHaveKeyword(word)
            | Self::SomeInThreadHaveKeyword(word) => Some(word),
            _ => None,
        }
    }
}

/// Checks the number of comparators and their keywords.
///
/// # Errors
/// `Unsupported` if there are too many comparators, or a keyword is not well-formed.
pub(super) fn validate(sort: &[Comparator]) -> Result<(), Error> {
    if sort.len() > limits::MAX_SORT_COMPARATORS {
        return Err(Error::Unsupported("the sort has too many comparators"));
    }
    let words = sort.iter().filter_map(|comparator| comparator.property.keyword());
    for word in words {
        if keyword::normalize(word).is_none_or(|normal| normal != word) {
            return Err(Error::Unsupported("a keyword is not well-formed"));
        }
    }
    Ok(())
}

#[must_use]
pub(super) fn dependencies(sort: &[Comparator]) -> Dependencies {
    sort.iter().fold(Dependencies::default(), |all, comparator| {
        all.and(comparator.property.dependencies())
    })
}

/// The direction of a walk over ids. Ids ascend from the newest email to the oldest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Direction {
    #[default]
    NewestFirst,
    OldestFirst,
}

impl Direction {
    /// Whether a walk comes to `id` after `other`.
    pub(super) fn is_behind(self, id: EmailId, other: EmailId) -> bool {
        match self {
            Self::NewestFirst => id > other,
            Self::OldestFirst => id < other,
        }
    }
}

/// A first comparator by a keyword, such as "flagged first".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SortPin {
    pub filter: ListingFilter,
    /// Whether the matching emails come before the others.
    pub first: bool,
}

/// An order that listings can give: by the pin, if there is one, then by id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ListingOrder {
    pub(super) pin: Option<SortPin>,
    /// The order by id; with a pin, within each of its two parts.
    pub(super) direction: Direction,
}

/// Returns the order of a sort as listings provide it, or `None` if they cannot. `shown` are
/// filters that all results match, so comparators by these order nothing and are ignored.
#[must_use]
pub(super) fn order(sort: &[Comparator], shown: &[ListingFilter]) -> Option<ListingOrder> {
    let is_constant =
        |comparator: &&Comparator| pin(comparator).is_some_and(|pin| shown.contains(&pin.filter));
    let mut rest = sort.iter().filter(|comparator| !is_constant(comparator)).peekable();
    let pin = rest.peek().copied().and_then(pin);
    if pin.is_some() {
        rest.next();
    }
    let direction = match rest.next() {
        None => Direction::NewestFirst,
        Some(last) => by_receipt(last)?,
    };
    rest.next().is_none().then_some(ListingOrder { pin, direction })
}

fn by_receipt(comparator: &Comparator) -> Option<Direction> {
    let direction =
        if comparator.ascending { Direction::OldestFirst } else { Direction::NewestFirst };
    (comparator.property == SortProperty::ReceivedAt).then_some(direction)
}

/// Returns the pin that a comparator is, if listings have its emails.
fn pin(comparator: &Comparator) -> Option<SortPin> {
    // `shows_true` tells whether the emails of the filter are those for which the property is true.
    // Ascending, false comes first.
    let (filter, shows_true) = match &comparator.property {
        SortProperty::HasKeyword(word) if word == keyword::FLAGGED => {
            (ListingFilter::Flagged, true)
        }
        SortProperty::HasKeyword(word) if word == keyword::SEEN => (ListingFilter::Unseen, false),
        SortProperty::SomeInThreadHaveKeyword(word) if word == keyword::FLAGGED => {
            (ListingFilter::ThreadFlagged, true)
        }
        SortProperty::AllInThreadHaveKeyword(word) if word == keyword::SEEN => {
            (ListingFilter::ThreadUnseen, false)
        }
        SortProperty::SomeInThreadHaveKeyword(word) if word == keyword::SEEN => {
            (ListingFilter::ThreadUntouched, false)
        }
        _ => return None,
    };
    Some(SortPin { filter, first: comparator.ascending != shows_true })
}

/// Returns the direction in which a walk over ids gives the results in their order. `None` if the
/// results are not sorted by id alone.
#[must_use]
pub(super) fn direction(sort: &[Comparator]) -> Option<Direction> {
    match sort {
        [] => Some(Direction::NewestFirst),
        [only] => by_receipt(only),
        _ => None,
    }
}

/// Whether results that are equal by all comparators are sorted oldest first.
pub(super) fn is_oldest_first(sort: &[Comparator]) -> bool {
    sort.iter().any(|comparator| by_receipt(comparator) == Some(Direction::OldestFirst))
}
