//! Collects the results of a walk: sorts, collapses and truncates them.

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

/// Which results of a walk are wanted.
#[derive(Debug, Clone, Copy)]
pub(super) struct ListRequest {
    /// The number of first results that are wanted.
    pub(super) limit: usize,
    /// Whether all results are to be counted.
    pub(super) total: bool,
}

impl ListRequest {
    pub(super) const ALL: Self = Self { limit: usize::MAX, total: false };
}

/// The first results of a query, in its order.
#[derive(Debug)]
pub(super) struct ListPrefix {
    pub(super) entries: Vec<SortEntry>,
    /// Without meaning if the total was not wanted.
    pub(super) total: usize,
}

/// Returns the first `wanted.limit` results that a walk leads to, sorted and collapsed, and the
/// number of all results if `wanted.total`.
///
/// # Errors
/// `TooMuchWalked`, `TooMuchRead`, and errors of reading.
pub(super) fn list(
    snapshot: &Snapshot<'_>,
    matcher: &Matcher,
    spec: &QuerySpec,
    walk: EmailWalk<'_>,
    wanted: ListRequest,
) -> Result<ListPrefix, Error> {
    spec.reads.begin_walk()?;
    let mut source = CandidateSource::new(snapshot, spec, matcher);
    let mut found = ListCollector::new(spec, wanted, walk.direction());
    match walk {
        EmailWalk::Scan(scan) => {
            let mut scan = scan.counting(spec.reads.clone());
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
                spec.reads.count_rows(1);
                found.add_certain(id, thread);
            }
        }
    }
    Ok(found.end())
}

/// The results that a walk led to so far.
struct ListCollector<'q> {
    spec: &'q QuerySpec,
    wanted: ListRequest,
    /// Whether the walk is in the order of the query.
    natural: bool,
    entries: Vec<SortEntry>,
    /// The threads that have a result. Filled only if threads are collapsed, and the walk is
    /// `natural` or the total is wanted.
    threads: HashSet<ThreadId>,
    /// The number of results so far, also of those beyond the limit. Without meaning if the total
    /// is not wanted.
    total: usize,
}

impl<'q> ListCollector<'q> {
    fn new(spec: &'q QuerySpec, wanted: ListRequest, walked: Direction) -> Self {
        let natural = sort::direction(&spec.sort) == Some(walked);
        Self { spec, wanted, natural, entries: Vec::new(), threads: HashSet::new(), total: 0 }
    }

    fn is_enough(&self) -> bool {
        self.natural && !self.wanted.total && self.entries.len() >= self.wanted.limit
    }

    /// Returns how many more results are wanted; `usize::MAX` if every email must be walked.
    fn room(&self) -> usize {
        let is_all = self.wanted.total || !self.natural;
        if is_all { usize::MAX } else { self.wanted.limit.saturating_sub(self.entries.len()) }
    }

    /// Collects an email if it matches, unless it cannot change the results, or what it is sorted
    /// by cannot be read any more. If `is_certain`, the email is known to match.
    fn take(
        &mut self,
        matcher: &Matcher,
        mut email: Candidate<'_, '_>,
        is_certain: bool,
    ) -> Result<(), Error> {
        if !self.is_enough()
            && !self.shown().is_some_and(|shown| shown.contains(&email.metadata.thread))
            && (is_certain || matcher.matches(&mut email, Moment::Now)?)
            && let Some(entry) = SortEntry::of(&self.spec.sort, &mut email)?
        {
            self.push(entry);
        }
        Ok(())
    }

    /// Collects an email that is known to match, for a query whose results are sorted by id.
    fn add_certain(&mut self, id: EmailId, thread: ThreadId) {
        if !self.is_enough() && !self.shown().is_some_and(|shown| shown.contains(&thread)) {
            self.push(SortEntry::by_id(id, thread));
        }
    }

    /// Returns the threads of which no further email can be a result: those that have one, if
    /// threads are collapsed and the walk is in the order of the query. Otherwise any email may be
    /// a result, and this returns `None`.
    fn shown(&self) -> Option<&HashSet<ThreadId>> {
        (self.natural && self.spec.collapse).then_some(&self.threads)
    }

    fn push(&mut self, entry: SortEntry) {
        let is_first = !self.spec.collapse
            || !(self.natural || self.wanted.total)
            || self.threads.insert(entry.thread);
        self.total = self.total.saturating_add(usize::from(is_first));
        if self.natural && self.entries.len() >= self.wanted.limit {
            return;
        }
        self.entries.push(entry);
        // The list is sorted and cut only when it has twice the entries that are wanted, or more,
        // so that each sort drops many entries.
        let max_entries = self
            .wanted
            .limit
            .saturating_mul(2)
            .max(self.wanted.limit.saturating_add(self.spec.options.sort_slack));
        if !self.natural && self.entries.len() >= max_entries {
            self.sort_and_trim();
        }
    }

    fn sort_and_trim(&mut self) {
        let (spec, mut threads) = (self.spec, HashSet::new());
        self.entries.sort_unstable_by(|one, other| one.compare(other, &spec.sort));
        if spec.collapse {
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
