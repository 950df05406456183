//! The way that always serves: a supply of emails, newest or oldest first, against the filter; then sorted, collapsed and
//! cut. Of all emails, or of a listing that holds every match.
//!
//! Where the order asked for is that of the walk and nothing behind the section is asked for, the walk ends with it. In
//! another order all is walked, but no more is kept than the section and what comes before it: memory follows the section,
//! not the mailbox. What the search index rules out is passed over, where the plan says so (`Matcher::next`).

use std::collections::HashSet;

use super::{Error, Query, QueryAnswer, QuerySpec, Start, Window};
use crate::model::{DataType, EmailId, ThreadId};
use crate::query::listing::merge::Merge;
use crate::query::listing::supply::Supply;
use crate::query::matching::candidate::{Candidate, CandidateSource};
use crate::query::matching::evaluate::{Matcher, Moment};
use crate::query::search_walk::{Hit, SearchWalk};
use crate::query::sort::{self, Direction, SortEntry};
use crate::store::Snapshot;

/// Results beyond those wanted that are kept before they are sorted and let go; few in tests, which have few.
const SORT_SLACK: usize = if cfg!(test) { 2 } else { 1024 };

/// Answers Email/query (RFC 8620 §5.5, RFC 8621 §4.4).
pub(super) fn query(
    snapshot: &Snapshot<'_>,
    matcher: &Matcher,
    query: &Query,
    walk: EmailWalk<'_>,
) -> Result<QueryAnswer, Error> {
    let wanted = ListRequest { most: query.window.prefix_length().unwrap_or(usize::MAX), total: query.total };
    let found = list(snapshot, matcher, &query.results, walk, wanted)?;
    let ids: Vec<EmailId> = found.first.iter().map(|entry| entry.id).collect();
    let (position, section) = query.window.section(&ids).ok_or(Error::AnchorNotFound)?;
    Ok(QueryAnswer {
        ids: section.to_vec(),
        position,
        total: query.total.then_some(found.total),
        state: snapshot.state(query.results.account, DataType::Email)?,
        can_calculate: true,
    })
}

impl Window {
    /// How many of the first results it can be cut from; nothing where that may be all.
    fn prefix_length(self) -> Option<usize> {
        match self.start {
            Start::Position(position) => usize::try_from(position).ok()?.checked_add(self.limit?),
            Start::Anchor { .. } => None,
        }
    }

    /// The section of a complete list and the index where it begins; nothing where the anchor is not in it.
    pub(super) fn section(self, ids: &[EmailId]) -> Option<(usize, &[EmailId])> {
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

/// Where the emails come from.
#[derive(Debug)]
pub(super) enum EmailWalk<'v> {
    /// Every email is decided.
    Each(Supply<'v>),
    /// Only what the search index leaves.
    Sought(SearchWalk<'v>),
    /// Every email matches, and no other; the order asked for is that of the walk.
    Sure(Merge<'v>),
}

impl EmailWalk<'_> {
    /// The order in which it meets the emails.
    fn direction(&self) -> Direction {
        match self {
            Self::Each(supply) => supply.direction(),
            Self::Sought(_) => Direction::NewestFirst,
            Self::Sure(merge) => merge.direction(),
        }
    }
}

/// What is wanted of the complete list.
#[derive(Debug, Clone, Copy)]
pub(super) struct ListRequest {
    /// So many of its first.
    pub(super) most: usize,
    /// Its length.
    pub(super) total: bool,
}

impl ListRequest {
    /// All of it.
    pub(super) const ALL: Self = Self { most: usize::MAX, total: false };
}

/// The beginning of the complete list, and its length where that is wanted.
#[derive(Debug)]
pub(super) struct ListPrefix {
    pub(super) first: Vec<SortEntry>,
    pub(super) total: usize,
}

/// The complete list, as far as it is wanted.
pub(super) fn list(
    snapshot: &Snapshot<'_>,
    matcher: &Matcher,
    results: &QuerySpec,
    walk: EmailWalk<'_>,
    wanted: ListRequest,
) -> Result<ListPrefix, Error> {
    results.reads.begin_walk()?;
    let mut source = CandidateSource::new(snapshot, results, matcher);
    let mut found = ListCollector::new(results, wanted, walk.direction());
    match walk {
        EmailWalk::Each(supply) => {
            let mut supply = supply.counting(results.reads.clone());
            while !found.is_enough()
                && let Some((id, metadata)) = supply.next_email()?
            {
                found.take(matcher, Candidate::new(&mut source, id, &metadata), false)?;
            }
        }
        EmailWalk::Sought(mut sought) => {
            while !found.is_enough()
                && let Some(hits) = sought.hits(matcher, &mut source, found.room(), found.shown())?
            {
                for Hit { id, metadata, facts, sure } in hits {
                    found.take(matcher, Candidate::new(&mut source, id, &metadata).knowing(facts), sure)?;
                }
            }
        }
        EmailWalk::Sure(mut merge) => {
            while !found.is_enough()
                && let Some((id, thread)) = merge.next()?
            {
                results.reads.count_rows(1);
                found.add_sure(id, thread);
            }
        }
    }
    Ok(found.end())
}

/// What was found so far.
struct ListCollector<'q> {
    results: &'q QuerySpec,
    wanted: ListRequest,
    /// The walk is in the order asked for.
    natural: bool,
    first: Vec<SortEntry>,
    /// Threads that have a result, where that must be known.
    threads: HashSet<ThreadId>,
    total: usize,
}

impl<'q> ListCollector<'q> {
    fn new(results: &'q QuerySpec, wanted: ListRequest, walked: Direction) -> Self {
        let natural = sort::direction(&results.sort) == Some(walked);
        Self { results, wanted, natural, first: Vec::new(), threads: HashSet::new(), total: 0 }
    }

    /// Nothing that follows is wanted.
    fn is_enough(&self) -> bool {
        self.natural && !self.wanted.total && self.first.len() >= self.wanted.most
    }

    /// How many more are wanted.
    fn room(&self) -> usize {
        let is_all = self.wanted.total || !self.natural;
        if is_all { usize::MAX } else { self.wanted.most.saturating_sub(self.first.len()) }
    }

    /// Decides an email, where that can change anything and it is not `sure` to match.
    fn take(&mut self, matcher: &Matcher, mut email: Candidate<'_, '_>, sure: bool) -> Result<(), Error> {
        if !self.is_enough()
            && !self.shown().is_some_and(|shown| shown.contains(&email.metadata.thread))
            && (sure || matcher.matches(&mut email, Moment::Now)?)
            && let Some(entry) = SortEntry::of(&self.results.sort, &mut email)?
        {
            self.push(entry);
        }
        Ok(())
    }

    /// Takes an email that matches and whose place its id says.
    fn add_sure(&mut self, id: EmailId, thread: ThreadId) {
        if !self.is_enough() && !self.shown().is_some_and(|shown| shown.contains(&thread)) {
            self.push(SortEntry::by_id(id, thread));
        }
    }

    /// The threads that show what they do already, where one email of each is enough: no other of theirs needs deciding.
    fn shown(&self) -> Option<&HashSet<ThreadId>> {
        (self.natural && self.results.collapse).then_some(&self.threads)
    }

    fn push(&mut self, entry: SortEntry) {
        let is_first =
            !self.results.collapse || !(self.natural || self.wanted.total) || self.threads.insert(entry.thread);
        self.total = self.total.saturating_add(usize::from(is_first));
        if self.natural && self.first.len() >= self.wanted.most {
            return;
        }
        self.first.push(entry);
        // As many again, so that sorting costs each result but a few comparisons more.
        let room = self.wanted.most.saturating_mul(2).max(self.wanted.most.saturating_add(SORT_SLACK));
        if !self.natural && self.first.len() >= room {
            self.sort_and_trim();
        }
    }

    /// Puts in order what was found, of each thread its first, and lets go of what is not wanted. What goes is behind as many
    /// as are wanted, whatever follows.
    fn sort_and_trim(&mut self) {
        let (results, mut threads) = (self.results, HashSet::new());
        self.first.sort_unstable_by(|one, other| one.compare(other, &results.sort));
        if results.collapse {
            self.first.retain(|entry| threads.insert(entry.thread));
        }
        self.first.truncate(self.wanted.most);
    }

    fn end(mut self) -> ListPrefix {
        if !self.natural {
            self.sort_and_trim();
        }
        ListPrefix { first: self.first, total: self.total }
    }
}
