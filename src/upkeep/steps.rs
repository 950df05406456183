//! The steps of upkeep. Each is at most one bounded commit, except for those of
//! `reclaim_segments`, which are bounded by the store.

use std::time::Duration;

use super::{RoundReport, Settings, StepResult, Task};
use crate::model::AccountId;
use crate::store::{Error, FoldSizes, Store, Txn};

pub(super) const ACCOUNT_TASKS: &[Task] = &[
    fold_search_index,
    purge_emails,
    purge_history,
    purge_mailboxes,
    serve_listing_request,
    drop_unused_listings,
    build_listings,
    expire_decisions,
    expire_told,
    expire_duplicates,
    sweep_thread_refs,
    expire_uploads,
    expire_objects,
    sweep_shares,
];
/// The tasks of an account whose queries requested listings, or that has enough new mail to fold.
/// Until a listing is complete, each query for it may read the whole mailbox.
pub(super) const URGENT_TASKS: &[Task] =
    &[serve_listing_request, build_listings, fold_search_index];
pub(super) const SITE_TASKS: &[Task] = &[collect_messages, sweep_messages, reclaim_segments];

const EMAILS_PER_STEP: usize = 16;
/// The most rows that a step of most tasks deletes, or emails by which `build_listings` extends a
/// listing.
const ROWS_PER_STEP: usize = 96;
/// Most mailboxes have fewer emails, so that one step completes a requested listing.
const EMAILS_PER_LISTING_REQUEST: usize = 1000;
/// Mailboxes from which one step removes the rights of removed accounts.
const MAILBOXES_PER_STEP: usize = 16;
const MESSAGES_PER_STEP: usize = 64;
/// The least time between two history notes of an account. History may be purged about this much
/// later than `Settings::history` says.
const HISTORY_NOTE_INTERVAL: Duration = Duration::from_secs(24 * 3600);
const THREAD_REF_SWEEP_INTERVAL: Duration = Duration::from_secs(7 * 24 * 3600);
const MESSAGE_SWEEP_INTERVAL: Duration = Duration::from_secs(30 * 24 * 3600);

/// Commits a change, and waits until it is durable. If the account no longer exists, changes
/// nothing and returns the default.
fn commit<T: Default>(
    store: &Store,
    account: AccountId,
    mut change: impl FnMut(&mut Txn<'_>) -> Result<T, Error>,
) -> Result<T, Error> {
    let (value, ticket) = store.commit(account, |txn| {
        let exists = account == AccountId::SITE || txn.snapshot().account(account)?.is_some();
        if exists { change(txn) } else { Ok(T::default()) }
    })?;
    ticket.wait_blocking()?;
    Ok(value)
}

/// Runs one commit whose closure returns whether more is left to do. If nothing is left, the step
/// counts as idle, even if it changed something: the account's next task follows in the same turn.
fn commit_step(
    store: &Store,
    account: AccountId,
    change: impl FnMut(&mut Txn<'_>) -> Result<bool, Error>,
) -> Result<StepResult, Error> {
    Ok(step_result(false, commit(store, account, change)?))
}

/// Makes the result of a step that did work (`worked`), or left more to do (`left`), or neither.
fn step_result(worked: bool, left: bool) -> StepResult {
    if worked || left { StepResult::Worked { has_more: left } } else { StepResult::Idle }
}

/// Folds gathered token rows of an account, or merges a piece of its folds (`docs/storage.md`,
/// "Search"). Returns `false` if there is nothing to do, and `true` after a piece, even the last.
///
/// A piece is made from a snapshot, without the account's lock. If the folds changed meanwhile, or
/// an email that is folded lost its token row, the piece, or the rest of a new fold, is not
/// written. Later steps make it again and delete what was written of it.
pub fn fold_index(store: &Store, account: AccountId) -> Result<bool, Error> {
    fold_index_by(store, account, &FoldSizes::default())
}

/// Does the same as [`fold_index`], with the given fold sizes.
pub(super) fn fold_index_by(
    store: &Store,
    account: AccountId,
    sizes: &FoldSizes,
) -> Result<bool, Error> {
    let Some(piece) = store.snapshot().next_fold_piece(account, sizes)? else { return Ok(false) };
    for part in piece.parts(sizes.piece) {
        let (is_written, ticket) = store.commit(account, |txn| txn.write_folds(&part))?;
        ticket.wait_blocking()?;
        if !is_written {
            break;
        }
    }
    Ok(true)
}

fn fold_search_index(
    store: &Store,
    account: AccountId,
    _: &Settings,
    _: &mut RoundReport,
) -> Result<StepResult, Error> {
    Ok(step_result(false, fold_index(store, account)?))
}

fn purge_emails(
    store: &Store,
    account: AccountId,
    settings: &Settings,
    report: &mut RoundReport,
) -> Result<StepResult, Error> {
    let done = commit(store, account, |txn| {
        txn.purge_emails(txn.now().before(settings.destroyed_emails), EMAILS_PER_STEP)
    })?;
    report.emails += done.emails;
    report.threads += done.threads;
    Ok(step_result(done.emails > 0, done.has_more))
}

/// Notes how far the history has come, once a day at most, and purges the history that is older
/// than `Settings::history`.
fn purge_history(
    store: &Store,
    account: AccountId,
    settings: &Settings,
    _: &mut RoundReport,
) -> Result<StepResult, Error> {
    let (noted, left) = commit(store, account, |txn| {
        Ok((
            txn.note_history(HISTORY_NOTE_INTERVAL)?,
            txn.purge_history(txn.now().before(settings.history), ROWS_PER_STEP)?,
        ))
    })?;
    Ok(step_result(noted, left))
}

/// Deletes rows of listings and subscriptions of destroyed mailboxes. Their tombstones stay.
fn purge_mailboxes(
    store: &Store,
    account: AccountId,
    _: &Settings,
    _: &mut RoundReport,
) -> Result<StepResult, Error> {
    commit_step(store, account, |txn| txn.clear_destroyed_mailboxes(ROWS_PER_STEP))
}

fn drop_unused_listings(
    store: &Store,
    account: AccountId,
    settings: &Settings,
    report: &mut RoundReport,
) -> Result<StepResult, Error> {
    let (dropped, left) = commit(store, account, |txn| {
        let stale = txn.stale_listings(txn.now().before(settings.unused_listings))?;
        let Some((uid, filter)) = stale.first() else { return Ok((false, false)) };
        let left = txn.drop_listing(*uid, *filter, ROWS_PER_STEP)?;
        Ok((!left, left || stale.len() > 1))
    })?;
    report.dropped_listings += usize::from(dropped);
    Ok(step_result(dropped, left))
}

/// Extends a listing that a query requested, or records its use. There may be more requests: the
/// task ends with the step that finds none.
fn serve_listing_request(
    store: &Store,
    account: AccountId,
    _: &Settings,
    report: &mut RoundReport,
) -> Result<StepResult, Error> {
    let Some(request) = store.take_listing_request(account) else { return Ok(StepResult::Idle) };
    match commit(store, account, |txn| {
        txn.serve_listing_request(request, EMAILS_PER_LISTING_REQUEST)
    }) {
        Ok(is_finished) => report.completed_listings += usize::from(is_finished),
        // The mailbox was destroyed after the query.
        Err(Error::NotFound(_)) => {}
        Err(Error::Full) => return Err(Error::Full),
        Err(error) => {
            store.health()?;
            tracing::warn!(%account, %error, "a listing that a query requested was not made");
            report.failures += 1;
        }
    }
    Ok(StepResult::Worked { has_more: true })
}

/// Extends the first listing that was begun and is not complete.
fn build_listings(
    store: &Store,
    account: AccountId,
    _: &Settings,
    report: &mut RoundReport,
) -> Result<StepResult, Error> {
    let (complete, left) = commit(store, account, |txn| {
        let unfinished = txn.unfinished_listings()?;
        let Some((uid, filter)) = unfinished.first() else { return Ok((false, false)) };
        let complete = txn.extend_listing(*uid, *filter, ROWS_PER_STEP)?;
        Ok((complete, !complete || unfinished.len() > 1))
    })?;
    report.completed_listings += usize::from(complete);
    Ok(step_result(complete, left))
}

/// Deletes expired records of LMTP transactions, and decisions older than
/// `limits::DECISION_RETENTION`.
fn expire_decisions(
    store: &Store,
    account: AccountId,
    _: &Settings,
    _: &mut RoundReport,
) -> Result<StepResult, Error> {
    commit_step(store, account, |txn| txn.expire_deliveries_and_decisions(ROWS_PER_STEP))
}

fn expire_told(
    store: &Store,
    account: AccountId,
    settings: &Settings,
    _: &mut RoundReport,
) -> Result<StepResult, Error> {
    commit_step(store, account, |txn| {
        txn.expire_told(txn.now().before(settings.told_rows), ROWS_PER_STEP)
    })
}

/// Deletes the expired marks of the Sieve test `duplicate`.
fn expire_duplicates(
    store: &Store,
    account: AccountId,
    _: &Settings,
    _: &mut RoundReport,
) -> Result<StepResult, Error> {
    commit_step(store, account, |txn| txn.expire_duplicates(ROWS_PER_STEP))
}

fn sweep_thread_refs(
    store: &Store,
    account: AccountId,
    settings: &Settings,
    report: &mut RoundReport,
) -> Result<StepResult, Error> {
    let (gone, left) = commit(store, account, |txn| {
        txn.sweep_thread_refs(
            txn.now().before(settings.thread_refs),
            THREAD_REF_SWEEP_INTERVAL,
            ROWS_PER_STEP,
        )
    })?;
    report.thread_refs += gone;
    Ok(step_result(gone > 0, left))
}

fn expire_uploads(
    store: &Store,
    account: AccountId,
    settings: &Settings,
    _: &mut RoundReport,
) -> Result<StepResult, Error> {
    commit_step(store, account, |txn| {
        txn.expire_uploads(txn.now().before(settings.unused_uploads), ROWS_PER_STEP)
    })
}

/// Destroys submissions that ended long enough ago, and expired push subscriptions.
fn expire_objects(
    store: &Store,
    account: AccountId,
    settings: &Settings,
    _: &mut RoundReport,
) -> Result<StepResult, Error> {
    commit_step(store, account, |txn| {
        txn.expire_objects(txn.now().before(settings.final_submissions), ROWS_PER_STEP)
    })
}

/// Removes the rights of removed accounts in mailboxes of this one.
fn sweep_shares(
    store: &Store,
    account: AccountId,
    _: &Settings,
    _: &mut RoundReport,
) -> Result<StepResult, Error> {
    commit_step(store, account, |txn| txn.unshare_removed_accounts(MAILBOXES_PER_STEP))
}

/// Deletes messages without a reference. A message is noted for this when it loses a reference, or
/// by `sweep_messages`. If a commit wrote one of the messages meanwhile, the step does nothing, and
/// the next round tries again.
fn collect_messages(
    store: &Store,
    site: AccountId,
    settings: &Settings,
    report: &mut RoundReport,
) -> Result<StepResult, Error> {
    let done = match commit(store, site, |txn| {
        txn.collect_blobs(txn.now().before(settings.unreferenced_messages), MESSAGES_PER_STEP)
    }) {
        Err(Error::Overtaken(_)) => return Ok(StepResult::Idle),
        done => done?,
    };
    report.messages += done.blobs;
    report.bytes += done.bytes;
    store.note_deleted_messages(done.segment_bytes);
    Ok(step_result(done.blobs > 0, done.has_more))
}

/// Looks through all messages, once a month, and notes those without a reference for
/// `collect_messages`.
fn sweep_messages(
    store: &Store,
    site: AccountId,
    _: &Settings,
    _: &mut RoundReport,
) -> Result<StepResult, Error> {
    commit_step(store, site, |txn| txn.sweep_blobs(MESSAGE_SWEEP_INTERVAL, MESSAGES_PER_STEP))
}

/// Gives back the space of deleted messages, and moves messages that an earlier version stored in
/// rows.
fn reclaim_segments(
    store: &Store,
    _: AccountId,
    _: &Settings,
    report: &mut RoundReport,
) -> Result<StepResult, Error> {
    let step = store.reclaim_segments()?;
    report.moved_messages += step.moved;
    report.reclaimed_bytes += step.deleted_bytes;
    Ok(step_result(step.moved > 0, step.has_more))
}
