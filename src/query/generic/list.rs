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
    pub(super) limit: usize,
    /// Whether its length is wanted.
    pub(super) total: bool,
}

impl ListRequest {
    /// All of it.
    pub(super) const ALL: Self = Self { limit: usize::MAX, total: false };
}

/// The beginning of the complete list, and its length where that is wanted.
#[derive(Debug)]
pub(super) struct ListPrefix {
    pub(super) entries: Vec<SortEntry>,
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
        EmailWalk::Scan(scan) => {
            let mut scan = scan.counting(results.reads.clone());
            while !found.is_enough()
                && let Some((id, metadata)) = scan.next_email()?
            {
                found.take(matcher, Candidate::new(&mut source, id, &metadata), false)?;
            }
        }
        EmailWalk::Search(mut search) => {
            while !found.is_enough()
                && let Some(hits) =
                    search.hits(matcher, &mut source, found.room(), found.shown())?
            {
                for Hit { id, metadata, fetched, is_certain } in hits {
                    found.take(
                        matcher,
                        Candidate::new(&mut source, id, &metadata).with_fetched(fetched),
                        is_certain,
                    )?;
                }
            }
        }
        EmailWalk::Exact(mut merge) => {
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
    entries: Vec<SortEntry>,
    /// Threads that have a result, where that must be known.
    threads: HashSet<ThreadId>,
    total: usize,
}

impl<'q> ListCollector<'q> {
    fn new(results: &'q QuerySpec, wanted: ListRequest, walked: Direction) -> Self {
        let natural = sort::direction(&results.sort) == Some(walked);
        Self { results, wanted, natural, entries: Vec::new(), threads: HashSet::new(), total: 0 }
    }

    /// Nothing that follows is wanted.
    fn is_enough(&self) -> bool {
        self.natural && !self.wanted.total && self.entries.len() >= self.wanted.limit
    }

    /// How many more are wanted.
    fn room(&self) -> usize {
        let is_all = self.wanted.total || !self.natural;
        if is_all { usize::MAX } else { self.wanted.limit.saturating_sub(self.entries.len()) }
    }

    /// Decides an email, where that can change anything and it is not `sure` to match.
    fn take(
        &mut self,
        matcher: &Matcher,
        mut email: Candidate<'_, '_>,
        is_certain: bool,
    ) -> Result<(), Error> {
        if !self.is_enough()
            && !self.shown().is_some_and(|shown| shown.contains(&email.metadata.thread))
            && (is_certain || matcher.matches(&mut email, Moment::Now)?)
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
        if self.natural && self.entries.len() >= self.wanted.limit {
            return;
        }
        self.entries.push(entry);
        // As many again, so that sorting costs each result but a few comparisons more.
        let room = self
            .wanted
            .limit
            .saturating_mul(2)
            .max(self.wanted.limit.saturating_add(self.results.options.sort_slack));
        if !self.natural && self.entries.len() >= room {
            self.sort_and_trim();
        }
    }

    /// Puts in order what was found, of each thread its first, and lets go of what is not wanted.
    /// What goes is behind as many as are wanted, whatever follows.
    fn sort_and_trim(&mut self) {
        let (results, mut threads) = (self.results, HashSet::new());
        self.entries.sort_unstable_by(|one, other| one.compare(other, &results.sort));
        if results.collapse {
            self.entries.retain(|entry| threads.insert(entry.thread));
        }
        self.entries.truncate(self.wanted.limit);
    }

    fn end(mut self) -> ListPrefix {
        if !self.natural {
            self.sort_and_trim();
        }
        ListPrefix { entries: self.entries, total: self.total }
    }
}
