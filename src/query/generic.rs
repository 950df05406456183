//! The way that always serves: all emails, newest first, against the filter; then sorted, collapsed and cut.
//!
//! Where the order asked for is that of the walk and nothing behind the section is asked for, the walk ends with it.

use std::collections::HashSet;

use super::email::{Candidate, Source};
use super::evaluate::{Matcher, Moment};
use super::sort::{self, Entry};
use super::{Answer, Error, Query, Results, Start, Window};
use crate::model::{DataType, EmailId, Secrets};
use crate::store::View;

/// Emails read at once.
const STEP: usize = 256;

/// Answers Email/query (RFC 8620 §5.5, RFC 8621 §4.4).
///
/// # Errors
/// `Unsupported`, `AnchorNotFound`, and those of reading.
pub fn query(view: &View<'_>, secrets: &Secrets, query: &Query) -> Result<Answer, Error> {
    query.results.validate()?;
    let most = if query.total { None } else { query.window.reach() };
    let list = list(view, secrets, &query.results, most)?;
    let ids: Vec<EmailId> = list.iter().map(|entry| entry.id).collect();
    let (position, section) = query.window.cut(&ids).ok_or(Error::AnchorNotFound)?;
    Ok(Answer {
        ids: section.to_vec(),
        position,
        total: query.total.then_some(ids.len()),
        state: view.state(query.results.account, DataType::Email)?,
        can_calculate: true,
    })
}

impl Window {
    /// How many of the first results it can be cut from; nothing where that may be all.
    fn reach(self) -> Option<usize> {
        match self.start {
            Start::Position(position) => usize::try_from(position).ok()?.checked_add(self.limit?),
            Start::Anchor { .. } => None,
        }
    }

    /// The section of a complete list and the index where it begins; nothing where the anchor is not in it.
    pub(super) fn cut(self, ids: &[EmailId]) -> Option<(usize, &[EmailId])> {
        let forward = |from: usize, by: i64| {
            let steps = usize::try_from(by.unsigned_abs()).unwrap_or(usize::MAX);
            if by < 0 { from.saturating_sub(steps) } else { from.saturating_add(steps) }
        };
        let start = match self.start {
            Start::Position(position) if position < 0 => forward(ids.len(), position),
            Start::Position(position) => forward(0, position),
            Start::Anchor { id, offset } => forward(ids.iter().position(|other| *other == id)?, offset),
        };
        let rest = ids.get(start..).unwrap_or_default();
        Some((start, rest.get(..self.limit.unwrap_or(rest.len())).unwrap_or(rest)))
    }
}

/// The complete list, or its first `most` where they can be had without the rest.
pub(super) fn list(
    view: &View<'_>,
    secrets: &Secrets,
    results: &Results,
    most: Option<usize>,
) -> Result<Vec<Entry>, Error> {
    let matcher = Matcher::new(&results.filter, secrets);
    let mut source = Source::new(view, results.account);
    let most = most.filter(|_| sort::is_natural(&results.sort)).unwrap_or(usize::MAX);
    let mut found: Vec<Entry> = Vec::new();
    let mut threads = HashSet::new();
    let mut last = None;
    'walk: while found.len() < most {
        let page = view.emails(results.account, last, STEP)?;
        for (id, metadata) in &page {
            let mut email = Candidate::new(&mut source, *id, metadata);
            if !matcher.matches(&mut email, Moment::Now)? {
                continue;
            }
            if sort::is_natural(&results.sort) && results.collapse && !threads.insert(metadata.thread) {
                continue;
            }
            found.extend(Entry::of(&results.sort, &mut email)?);
            if found.len() >= most {
                break 'walk;
            }
        }
        match page.last() {
            Some((id, _)) if page.len() == STEP => last = Some(*id),
            _ => break,
        }
    }
    if !sort::is_natural(&results.sort) {
        found.sort_unstable_by(|one, other| one.compare(other, &results.sort));
        if results.collapse {
            found.retain(|entry| threads.insert(entry.thread));
        }
    }
    Ok(found)
}
