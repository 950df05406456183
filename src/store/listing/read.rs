//! Kept listings: any page of them, where an email stands in them, and what moved in them since a
//! state.

use crate::model::{
    AccountId, EmailId, Listing, ListingFilter, ListingStats, MailboxUid, MaintainedListing,
    ModSeq, ThreadId,
};
use crate::store::engine::WalkStep;
use crate::store::engine::typed::{KeyRange, TypedRead as _};
use crate::store::error::Error;
use crate::store::row::RankCount;
use crate::store::table::codec::Prefix as _;
use crate::store::table::keys::{IndexKey, ListKey, MailboxKey, RankKey};
use crate::store::table::{
    EmailByThread, MailboxEmailIndex, MailboxEmailList, MailboxRank, MailboxThreadIndex, Mailboxes,
};
use crate::store::txn::snapshot::Snapshot;

/// Binary digits of a level of the ranks: of 2 to the power of this many boundaries about one is of
/// the next level, too.
pub(in crate::store) const FANOUT_BITS: u32 = 4;

/// What came to a listing and what left it since a state: an email that is in both has merely been
/// away.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListingMoves {
    /// Shown now, and since a later change than the state: since which.
    pub came: Vec<(EmailId, ThreadId, ModSeq)>,
    /// Shown at the state, and left since: by which change.
    pub gone: Vec<(EmailId, ThreadId, ModSeq)>,
    /// Came after the state and left again: by which change.
    pub passed: Vec<(EmailId, ThreadId, ModSeq)>,
}

/// The rank rows of a listing: level above level, and each from its newest boundary to its oldest.
#[derive(Clone, Copy)]
struct Levels {
    account: AccountId,
    listing: Listing,
}

impl Levels {
    fn all(self) -> KeyRange<MailboxRank> {
        KeyRange::under(&(self.account, self.listing))
    }

    fn key(self, level: u8, boundary: EmailId) -> RankKey {
        RankKey { account: self.account, listing: self.listing, level, boundary }
    }

    /// The walk goes to this boundary, or to the next one.
    fn at(self, level: u8, boundary: EmailId) -> WalkStep {
        WalkStep::At(self.key(level, boundary).encode())
    }
}

/// The level to begin with in a listing of so many.
pub(in crate::store) fn top_level(total: u64) -> u8 {
    let digits = total.checked_ilog2().unwrap_or(0);
    u8::try_from(digits / FANOUT_BITS).unwrap_or(u8::MAX).max(1)
}

/// Whether a boundary is of this level and, where one is given, stands before `end`.
fn is_within(key: &RankKey, level: u8, end: Option<EmailId>) -> bool {
    key.level == level && end.is_none_or(|end| key.boundary < end)
}

/// The level below, if that has rows.
fn below(level: u8) -> Option<u8> {
    level.checked_sub(1).filter(|level| *level > 0)
}

impl Snapshot<'_> {
    /// What finding a position in a listing by its ranks costs, in rows of a walk.
    #[must_use]
    pub fn rank_cost(&self) -> u64 {
        self.thresholds.rank_cost
    }

    /// The state of a maintained listing; `None` if it is not maintained or not whole yet.
    ///
    /// # Errors
    /// Those of reading; so for every function here.
    pub fn maintained_listing(
        &self,
        account: AccountId,
        uid: MailboxUid,
        filter: ListingFilter,
    ) -> Result<Option<MaintainedListing>, Error> {
        let listings = self.maintained_listings(account, uid)?.unwrap_or_default();
        Ok(listings.into_iter().find(|entry| entry.filter == filter && entry.is_complete()))
    }

    /// All maintained listings of a mailbox, also those being filled or dropped; `None` if there is
    /// no such mailbox.
    ///
    /// # Errors
    /// Those of reading.
    pub fn maintained_listings(
        &self,
        account: AccountId,
        uid: MailboxUid,
    ) -> Result<Option<Vec<MaintainedListing>>, Error> {
        if uid == MailboxUid::ALL {
            return Ok(Some(self.account_state(account)?.listings));
        }
        let row = self.read.row::<Mailboxes>(&MailboxKey { account, mailbox: uid })?;
        Ok(row.filter(|mailbox| !mailbox.deleted).map(|mailbox| mailbox.listings))
    }

    /// Whether an email is in a kept listing.
    ///
    /// # Errors
    /// Those of reading.
    pub fn is_in_listing(
        &self,
        account: AccountId,
        listing: Listing,
        id: EmailId,
    ) -> Result<bool, Error> {
        Ok(self
            .read
            .bytes::<MailboxEmailIndex>(&IndexKey { account, listing, email: id })?
            .is_some())
    }

    /// A page of a kept listing, newest first: the emails from a position on, with their threads.
    /// `near` is an email, which need not be in the listing, or the end, and how many stand before
    /// it: from there the way to a position that is not far is shorter.
    ///
    /// # Errors
    /// Those of reading.
    pub fn listing_page(
        &self,
        account: AccountId,
        listing: Listing,
        stats: ListingStats,
        position: u64,
        near: (Option<EmailId>, u64),
        limit: usize,
    ) -> Result<Vec<(EmailId, ThreadId)>, Error> {
        let mut emails = Vec::new();
        if position >= stats.total || limit == 0 {
            return Ok(emails);
        }
        let is_short = |rows: u64| rows <= self.thresholds.rank_cost || !stats.is_ranked();
        let (back, on) = (near.1.saturating_sub(position), position.checked_sub(near.1));
        let (start, mut skip) = match on.and_then(|on| Some((near.0?, on))) {
            Some((id, on)) if is_short(on) => (id, on),
            _ if back > 0 && back < position && is_short(back) => {
                (self.email_before(account, listing, near.0, back)?, 0)
            }
            _ if is_short(position) => (EmailId(0), position),
            _ => self.find_position(account, listing, stats.total, position)?,
        };
        let from = IndexKey { account, listing, email: start };
        self.read.rows::<MailboxEmailIndex>(
            &KeyRange::from(&(account, listing), &from),
            |key, (_, thread)| {
                if skip > 0 {
                    skip -= 1;
                    return Ok(true);
                }
                emails.push((key.email, thread));
                Ok(emails.len() < limit)
            },
        )?;
        Ok(emails)
    }

    /// The email of a listing that stands so many before this one, or before the end; the first
    /// where there are fewer.
    fn email_before(
        &self,
        account: AccountId,
        listing: Listing,
        id: Option<EmailId>,
        mut rows: u64,
    ) -> Result<EmailId, Error> {
        let mut found = EmailId(0);
        let range = match id {
            Some(email) => {
                KeyRange::before(&(account, listing), &IndexKey { account, listing, email })
            }
            None => KeyRange::under(&(account, listing)),
        };
        self.read.keys::<MailboxEmailIndex>(&range.reversed(), |key, _| {
            rows = rows.saturating_sub(1);
            found = key.email;
            Ok(rows > 0)
        })?;
        Ok(found)
    }

    /// How many emails of a listing stand before this one, which need not be in it.
    ///
    /// # Errors
    /// Those of reading.
    pub fn listing_position(
        &self,
        account: AccountId,
        listing: Listing,
        stats: ListingStats,
        id: EmailId,
    ) -> Result<u64, Error> {
        let index = |email| IndexKey { account, listing, email };
        if !stats.is_ranked() {
            return self
                .read
                .count::<MailboxEmailIndex>(&KeyRange::before(&(account, listing), &index(id)));
        }
        // What stands from it to the end: of each level the stretches behind it, up to those that
        // the level above counts.
        let rows = Levels { account, listing };
        let (mut level, mut end, mut first, mut counted) = (top_level(stats.total), None, None, 0);
        self.read.walk_rows(&rows.all(), rows.at(level, id), |row| {
            if let Some((key, RankCount(count))) = row.filter(|(key, _)| is_within(key, level, end))
            {
                counted += count;
                first = first.or(Some(key.boundary));
                return Ok(WalkStep::Next);
            }
            end = first.take().or(end);
            let Some(below) = below(level) else { return Ok(WalkStep::End) };
            level = below;
            Ok(rows.at(level, id))
        })?;
        counted += self.read.count::<MailboxEmailIndex>(&match end {
            Some(end) => KeyRange::between(&index(id), &index(end)),
            None => KeyRange::from(&(account, listing), &index(id)),
        })?;
        Ok(stats.total.saturating_sub(counted))
    }

    /// Where to begin a walk for a position: at which email, and how many to skip from there.
    fn find_position(
        &self,
        account: AccountId,
        listing: Listing,
        total: u64,
        position: u64,
    ) -> Result<(EmailId, u64), Error> {
        let rows = Levels { account, listing };
        let mut level = top_level(total);
        // A boundary that is not behind the position, and how many stand before it. From there on
        // stretches are added up to the one that has the position.
        let mut known: Option<(EmailId, u64)> = None;
        let mut upto = 0;
        // How many stand before the first boundary of a level is told only by those from there to
        // the end: until a boundary is known, sections are read whole, and summed from their end,
        // of which this is known.
        let (mut end, mut behind, mut section) = (None, 0, Vec::new());
        self.read.walk_rows(&rows.all(), rows.at(level, EmailId(0)), |row| {
            if let Some((key, RankCount(count))) = row.filter(|(key, _)| is_within(key, level, end))
            {
                let id = key.boundary;
                if known.is_none() {
                    section.push((id, count));
                    return Ok(WalkStep::Next);
                }
                known = Some((id, upto));
                if upto.saturating_add(count) <= position {
                    upto = upto.saturating_add(count);
                    return Ok(WalkStep::Next);
                }
            }
            for (id, count) in section.drain(..).rev() {
                behind = count.saturating_add(behind);
                let before = total.saturating_sub(behind);
                if before <= position {
                    known = Some((id, before));
                    break;
                }
                end = Some(id);
            }
            let Some(below) = below(level) else { return Ok(WalkStep::End) };
            level = below;
            let (id, before) = known.unwrap_or((EmailId(0), 0));
            upto = before;
            Ok(rows.at(level, id))
        })?;
        let (id, before) = known.unwrap_or((EmailId(0), 0));
        Ok((id, position.saturating_sub(before)))
    }

    /// What moved in a listing since a state, or `None` where more than `most` rows tell of it.
    /// Whether the state is within the listing's history is the caller's to ask.
    ///
    /// # Errors
    /// Those of reading.
    pub fn listing_moves(
        &self,
        account: AccountId,
        listing: Listing,
        since: ModSeq,
        most: usize,
    ) -> Result<Option<ListingMoves>, Error> {
        let mut moves = ListingMoves::default();
        let mut seen = 0;
        let key = |removed, added| ListKey { account, listing, removed, added };
        let shown = KeyRange::between(&key(ModSeq(0), since.next()), &key(ModSeq(1), ModSeq(0)));
        self.read.rows::<MailboxEmailList>(&shown, |key, (id, thread)| {
            seen += 1;
            moves.came.push((id, thread, key.added));
            Ok(seen <= most)
        })?;
        let left = KeyRange::from(&(account, listing), &key(since.next(), ModSeq(0)));
        self.read.rows::<MailboxEmailList>(&left, |key, (id, thread)| {
            seen += 1;
            let left = if key.added <= since { &mut moves.gone } else { &mut moves.passed };
            left.push((id, thread, key.removed));
            Ok(seen <= most)
        })?;
        Ok((seen <= most).then_some(moves))
    }

    /// The newest or the oldest email of a thread in an email view of a mailbox, of those that
    /// `is_wanted`.
    ///
    /// # Errors
    /// Those of reading.
    pub fn thread_end_in_listing(
        &self,
        account: AccountId,
        (uid, filter): (MailboxUid, ListingFilter),
        thread: ThreadId,
        oldest: bool,
        is_wanted: impl Fn(EmailId) -> bool,
    ) -> Result<Option<EmailId>, Error> {
        let mut found = None;
        let mut meet = |email| {
            found = Some(email).filter(|id| is_wanted(*id));
            Ok(found.is_none())
        };
        if uid == MailboxUid::ALL && filter == ListingFilter::Every {
            let range = KeyRange::<EmailByThread>::under(&(account, thread));
            self.read
                .keys(&if oldest { range.reversed() } else { range }, |key, _| meet(key.email))?;
        } else {
            let range = KeyRange::<MailboxThreadIndex>::under(&(account, uid, filter, thread));
            self.read
                .keys(&if oldest { range.reversed() } else { range }, |key, _| meet(key.email))?;
        }
        Ok(found)
    }

    /// The thread of an email in a kept listing; `None` where it is not in it.
    ///
    /// # Errors
    /// Those of reading.
    pub fn thread_in_listing(
        &self,
        account: AccountId,
        listing: Listing,
        id: EmailId,
    ) -> Result<Option<ThreadId>, Error> {
        let row = self.read.row::<MailboxEmailIndex>(&IndexKey { account, listing, email: id })?;
        Ok(row.map(|(_, thread)| thread))
    }
}
