//! The emails that one listing shows and another, which shows a part of them, does not.
//!
//! No listing of its own is kept for them. How many of them stand before an email is the difference
//! of its two positions, and where the two listings have ranks, a stretch that both count alike has
//! none of them and is passed over whole: an id that bounds a level of the smaller listing bounds
//! it in the larger one, too. So a page costs its own length and O(log n) rows for each of its
//! emails, also where nearly every email is in both listings.

use crate::model::{AccountId, EmailId, Listing, ListingStats};
use crate::store::engine::typed::{KeyRange, TypedRead as _};
use crate::store::error::Error;
use crate::store::listing::read::top_level;
use crate::store::row::RankCount;
use crate::store::table::keys::{IndexKey, RankKey};
use crate::store::table::{MailboxEmailIndex, MailboxRank};
use crate::store::txn::snapshot::Snapshot;

/// Index rows read at once.
const MAX_READ_BATCH: usize = 256;
/// The fewest.
const MIN_READ_BATCH: usize = 16;

/// A listing with its length.
#[derive(Debug, Clone, Copy)]
pub struct CountedListing {
    /// The listing.
    pub listing: Listing,
    /// Its length in its shape, and whether it has ranks.
    pub stats: ListingStats,
}

/// A stretch of ids, and how much of each listing lies in it.
#[derive(Clone, Copy)]
struct IdStretch {
    from: EmailId,
    to: Option<EmailId>,
    all: u64,
    without: u64,
}

struct DifferenceWalk<'v> {
    snapshot: &'v Snapshot<'v>,
    account: AccountId,
    all: CountedListing,
    without: CountedListing,
    /// How many are still passed over.
    skip: u64,
    limit: usize,
    found: Vec<EmailId>,
}

impl Snapshot<'_> {
    /// A page of what `all` shows and `without`, which is a part of it, does not: newest first,
    /// from a position on.
    ///
    /// # Errors
    /// Those of reading.
    pub fn listing_difference(
        &self,
        account: AccountId,
        all: CountedListing,
        without: CountedListing,
        position: u64,
        limit: usize,
    ) -> Result<Vec<EmailId>, Error> {
        let is_ranked = all.stats.is_ranked() && without.stats.is_ranked();
        let level = if is_ranked { top_level(without.stats.total) } else { 0 };
        let whole = IdStretch {
            from: EmailId(0),
            to: None,
            all: all.stats.total,
            without: without.stats.total,
        };
        let mut walk = DifferenceWalk {
            snapshot: self,
            account,
            all,
            without,
            skip: position,
            limit,
            found: Vec::new(),
        };
        walk.visit(level, whole)?;
        Ok(walk.found)
    }

    /// Index rows of a listing from an email on and up to another one, which is not among them.
    fn ids_between(
        &self,
        account: AccountId,
        listing: Listing,
        (from, to): (EmailId, Option<EmailId>),
        limit: usize,
    ) -> Result<Vec<EmailId>, Error> {
        let mut ids = Vec::new();
        let index = |email| IndexKey { account, listing, email };
        let range = match to {
            Some(to) => KeyRange::between(&index(from), &index(to)),
            None => KeyRange::from(&(account, listing), &index(from)),
        };
        self.read.keys::<MailboxEmailIndex>(&range, |key, _| {
            ids.push(key.email);
            Ok(ids.len() < limit)
        })?;
        Ok(ids)
    }

    /// The boundaries of a level in a stretch, each with the emails from it to the next.
    fn boundaries(
        &self,
        account: AccountId,
        listing: Listing,
        level: u8,
        (from, to): (EmailId, Option<EmailId>),
    ) -> Result<Vec<(EmailId, u64)>, Error> {
        let mut rows = Vec::new();
        let rank = |boundary| RankKey { account, listing, level, boundary };
        let range = match to {
            Some(to) => KeyRange::between(&rank(from), &rank(to)),
            None => KeyRange::from(&(account, listing, level), &rank(from)),
        };
        self.read.rows::<MailboxRank>(&range, |key, RankCount(count)| {
            rows.push((key.boundary, count));
            Ok(true)
        })?;
        Ok(rows)
    }
}

impl DifferenceWalk<'_> {
    fn visit(&mut self, level: u8, stretch: IdStretch) -> Result<(), Error> {
        let rest = stretch.all.saturating_sub(stretch.without);
        if rest == 0 || self.found.len() >= self.limit {
            return Ok(());
        }
        if let Some(left) = self.skip.checked_sub(rest) {
            self.skip = left;
            return Ok(());
        }
        let Some(below) = level.checked_sub(1) else { return self.leaf(stretch) };
        for piece in self.pieces(level, stretch)? {
            self.visit(below, piece)?;
        }
        Ok(())
    }

    /// Cuts a stretch at the boundaries that the smaller listing has in it.
    fn pieces(&self, level: u8, stretch: IdStretch) -> Result<Vec<IdStretch>, Error> {
        let span = (stretch.from, stretch.to);
        let cuts = self.snapshot.boundaries(self.account, self.without.listing, level, span)?;
        let Some((first, _)) = cuts.first() else { return Ok(vec![stretch]) };
        let (all, without) = (stretch.all, cuts.iter().map(|(_, count)| count).sum());
        let from = stretch.from;
        let mut pieces = vec![IdStretch {
            from,
            to: Some(*first),
            all,
            without: stretch.without.saturating_sub(without),
        }];
        let nexts = cuts.iter().skip(1).map(|(id, _)| Some(*id)).chain([stretch.to]);
        pieces.extend(cuts.iter().zip(nexts).map(|((id, without), to)| IdStretch {
            from: *id,
            to,
            all: 0,
            without: *without,
        }));
        // What the larger listing has from the first boundary on is counted by its own rows of the
        // level.
        let mut at = 0;
        for (id, count) in
            self.snapshot.boundaries(self.account, self.all.listing, level, (*first, stretch.to))?
        {
            while pieces.get(at + 1).is_some_and(|next| next.from <= id) {
                at += 1;
            }
            if let Some(piece) = pieces.get_mut(at) {
                piece.all += count;
            }
        }
        let counted: u64 = pieces.iter().skip(1).map(|piece| piece.all).sum();
        if let Some(front) = pieces.first_mut() {
            front.all = all.saturating_sub(counted);
        }
        Ok(pieces)
    }

    /// Goes through both listings side by side.
    fn leaf(&mut self, stretch: IdStretch) -> Result<(), Error> {
        let mut next = Some(self.locate(stretch)?);
        while let Some(from) = next.take()
            && self.found.len() < self.limit
        {
            let wanted =
                u64::try_from(self.limit.saturating_sub(self.found.len())).unwrap_or(u64::MAX);
            let wanted = usize::try_from(wanted.saturating_add(self.skip))
                .unwrap_or(MAX_READ_BATCH)
                .clamp(MIN_READ_BATCH, MAX_READ_BATCH);
            let ids = self.snapshot.ids_between(
                self.account,
                self.all.listing,
                (from, stretch.to),
                wanted,
            )?;
            let Some(last) = ids.last() else { return Ok(()) };
            let end = last.0.checked_add(1).map(EmailId);
            let others = self.snapshot.ids_between(
                self.account,
                self.without.listing,
                (from, end),
                usize::MAX,
            )?;
            let mut others = others.iter().peekable();
            for id in &ids {
                while others.next_if(|other| *other < id).is_some() {}
                if others.peek() == Some(&id) {
                    continue;
                }
                match self.skip.checked_sub(1) {
                    Some(left) => self.skip = left,
                    None if self.found.len() < self.limit => self.found.push(*id),
                    None => return Ok(()),
                }
            }
            next = end.filter(|_| ids.len() == wanted);
        }
        Ok(())
    }

    /// The email of the larger listing to begin with; lowers `skip` by those of the rest that stand
    /// before it. From level to level it is the last boundary of the larger listing before which no
    /// more of the rest stand than are passed over.
    fn locate(&mut self, stretch: IdStretch) -> Result<EmailId, Error> {
        if self.skip <= self.snapshot.rank_cost() || !self.all.stats.is_ranked() {
            return Ok(stretch.from);
        }
        let span = (stretch.from, stretch.to);
        let others =
            self.snapshot.ids_between(self.account, self.without.listing, span, usize::MAX)?;
        let of_rest = |id: EmailId, before: u64| {
            before.saturating_sub(count(others.partition_point(|other| *other < id)))
        };
        // A part of the stretch: how many of the larger listing stand in the stretch before it, and
        // in it.
        let ((mut from, mut to), mut before, mut all) = (span, 0u64, stretch.all);
        for level in (1..=top_level(all)).rev() {
            let cuts = self.cuts(level, (from, to), to == stretch.to)?;
            let first = all.saturating_sub(cuts.iter().map(|(_, count)| count).sum());
            let (mut at, end) = (before.saturating_add(first), to);
            let nexts = cuts.iter().skip(1).map(|(id, _)| Some(*id)).chain([end]);
            (to, all) = (cuts.first().map_or(end, |(id, _)| Some(*id)), first);
            for ((id, count), next) in cuts.iter().zip(nexts) {
                if of_rest(*id, at) > self.skip {
                    break;
                }
                (from, to, before, all) = (*id, next, at, *count);
                at = at.saturating_add(*count);
            }
        }
        self.skip = self.skip.saturating_sub(of_rest(from, before));
        Ok(from)
    }

    /// The boundaries of a level that the larger listing has in a span, each with the emails from
    /// it to the next or the end. `ends_inside`: the span may end between two boundaries of the
    /// level. It ends at one of level 1, so the rows of the lower levels count what the last
    /// boundary has of the span.
    fn cuts(
        &self,
        level: u8,
        (from, to): (EmailId, Option<EmailId>),
        ends_inside: bool,
    ) -> Result<Vec<(EmailId, u64)>, Error> {
        let mut cuts =
            self.snapshot.boundaries(self.account, self.all.listing, level, (from, to))?;
        if ends_inside
            && to.is_some()
            && let Some(below) = level.checked_sub(1).filter(|below| *below > 0)
            && let Some((last, counted)) = cuts.last_mut()
        {
            // The last boundary of the level below may lie across the end, too; each other one is
            // within the span.
            *counted = self.cuts(below, (*last, to), true)?.iter().map(|(_, count)| count).sum();
        }
        Ok(cuts)
    }
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
