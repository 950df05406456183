//! The order of the results (RFC 8621 §4.4.2, RFC 8620 §5.5).
//!
//! Of each result only the keys are kept by which it is sorted. What is equal by every comparator stands in the order of
//! the ids, newest first; so does everything where there is no comparator. An email without a date in its header sorts as
//! sent before all others, and one without From, To or Subject by the empty text.

use std::cmp::Ordering;

use super::Error;
use super::collation::Collation;
use super::email::Candidate;
use super::filter::Depends;
use super::threads::Share;
use crate::message::subject::base_subject;
use crate::model::{EmailAddress, EmailId, ThreadId, keyword, limits};

/// One comparator (RFC 8620 §5.5).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Comparator {
    /// By what.
    pub property: Property,
    /// Lowest first.
    pub ascending: bool,
    /// How texts compare.
    pub collation: Collation,
}

/// What results can be sorted by (RFC 8621 §4.4.2). Keywords are in normal form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Property {
    /// When it was received.
    ReceivedAt,
    /// The Date field.
    SentAt,
    /// Its octets.
    Size,
    /// The name, else the address, of the first of From.
    From,
    /// The same of To.
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

impl Property {
    fn depends(&self) -> Depends {
        let threads = matches!(self, Self::AllInThreadHaveKeyword(_) | Self::SomeInThreadHaveKeyword(_));
        Depends { mutable: threads || matches!(self, Self::HasKeyword(_)), threads }
    }

    fn keyword(&self) -> Option<&str> {
        match self {
            Self::HasKeyword(word) | Self::AllInThreadHaveKeyword(word) | Self::SomeInThreadHaveKeyword(word) => {
                Some(word)
            }
            _ => None,
        }
    }
}

/// Whether a sort keeps the bounds of `model::limits`.
///
/// # Errors
/// `Unsupported`, with what is wrong.
pub(super) fn validate(sort: &[Comparator]) -> Result<(), Error> {
    if sort.len() > limits::SORT_COMPARATORS {
        return Err(Error::Unsupported("the sort has too many comparators"));
    }
    let words = sort.iter().filter_map(|comparator| comparator.property.keyword());
    for word in words {
        if keyword::normal(word).is_none_or(|normal| normal != word) {
            return Err(Error::Unsupported("a keyword is not well-formed"));
        }
    }
    Ok(())
}

/// What a sort hangs on.
#[must_use]
pub(super) fn depends(sort: &[Comparator]) -> Depends {
    sort.iter().fold(Depends::default(), |all, comparator| all.and(comparator.property.depends()))
}

/// Whether a sort is the order of the ids: newest first.
#[must_use]
pub(super) fn is_natural(sort: &[Comparator]) -> bool {
    match sort {
        [] => true,
        [first] => first.property == Property::ReceivedAt && !first.ascending,
        _ => false,
    }
}

/// A result with the keys that it is sorted by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    keys: Box<[Key]>,
    pub(super) id: EmailId,
    pub(super) thread: ThreadId,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Flag(bool),
    Number(i64),
    Text(Box<str>),
}

impl Entry {
    /// Takes the keys of an email. Nothing where they hang on content that is gone, as that of a purged email may be.
    pub(super) fn of(sort: &[Comparator], email: &mut Candidate<'_, '_>) -> Result<Option<Self>, Error> {
        let mut keys = Vec::new();
        if !is_natural(sort) {
            keys.reserve_exact(sort.len());
            for comparator in sort {
                match key(comparator, email)? {
                    Some(key) => keys.push(key),
                    None => return Ok(None),
                }
            }
        }
        Ok(Some(Self { keys: keys.into_boxed_slice(), id: email.id, thread: email.metadata.thread }))
    }

    /// Which stands first in the results.
    pub(super) fn compare(&self, other: &Self, sort: &[Comparator]) -> Ordering {
        let pairs = sort.iter().zip(self.keys.iter().zip(other.keys.iter()));
        let by_keys = pairs.map(|(comparator, (one, two))| {
            let order = one.cmp(two);
            if comparator.ascending { order } else { order.reverse() }
        });
        by_keys.fold(Ordering::Equal, Ordering::then).then_with(|| self.id.cmp(&other.id))
    }
}

fn key(comparator: &Comparator, email: &mut Candidate<'_, '_>) -> Result<Option<Key>, Error> {
    let signed = |number: u64| Key::Number(i64::try_from(number).unwrap_or(i64::MAX));
    let text = |text: &str| Key::Text(comparator.collation.key(text));
    Ok(match &comparator.property {
        Property::ReceivedAt => Some(Key::Number(email.metadata.received_at.0)),
        Property::Size => Some(signed(email.metadata.size)),
        Property::SentAt => {
            let content = email.content()?;
            content.map(|content| Key::Number(content.sent_at.map_or(i64::MIN, |sent| sent.at.0)))
        }
        Property::From => email.content()?.map(|content| text(first(&content.from))),
        Property::To => email.content()?.map(|content| text(first(&content.to))),
        Property::Subject => {
            let content = email.content()?;
            content.map(|content| text(&base_subject(content.subject.as_deref().unwrap_or_default())))
        }
        Property::HasKeyword(word) => Some(Key::Flag(email.metadata.has(word))),
        Property::AllInThreadHaveKeyword(word) => Some(Key::Flag(email.thread_share(word)? == Share::All)),
        Property::SomeInThreadHaveKeyword(word) => Some(Key::Flag(email.thread_share(word)? != Share::None)),
    })
}

fn first(people: &[EmailAddress]) -> &str {
    let Some(person) = people.first() else { return "" };
    person.name.as_deref().filter(|name| !name.is_empty()).unwrap_or(&person.email)
}
