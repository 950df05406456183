//! Reads listings: a page at any position, the position of an email, and the changes since a state.

use crate::model::{
    AccountId, EmailId, Listing, ListingFilter, ListingStats, MailboxUid, MaintainedListing,
    ModSeq, ThreadId,
};
use crate::store::engine::WalkStep;
use crate::store::engine::typed::{KeyRange, TypedRead as _};
use crate::store::error::Error;
use crate::store::row::RankCount;
use crate::store::table::codec::Prefix as _;
use crate::store::table::keys::{ListingEmailKey, ListingHistoryKey, MailboxKey, RankKey};
use crate::store::table::{
    EmailByThread, MailboxEmailIndex, MailboxEmailList, MailboxRank, MailboxThreadIndex, Mailboxes,
};
use crate::store::txn::snapshot::Snapshot;

/// The number of zero bits of a hash that make a boundary of the next level.
pub(in crate::store) const FANOUT_BITS: u32 = 4;

/// The emails that entered or left a listing since a state, each list in ascending order of the
/// change numbers. An email in both `came` and `gone` was and is in the listing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListingMoves {
    /// Shown now, each with the change since which it is shown.
    pub came: Vec<(EmailId, ThreadId, ModSeq)>,
    /// Shown at the state, each with the change by which it left.
    pub gone: Vec<(EmailId, ThreadId, ModSeq)>,
    /// Came after the state and left again, each with the change by which it left.
    pub passed: Vec<(EmailId, ThreadId, ModSeq)>,
}

/// The keys of a listing's rank rows, which are ordered by level and then from the newest boundary
/// to the oldest.
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

    /// Makes a walk go to this boundary of a level, or to the next one.
    fn at(self, level: u8, boundary: EmailId) -> WalkStep {
        WalkStep::At(self.key(level, boundary).encode())
    }
}

/// Returns the level of rank rows at which a search in a listing of this length begins.
pub(in crate::store) fn top_level(total: u64) -> u8 {
    let digits = total.checked_ilog2().unwrap_or(0);
    u8::try_from(digits / FANOUT_BITS).unwrap_or(u8::MAX).max(1)
}

/// Whether a walk still stands on this level and before the boundary `end` (`None`: anywhere on
/// the level).
fn is_within(key: &RankKey, level: u8, end: Option<EmailId>) -> bool {
    key.level == level && end.is_none_or(|end| key.boundary < end)
}

/// The level below, if it has rank rows.
fn below(level: u8) -> Option<u8> {
    level.checked_sub(1).filter(|level| *level > 0)
}

impl Snapshot<'_> {
    /// The cost of finding a position by ranks, as a number of index rows that could be scanned.
    #[must_use]
    pub fn rank_cost(&self) -> u64 {
        self.thresholds.rank_cost
    }

    /// Returns the listing of a mailbox and a filter. `None` if the listing is not maintained or
    /// not whole yet.
    pub fn maintained_listing(
        &self,
        account: AccountId,
        uid: MailboxUid,
        filter: ListingFilter,
    ) -> Result<Option<MaintainedListing>, Error> {
        let listings = self.maintained_listings(account, uid)?.unwrap_or_default();
        Ok(listings.into_iter().find(|entry| entry.filter == filter && entry.is_complete()))
    }

    /// Returns all maintained listings of a mailbox, also those that are being filled or dropped.
    /// `None` if there is no such mailbox.
    pub fn maintained_listings(
        &self,
        account: AccountId,
        uid: MailboxUid,
    ) -> Result<Option<Vec<MaintainedListing>>, Error> {
        if uid == MailboxUid::ALL {
            return Ok(Some(self.account_state(account)?.listings));
        }
        let row = self.read.row::<Mailboxes>(&MailboxKey { account, mailbox: uid })?;
        Ok(row.filter(|mailbox| !mailbox.destroyed).map(|mailbox| mailbox.listings))
    }

    pub fn is_in_listing(
        &self,
        account: AccountId,
        listing: Listing,
        id: EmailId,
    ) -> Result<bool, Error> {
        Ok(self
            .read
            .bytes::<MailboxEmailIndex>(&ListingEmailKey { account, listing, email: id })?
            .is_some())
    }

    /// Returns up to `limit` emails of a listing from a position on (0: the first), newest first.
    /// `near` is an email (`None`: the end of the listing), which need not be in the listing, and
    /// the number of emails before it: the search may begin there.
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
        let is_scanned = |rows: u64| rows <= self.thresholds.rank_cost || !stats.is_ranked();
        let (back, forward) = (near.1.saturating_sub(position), position.checked_sub(near.1));
        let (start, mut skip) = match forward.and_then(|rows| Some((near.0?, rows))) {
            Some((id, rows)) if is_scanned(rows) => (id, rows),
            _ if back > 0 && back < position && is_scanned(back) => {
                (self.email_before(account, listing, near.0, back)?, 0)
            }
            _ if is_scanned(position) => (EmailId(0), position),
            _ => self.find_position(account, listing, stats.total, position)?,
        };
        let from = ListingEmailKey { account, listing, email: start };
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

    /// Returns the email that stands `rows` positions before `id`, or before the end of the
    /// listing; the first email if there are fewer.
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
                KeyRange::before(&(account, listing), &ListingEmailKey { account, listing, email })
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

    /// Returns the number of emails of a listing before this email, which need not be in the
    /// listing.
    pub fn listing_position(
        &self,
        account: AccountId,
        listing: Listing,
        stats: ListingStats,
        id: EmailId,
    ) -> Result<u64, Error> {
        let index = |email| ListingEmailKey { account, listing, email };
        if !stats.is_ranked() {
            return self
                .read
                .count::<MailboxEmailIndex>(&KeyRange::before(&(account, listing), &index(id)));
        }
        // Counts the emails from `id` to the end: on each level the rank rows from `id` on, up to
        // the first boundary of the level above.
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

    /// Returns from which email a scan for a position begins, and how many emails it skips.
    fn find_position(
        &self,
        account: AccountId,
        listing: Listing,
        total: u64,
        position: u64,
    ) -> Result<(EmailId, u64), Error> {
        let rows = Levels { account, listing };
        let mut level = top_level(total);
        // The last boundary found at or before the position, with the number of emails before it.
        // From there on, counts are added until a rank row passes the position.
        let mut start: Option<(EmailId, u64)> = None;
        let mut upto = 0;
        // Until such a boundary is found, the rows of a level up to `end` are read whole and summed
        // from their end; `behind` is the number of emails from `end` on.
        let (mut end, mut behind, mut section) = (None, 0, Vec::new());
        self.read.walk_rows(&rows.all(), rows.at(level, EmailId(0)), |row| {
            if let Some((key, RankCount(count))) = row.filter(|(key, _)| is_within(key, level, end))
            {
                let id = key.boundary;
                if start.is_none() {
                    section.push((id, count));
                    return Ok(WalkStep::Next);
                }
                start = Some((id, upto));
                if upto.saturating_add(count) <= position {
                    upto = upto.saturating_add(count);
                    return Ok(WalkStep::Next);
                }
            }
            // The row at `start` passes the position, or all rows up to `end` were read.
            for (id, count) in section.drain(..).rev() {
                behind = count.saturating_add(behind);
                let before = total.saturating_sub(behind);
                if before <= position {
                    start = Some((id, before));
                    break;
                }
                end = Some(id);
            }
            let Some(below) = below(level) else { return Ok(WalkStep::End) };
            level = below;
            let (id, before) = start.unwrap_or((EmailId(0), 0));
            upto = before;
            Ok(rows.at(level, id))
        })?;
        let (id, before) = start.unwrap_or((EmailId(0), 0));
        Ok((id, position.saturating_sub(before)))
    }

    /// Returns which emails entered and left a listing since a state; `None` if that takes more
    /// than `limit` rows. The caller checks that the listing's history reaches back to the state.
    pub fn listing_moves(
        &self,
        account: AccountId,
        listing: Listing,
        since: ModSeq,
        limit: usize,
    ) -> Result<Option<ListingMoves>, Error> {
        let mut moves = ListingMoves::default();
        let mut rows = 0;
        let key = |removed, added| ListingHistoryKey { account, listing, removed, added };
        let shown = KeyRange::between(&key(ModSeq(0), since.next()), &key(ModSeq(1), ModSeq(0)));
        self.read.rows::<MailboxEmailList>(&shown, |key, (id, thread)| {
            rows += 1;
            moves.came.push((id, thread, key.added));
            Ok(rows <= limit)
        })?;
        let left = KeyRange::from(&(account, listing), &key(since.next(), ModSeq(0)));
        self.read.rows::<MailboxEmailList>(&left, |key, (id, thread)| {
            rows += 1;
            let left = if key.added <= since { &mut moves.gone } else { &mut moves.passed };
            left.push((id, thread, key.removed));
            Ok(rows <= limit)
        })?;
        Ok((rows <= limit).then_some(moves))
    }

    /// Returns an email of a thread that a filter on emails shows in a mailbox and that `is_wanted`
    /// accepts: the newest, or the oldest if `oldest`. The listing must be maintained and whole.
    pub fn thread_end_in_listing(
        &self,
        account: AccountId,
        (uid, filter): (MailboxUid, ListingFilter),
        thread: ThreadId,
        oldest: bool,
        is_wanted: impl Fn(EmailId) -> bool,
    ) -> Result<Option<EmailId>, Error> {
        let mut found = None;
        let mut visit = |email| {
            found = Some(email).filter(|id| is_wanted(*id));
            Ok(found.is_none())
        };
        if uid == MailboxUid::ALL && filter == ListingFilter::Every {
            let range = KeyRange::<EmailByThread>::under(&(account, thread));
            self.read
                .keys(&if oldest { range.reversed() } else { range }, |key, _| visit(key.email))?;
        } else {
            let range = KeyRange::<MailboxThreadIndex>::under(&(account, uid, filter, thread));
            self.read
                .keys(&if oldest { range.reversed() } else { range }, |key, _| visit(key.email))?;
        }
        Ok(found)
    }

    /// Returns the thread of an email; `None` if the listing does not show the email.
    pub fn thread_in_listing(
        &self,
        account: AccountId,
        listing: Listing,
        id: EmailId,
    ) -> Result<Option<ThreadId>, Error> {
        let row =
            self.read.row::<MailboxEmailIndex>(&ListingEmailKey { account, listing, email: id })?;
        Ok(row.map(|(_, thread)| thread))
    }
}
