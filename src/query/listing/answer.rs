//! Windows and changes of maintained listings, and of all mail (`docs/storage.md`, "Listings").
//!
//! - The results are sections of listings (`parts`).
//! - Only if the results are a range of one listing, or all mail, are changes after `upToId` left
//!   out: of `removed` if that email was in the old results, of `added` if it is in the new ones
//!   (RFC 8620 §5.6).

use std::collections::BTreeSet;

use crate::model::{DataType, EmailId, limits};
use crate::query::id_range::IdRange;
use crate::query::listing::changes::ResultDelta;
use crate::query::listing::parts::ResultParts;
use crate::query::plan::QueryPlan;
use crate::query::sort::Direction;
use crate::query::walk::scan::EmailScan;
use crate::query::{Error, Query, QueryAnswer, QueryChanges, QueryChangesAnswer, QuerySpec, Start};
use crate::store::Snapshot;

/// Answers Email/query from maintained listings.
///
/// # Errors
/// `AnchorNotFound`, and errors of reading.
pub(in crate::query) fn query(
    snapshot: &Snapshot<'_>,
    query: &Query,
    parts: &ResultParts<'_>,
) -> Result<QueryAnswer, Error> {
    let length = parts.length()?;
    let mut near = None;
    let start = match query.window.start {
        Start::Position(at) if at < 0 => length.saturating_sub(at.unsigned_abs()),
        Start::Position(at) => at.unsigned_abs(),
        Start::Anchor { id, offset } => {
            let position = parts.position(id)?.ok_or(Error::AnchorNotFound)?;
            near = Some((id, position));
            position.saturating_add_signed(offset)
        }
    };
    let left = usize::try_from(length.saturating_sub(start)).unwrap_or(usize::MAX);
    let limit = query.window.limit.map_or(left, |limit| limit.min(left));
    Ok(QueryAnswer {
        ids: parts.section(start, limit, near)?,
        position: to_usize(start),
        total: query.total.then_some(to_usize(length)),
        state: snapshot.state(query.spec.account, DataType::Email)?,
        can_calculate: true,
    })
}

/// Answers Email/queryChanges from maintained listings, or returns `None` if the state is below
/// their low marks.
///
/// # Errors
/// `CannotCalculateChanges` if the state is newer than the newest change, or a listing changed more
/// than `max_events` times since; `TooManyChanges`, and errors of reading.
pub(in crate::query) fn changes(
    snapshot: &Snapshot<'_>,
    request: &QueryChanges,
    plan: &QueryPlan,
    parts: &ResultParts<'_>,
    max_events: usize,
) -> Result<Option<QueryChangesAnswer>, Error> {
    let state = snapshot.state(request.spec.account, DataType::Email)?;
    if request.since > state {
        return Err(Error::CannotCalculateChanges);
    }
    if request.since < parts.low() {
        return Ok(None);
    }
    let ResultDelta { mut removed, mut added, up_to } = parts.changes(request, max_events)?;
    if let Some((last, was_there, is_there)) = up_to {
        if was_there {
            removed.retain(|id| !plan.direction.is_behind(*id, last));
        }
        if is_there {
            added.retain(|id| !plan.direction.is_behind(*id, last));
        }
    }
    check_max_changes(request, removed.len(), added.len())?;
    let added = parts.positions(&added)?.into_iter().map(|(at, id)| (to_usize(at), id)).collect();
    let total = if request.total { Some(to_usize(parts.length()?)) } else { None };
    Ok(Some(QueryChangesAnswer { state, removed: removed.into_iter().collect(), added, total }))
}

/// Answers Email/query of all mail. A position costs a walk to it.
///
/// # Errors
/// `TooMuchWalked`, `AnchorNotFound`, and errors of reading.
pub(in crate::query) fn all_mail(
    snapshot: &Snapshot<'_>,
    query: &Query,
    direction: Direction,
) -> Result<QueryAnswer, Error> {
    query.spec.reads.begin_walk()?;
    let account = query.spec.account;
    let marks = snapshot.account_state(account)?;
    let start = match query.window.start {
        Start::Position(at) if at < 0 => marks.emails.saturating_sub(at.unsigned_abs()),
        Start::Position(at) => at.unsigned_abs(),
        Start::Anchor { id, offset } => {
            snapshot.email(account, id)?.ok_or(Error::AnchorNotFound)?;
            let before =
                positions(snapshot, &query.spec, &[id], direction)?.pop().map_or(0, |(at, _)| at);
            before.saturating_add_signed(offset)
        }
    };
    let left = usize::try_from(marks.emails.saturating_sub(start)).unwrap_or(usize::MAX);
    let limit = query.window.limit.map_or(left, |limit| limit.min(left));
    let mut ids = Vec::new();
    if limit > 0 {
        let mut scan = EmailScan::all_mail(snapshot, account, IdRange::ALL, direction)
            .counting(query.spec.reads.clone());
        let mut skip = start;
        while ids.len() < limit
            && let Some((id, _)) = scan.next_email()?
        {
            match skip.checked_sub(1) {
                Some(left) => skip = left,
                None => ids.push(id),
            }
        }
    }
    Ok(QueryAnswer {
        ids,
        position: to_usize(start),
        total: query.total.then_some(to_usize(marks.emails)),
        state: marks.high_mark(DataType::Email),
        can_calculate: true,
    })
}

/// Answers Email/queryChanges of all mail.
///
/// # Errors
/// `CannotCalculateChanges` if the state is newer than the newest change, below the low mark, or
/// more than `limits::MAX_QUERY_EVENTS` changes back, or if a changed email has neither a row nor a
/// tombstone; `TooMuchWalked`, `TooManyChanges`, and errors of reading.
pub(in crate::query) fn all_mail_changes(
    snapshot: &Snapshot<'_>,
    request: &QueryChanges,
    direction: Direction,
) -> Result<QueryChangesAnswer, Error> {
    request.spec.reads.begin_walk()?;
    let (account, since) = (request.spec.account, request.since);
    let marks = snapshot.account_state(account)?;
    let state = marks.high_mark(DataType::Email);
    if since > state || since < marks.low_mark(DataType::Email) {
        return Err(Error::CannotCalculateChanges);
    }
    let changed = snapshot
        .emails_since(account, since, limits::MAX_QUERY_EVENTS)?
        .ok_or(Error::CannotCalculateChanges)?;
    let (mut removed, mut added) = (BTreeSet::new(), BTreeSet::new());
    for (_, id) in changed {
        let email =
            snapshot.email_or_tombstone(account, id)?.ok_or(Error::CannotCalculateChanges)?;
        match (email.created > since, email.destroyed.is_some()) {
            (true, false) => drop(added.insert(id)),
            (false, true) => drop(removed.insert(id)),
            _ => {}
        }
    }
    if let Some(up_to) = request.up_to
        && let Some(email) = snapshot.email_or_tombstone(account, up_to)?
    {
        let is_there = email.destroyed.is_none();
        // The last change of a tombstone is the destruction.
        let was_there = email.created <= since && (is_there || email.updated > since);
        if was_there {
            removed.retain(|id| !direction.is_behind(*id, up_to));
        }
        if is_there {
            added.retain(|id| !direction.is_behind(*id, up_to));
        }
    }
    check_max_changes(request, removed.len(), added.len())?;
    let mut added: Vec<EmailId> = added.into_iter().collect();
    if direction == Direction::OldestFirst {
        added.reverse();
    }
    let added = positions(snapshot, &request.spec, &added, direction)?
        .into_iter()
        .map(|(at, id)| (to_usize(at), id))
        .collect();
    let total = request.total.then_some(to_usize(marks.emails));
    Ok(QueryChangesAnswer { state, removed: removed.into_iter().collect(), added, total })
}

/// Returns the positions of emails among all emails, counted in `direction`, by one walk. The ids
/// must be those of live emails, sorted in that direction.
fn positions(
    snapshot: &Snapshot<'_>,
    spec: &QuerySpec,
    ids: &[EmailId],
    direction: Direction,
) -> Result<Vec<(u64, EmailId)>, Error> {
    let mut out = Vec::with_capacity(ids.len());
    let mut scan = EmailScan::all_mail(snapshot, spec.account, IdRange::ALL, direction)
        .counting(spec.reads.clone());
    let mut wanted = ids.iter().peekable();
    let mut at = 0u64;
    while let Some(next) = wanted.peek().copied()
        && let Some((id, _)) = scan.next_email()?
    {
        if id == *next {
            out.push((at, id));
            wanted.next();
        }
        at = at.saturating_add(1);
    }
    Ok(out)
}

fn check_max_changes(request: &QueryChanges, removed: usize, added: usize) -> Result<(), Error> {
    let too_many = request.max_changes.is_some_and(|max| removed.saturating_add(added) > max);
    if too_many { Err(Error::TooManyChanges) } else { Ok(()) }
}

fn to_usize(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
