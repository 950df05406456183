//! Email/queryChanges for any filter and sort (RFC 8620 §5.6, RFC 8621 §4.5).
//!
//! - An email is *touched* if it came or went since the state, or if it changed and the answer
//!   depends on mailboxes or keywords. If the answer depends on threads, the other emails of its
//!   thread are touched, too. An email that both came and went is not touched. For emails that are
//!   not touched, neither match nor sort keys changed.
//! - `removed` is every touched email that existed at the state and may have matched, by its
//!   immutable properties. `added` is every touched email in the new results. So more than the
//!   minimum may be reported.
//! - If the sort keys are immutable and the email `upToId` is in the new results, `added` leaves
//!   out the emails behind it. `removed` does the same, unless the email `upToId` is touched: then
//!   its old position is not known. A removed email whose sort keys cannot be read any more stays
//!   in `removed`.
//! - Within a scope, only emails that were in the scope at the state are reported as removed.
//!   Others would tell a guest about mail that was never shared.

use std::collections::{BTreeMap, BTreeSet};

use super::list::{ListRequest, list};
use super::sort_entry::SortEntry;
use crate::model::{DataType, EmailId, EmailMetadata, limits};
use crate::query::filter::Dependencies;
use crate::query::matching::candidate::{Candidate, CandidateSource};
use crate::query::matching::evaluate::{Matcher, Moment};
use crate::query::walk::EmailWalk;
use crate::query::{Error, QueryChanges, QueryChangesAnswer, Scope, sort};
use crate::store::Snapshot;

/// Answers Email/queryChanges by any walk.
///
/// # Errors
/// - `CannotCalculateChanges`: the state is newer than the newest change, below the low mark, or
///   too many changes back; a mailbox of the scope has no history that far back; or, without a
///   scope, a changed email has neither a row nor a tombstone.
/// - `TooManyChanges`, `TooMuchWalked`, `TooMuchRead`, and errors of reading.
pub(in crate::query) fn changes(
    snapshot: &Snapshot<'_>,
    matcher: &Matcher,
    request: &QueryChanges,
    walk: EmailWalk<'_>,
) -> Result<QueryChangesAnswer, Error> {
    let spec = &request.spec;
    let marks = snapshot.account_state(spec.account)?;
    let (low, high) = (marks.low_mark(DataType::Email), marks.high_mark(DataType::Email));
    if request.since > high || request.since < low {
        return Err(Error::CannotCalculateChanges);
    }
    if request.since == high && !request.total {
        return Ok(QueryChangesAnswer {
            state: high,
            removed: Vec::new(),
            added: Vec::new(),
            total: None,
        });
    }
    spec.reads.begin_walk()?;
    let touched = match &spec.scope {
        None => changed_emails(snapshot, request)?,
        Some(scope) => changed_emails_within(scope, snapshot, request)?,
    };
    let new = list(snapshot, matcher, spec, walk, ListRequest::ALL)?.entries;
    spec.reads.count_rows(touched.len());
    let mut source = CandidateSource::new(snapshot, spec, matcher);
    let mut removed = Vec::new();
    for (id, ChangedEmail { metadata, .. }) in
        touched.iter().filter(|(_, touched)| touched.was_listed)
    {
        let mut email = Candidate::new(&mut source, *id, metadata);
        if matcher.matches(&mut email, Moment::Ever)? {
            removed.push(*id);
        }
    }
    let of_new = new.iter().enumerate().map(|(index, entry)| (index, entry.id));
    let mut added: Vec<(usize, EmailId)> =
        of_new.filter(|(_, id)| touched.contains_key(id)).collect();
    if let Some(up_to) = request.up_to
        && !sort::dependencies(&spec.sort).mutable
        && let Some(last) = new.iter().position(|entry| entry.id == up_to)
    {
        added.retain(|(index, _)| *index <= last);
        // If the email `upToId` is touched, its old position is not known: `removed` stays whole.
        if let Some(last) = new.get(last).filter(|_| !touched.contains_key(&up_to)) {
            let mut removed_until = Vec::with_capacity(removed.len());
            for id in removed {
                let Some(ChangedEmail { metadata, .. }) = touched.get(&id) else { continue };
                let entry =
                    SortEntry::of(&spec.sort, &mut Candidate::new(&mut source, id, metadata))?;
                if entry.is_none_or(|entry| entry.compare(last, &spec.sort).is_le()) {
                    removed_until.push(id);
                }
            }
            removed = removed_until;
        }
    }
    if request.max_changes.is_some_and(|max| removed.len().saturating_add(added.len()) > max) {
        return Err(Error::TooManyChanges);
    }
    Ok(QueryChangesAnswer {
        state: high,
        removed,
        added,
        total: request.total.then_some(new.len()),
    })
}

/// A touched email.
struct ChangedEmail {
    /// The row of the email, or its tombstone.
    metadata: EmailMetadata,
    /// Whether the email existed at the old state, and was in the scope if there is one. It need
    /// not have matched.
    was_listed: bool,
}

fn dependencies(request: &QueryChanges) -> Dependencies {
    let depends = request.spec.filter.dependencies().and(sort::dependencies(&request.spec.sort));
    depends.and(Dependencies { mutable: false, threads: request.spec.collapse })
}

/// Returns the touched emails, including those destroyed since.
fn changed_emails(
    snapshot: &Snapshot<'_>,
    request: &QueryChanges,
) -> Result<BTreeMap<EmailId, ChangedEmail>, Error> {
    let (account, since, depends) = (request.spec.account, request.since, dependencies(request));
    let (mut touched, mut threads) = (BTreeMap::new(), BTreeSet::new());
    let changed = snapshot
        .emails_since(account, since, limits::MAX_QUERY_EVENTS)?
        .ok_or(Error::CannotCalculateChanges)?;
    for (_, id) in changed {
        let Some(email) = snapshot.email_or_tombstone(account, id)? else {
            return Err(Error::CannotCalculateChanges);
        };
        let (came, gone) = (email.created > since, email.destroyed.is_some());
        // An email created and destroyed since was never listed.
        if (came && gone) || !(came || gone || depends.mutable) {
            continue;
        }
        if depends.threads {
            threads.insert(email.thread);
        }
        touched.insert(id, ChangedEmail { was_listed: !came, metadata: email });
    }
    for thread in threads {
        for id in snapshot.thread_emails(account, thread)? {
            if let Some(email) = snapshot.email(account, id)? {
                touched.entry(id).or_insert(ChangedEmail {
                    was_listed: email.created <= since,
                    metadata: email,
                });
            }
        }
    }
    Ok(touched)
}

/// As `changed_emails`, within a scope: an email is created or destroyed for the guest when it
/// enters or leaves the scope.
fn changed_emails_within(
    scope: &Scope,
    snapshot: &Snapshot<'_>,
    request: &QueryChanges,
) -> Result<BTreeMap<EmailId, ChangedEmail>, Error> {
    let (account, depends) = (request.spec.account, dependencies(request));
    let changed = scope.changes(snapshot, account, request.since, limits::MAX_QUERY_EVENTS)?;
    let mut changed = changed.ok_or(Error::CannotCalculateChanges)?;
    changed.retain(|_, email| {
        email.was_visible != email.is_visible || email.was_visible && depends.mutable
    });
    let mut threads = BTreeSet::new();
    if depends.threads {
        threads.extend(changed.values().map(|email| email.thread));
    }
    let each = changed.into_iter().map(|(id, email)| {
        (id, ChangedEmail { was_listed: email.was_visible, metadata: email.email })
    });
    let mut touched: BTreeMap<EmailId, ChangedEmail> = each.collect();
    for thread in threads {
        for id in snapshot.thread_emails(account, thread)? {
            if let Some(email) = snapshot.email(account, id)?.filter(|email| scope.sees(email)) {
                // An email that is in the scope and did not enter it was there at the old state.
                touched.entry(id).or_insert(ChangedEmail { was_listed: true, metadata: email });
            }
        }
    }
    Ok(touched)
}
