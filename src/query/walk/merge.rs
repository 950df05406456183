//! Merges the emails of several listings in one order, without duplicates.

use std::collections::VecDeque;

use crate::model::{AccountId, EmailId, Listing, ThreadId};
use crate::query::id_range::IdRange;
use crate::query::sort::Direction;
use crate::query::walk::scan::{MAX_READ_BATCH, MIN_READ_BATCH, read_page};
use crate::store::{Error, Snapshot};

/// The least number of rows that is read of a listing at once, however many are merged.
const MIN_LISTING_BATCH: usize = 8;

/// A merged walk over the rows of complete listings in a range.
#[derive(Debug)]
pub(in crate::query) struct Merge<'v> {
    pub(super) snapshot: &'v Snapshot<'v>,
    pub(super) account: AccountId,
    listings: Vec<SourceListing>,
    pub(super) range: IdRange,
    pub(super) direction: Direction,
}

#[derive(Debug)]
struct SourceListing {
    listing: Listing,
    /// The rows that were read and not returned yet.
    read: VecDeque<(EmailId, ThreadId)>,
    /// Reading continues after this email, or with the first email of the direction if
    /// `Some(None)`. `None` if all is read.
    upto: Option<Option<EmailId>>,
    /// How many rows are read next.
    batch_size: usize,
}

impl<'v> Merge<'v> {
    pub(in crate::query) fn new(
        snapshot: &'v Snapshot<'v>,
        account: AccountId,
        listings: &[Listing],
        range: IdRange,
        direction: Direction,
    ) -> Self {
        let batch_size = (MIN_READ_BATCH / listings.len().max(1)).max(MIN_LISTING_BATCH);
        let part = |listing: &Listing| SourceListing {
            listing: *listing,
            read: VecDeque::new(),
            upto: range.begin(direction),
            batch_size,
        };
        Self { snapshot, account, listings: listings.iter().map(part).collect(), range, direction }
    }

    pub(in crate::query) fn direction(&self) -> Direction {
        self.direction
    }

    /// Returns the next email of the range, once even if it is in several of the listings.
    pub(in crate::query) fn next(&mut self) -> Result<Option<(EmailId, ThreadId)>, Error> {
        let most = (MAX_READ_BATCH / self.listings.len().max(1)).max(MIN_LISTING_BATCH);
        let mut first: Option<(EmailId, ThreadId)> = None;
        for part in &mut self.listings {
            if part.read.is_empty()
                && let Some(upto) = part.upto.take()
            {
                part.read = read_page(
                    self.snapshot,
                    self.account,
                    part.listing,
                    self.direction,
                    upto,
                    part.batch_size,
                )?
                .into();
                // Only a full page may have more rows after it.
                part.upto =
                    part.read.get(part.batch_size.saturating_sub(1)).map(|(id, _)| Some(*id));
                part.batch_size = part.batch_size.saturating_mul(4).min(most);
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
