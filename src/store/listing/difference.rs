//! Reads the emails that one listing shows and another, which shows a part of it, does not.
//!
//! - The number of these emails before an email is the difference of its positions in the two
//!   listings.
//! - A stretch of ids in which both listings have equally many emails is passed over. If both have
//!   ranks, such stretches are found by rank rows: a boundary of the smaller listing is one of the
//!   larger listing, too.

use crate::model::{AccountId, EmailId, Listing, ListingStats};
use crate::store::engine::typed::{KeyRange, TypedRead as _};
use crate::store::error::Error;
use crate::store::listing::read::top_level;
use crate::store::row::RankCount;
use crate::store::table::keys::{ListingEmailKey, RankKey};
use crate::store::table::{MailboxEmailIndex, MailboxRank};
use crate::store::txn::snapshot::Snapshot;

/// The most ids of the larger listing that are read at once.
const MAX_READ_BATCH: usize = 256;
/// The fewest ids that are read at once, even for a shorter page: some of them are in the smaller
/// listing, too.
const MIN_READ_BATCH: usize = 16;

/// A listing, with its statistics in the snapshot.
#[derive(Debug, Clone, Copy)]
pub struct CountedListing {
    pub listing: Listing,
    pub stats: ListingStats,
}

/// The ids from `from` up to but not including `to`.
#[derive(Clone, Copy)]
struct IdStretch {
    from: EmailId,
    /// `None`: the end of the listings.
    to: Option<EmailId>,
    /// How many emails of the larger listing are in it.
    all: u64,
    /// How many emails of the smaller listing are in it.
    without: u64,
}

/// A search for the emails of `all` that are not in `without`.
struct DifferenceWalk<'v> {
    snapshot: &'v Snapshot<'v>,
    account: AccountId,
    all: CountedListing,
    without: CountedListing,
    /// How many emails of the difference are still to be passed over.
    skip: u64,
    /// The most emails that are wanted.
    limit: usize,
    found: Vec<EmailId>,
}

impl Snapshot<'_> {
    /// Returns up to `limit` emails that `all` shows and `without`, which is a part of it, does
    /// not: newest first, from a position on.
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

    /// Returns the first `limit` ids of a listing in a span, whose end is not included (`None`: the
    /// end of the listing).
    fn ids_between(
        &self,
        account: AccountId,
        listing: Listing,
        (from, to): (EmailId, Option<EmailId>),
        limit: usize,
    ) -> Result<Vec<EmailId>, Error> {
        let mut ids = Vec::new();
        let index = |email| ListingEmailKey { account, listing, email };
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

    /// Returns the boundaries of a level in a range, each with the count of its rank row.
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
    /// Collects the wanted emails of a stretch, or passes over it. Cuts the stretch at the
    /// boundaries of `level` and of the levels below; at level 0 reads it.
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

    /// Cuts a stretch at the boundaries of a level that the smaller listing has in it.
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
        // From the first boundary on, the rank rows of the larger listing count its emails.
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

    /// Reads the ids of a stretch in both listings, and collects the wanted ones.
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

    /// Returns the id from which on a leaf is read, and lowers `skip` by the emails of the
    /// difference that are before it. If there are many to skip, descends the larger listing's
    /// ranks, on each level to the last boundary with no more than `skip` emails of the difference
    /// before it.
    fn locate(&mut self, stretch: IdStretch) -> Result<EmailId, Error> {
        if self.skip <= self.snapshot.rank_cost() || !self.all.stats.is_ranked() {
            return Ok(stretch.from);
        }
        let span = (stretch.from, stretch.to);
        let others =
            self.snapshot.ids_between(self.account, self.without.listing, span, usize::MAX)?;
        // How many emails of the difference are in the stretch before `id`, given how many emails
        // of the larger listing are.
        let rest_before = |id: EmailId, before: u64| {
            before.saturating_sub(count(others.partition_point(|other| *other < id)))
        };
        // A part of the stretch, the emails of the larger listing before the part, and those in it.
        let ((mut from, mut to), mut before, mut all) = (span, 0u64, stretch.all);
        for level in (1..=top_level(all)).rev() {
            let cuts = self.cuts(level, (from, to), to == stretch.to)?;
            let first = all.saturating_sub(cuts.iter().map(|(_, count)| count).sum());
            let (mut at, end) = (before.saturating_add(first), to);
            let nexts = cuts.iter().skip(1).map(|(id, _)| Some(*id)).chain([end]);
            (to, all) = (cuts.first().map_or(end, |(id, _)| Some(*id)), first);
            for ((id, count), next) in cuts.iter().zip(nexts) {
                if rest_before(*id, at) > self.skip {
                    break;
                }
                (from, to, before, all) = (*id, next, at, *count);
                at = at.saturating_add(*count);
            }
        }
        self.skip = self.skip.saturating_sub(rest_before(from, before));
        Ok(from)
    }

    /// Returns the boundaries of a level that the larger listing has in a span, each with the
    /// number of emails from it to the next boundary or the end of the span. With `ends_inside`,
    /// the span may end inside the section that the last row of this level counts: then the rows of
    /// the level below count its emails, and so on down to level 1, where every end of a stretch is
    /// a boundary.
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
            *counted = self.cuts(below, (*last, to), true)?.iter().map(|(_, count)| count).sum();
        }
        Ok(cuts)
    }
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
