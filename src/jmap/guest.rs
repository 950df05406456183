//! The changes that a guest sees since a state (RFC 8620 §5.2): emails and threads that became
//! visible to the guest, changed, or are no longer visible; and mailboxes whose counts may differ.
//!
//! - Changes follow from the emails that the guest could see then and can see now (`query::Scope`),
//!   not from rows that count all mail.
//! - They can be calculated only while no share in the account changes, not even that of another
//!   guest.
//! - Changes of emails and threads are reported all at once, or cannot be calculated.

use std::collections::{BTreeMap, BTreeSet};

use super::context::{Account, Context};
use super::rights::{Rights, same_access_since};
use super::standard::state;
use crate::model::{DataType, EmailId, MailboxUid, ModSeq, ThreadId, limits};
use crate::query::{Scope, ScopedChanges};
use crate::store::{AccountStateRow, Changes, ClientState, Error, Snapshot};
use crate::wire::jmap::MethodError;

/// Returns the modseq of the newest change of a type. For a guest, a change of an email may change
/// which threads are visible, and the unread threads of any mailbox.
pub(super) fn newest_change(state: &AccountStateRow, is_guest: bool, data: DataType) -> ModSeq {
    match data {
        DataType::Thread if is_guest => state.high_mark(DataType::Email),
        DataType::Mailbox if is_guest => {
            state.high_mark(DataType::Email).max(state.high_mark(DataType::Mailbox))
        }
        _ => state.high_mark(data),
    }
}

/// Returns the newest state of a type as the caller sees it.
pub(super) fn newest_visible_state(
    context: &Context,
    snapshot: &Snapshot<'_>,
    account: &Account,
    data: DataType,
) -> Result<String, MethodError> {
    let now = snapshot.account_state(account.id)?;
    Ok(state(&context.store, newest_change(&now, account.guest.is_some(), data)))
}

/// Returns all changes of emails since a state; `None` if they are more than `max_changes`, or
/// cannot be calculated. An intermediate state (`ClientState`: `base` is not `mark`) always gets
/// `None`: for emails and threads, a guest is never given such a state.
pub(super) fn email_changes(
    snapshot: &Snapshot<'_>,
    account: &Account,
    from: ClientState,
    max_changes: usize,
) -> Result<Option<Changes<EmailId>>, Error> {
    let Some((_, changed)) = scope_and_changes(snapshot, account, from)? else { return Ok(None) };
    let mut changes = no_changes(snapshot, account, from)?;
    for (id, email) in changed {
        add_change(&mut changes, id, email.was_visible, email.is_visible);
    }
    Ok(Some(changes).filter(|all| from.base == from.mark && count(all) <= max_changes))
}

/// Returns all changes of threads since a state; `None` if they are more than `max_changes`, or
/// cannot be calculated, as in `email_changes`. A thread is reported if one of its emails became
/// visible to the guest or is no longer visible.
pub(super) fn thread_changes(
    snapshot: &Snapshot<'_>,
    account: &Account,
    from: ClientState,
    max_changes: usize,
) -> Result<Option<Changes<ThreadId>>, Error> {
    let Some((scope, changed)) = scope_and_changes(snapshot, account, from)? else {
        return Ok(None);
    };
    let mut changes = no_changes(snapshot, account, from)?;
    let appeared_or_left = changed.values().filter(|email| email.was_visible != email.is_visible);
    let threads: BTreeSet<ThreadId> = appeared_or_left.map(|email| email.thread).collect();
    // Also of purged emails, which are no longer in the rows of their threads.
    let had_visible: BTreeSet<ThreadId> =
        changed.values().filter(|email| email.was_visible).map(|email| email.thread).collect();
    for thread in threads {
        let (mut was_visible, mut is_visible) = (false, false);
        for id in snapshot.thread_emails(account.id, thread)? {
            let (before, now) = match changed.get(&id) {
                Some(email) => (email.was_visible, email.is_visible),
                None => {
                    let is_visible =
                        snapshot.email(account.id, id)?.is_some_and(|email| scope.sees(&email));
                    (is_visible, is_visible)
                }
            };
            (was_visible, is_visible) = (was_visible || before, is_visible || now);
        }
        was_visible |= had_visible.contains(&thread);
        add_change(&mut changes, thread, was_visible, is_visible);
    }
    Ok(Some(changes).filter(|all| from.base == from.mark && count(all) <= max_changes))
}

/// Returns up to `max_changes` mailboxes whose counts may differ; `None` if they cannot be
/// calculated. Mailbox/changes has checked that the tree is unchanged, so mailboxes are only
/// updated. They come in the order of their changes. If there are more, the answer has an
/// intermediate state, from which a further /changes goes on.
///
/// A mailbox is reported if a changed email is in it or has left it, or if another email of the
/// thread of a changed email is in it. Only emails that the guest sees or saw count.
pub(super) fn mailbox_changes(
    snapshot: &Snapshot<'_>,
    account: &Account,
    from: ClientState,
    max_changes: usize,
) -> Result<Option<Changes<MailboxUid>>, Error> {
    let Some((scope, changed)) = scope_and_changes(snapshot, account, from)? else {
        return Ok(None);
    };
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
    let mut reported: Vec<(ModSeq, MailboxUid)> =
        touched.into_iter().map(|(uid, at)| (at, uid)).collect();
    // Those that an earlier answer reported, before the intermediate state `from`, are left out.
    reported.retain(|(at, uid)| from.is_before(*at, uid.0));
    reported.sort_unstable();
    let more = reported.len() > max_changes;
    reported.truncate(max_changes);
    let state = match reported.last().filter(|_| more) {
        Some((at, uid)) => ClientState { mark: *at, base: from.base, last: uid.0 },
        // Never older than what the client knows.
        None => ClientState::at(
            newest_change(&snapshot.account_state(account.id)?, true, DataType::Mailbox)
                .max(from.mark),
        ),
    };
    let updated = reported.into_iter().map(|(_, uid)| uid).collect();
    Ok(Some(Changes { created: Vec::new(), updated, destroyed: Vec::new(), state, has_more: more }))
}

/// Returns an answer without changes, whose state is the newest one of emails, but never older than
/// `since`. The state is that of threads, too (`newest_change`).
fn no_changes<Id>(
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
        has_more: false,
    })
}

fn add_change<Id>(changes: &mut Changes<Id>, id: Id, was_visible: bool, is_visible: bool) {
    match (was_visible, is_visible) {
        (false, true) => changes.created.push(id),
        (true, true) => changes.updated.push(id),
        (true, false) => changes.destroyed.push(id),
        (false, false) => {}
    }
}

fn count<Id>(changes: &Changes<Id>) -> usize {
    changes.created.len() + changes.updated.len() + changes.destroyed.len()
}

/// Returns the scope of the guest, and the changes of emails in it since `since.base`. Returns
/// `None` if they cannot be calculated: if the history does not go back so far, the state is not
/// one of this account, a share has changed since, or too many emails would have to be read
/// (`Scope::changes`). Returns `None` for the owner, too, who has no scope.
fn scope_and_changes(
    snapshot: &Snapshot<'_>,
    account: &Account,
    since: ClientState,
) -> Result<Option<(Scope, ScopedChanges)>, Error> {
    let state = snapshot.account_state(account.id)?;
    let has_history = since.mark <= state.modseq && since.base >= state.low_mark(DataType::Email);
    if !has_history || since.base > since.mark || !same_access_since(snapshot, account, since.base)?
    {
        return Ok(None);
    }
    let Some(scope) = Rights::in_account(snapshot, account)?.scope() else { return Ok(None) };
    let changed = scope.changes(snapshot, account.id, since.base, limits::MAX_CHANGES)?;
    Ok(changed.map(|changed| (scope, changed)))
}
