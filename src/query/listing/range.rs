//! A maintained listing, or a range of it, with the positions of its emails.

use std::collections::BTreeSet;

use crate::model::{AccountId, EmailId};
use crate::query::Error;
use crate::query::id_range::IdRange;
use crate::store::{CountedListing, Snapshot};

/// The rows of a listing that a walk reads at once.
const READ_BATCH: usize = 256;

/// An email id (which need not be in the listing) or the end, and the number of emails before it.
type ListingPosition = (Option<EmailId>, u64);

#[derive(Clone, Copy)]
pub(in crate::query) struct ListingRange<'v> {
    pub(in crate::query) snapshot: &'v Snapshot<'v>,
    pub(in crate::query) account: AccountId,
    pub(in crate::query) counted: CountedListing,
    pub(in crate::query) range: IdRange,
}

impl ListingRange<'_> {
    pub(in crate::query) fn length(&self) -> Result<u64, Error> {
        let (low, high) = self.ends()?;
        Ok(high.saturating_sub(low))
    }

    /// Returns the emails from a position in the range on, newest first, at most `limit`. `near` is
    /// an email whose position in the range is known, near which the section is found faster.
    pub(in crate::query) fn section(
        &self,
        start: u64,
        limit: usize,
        near: Option<(EmailId, u64)>,
    ) -> Result<Vec<EmailId>, Error> {
        let (low, high) = self.ends()?;
        let near: ListingPosition = match near {
            Some((id, at)) => (Some(id), low.saturating_add(at)),
            None if start > high.saturating_sub(low) / 2 => {
                (self.range.last.0.checked_add(1).map(EmailId), high)
            }
            None => (Some(self.range.first), low),
        };
        let left =
            usize::try_from(high.saturating_sub(low).saturating_sub(start)).unwrap_or(usize::MAX);
        let CountedListing { listing, stats } = self.counted;
        let at = low.saturating_add(start);
        let page =
            self.snapshot.listing_page(self.account, listing, stats, at, near, limit.min(left))?;
        Ok(page.into_iter().map(|(id, _)| id).collect())
    }

    pub(in crate::query) fn has(&self, id: EmailId) -> Result<bool, Error> {
        Ok(self.range.holds(id)
            && self.snapshot.is_in_listing(self.account, self.counted.listing, id)?)
    }

    /// Returns the positions in the listing of the beginning of the range and of its end, which are
    /// both 0 if the range is empty.
    pub(in crate::query) fn ends(&self) -> Result<(u64, u64), Error> {
        if self.range.first > self.range.last {
            return Ok((0, 0));
        }
        let low = if self.range.first == EmailId(0) { 0 } else { self.index_of(self.range.first)? };
        let high = match self.range.last.0.checked_add(1) {
            Some(behind) => self.index_of(EmailId(behind))?,
            None => self.counted.stats.total,
        };
        Ok((low, high))
    }

    /// Returns the number of emails of the range before each of `ids`, in their order. The ids are
    /// in the range but need not be in the listing. Uses ranks for each id, or one walk for all if
    /// that is cheaper or the listing has no ranks.
    pub(in crate::query) fn positions(
        &self,
        ids: &BTreeSet<EmailId>,
    ) -> Result<Vec<(u64, EmailId)>, Error> {
        let (Some(first), Some(last)) = (ids.first(), ids.last()) else { return Ok(Vec::new()) };
        let low = self.ends()?.0;
        let start = self.index_of(*first)?;
        if ids.len() == 1 {
            return Ok(vec![(start.saturating_sub(low), *first)]);
        }
        let is_ranked = self.counted.stats.is_ranked();
        let span = if is_ranked { self.index_of(*last)?.saturating_sub(start) } else { 0 };
        if span
            > u64::try_from(ids.len()).unwrap_or(u64::MAX).saturating_mul(self.snapshot.rank_cost())
        {
            return ids
                .iter()
                .map(|id| Ok((self.index_of(*id)?.saturating_sub(low), *id)))
                .collect();
        }
        let mut out = Vec::with_capacity(ids.len());
        let mut wanted = ids.iter().peekable();
        let (mut at, mut upto) = (start.saturating_sub(low), first.0.checked_sub(1).map(EmailId));
        while wanted.peek().is_some() {
            let page =
                self.snapshot.listing(self.account, self.counted.listing, upto, READ_BATCH)?;
            for (id, _) in &page {
                while let Some(wanted) = wanted.next_if(|wanted| *wanted <= id) {
                    out.push((at, *wanted));
                }
                at = at.saturating_add(1);
            }
            upto = page.last().map(|(end, _)| *end);
            if page.len() < READ_BATCH {
                break;
            }
        }
        out.extend(wanted.map(|id| (at, *id)));
        Ok(out)
    }

    /// Returns the number of emails of the whole listing before an id, which need not be in it.
    fn index_of(&self, id: EmailId) -> Result<u64, Error> {
        Ok(self.snapshot.listing_position(
            self.account,
            self.counted.listing,
            self.counted.stats,
            id,
        )?)
    }
}
