//! The way that always serves: a supply of emails, newest first, against the filter; then sorted, collapsed and cut. Of
//! all emails, or of a listing that holds every match.
//!
//! Where the order asked for is that of the walk and nothing behind the section is asked for, the walk ends with it. What
//! the search index rules out is passed over, where the plan says so (`Matcher::next`).

use std::collections::HashSet;

use super::email::{Candidate, Source};
use super::evaluate::{Matcher, Moment};
use super::sort::{self, Entry};
use super::supply::Supply;
use super::{Answer, Error, Query, Results, Start, Window};
use crate::model::{DataType, EmailId, Secrets};
use crate::store::View;

/// Answers Email/query (RFC 8620 §5.5, RFC 8621 §4.4).
pub(super) fn query(view: &View<'_>, secrets: &Secrets, query: &Query, supply: Supply<'_>) -> Result<Answer, Error> {
    let most = if query.total { None } else { query.window.reach() };
    let list = list(view, secrets, &query.results, supply, most)?;
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
    mut supply: Supply<'_>,
    most: Option<usize>,
) -> Result<Vec<Entry>, Error> {
    let matcher = Matcher::new(&results.filter, secrets);
    let mut source = Source::new(view, results.account, &matcher);
    let natural = sort::is_natural(&results.sort);
    let most = most.filter(|_| natural).unwrap_or(usize::MAX);
    let mut found: Vec<Entry> = Vec::new();
    let mut threads = HashSet::new();
    let mut from = EmailId(0);
    while found.len() < most {
        if supply.is_sought() {
            let Some(at) = matcher.next(&mut source, from)? else { break };
            supply.skip_to(at);
        }
        let Some((id, metadata)) = supply.next_email()? else { break };
        from = EmailId(id.0.saturating_add(1));
        let mut email = Candidate::new(&mut source, id, &metadata);
        // What its thread shows already needs no deciding.
        if natural && results.collapse && threads.contains(&metadata.thread) {
            continue;
        }
        if matcher.matches(&mut email, Moment::Now)? {
            if natural && results.collapse {
                threads.insert(metadata.thread);
            }
            found.extend(Entry::of(&results.sort, &mut email)?);
        }
    }
    if !natural {
        found.sort_unstable_by(|one, other| one.compare(other, &results.sort));
        if results.collapse {
            found.retain(|entry| threads.insert(entry.thread));
        }
    }
    Ok(found)
}
