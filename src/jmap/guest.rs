//! What changed for a guest (RFC 8620 §5.2): which emails and threads came into the guest's sight
//! since a state, changed within it, and left it; and which mailboxes may have other counts.
//!
//! - All is told from what the guest could see then or can see now (`query::Scope`), never from
//!   rows that count all mail.
//! - It can be told as long as the same mailboxes are open to the guest.
//! - Emails and threads are told all at once: what is more than was asked for cannot be calculated.
//! - To a guest threads and mailboxes change as emails do: the states of all three move with those
//!   of emails.

use std::collections::{BTreeMap, BTreeSet};

use super::context::{Account, Context};
use super::rights::{Rights, same_access_since};
use super::standard::state;
use crate::model::{DataType, EmailId, MailboxUid, ModSeq, ThreadId, limits};
use crate::query::{Scope, ScopedChanges};
use crate::store::{AccountStateRow, Changes, ClientState, Error, Snapshot};
use crate::wire::jmap::MethodError;

/// The newest change of a type, for the owner or for a guest. To a guest a thread changes as its
/// emails come into sight and leave it, and the unread threads of a mailbox with emails elsewhere:
/// to the account both are changes of emails alone.
pub(super) fn newest_change(state: &AccountStateRow, is_guest: bool, data: DataType) -> ModSeq {
    match data {
        DataType::Thread if is_guest => state.state(DataType::Email),
        DataType::Mailbox if is_guest => {
            state.state(DataType::Email).max(state.state(DataType::Mailbox))
        }
        _ => state.state(data),
    }
}

/// The newest state of a type, as a state string.
///
/// # Errors
/// Those of reading.
pub(super) fn newest_state(
    context: &Context,
    snapshot: &Snapshot<'_>,
    account: &Account,
    data: DataType,
) -> Result<String, MethodError> {
    let now = snapshot.account_state(account.id)?;
    Ok(state(&context.store, newest_change(&now, account.guest.is_some(), data)))
}

/// Email/changes; `None` where they cannot be told.
///
/// # Errors
/// Those of reading.
pub(super) fn email_changes(
    snapshot: &Snapshot<'_>,
    account: &Account,
    from: ClientState,
    most: usize,
) -> Result<Option<Changes<EmailId>>, Error> {
    let Some((_, changed)) = since(snapshot, account, from)? else { return Ok(None) };
    let mut changes = none(snapshot, account, from)?;
    for (id, email) in changed {
        note(&mut changes, id, email.was, email.is);
    }
    Ok(Some(changes).filter(|all| from.base == from.mark && count(all) <= most))
}

/// Thread/changes; `None` where they cannot be told.
///
/// # Errors
/// Those of reading.
pub(super) fn thread_changes(
    snapshot: &Snapshot<'_>,
    account: &Account,
    from: ClientState,
    most: usize,
) -> Result<Option<Changes<ThreadId>>, Error> {
    let Some((scope, changed)) = since(snapshot, account, from)? else { return Ok(None) };
    let mut changes = none(snapshot, account, from)?;
    let moved = changed.values().filter(|email| email.was != email.is);
    let threads: BTreeSet<ThreadId> = moved.map(|email| email.thread).collect();
    // An email that was in sight and is purged is no longer among those of its thread.
    let had: BTreeSet<ThreadId> =
        changed.values().filter(|email| email.was).map(|email| email.thread).collect();
    for thread in threads {
        let (mut was, mut is) = (false, false);
        for id in snapshot.thread_emails(account.id, thread)? {
            let (before, now) = match changed.get(&id) {
                Some(email) => (email.was, email.is),
                None => {
                    let seen =
                        snapshot.email(account.id, id)?.is_some_and(|email| scope.sees(&email));
                    (seen, seen)
                }
            };
            (was, is) = (was || before, is || now);
        }
        was |= had.contains(&thread);
        note(&mut changes, thread, was, is);
    }
    Ok(Some(changes).filter(|all| from.base == from.mark && count(all) <= most))
}

/// Mailbox/changes, of a tree that did not change; `None` where they cannot be told. A mailbox is
/// told of where an email that the guest sees or saw in it changed, or one in a thread of which the
/// guest sees an email in it: its counts may be others.
///
/// # Errors
/// Those of reading.
pub(super) fn mailbox_changes(
    snapshot: &Snapshot<'_>,
    account: &Account,
    from: ClientState,
    most: usize,
) -> Result<Option<Changes<MailboxUid>>, Error> {
    let Some((scope, changed)) = since(snapshot, account, from)? else { return Ok(None) };
    let mut touched: BTreeMap<MailboxUid, ModSeq> = BTreeMap::new();
    let mut threads: BTreeMap<ThreadId, ModSeq> = BTreeMap::new();
    for email in changed.values() {
        let latest = threads.entry(email.thread).or_default();
        *latest = email.at.max(*latest);
        for uid in &email.mailboxes {
            let latest = touched.entry(*uid).or_default();
            *latest = email.at.max(*latest);
        }
    }
    for (thread, at) in threads {
        let Some(row) = snapshot.thread(account.id, thread)? else { continue };
        for uid in row.members.keys().filter(|uid| scope.mailboxes().contains(uid)) {
            let latest = touched.entry(*uid).or_default();
            *latest = at.max(*latest);
        }
    }
    let mut told: Vec<(ModSeq, MailboxUid)> =
        touched.into_iter().map(|(uid, at)| (at, uid)).collect();
    told.retain(|(at, uid)| from.is_before(*at, uid.0));
    told.sort_unstable();
    let more = told.len() > most;
    told.truncate(most);
    let state = match told.last().filter(|_| more) {
        Some((at, uid)) => ClientState { mark: *at, base: from.base, last: uid.0 },
        None => ClientState::at(
            newest_change(&snapshot.account_state(account.id)?, true, DataType::Mailbox)
                .max(from.mark),
        ),
    };
    let updated = told.into_iter().map(|(_, uid)| uid).collect();
    Ok(Some(Changes { created: Vec::new(), updated, destroyed: Vec::new(), state, more }))
}

fn none<Id>(
    snapshot: &Snapshot<'_>,
    account: &Account,
    since: ClientState,
) -> Result<Changes<Id>, Error> {
    let state = ClientState::at(snapshot.state(account.id, DataType::Email)?.max(since.mark));
    Ok(Changes {
        created: Vec::new(),
        updated: Vec::new(),
        destroyed: Vec::new(),
        state,
        more: false,
    })
}

/// What became of one that was in sight, or is.
fn note<Id>(changes: &mut Changes<Id>, id: Id, was: bool, is: bool) {
    match (was, is) {
        (false, true) => changes.created.push(id),
        (true, true) => changes.updated.push(id),
        (true, false) => changes.destroyed.push(id),
        (false, false) => {}
    }
}

fn count<Id>(changes: &Changes<Id>) -> usize {
    changes.created.len() + changes.updated.len() + changes.destroyed.len()
}

/// What the guest sees, and what changed of it since the guest began to catch up.
fn since(
    snapshot: &Snapshot<'_>,
    account: &Account,
    since: ClientState,
) -> Result<Option<(Scope, ScopedChanges)>, Error> {
    let state = snapshot.account_state(account.id)?;
    let is_known = since.mark <= state.modseq && since.base >= state.low_mark(DataType::Email);
    if !is_known || since.base > since.mark || !same_access_since(snapshot, account, since.base)? {
        return Ok(None);
    }
    let Some(scope) = Rights::of(snapshot, account)?.scope() else { return Ok(None) };
    let changed = scope.changes(snapshot, account.id, since.base, limits::MAX_CHANGES)?;
    Ok(changed.map(|changed| (scope, changed)))
}
