//! Answers that cost their own length: windows and changes of a kept listing (`storage.md`, "Listings"), and of all mail.
//!
//! An email was shown at a state if it had been added by then and not removed yet. So what came to a listing since is its
//! live rows added later, and what left it are the rows removed later that were added by then; who is in both has merely
//! been away. The order is by receipt, which never changes: so `upToId` may cut off what lies behind it, from `removed`
//! if it was in the old results and from `added` if it is in the new ones (RFC 8620 §5.6).
//!
//! A span of receipt is a part of the listing: its ends have positions like any email.

use std::collections::BTreeSet;

use super::plan::Plan;
use super::supply::{Range, Supply};
use super::{Answer, Changes, Error, Query, QueryChanges, Start};
use crate::model::{AccountId, DataType, EmailId, Kept, Listing, Tally, limits};
use crate::store::{RANK_COST, View};

/// Emails read at once.
const STEP: usize = 256;

/// A listing, or the span of it that a filter names.
pub(super) struct Shown<'v> {
    view: &'v View<'v>,
    account: AccountId,
    listing: Listing,
    kept: Kept,
    range: Range,
}

impl<'v> Shown<'v> {
    /// The listing of a plan, where its way is one.
    pub(super) fn of(view: &'v View<'v>, account: AccountId, plan: &Plan) -> Option<Self> {
        let (listing, kept) = (plan.way.listing()?, plan.kept?);
        Some(Self { view, account, listing, kept, range: plan.range })
    }

    /// Email/query.
    pub(super) fn query(&self, query: &Query) -> Result<Answer, Error> {
        let (low, high) = self.ends()?;
        let length = high.saturating_sub(low);
        let mut near = (Some(self.range.first), low);
        let start = match query.window.start {
            Start::Position(at) if at < 0 => {
                near = (self.range.last.0.checked_add(1).map(EmailId), high);
                length.saturating_sub(at.unsigned_abs())
            }
            Start::Position(at) => at.unsigned_abs(),
            Start::Anchor { id, offset } => {
                if !self.has(id)? {
                    return Err(Error::AnchorNotFound);
                }
                near = (Some(id), self.index_of(id)?);
                near.1.saturating_sub(low).saturating_add_signed(offset)
            }
        };
        let left = usize::try_from(length.saturating_sub(start)).unwrap_or(usize::MAX);
        let limit = query.window.limit.map_or(left, |limit| limit.min(left));
        let page = self.view.page(self.account, self.listing, self.tally(), low.saturating_add(start), near, limit)?;
        Ok(Answer {
            ids: page.into_iter().map(|(id, _)| id).collect(),
            position: whole(start),
            total: query.total.then_some(whole(length)),
            state: self.view.state(self.account, DataType::Email)?,
            can_calculate: true,
        })
    }

    /// Email/queryChanges; nothing where the state is older than the listing's history. At most `most` events are read.
    pub(super) fn changes(&self, asked: &QueryChanges, most: usize) -> Result<Option<Changes>, Error> {
        let state = self.view.state(self.account, DataType::Email)?;
        if asked.since > state {
            return Err(Error::CannotCalculateChanges);
        }
        if asked.since < self.tally().low {
            return Ok(None);
        }
        let moves = self.view.moves(self.account, self.listing, asked.since, most)?;
        let moves = moves.ok_or(Error::CannotCalculateChanges)?;
        let within = |all: Vec<(EmailId, _)>| -> BTreeSet<EmailId> {
            all.into_iter().map(|(id, _)| id).filter(|id| self.range.holds(*id)).collect()
        };
        let (came, gone) = (within(moves.came), within(moves.gone));
        let mut removed: Vec<EmailId> = gone.difference(&came).copied().collect();
        let mut added: Vec<EmailId> = came.difference(&gone).copied().collect();
        if let Some(up_to) = asked.up_to.filter(|id| self.range.holds(*id)) {
            let is_there = self.has(up_to)?;
            if gone.contains(&up_to) || is_there && !came.contains(&up_to) {
                removed.retain(|id| *id <= up_to);
            }
            if is_there {
                added.retain(|id| *id <= up_to);
            }
        }
        bounded(asked, removed.len(), added.len())?;
        let (low, high) = if asked.total || !added.is_empty() { self.ends()? } else { (0, 0) };
        let added = self.indexed(&added)?.into_iter().map(|(at, id)| (whole(at.saturating_sub(low)), id)).collect();
        Ok(Some(Changes { state, removed, added, total: asked.total.then_some(whole(high.saturating_sub(low))) }))
    }

    fn tally(&self) -> Tally {
        self.kept.tally(self.listing.shape)
    }

    /// Whether an email is shown.
    fn has(&self, id: EmailId) -> Result<bool, Error> {
        Ok(self.range.holds(id) && self.view.lists(self.account, self.listing, id)?)
    }

    /// The positions of the range's first email and of the one behind its last.
    fn ends(&self) -> Result<(u64, u64), Error> {
        let tally = self.tally();
        if self.range.first > self.range.last {
            return Ok((0, 0));
        }
        let low = if self.range.first == EmailId(0) { 0 } else { self.index_of(self.range.first)? };
        let high = match self.range.last.0.checked_add(1) {
            Some(behind) => self.index_of(EmailId(behind))?,
            None => tally.total,
        };
        Ok((low, high))
    }

    fn index_of(&self, id: EmailId) -> Result<u64, Error> {
        Ok(self.view.index_of(self.account, self.listing, self.tally(), id)?)
    }

    /// The positions of emails that are in the listing, newest first: each by rank, or all by one walk where that is
    /// shorter.
    fn indexed(&self, ids: &[EmailId]) -> Result<Vec<(u64, EmailId)>, Error> {
        let (Some(first), Some(last)) = (ids.first(), ids.last()) else { return Ok(Vec::new()) };
        let start = self.index_of(*first)?;
        if ids.len() == 1 {
            return Ok(vec![(start, *first)]);
        }
        let tally = self.tally();
        let span = if tally.is_ranked() { self.index_of(*last)?.saturating_sub(start) } else { 0 };
        if span > u64::try_from(ids.len()).unwrap_or(u64::MAX).saturating_mul(RANK_COST) {
            return ids.iter().map(|id| Ok((self.index_of(*id)?, *id))).collect();
        }
        let wanted: BTreeSet<EmailId> = ids.iter().copied().collect();
        let mut out = Vec::with_capacity(ids.len());
        let (mut at, mut upto) = (start, first.0.checked_sub(1).map(EmailId));
        while out.len() < ids.len() {
            let page = self.view.listing(self.account, self.listing, upto, STEP)?;
            let Some((end, _)) = page.last() else { break };
            upto = Some(*end);
            for (id, _) in page {
                if wanted.contains(&id) {
                    out.push((at, id));
                }
                at = at.saturating_add(1);
            }
        }
        Ok(out)
    }
}

/// Email/query of all mail, newest first. Positions cost a walk.
pub(super) fn all_mail(view: &View<'_>, query: &Query) -> Result<Answer, Error> {
    let account = query.results.account;
    let marks = view.account_state(account)?;
    let start = match query.window.start {
        Start::Position(at) if at < 0 => marks.emails.saturating_sub(at.unsigned_abs()),
        Start::Position(at) => at.unsigned_abs(),
        Start::Anchor { id, offset } => {
            view.email(account, id)?.ok_or(Error::AnchorNotFound)?;
            let before = positions(view, account, &[id])?.pop().map_or(0, |(at, _)| at);
            before.saturating_add_signed(offset)
        }
    };
    let left = usize::try_from(marks.emails.saturating_sub(start)).unwrap_or(usize::MAX);
    let limit = query.window.limit.map_or(left, |limit| limit.min(left));
    let mut ids = Vec::new();
    if limit > 0 {
        let mut supply = Supply::new(view, account, None, Range::ALL);
        let mut skip = start;
        while ids.len() < limit
            && let Some((id, _)) = supply.next_email()?
        {
            match skip.checked_sub(1) {
                Some(left) => skip = left,
                None => ids.push(id),
            }
        }
    }
    Ok(Answer {
        ids,
        position: whole(start),
        total: query.total.then_some(whole(marks.emails)),
        state: marks.state(DataType::Email),
        can_calculate: true,
    })
}

/// Email/queryChanges of all mail: who came was made since, who left was destroyed since.
pub(super) fn all_mail_changes(view: &View<'_>, asked: &QueryChanges) -> Result<Changes, Error> {
    let (account, since) = (asked.results.account, asked.since);
    let marks = view.account_state(account)?;
    let state = marks.state(DataType::Email);
    if since > state || since < marks.purged(DataType::Email) {
        return Err(Error::CannotCalculateChanges);
    }
    let changed = view.emails_since(account, since, limits::QUERY_EVENTS)?.ok_or(Error::CannotCalculateChanges)?;
    let (mut removed, mut added) = (BTreeSet::new(), BTreeSet::new());
    for (_, id) in changed {
        let email = view.email_or_tombstone(account, id)?.ok_or(Error::CannotCalculateChanges)?;
        match (email.created > since, email.deleted.is_some()) {
            (true, false) => drop(added.insert(id)),
            (false, true) => drop(removed.insert(id)),
            _ => {}
        }
    }
    if let Some(up_to) = asked.up_to
        && let Some(email) = view.email_or_tombstone(account, up_to)?
    {
        let (is_there, was_destroyed_before) = (email.deleted.is_none(), email.updated <= since);
        if email.created <= since && (is_there || !was_destroyed_before) {
            removed.retain(|id| *id <= up_to);
        }
        if is_there {
            added.retain(|id| *id <= up_to);
        }
    }
    bounded(asked, removed.len(), added.len())?;
    let added: Vec<EmailId> = added.into_iter().collect();
    let added = positions(view, account, &added)?.into_iter().map(|(at, id)| (whole(at), id)).collect();
    let total = asked.total.then_some(whole(marks.emails));
    Ok(Changes { state, removed: removed.into_iter().collect(), added, total })
}

/// The positions of live emails among all, newest first, by one walk to the last of them.
fn positions(view: &View<'_>, account: AccountId, ids: &[EmailId]) -> Result<Vec<(u64, EmailId)>, Error> {
    let mut out = Vec::with_capacity(ids.len());
    let mut supply = Supply::new(view, account, None, Range::ALL);
    let mut wanted = ids.iter().peekable();
    let mut at = 0u64;
    while let Some(next) = wanted.peek().copied()
        && let Some((id, _)) = supply.next_email()?
    {
        if id == *next {
            out.push((at, id));
            wanted.next();
        }
        at = at.saturating_add(1);
    }
    Ok(out)
}

/// `maxChanges`, counted after the cut.
fn bounded(asked: &QueryChanges, removed: usize, added: usize) -> Result<(), Error> {
    let too_many = asked.max_changes.is_some_and(|most| removed.saturating_add(added) > most);
    if too_many { Err(Error::TooManyChanges) } else { Ok(()) }
}

fn whole(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
