//! Kept listings: any page of them, where an email stands in them, and what moved in them since a state.

use super::View;
use crate::model::{AccountId, EmailId, Kept, Listing, Mailbox, MailboxUid, ModSeq, Tally, ThreadId, View as Filter};
use crate::store::engine::{Go, Table, after};
use crate::store::error::Error;
use crate::store::key::{self, Parts};
use crate::store::row::{decode_index, decode_list, decode_rank};

/// What finding a position by rank costs, in rows of a walk; little in tests, which have few.
pub const RANK_COST: u64 = if cfg!(test) { 2 } else { 64 };

/// What came to a listing and what left it since a state: an email that is in both has merely been away.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Moves {
    /// Shown now, and since a later change than the state.
    pub came: Vec<(EmailId, ThreadId)>,
    /// Shown at the state, and left since.
    pub gone: Vec<(EmailId, ThreadId)>,
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

    /// The oldest boundary of the highest level that has any.
    fn top(self) -> Go {
        Go::Before(after(&self.all()))
    }

    fn level(self, row: &[u8]) -> Option<u8> {
        row.get(self.all().len()).copied()
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
    /// need not be in the listing, and how many stand before it: to a position that is not far the way is shorter from there.
    ///
    /// # Errors
    /// Those of reading.
    pub fn page(
        &self,
        account: AccountId,
        listing: Listing,
        tally: Tally,
        position: u64,
        near: (EmailId, u64),
        limit: usize,
    ) -> Result<Vec<(EmailId, ThreadId)>, Error> {
        let mut emails = Vec::new();
        if position >= tally.total || limit == 0 {
            return Ok(emails);
        }
        let is_short = |rows: u64| rows <= RANK_COST || !tally.is_ranked();
        let (start, mut skip) = match (position.checked_sub(near.1), near.1.saturating_sub(position)) {
            (Some(skip), _) if is_short(skip) => (near.0, skip),
            (None, back) if is_short(back) => (self.back(account, listing, near.0, back)?, 0),
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

    /// The email of a listing that stands so many before this one; the first where there are fewer.
    fn back(&self, account: AccountId, listing: Listing, id: EmailId, mut rows: u64) -> Result<EmailId, Error> {
        let mut found = EmailId(0);
        let (from, end) = (key::index(account, listing, found), key::index(account, listing, id));
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
        let (mut level, mut end, mut first) = (None::<(u8, Vec<u8>)>, None, None);
        self.read.walk(Table::MailboxRank, &rows.all(), &after(&rows.all()), rows.top(), &mut |row| {
            if let (Some((_, to)), Some((key, value))) = (&level, row)
                && key < to.as_slice()
            {
                counted += decode_rank(key, value)?;
                first = first.or(Some(rows.id(key)?));
                return Ok(Go::Next);
            }
            end = first.take().or(end);
            let next = level.take().map_or_else(|| row.and_then(|(key, _)| rows.level(key)), |(level, _)| below(level));
            level = next.map(|level| (level, rows.end(level, end)));
            Ok(next.map_or(Go::End, |level| Go::At(rows.row(level, id))))
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
        // From the end: it is the one with so many from it on.
        let left = total.saturating_sub(position);
        let (mut boundary, mut skip) = (None, position);
        // Of the level that is read: its number, what follows the section that counts, and how many emails stand from there on.
        let (mut level, mut end, mut behind) = (None::<(u8, Vec<u8>)>, None, 0);
        // Read forwards, for going back costs an engine more, and summed from the end.
        let mut section: Vec<(EmailId, u64)> = Vec::new();
        let rows = Levels { account, listing };
        self.read.walk(Table::MailboxRank, &rows.all(), &after(&rows.all()), rows.top(), &mut |row| {
            if let (Some((_, to)), Some((key, value))) = (&level, row)
                && key < to.as_slice()
            {
                section.push((rows.id(key)?, decode_rank(key, value)?));
                return Ok(Go::Next);
            }
            for (id, count) in section.drain(..).rev() {
                let from_it = count.saturating_add(behind);
                if from_it >= left {
                    (boundary, skip) = (Some(id), from_it.saturating_sub(left));
                    break;
                }
                (end, behind) = (Some(id), from_it);
            }
            let next = level.take().map_or_else(|| row.and_then(|(key, _)| rows.level(key)), |(level, _)| below(level));
            level = next.map(|level| (level, rows.end(level, end)));
            Ok(next.map_or(Go::End, |level| Go::At(rows.row(level, boundary.unwrap_or(EmailId(0))))))
        })?;
        Ok((boundary.unwrap_or(EmailId(0)), skip))
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
            moves.came.push(decode_list(key, value)?);
            Ok(seen <= most)
        })?;
        let end = after(&key::listing(account, listing));
        self.keys(Table::MailboxEmailList, &row(since.next(), ModSeq(0)), &end, |key, value| {
            seen += 1;
            if Parts::of(Table::MailboxEmailList, key).u64()? <= since.0 {
                moves.gone.push(decode_list(key, value)?);
            }
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
