//! The emails of several listings in one order, each once: of each listing no more is read than what is asked for.

use std::collections::VecDeque;

use crate::model::{AccountId, EmailId, Listing, ListingFilter, ThreadId};
use crate::query::QuerySpec;
use crate::query::conjuncts::Conjuncts;
use crate::query::listing::supply::{IdRange, MAX_READ_BATCH, MIN_READ_BATCH, page};
use crate::query::plan::{AccessPath, QueryPlan};
use crate::query::sort::{self, Direction};
use crate::store::{Error, Snapshot};

/// Mailboxes whose listings are walked side by side at most.
const MAX_MERGED: usize = 64;
/// The fewest rows that are read of one listing at once.
const MIN_LISTING_BATCH: usize = 8;

/// A walk over the rows of listings that are whole.
#[derive(Debug)]
pub(in crate::query) struct Merge<'v> {
    pub(super) snapshot: &'v Snapshot<'v>,
    pub(super) account: AccountId,
    listings: Vec<SourceListing>,
    pub(super) range: IdRange,
    pub(super) direction: Direction,
}

/// One of the listings.
#[derive(Debug)]
struct SourceListing {
    listing: Listing,
    read: VecDeque<(EmailId, ThreadId)>,
    /// Where to read on: behind this email, or from the beginning; nothing where all is read.
    upto: Option<Option<EmailId>>,
    step: usize,
}

impl<'v> Merge<'v> {
    pub(in crate::query) fn new(
        snapshot: &'v Snapshot<'v>,
        account: AccountId,
        listings: &[Listing],
        range: IdRange,
        direction: Direction,
    ) -> Self {
        let step = (MIN_READ_BATCH / listings.len().max(1)).max(MIN_LISTING_BATCH);
        let part = |listing: &Listing| SourceListing {
            listing: *listing,
            read: VecDeque::new(),
            upto: range.begin(direction),
            step,
        };
        Self { snapshot, account, listings: listings.iter().map(part).collect(), range, direction }
    }

    /// The direction of the walk.
    pub(in crate::query) fn direction(&self) -> Direction {
        self.direction
    }

    /// The next email, which may be in several of the listings.
    ///
    /// # Errors
    /// Those of reading.
    pub(in crate::query) fn next(&mut self) -> Result<Option<(EmailId, ThreadId)>, Error> {
        let most = (MAX_READ_BATCH / self.listings.len().max(1)).max(MIN_LISTING_BATCH);
        let mut first: Option<(EmailId, ThreadId)> = None;
        for part in &mut self.listings {
            if part.read.is_empty()
                && let Some(upto) = part.upto.take()
            {
                part.read = page(self.snapshot, self.account, part.listing, self.direction, upto, part.step)?.into();
                part.upto = part.read.get(part.step.saturating_sub(1)).map(|(id, _)| Some(*id));
                part.step = part.step.saturating_mul(4).min(most);
            }
            let here = part.read.front().filter(|(id, _)| self.range.holds(*id)).copied();
            if let Some(here) = here
                && first.is_none_or(|first| self.direction.is_behind(first.0, here.0))
            {
                first = Some(here);
            }
        }
        if let Some((id, _)) = first {
            for part in &mut self.listings {
                part.read.pop_front_if(|(known, _)| *known == id);
            }
        }
        Ok(first)
    }
}

/// The listings of several mailboxes in one of which each match is, side by side.
pub(in crate::query) fn plan(
    snapshot: &Snapshot<'_>,
    results: &QuerySpec,
    asked: &Conjuncts,
    base: &QueryPlan,
) -> Result<Option<QueryPlan>, Error> {
    let mut best: Option<QueryPlan> = None;
    for uids in asked.among.iter().filter(|uids| (2..=MAX_MERGED).contains(&uids.len())) {
        let (mut length, mut are_whole) = (0u64, true);
        for uid in uids {
            let kept = snapshot.maintained_listing(results.account, *uid, ListingFilter::Every)?;
            are_whole &= kept.is_some();
            length = length.saturating_add(kept.map_or(0, |kept| kept.emails.total));
        }
        if are_whole && best.as_ref().is_none_or(|best| length < best.length) {
            let is_all = asked.others == 1 && asked.thread_wide == 0;
            let is_all = is_all && asked.views.is_empty() && asked.mailboxes.is_empty();
            let decides = !is_all || sort::direction(&results.sort).is_none();
            best = Some(QueryPlan { way: AccessPath::Merged { decides }, length, among: uids.clone(), ..base.clone() });
        }
    }
    Ok(best)
}
