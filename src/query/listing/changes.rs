//! The changes of results that are made of listings. Only rows of listings are compared; no email
//! is read.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{EmailId, ModSeq, ThreadId};
use crate::query::listing::parts::{RestKind, ResultParts};
use crate::query::listing::range::ListingRange;
use crate::query::{Error, QueryChanges};
use crate::store::ListingMoves;

pub(in crate::query) struct ResultDelta {
    pub(in crate::query) removed: BTreeSet<EmailId>,
    pub(in crate::query) added: BTreeSet<EmailId>,
    /// `upToId`, whether it was in the old results, and whether it is in the new ones. `None` if
    /// the request has no `upToId`, or if it cannot be honoured: the results are pinned or are the
    /// oldest email of each thread, or the id is not in the range.
    pub(in crate::query) up_to: Option<(EmailId, bool, bool)>,
}

/// What changed in a range of a listing since the old state. An email that left and came again is
/// in both maps.
struct ListingEvents {
    /// The emails that are in the listing by a change after the old state.
    came: BTreeMap<EmailId, ThreadId>,
    /// The emails that were in the listing at the old state and left it.
    gone: BTreeMap<EmailId, ThreadId>,
}

/// The emails of one thread in `ListingEvents`: those that came, and those that are gone.
type ThreadEvents = (Vec<EmailId>, Vec<EmailId>);

impl ResultParts<'_> {
    /// Returns what changed since a state that is not below the low marks (`ResultParts::low`).
    ///
    /// # Errors
    /// `CannotCalculateChanges` if a listing changed more than `max_events` times since; errors of
    /// reading.
    pub(in crate::query) fn changes(
        &self,
        request: &QueryChanges,
        max_events: usize,
    ) -> Result<ResultDelta, Error> {
        let all = self.events(&self.all, request.since, max_events)?;
        let pinned = match &self.pin {
            Some((_, pin_range)) => Some(self.events(pin_range, request.since, max_events)?),
            None => None,
        };
        if self.kind == RestKind::ById {
            self.changes_by_id(request, &all, pinned.as_ref())
        } else {
            self.changes_by_thread(&all, pinned.as_ref())
        }
    }

    fn events(
        &self,
        part: &ListingRange<'_>,
        since: ModSeq,
        max_events: usize,
    ) -> Result<ListingEvents, Error> {
        let moves =
            self.snapshot.listing_moves(self.account, part.counted.listing, since, max_events)?;
        let ListingMoves { came, gone, .. } = moves.ok_or(Error::CannotCalculateChanges)?;
        let within = |all: Vec<(EmailId, ThreadId, ModSeq)>| {
            let pairs = all.into_iter().map(|(id, thread, _)| (id, thread));
            pairs.filter(|(id, _)| part.range.holds(*id)).collect()
        };
        Ok(ListingEvents { came: within(came), gone: within(gone) })
    }

    fn changes_by_id(
        &self,
        request: &QueryChanges,
        all: &ListingEvents,
        pinned: Option<&ListingEvents>,
    ) -> Result<ResultDelta, Error> {
        let (entered, left) = (all.added(), all.removed());
        let (mut removed, mut added) = (left.clone(), entered.clone());
        if let Some(pinned) = pinned {
            // An email that moved between the parts is removed and added. One that is new is only
            // added, and one that left only removed.
            let (pinned, unpinned) = (pinned.added(), pinned.removed());
            let moved = || pinned.iter().chain(&unpinned).copied();
            removed.extend(moved().filter(|id| !entered.contains(id)));
            added.extend(moved().filter(|id| !left.contains(id)));
        }
        let up_to = match request.up_to.filter(|id| self.pin.is_none() && self.all.range.holds(*id))
        {
            Some(id) => {
                let is_there = self.all.has(id)?;
                let was_there =
                    all.gone.contains_key(&id) || (is_there && !all.came.contains_key(&id));
                Some((id, was_there, is_there))
            }
            None => None,
        };
        Ok(ResultDelta { removed, added, up_to })
    }

    /// Compares, for each thread with events, the email that the results showed of the thread at
    /// the old state with the one that they show now: `RestKind::ByThread` and `OldestOfThreads`.
    fn changes_by_thread(
        &self,
        all: &ListingEvents,
        pinned: Option<&ListingEvents>,
    ) -> Result<ResultDelta, Error> {
        let mut delta =
            ResultDelta { removed: BTreeSet::new(), added: BTreeSet::new(), up_to: None };
        let events = || std::iter::once(all).chain(pinned);
        let threads =
            |of: &'_ BTreeMap<EmailId, ThreadId>| of.values().copied().collect::<Vec<_>>();
        let threads: BTreeSet<ThreadId> = events()
            .flat_map(|events| [threads(&events.came), threads(&events.gone)])
            .flatten()
            .collect();
        let (all, pinned) = (all.by_thread(), pinned.map(ListingEvents::by_thread));
        for thread in threads {
            // Each is whether the email is in the pinned part, and its id.
            let (then, now) = match (&self.pin, &pinned) {
                (Some((_, pin_range)), Some(events)) => {
                    let (was_pinned, is_pinned) = self.newest(pin_range, events, thread)?;
                    let (was_there, is_there) = self.newest(&self.all, &all, thread)?;
                    let side = |pinned: Option<EmailId>, other: Option<EmailId>| {
                        pinned.map(|id| (true, id)).or(other.map(|id| (false, id)))
                    };
                    (side(was_pinned, was_there), side(is_pinned, is_there))
                }
                _ => {
                    let now = self.end_of(&self.all, thread, true, |_| true)?;
                    let (came, gone) =
                        all.get(&thread).map_or((&[][..], &[][..]), |(came, gone)| (came, gone));
                    let stayed = self.end_of(&self.all, thread, true, |id| !came.contains(&id))?;
                    // The oldest email has the largest id.
                    let then = stayed.into_iter().chain(gone.iter().copied()).max();
                    (then.map(|id| (false, id)), now.map(|id| (false, id)))
                }
            };
            if then != now {
                delta.removed.extend(then.map(|(_, id)| id));
                delta.added.extend(now.map(|(_, id)| id));
            }
        }
        Ok(delta)
    }

    /// Returns the emails that a collapsed listing showed of a thread at the old state, and shows
    /// now.
    fn newest(
        &self,
        part: &ListingRange<'_>,
        events: &BTreeMap<ThreadId, ThreadEvents>,
        thread: ThreadId,
    ) -> Result<(Option<EmailId>, Option<EmailId>), Error> {
        let now = self.end_of(part, thread, false, |_| true)?;
        // A collapsed listing shows at most one email of a thread. So if it changed for the thread,
        // it showed the email that left, or none if only one came.
        let then = match events.get(&thread) {
            Some((_, gone)) => gone.first().copied(),
            None => now,
        };
        Ok((then, now))
    }
}

impl ListingEvents {
    /// Returns the emails that came and were not there at the old state.
    fn added(&self) -> BTreeSet<EmailId> {
        self.came.keys().filter(|id| !self.gone.contains_key(id)).copied().collect()
    }

    /// Returns the emails that are gone and did not come again.
    fn removed(&self) -> BTreeSet<EmailId> {
        self.gone.keys().filter(|id| !self.came.contains_key(id)).copied().collect()
    }

    fn by_thread(&self) -> BTreeMap<ThreadId, ThreadEvents> {
        let mut threads: BTreeMap<ThreadId, ThreadEvents> = BTreeMap::new();
        for (id, thread) in &self.came {
            threads.entry(*thread).or_default().0.push(*id);
        }
        for (id, thread) in &self.gone {
            threads.entry(*thread).or_default().1.push(*id);
        }
        threads
    }
}
