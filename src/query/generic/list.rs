//! The complete list of a query, as far as it is wanted: found, sorted, collapsed and cut.

use std::collections::HashSet;

use super::sort_entry::SortEntry;
use crate::model::{EmailId, ThreadId};
use crate::query::matching::candidate::{Candidate, CandidateSource};
use crate::query::matching::evaluate::{Matcher, Moment};
use crate::query::sort::{self, Direction};
use crate::query::walk::EmailWalk;
use crate::query::walk::search::Hit;
use crate::query::{Error, QuerySpec};
use crate::store::Snapshot;

/// What is wanted of the complete list.
#[derive(Debug, Clone, Copy)]
pub(super) struct ListRequest {
    /// Number of first results that are wanted.
    pub(super) most: usize,
    /// Whether its length is wanted.
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
                && let Some(hits) =
                    sought.hits(matcher, &mut source, found.room(), found.shown())?
            {
                for Hit { id, metadata, facts, sure } in hits {
                    found.take(
                        matcher,
                        Candidate::new(&mut source, id, &metadata).knowing(facts),
                        sure,
                    )?;
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
    fn take(
        &mut self,
        matcher: &Matcher,
        mut email: Candidate<'_, '_>,
        sure: bool,
    ) -> Result<(), Error> {
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

    /// The threads that show what they do already, where one email of each is enough: no other of
    /// theirs needs deciding.
    fn shown(&self) -> Option<&HashSet<ThreadId>> {
        (self.natural && self.results.collapse).then_some(&self.threads)
    }

    fn push(&mut self, entry: SortEntry) {
        let is_first = !self.results.collapse
            || !(self.natural || self.wanted.total)
            || self.threads.insert(entry.thread);
        self.total = self.total.saturating_add(usize::from(is_first));
        if self.natural && self.first.len() >= self.wanted.most {
            return;
        }
        self.first.push(entry);
        // As many again, so that sorting costs each result but a few comparisons more.
        let room = self
            .wanted
            .most
            .saturating_mul(2)
            .max(self.wanted.most.saturating_add(self.results.options.sort_slack));
        if !self.natural && self.first.len() >= room {
            self.sort_and_trim();
        }
    }

    /// Puts in order what was found, of each thread its first, and lets go of what is not wanted.
    /// What goes is behind as many as are wanted, whatever follows.
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
