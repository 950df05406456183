//! Results with the keys by which they are sorted.

use std::cmp::Ordering;

use crate::message::subject::base_subject;
use crate::model::{EmailAddress, EmailId, ThreadId};
use crate::query::Error;
use crate::query::matching::candidate::Candidate;
use crate::query::matching::threads::EmailsWithKeyword;
use crate::query::sort::{self, Comparator, SortProperty};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SortEntry {
    /// One key for each comparator; empty if the results are sorted by their ids
    /// (`sort::direction`).
    keys: Box<[SortKey]>,
    pub(super) id: EmailId,
    pub(super) thread: ThreadId,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum SortKey {
    Flag(bool),
    Number(i64),
    Text(Box<str>),
}

impl SortEntry {
    /// Returns the entry of an email, or `None` if a key needs content that is gone.
    pub(super) fn of(
        sort: &[Comparator],
        email: &mut Candidate<'_, '_>,
    ) -> Result<Option<Self>, Error> {
        let mut keys = Vec::new();
        if sort::direction(sort).is_none() {
            keys.reserve_exact(sort.len());
            for comparator in sort {
                match key(comparator, email)? {
                    Some(key) => keys.push(key),
                    None => return Ok(None),
                }
            }
        }
        Ok(Some(Self {
            keys: keys.into_boxed_slice(),
            id: email.id,
            thread: email.metadata.thread,
        }))
    }

    pub(super) fn by_id(id: EmailId, thread: ThreadId) -> Self {
        Self { keys: Box::default(), id, thread }
    }

    pub(super) fn compare(&self, other: &Self, sort: &[Comparator]) -> Ordering {
        let pairs = sort.iter().zip(self.keys.iter().zip(other.keys.iter()));
        let by_keys = pairs.map(|(comparator, (one, two))| {
            let order = one.cmp(two);
            if comparator.ascending { order } else { order.reverse() }
        });
        // A newer email has a smaller id.
        let by_id = if sort::is_oldest_first(sort) {
            other.id.cmp(&self.id)
        } else {
            self.id.cmp(&other.id)
        };
        by_keys.fold(Ordering::Equal, Ordering::then).then(by_id)
    }
}

fn key(comparator: &Comparator, email: &mut Candidate<'_, '_>) -> Result<Option<SortKey>, Error> {
    let signed = |number: u64| SortKey::Number(i64::try_from(number).unwrap_or(i64::MAX));
    let text = |text: &str| SortKey::Text(comparator.collation.key(text));
    Ok(match &comparator.property {
        SortProperty::ReceivedAt => Some(SortKey::Number(email.metadata.received_at.0)),
        SortProperty::Size => Some(signed(email.metadata.size)),
        SortProperty::SentAt => {
            let content = email.content()?;
            content
                .map(|content| SortKey::Number(content.sent_at.map_or(i64::MIN, |sent| sent.at.0)))
        }
        SortProperty::From => email.content()?.map(|content| text(first(&content.from))),
        SortProperty::To => email.content()?.map(|content| text(first(&content.to))),
        SortProperty::Subject => {
            let content = email.content()?;
            content
                .map(|content| text(&base_subject(content.subject.as_deref().unwrap_or_default())))
        }
        SortProperty::HasKeyword(word) => Some(SortKey::Flag(email.metadata.has(word))),
        SortProperty::AllInThreadHaveKeyword(word) => {
            Some(SortKey::Flag(email.emails_with_keyword(word)? == EmailsWithKeyword::All))
        }
        SortProperty::SomeInThreadHaveKeyword(word) => {
            Some(SortKey::Flag(email.emails_with_keyword(word)? != EmailsWithKeyword::None))
        }
    })
}

/// Returns the name of the first person, or the address if there is no name; empty without people.
fn first(people: &[EmailAddress]) -> &str {
    let Some(person) = people.first() else { return "" };
    person.name.as_deref().filter(|name| !name.is_empty()).unwrap_or(&person.email)
}
