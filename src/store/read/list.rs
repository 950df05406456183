//! Kept listings: any page of them, where an email stands in them, and what moved in them since a state.

use super::View;
use crate::model::{AccountId, EmailId, Kept, Listing, Mailbox, MailboxUid, ModSeq, Tally, ThreadId, View as Filter};
use crate::store::engine::{Go, Table, after};
use crate::store::error::Error;
use crate::store::key::{self, Parts};
use crate::store::row::{decode_index, decode_list, decode_rank};

/// What finding a position by rank costs, in rows of a walk; little in tests, which have few.
pub const RANK_COST: u64 = if cfg!(test) { 2 } else { 64 };

/// Binary digits of a level of the ranks: of 2 to the power of this many boundaries about one is of the next level, too.
pub(in crate::store) const FANOUT_BITS: u32 = 4;

/// What came to a listing and what left it since a state: an email that is in both has merely been away.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Moves {
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
    fn all(self) -> Vec<u8> {
        key::listing(self.account, self.listing)
    }

    /// The level to begin with in a listing of so many: it has a handful of boundaries, and what is above it tells no more.
    fn top(total: u64) -> u8 {
        top_level(total)
    }

    fn id(self, row: &[u8]) -> Result<EmailId, Error> {
        Ok(EmailId(Parts::of(Table::MailboxRank, row).u64()?))
    }

    fn row(self, level: u8, boundary: EmailId) -> Vec<u8> {
        key::rank(self.account, self.listing, level, boundary)
    }

    /// What follows the boundaries of a level that stand before this one, or all of them.
    fn end(self, level: u8, boundary: Option<EmailId>) -> Vec<u8> {
        let end = || after(&key::rank_level(self.account, self.listing, level));
        boundary.map_or_else(end, |boundary| self.row(level, boundary))
    }
}

/// The level to begin with in a listing of so many.
pub(super) fn top_level(total: u64) -> u8 {
    let digits = total.checked_ilog2().unwrap_or(0);
    u8::try_from(digits / FANOUT_BITS).unwrap_or(u8::MAX).max(1)
}

/// The level below, if that has rows.
fn below(level: u8) -> Option<u8> {
    level.checked_sub(1).filter(|level| *level > 0)
}

impl View<'_> {
    /// How a view of a mailbox is kept; `None` where it is not, or not whole yet.
    ///
    /// # Errors
    /// Those of reading; so for every function here.
    pub fn kept(&self, account: AccountId, uid: MailboxUid, view: Filter) -> Result<Option<Kept>, Error> {
        let kept = self.kept_views(account, uid)?.unwrap_or_default();
        Ok(kept.into_iter().find(|entry| entry.view == view && entry.is_whole()))
    }

    /// All views of a mailbox that are kept, made or dropped; `None` where there is no such mailbox.
    ///
    /// # Errors
    /// Those of reading.
    pub fn kept_views(&self, account: AccountId, uid: MailboxUid) -> Result<Option<Vec<Kept>>, Error> {
        if uid == MailboxUid::ALL {
            return Ok(Some(self.account_state(account)?.kept));
        }
        let row = self.row::<Mailbox>(&key::mailbox(account, uid))?;
        Ok(row.filter(|mailbox| !mailbox.deleted).map(|mailbox| mailbox.kept))
    }

    /// Whether an email is in a kept listing.
    ///
    /// # Errors
    /// Those of reading.
    pub fn lists(&self, account: AccountId, listing: Listing, id: EmailId) -> Result<bool, Error> {
        Ok(self.read.get(Table::MailboxEmailIndex, &key::index(account, listing, id))?.is_some())
    }

    /// A page of a kept listing, newest first: the emails from a position on, with their threads. `near` is an email, which
    /// need not be in the listing, or the end, and how many stand before it: from there the way to a position that is not
    /// far is shorter.
    ///
    /// # Errors
    /// Those of reading.
    pub fn page(
        &self,
        account: AccountId,
        listing: Listing,
        tally: Tally,
        position: u64,
        near: (Option<EmailId>, u64),
        limit: usize,
    ) -> Result<Vec<(EmailId, ThreadId)>, Error> {
        let mut emails = Vec::new();
        if position >= tally.total || limit == 0 {
            return Ok(emails);
        }
        let is_short = |rows: u64| rows <= RANK_COST || !tally.is_ranked();
        let (back, on) = (near.1.saturating_sub(position), position.checked_sub(near.1));
        let (start, mut skip) = match on.and_then(|on| Some((near.0?, on))) {
            Some((id, on)) if is_short(on) => (id, on),
            _ if back > 0 && back < position && is_short(back) => (self.back(account, listing, near.0, back)?, 0),
            _ if is_short(position) => (EmailId(0), position),
            _ => self.find(account, listing, tally.total, position)?,
        };
        let from = key::index(account, listing, start);
        self.keys(Table::MailboxEmailIndex, &from, &after(&key::listing(account, listing)), |key, value| {
            if skip > 0 {
                skip -= 1;
                return Ok(true);
            }
            let (_, thread) = decode_index(key, value)?;
            emails.push((EmailId(Parts::of(Table::MailboxEmailIndex, key).u64()?), thread));
            Ok(emails.len() < limit)
        })?;
        Ok(emails)
    }

    /// The email of a listing that stands so many before this one, or before the end; the first where there are fewer.
    fn back(&self, account: AccountId, listing: Listing, id: Option<EmailId>, mut rows: u64) -> Result<EmailId, Error> {
        let (mut found, from) = (EmailId(0), key::listing(account, listing));
        let end = id.map_or_else(|| after(&from), |id| key::index(account, listing, id));
        self.read.scan(Table::MailboxEmailIndex, &from, &end, true, &mut |key, _| {
            rows = rows.saturating_sub(1);
            found = EmailId(Parts::of(Table::MailboxEmailIndex, key).u64()?);
            Ok(rows > 0)
        })?;
        Ok(found)
    }

    /// How many emails of a listing stand before this one, which need not be in it.
    ///
    /// # Errors
    /// Those of reading.
    pub fn index_of(&self, account: AccountId, listing: Listing, tally: Tally, id: EmailId) -> Result<u64, Error> {
        let index = |id| key::index(account, listing, id);
        let mut counted = 0;
        if !tally.is_ranked() {
            self.keys(Table::MailboxEmailIndex, &index(EmailId(0)), &index(id), |_, _| {
                counted += 1;
                Ok(true)
            })?;
            return Ok(counted);
        }
        // What stands from it to the end: of each level the stretches behind it, up to those that the level above counts.
        let rows = Levels { account, listing };
        let (mut level, mut end, mut first) = (Levels::top(tally.total), None, None);
        let mut to = rows.end(level, end);
        let start = Go::At(rows.row(level, id));
        self.read.walk(Table::MailboxRank, &rows.all(), &after(&rows.all()), start, &mut |row| {
            if let Some((key, value)) = row.filter(|(key, _)| *key < to.as_slice()) {
                counted += decode_rank(key, value)?;
                first = first.or(Some(rows.id(key)?));
                return Ok(Go::Next);
            }
            end = first.take().or(end);
            let Some(below) = below(level) else { return Ok(Go::End) };
            (level, to) = (below, rows.end(below, end));
            Ok(Go::At(rows.row(level, id)))
        })?;
        let to = end.map_or_else(|| after(&key::listing(account, listing)), index);
        self.keys(Table::MailboxEmailIndex, &index(id), &to, |_, _| {
            counted += 1;
            Ok(true)
        })?;
        Ok(tally.total.saturating_sub(counted))
    }

    /// Where to begin a walk for a position: at which email, and how many to skip from there.
    fn find(&self, account: AccountId, listing: Listing, total: u64, position: u64) -> Result<(EmailId, u64), Error> {
        let rows = Levels { account, listing };
        let mut level = Levels::top(total);
        // A boundary that is not behind the position, and how many stand before it. From there on stretches are added up to
        // the one that has the position.
        let mut known: Option<(EmailId, u64)> = None;
        let mut upto = 0;
        // How many stand before the first boundary of a level is told only by those from there to the end: until a boundary is
        // known, sections are read whole, and summed from their end, of which this is known.
        let (mut end, mut behind, mut section) = (None, 0, Vec::new());
        let mut to = rows.end(level, end);
        let start = Go::At(rows.row(level, EmailId(0)));
        self.read.walk(Table::MailboxRank, &rows.all(), &after(&rows.all()), start, &mut |row| {
            if let Some((key, value)) = row.filter(|(key, _)| *key < to.as_slice()) {
                let (id, count) = (rows.id(key)?, decode_rank(key, value)?);
                if known.is_none() {
                    section.push((id, count));
                    return Ok(Go::Next);
                }
                known = Some((id, upto));
                if upto.saturating_add(count) <= position {
                    upto = upto.saturating_add(count);
                    return Ok(Go::Next);
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
            let Some(below) = below(level) else { return Ok(Go::End) };
            (level, to) = (below, rows.end(below, end));
            let (id, before) = known.unwrap_or((EmailId(0), 0));
            upto = before;
            Ok(Go::At(rows.row(level, id)))
        })?;
        let (id, before) = known.unwrap_or((EmailId(0), 0));
        Ok((id, position.saturating_sub(before)))
    }

    /// What moved in a listing since a state, or `None` where more than `most` rows tell of it. Whether the state is within
    /// the listing's history is the caller's to ask.
    ///
    /// # Errors
    /// Those of reading.
    pub fn moves(
        &self,
        account: AccountId,
        listing: Listing,
        since: ModSeq,
        most: usize,
    ) -> Result<Option<Moves>, Error> {
        let mut moves = Moves::default();
        let mut seen = 0;
        let row = |removed, added| key::list(account, listing, removed, added);
        self.keys(Table::MailboxEmailList, &row(ModSeq(0), since.next()), &row(ModSeq(1), ModSeq(0)), |key, value| {
            seen += 1;
            let added = ModSeq(Parts::of(Table::MailboxEmailList, key).u64()?);
            let (id, thread) = decode_list(key, value)?;
            moves.came.push((id, thread, added));
            Ok(seen <= most)
        })?;
        let end = after(&key::listing(account, listing));
        self.keys(Table::MailboxEmailList, &row(since.next(), ModSeq(0)), &end, |key, value| {
            seen += 1;
            let mut parts = Parts::of(Table::MailboxEmailList, key);
            let (added, removed) = (ModSeq(parts.u64()?), ModSeq(parts.u64()?));
            let left = if added <= since { &mut moves.gone } else { &mut moves.passed };
            let (id, thread) = decode_list(key, value)?;
            left.push((id, thread, removed));
            Ok(seen <= most)
        })?;
        Ok((seen <= most).then_some(moves))
    }

    /// The newest change that moved anything in a listing: the state of a query that it answers.
    ///
    /// # Errors
    /// Those of reading.
    pub fn listing_state(&self, account: AccountId, listing: Listing, kept: &Kept) -> Result<ModSeq, Error> {
        let mut newest = kept.tally(listing.shape).low.0;
        let row = |removed| key::list(account, listing, removed, ModSeq(0));
        self.read.scan(Table::MailboxEmailList, &row(ModSeq(0)), &row(ModSeq(1)), true, &mut |key, _| {
            newest = newest.max(Parts::of(Table::MailboxEmailList, key).u64()?);
            Ok(false)
        })?;
        let end = after(&key::listing(account, listing));
        self.read.scan(Table::MailboxEmailList, &row(ModSeq(1)), &end, true, &mut |key, _| {
            let mut parts = Parts::of(Table::MailboxEmailList, key);
            parts.u64()?;
            newest = newest.max(parts.u64()?);
            Ok(false)
        })?;
        Ok(ModSeq(newest))
    }

    /// The newest or the oldest email of a thread in an email view of a mailbox, of those that `is_wanted`.
    ///
    /// # Errors
    /// Those of reading.
    pub fn end_of_thread(
        &self,
        account: AccountId,
        (uid, view): (MailboxUid, Filter),
        thread: ThreadId,
        oldest: bool,
        is_wanted: impl Fn(EmailId) -> bool,
    ) -> Result<Option<EmailId>, Error> {
        let is_all_mail = uid == MailboxUid::ALL && view == Filter::Every;
        let (table, prefix) = if is_all_mail {
            (Table::EmailByThread, key::thread(account, thread))
        } else {
            (Table::MailboxThreadIndex, key::thread_index_of(account, uid, view, thread))
        };
        let mut found = None;
        self.read.scan(table, &prefix, &after(&prefix), oldest, &mut |key, _| {
            found = Some(EmailId(Parts::of(table, key).u64()?)).filter(|id| is_wanted(*id));
            Ok(found.is_none())
        })?;
        Ok(found)
    }

    /// The thread of an email in a kept listing; `None` where it is not in it.
    ///
    /// # Errors
    /// Those of reading.
    pub fn listed_thread(&self, account: AccountId, listing: Listing, id: EmailId) -> Result<Option<ThreadId>, Error> {
        let key = key::index(account, listing, id);
        let row = self.read.get(Table::MailboxEmailIndex, &key)?;
        row.map(|row| decode_index(&key, &row).map(|(_, thread)| thread)).transpose()
    }

    /// The emails of a thread in a mailbox, newest first.
    ///
    /// # Errors
    /// Those of reading.
    pub fn thread_in(&self, account: AccountId, uid: MailboxUid, thread: ThreadId) -> Result<Vec<EmailId>, Error> {
        if uid == MailboxUid::ALL {
            return self.thread_emails(account, thread);
        }
        let prefix = key::thread_index_of(account, uid, Filter::Every, thread);
        let mut out = Vec::new();
        self.keys(Table::MailboxThreadIndex, &prefix, &after(&prefix), |key, _| {
            out.push(EmailId(Parts::of(Table::MailboxThreadIndex, key).u64()?));
            Ok(true)
        })?;
        Ok(out)
    }
}
