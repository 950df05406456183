//! The results of a query as sections of maintained listings: one listing, or two parts of it.
//!
//! - *Pinned*: one part is the listing of the pin's filter, the other the rest of the larger
//!   listing. No listing has the rest; `store::Snapshot::listing_difference` finds it.
//! - *By thread* (with `collapseThreads` and a pin by a keyword of the email): the rest are the
//!   threads of which the pinned listing shows no email. A walk counts their positions.
//! - *Oldest of each thread* (with `collapseThreads`, oldest first): a walk over the uncollapsed
//!   listing from its end.
//!
//! The results may be a range of a listing, by time. Those by thread and those with the oldest of
//! each thread never are (`plan::listings`), so their walks read whole listings.

use std::collections::{BTreeSet, HashSet};

use crate::model::{AccountId, EmailId, Listing, ModSeq, Shape, ThreadId};
use crate::query::Error;
use crate::query::listing::range::ListingRange;
use crate::query::plan::{AccessPath, QueryPlan};
use crate::query::sort::{Direction, SortPin};
use crate::query::walk::scan::read_page;
use crate::store::{CountedListing, Snapshot};

/// The rows of a listing that a walk reads at once.
const READ_BATCH: usize = 256;
/// If the pinned listing has at most this many threads, a walk holds them in memory; otherwise it
/// looks up each thread.
const MAX_HELD_THREADS: u64 = 4096;

/// How the emails outside the pinned part are found.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum RestKind {
    /// The pinned listing does not show the email. Also if there is no pin.
    ById,
    /// The pinned listing shows no email of the thread.
    ByThread,
    /// There is only one part, the oldest email of each thread. The value is the number of threads.
    OldestOfThreads(u64),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ResultPart {
    /// All results, if there is no pin.
    Whole,
    Pinned,
    Rest,
}

pub(in crate::query) struct ResultParts<'v> {
    pub(super) snapshot: &'v Snapshot<'v>,
    pub(super) account: AccountId,
    /// The larger listing. By thread, it has the newest email of each thread, in whose place the
    /// results show the pinned one, if any. For the oldest of each thread, it is uncollapsed.
    pub(super) all: ListingRange<'v>,
    /// The pin, and the listing of the pinned emails.
    pub(super) pin: Option<(SortPin, ListingRange<'v>)>,
    pub(super) kind: RestKind,
    direction: Direction,
}

impl<'v> ResultParts<'v> {
    /// Returns what a plan reads; `None` if its path is neither `Listing` nor `Pinned`.
    pub(in crate::query) fn of(
        snapshot: &'v Snapshot<'v>,
        account: AccountId,
        plan: &QueryPlan,
        collapse: bool,
    ) -> Option<Self> {
        let (listing, pin) = match plan.path {
            AccessPath::Listing(listing) => (listing, None),
            AccessPath::Pinned(listing, pin) => (listing, Some(pin)),
            _ => return None,
        };
        let maintained = plan.listing?;
        let range_of = |listing: Listing, maintained: &crate::model::MaintainedListing| {
            let counted = CountedListing { listing, stats: maintained.stats(listing.shape) };
            ListingRange { snapshot, account, counted, range: plan.range }
        };
        let all = range_of(listing, &maintained);
        let pin = match pin {
            Some(pin) => {
                Some((pin, range_of(Listing { filter: pin.filter, ..listing }, &plan.pin_listing?)))
            }
            None => None,
        };
        let kind = match pin {
            None if collapse && listing.shape == Shape::Emails => {
                RestKind::OldestOfThreads(maintained.threads.total)
            }
            Some((pin, _)) if collapse && pin.filter.is_email_filter() => RestKind::ByThread,
            _ => RestKind::ById,
        };
        Some(Self { snapshot, account, all, pin, kind, direction: plan.direction })
    }

    pub(in crate::query) fn length(&self) -> Result<u64, Error> {
        match self.kind {
            RestKind::OldestOfThreads(threads) => Ok(threads),
            _ => self.all.length(),
        }
    }

    /// Returns the earliest state since which all listings that are read have history.
    pub(in crate::query) fn low(&self) -> ModSeq {
        let low = |part: &ListingRange<'_>| part.counted.stats.low;
        self.pin.iter().map(|(_, pin_range)| low(pin_range)).fold(low(&self.all), ModSeq::max)
    }

    /// Returns the parts in the order of the results, each with its length.
    fn parts(&self) -> Result<Vec<(ResultPart, u64)>, Error> {
        let length = self.length()?;
        let Some((pin, pin_range)) = &self.pin else {
            return Ok(vec![(ResultPart::Whole, length)]);
        };
        let pinned = pin_range.length()?;
        let mut parts =
            vec![(ResultPart::Pinned, pinned), (ResultPart::Rest, length.saturating_sub(pinned))];
        if !pin.first {
            parts.reverse();
        }
        Ok(parts)
    }

    /// Returns the `limit` emails from a position on; fewer at the end. `near` is an email whose
    /// position is known, near which the section is found faster.
    pub(in crate::query) fn section(
        &self,
        start: u64,
        limit: usize,
        near: Option<(EmailId, u64)>,
    ) -> Result<Vec<EmailId>, Error> {
        let (mut ids, mut offset) = (Vec::new(), 0u64);
        for (part, length) in self.parts()? {
            let from = start.saturating_sub(offset);
            let left = usize::try_from(length.saturating_sub(from)).unwrap_or(usize::MAX);
            let wanted = limit.saturating_sub(ids.len()).min(left);
            if wanted > 0 {
                let near = near.and_then(|(id, at)| {
                    Some((id, at.checked_sub(offset).filter(|at| *at < length)?))
                });
                ids.extend(self.section_of(part, length, from, wanted, near)?);
            }
            offset = offset.saturating_add(length);
        }
        Ok(ids)
    }

    /// Returns the `limit` emails of a part from its position `start` on; the part must have that
    /// many there. `length` is the length of the part. `near` is as in `section`, but with a
    /// position in the part.
    fn section_of(
        &self,
        part: ResultPart,
        length: u64,
        start: u64,
        limit: usize,
        near: Option<(EmailId, u64)>,
    ) -> Result<Vec<EmailId>, Error> {
        if self.is_walked(part) {
            let mut ids = Vec::new();
            self.walk(|at, id| {
                if at >= start {
                    ids.push(id);
                }
                ids.len() < limit
            })?;
            return Ok(ids);
        }
        let is_backwards = self.direction == Direction::OldestFirst;
        let behind = |at: u64| length.saturating_sub(at);
        let count = u64::try_from(limit).unwrap_or(u64::MAX);
        let start = if is_backwards { behind(start.saturating_add(count)) } else { start };
        let near =
            near.map(|(id, at)| (id, if is_backwards { behind(at.saturating_add(1)) } else { at }));
        let mut ids = match (part, &self.pin) {
            (ResultPart::Pinned, Some((_, pin_range))) => pin_range.section(start, limit, near)?,
            (ResultPart::Rest, Some((_, pin_range))) => {
                // `listing_difference` counts from the beginning of the listings, and the range may
                // begin later.
                let before = self.all.ends()?.0.saturating_sub(pin_range.ends()?.0);
                let at = before.saturating_add(start);
                self.snapshot.listing_difference(
                    self.account,
                    self.all.counted,
                    pin_range.counted,
                    at,
                    limit,
                )?
            }
            _ => self.all.section(start, limit, near)?,
        };
        if is_backwards {
            ids.reverse();
        }
        Ok(ids)
    }

    /// Returns the position of an email, or `None` if it is not in the results.
    pub(in crate::query) fn position(&self, id: EmailId) -> Result<Option<u64>, Error> {
        let is_pinned = match &self.pin {
            Some((_, pin_range)) => pin_range.has(id)?,
            None => false,
        };
        if !is_pinned {
            let Some(thread) =
                self.snapshot.thread_in_listing(self.account, self.all.counted.listing, id)?
            else {
                return Ok(None);
            };
            if !self.all.range.holds(id) || !self.is_first_of(id, thread)? {
                return Ok(None);
            }
        }
        Ok(self.positions(&BTreeSet::from([id]))?.pop().map(|(at, _)| at))
    }

    /// Whether the results show this email of its thread. The email is in the larger listing and
    /// not pinned itself.
    fn is_first_of(&self, id: EmailId, thread: ThreadId) -> Result<bool, Error> {
        Ok(match self.kind {
            RestKind::ById => true,
            RestKind::ByThread => !self.is_thread_pinned(thread)?,
            RestKind::OldestOfThreads(_) => {
                self.end_of(&self.all, thread, true, |_| true)? == Some(id)
            }
        })
    }

    /// Returns the positions of emails that must be in the results, in the order of the results.
    pub(in crate::query) fn positions(
        &self,
        ids: &BTreeSet<EmailId>,
    ) -> Result<Vec<(u64, EmailId)>, Error> {
        let (mut pinned, mut others) = (BTreeSet::new(), ids.clone());
        if let Some((_, pin_range)) = &self.pin {
            let all: Vec<EmailId> = ids.iter().copied().collect();
            let listed =
                self.snapshot.emails_in_listing(self.account, pin_range.counted.listing, &all)?;
            pinned = all
                .into_iter()
                .zip(listed)
                .filter(|(_, listed)| *listed)
                .map(|(id, _)| id)
                .collect();
            others.retain(|id| !pinned.contains(id));
        }
        let (mut out, mut offset) = (Vec::with_capacity(ids.len()), 0u64);
        for (part, length) in self.parts()? {
            let wanted = if part == ResultPart::Pinned { &pinned } else { &others };
            let found = self.positions_in(part, wanted)?;
            let is_backwards = self.direction == Direction::OldestFirst && !self.is_walked(part);
            out.extend(found.into_iter().map(|(at, id)| {
                let at =
                    if is_backwards { length.saturating_sub(at.saturating_add(1)) } else { at };
                (offset.saturating_add(at), id)
            }));
            offset = offset.saturating_add(length);
        }
        out.sort_unstable();
        Ok(out)
    }

    /// Returns the positions of emails in a part. They count from the newest email of the part, or
    /// in a walked part from its first email in the order of the results.
    fn positions_in(
        &self,
        part: ResultPart,
        ids: &BTreeSet<EmailId>,
    ) -> Result<Vec<(u64, EmailId)>, Error> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        if self.is_walked(part) {
            let mut out = Vec::with_capacity(ids.len());
            self.walk(|at, id| {
                if ids.contains(&id) {
                    out.push((at, id));
                }
                out.len() < ids.len()
            })?;
            return Ok(out);
        }
        match (part, &self.pin) {
            (ResultPart::Pinned, Some((_, pin_range))) => pin_range.positions(ids),
            (ResultPart::Rest, Some((_, pin_range))) => {
                let pinned = pin_range.positions(ids)?;
                let all = self.all.positions(ids)?.into_iter().zip(pinned);
                Ok(all.map(|((at, id), (pinned, _))| (at.saturating_sub(pinned), id)).collect())
            }
            _ => self.all.positions(ids),
        }
    }

    /// Whether a part has no ranks, so that a walk counts its positions.
    fn is_walked(&self, part: ResultPart) -> bool {
        match self.kind {
            RestKind::ById => false,
            RestKind::ByThread => part == ResultPart::Rest,
            RestKind::OldestOfThreads(_) => true,
        }
    }

    /// Walks over the part that `is_walked` names, in the order of the results, until `each`
    /// returns `false`. `each` gets the position in the part and the id.
    fn walk(&self, mut each: impl FnMut(u64, EmailId) -> bool) -> Result<(), Error> {
        let pinned = match &self.pin {
            Some((_, pin_range)) if pin_range.counted.stats.total <= MAX_HELD_THREADS => {
                let rows = self.snapshot.listing(
                    self.account,
                    pin_range.counted.listing,
                    None,
                    usize::MAX,
                )?;
                Some(rows.into_iter().map(|(_, thread)| thread).collect::<HashSet<_>>())
            }
            _ => None,
        };
        let listing = self.all.counted.listing;
        // `upto` is the last email that was read.
        let (mut met, mut at, mut upto) = (HashSet::new(), 0u64, None);
        loop {
            let rows =
                read_page(self.snapshot, self.account, listing, self.direction, upto, READ_BATCH)?;
            for (id, thread) in &rows {
                let is_shown = match (&self.kind, &pinned) {
                    (RestKind::ByThread, Some(pinned)) => !pinned.contains(thread),
                    (RestKind::ByThread, None) => !self.is_thread_pinned(*thread)?,
                    _ => met.insert(*thread),
                };
                if is_shown {
                    if !each(at, *id) {
                        return Ok(());
                    }
                    at = at.saturating_add(1);
                }
            }
            upto = rows.last().map(|(id, _)| *id);
            if rows.len() < READ_BATCH {
                return Ok(());
            }
        }
    }

    /// Whether the pinned listing shows an email of a thread.
    fn is_thread_pinned(&self, thread: ThreadId) -> Result<bool, Error> {
        match &self.pin {
            Some((_, pin_range)) => Ok(self.end_of(pin_range, thread, false, |_| true)?.is_some()),
            None => Ok(false),
        }
    }

    /// Returns the oldest email of a thread, or the newest if `oldest` is false, of those that
    /// `is_wanted` accepts in the uncollapsed listing of the mailbox and filter of `part`. The
    /// range of `part` is not regarded.
    pub(super) fn end_of(
        &self,
        part: &ListingRange<'_>,
        thread: ThreadId,
        oldest: bool,
        is_wanted: impl Fn(EmailId) -> bool,
    ) -> Result<Option<EmailId>, Error> {
        let Listing { uid, filter, .. } = part.counted.listing;
        Ok(self.snapshot.thread_end_in_listing(
            self.account,
            (uid, filter),
            thread,
            oldest,
            is_wanted,
        )?)
    }
}
