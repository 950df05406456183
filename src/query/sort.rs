//! The order of the results (RFC 8621 §4.4.2, RFC 8620 §5.5).
//!
//! Of each result only the keys are kept by which it is sorted. What is equal by every comparator
//! stands in the order of the ids, newest first; so does everything where there is no comparator.
//! Where `receivedAt` ascending is a comparator it stands oldest first, so that this sort is the
//! order of the ids backwards, and a walk from the end. An email without a date in its header sorts
//! as sent before all others, and one without From, To or Subject by the empty text.

use super::Error;
use crate::model::{EmailId, ListingFilter, keyword, limits};
use crate::query::collation::Collation;
use crate::query::filter::Dependencies;

/// One comparator (RFC 8620 §5.5).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Comparator {
    pub property: SortProperty,
    /// Lowest first.
    pub ascending: bool,
    /// How texts compare.
    pub collation: Collation,
}

/// What results can be sorted by (RFC 8621 §4.4.2). Keywords are in normal form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SortProperty {
    /// When it was received.
    ReceivedAt,
    /// The Date field.
    SentAt,
    /// Its octets.
    Size,
    /// The name, else the address, of the first person in From.
    From,
    /// The name, else the address, of the first person in To.
    To,
    /// The base subject (RFC 5256 §2.1).
    Subject,
    /// Whether it has the keyword.
    HasKeyword(String),
    /// Whether every email of its thread has it.
    AllInThreadHaveKeyword(String),
    /// Whether some email of its thread has it.
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

/// Whether a sort keeps the bounds of `model::limits`.
///
/// # Errors
/// `Unsupported`, with what is wrong.
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

/// What a sort hangs on.
#[must_use]
pub(super) fn dependencies(sort: &[Comparator]) -> Dependencies {
    sort.iter().fold(Dependencies::default(), |all, comparator| {
        all.and(comparator.property.dependencies())
    })
}

/// Which end of the ids comes first. Ids ascend from the newest email to the oldest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Direction {
    #[default]
    NewestFirst,
    OldestFirst,
}

impl Direction {
    /// Whether an email stands behind another one.
    pub(super) fn is_behind(self, id: EmailId, other: EmailId) -> bool {
        match self {
            Self::NewestFirst => id > other,
            Self::OldestFirst => id < other,
        }
    }
}

/// Emails with or without a keyword come first: those that a listing of `view` shows, where
/// `first`, or all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SortPin {
    /// The view that shows the emails of one side.
    pub filter: ListingFilter,
    /// Whether that side comes first.
    pub first: bool,
}

/// A sort by what listings know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ListingOrder {
    pub(super) pin: Option<SortPin>,
    pub(super) direction: Direction,
}

/// The order that a sort asks of emails that are all in the same listings; `None` where listings do
/// not know it. A comparator that is the same for all of them says nothing.
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

fn pin(comparator: &Comparator) -> Option<SortPin> {
    // Ascending, those for which it is false come first.
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

/// The direction in which a walk over ids meets the results in their order; `None` where none does.
#[must_use]
pub(super) fn direction(sort: &[Comparator]) -> Option<Direction> {
    match sort {
        [] => Some(Direction::NewestFirst),
        [only] => by_receipt(only),
        _ => None,
    }
}

/// Whether what is equal by every comparator stands oldest first.
pub(super) fn is_oldest_first(sort: &[Comparator]) -> bool {
    sort.iter().any(|comparator| by_receipt(comparator) == Some(Direction::OldestFirst))
}
