//! The steps: each one commit, bounded.

use std::time::Duration;

use super::{RoundReport, Settings, StepResult, Task, fold};
use crate::model::AccountId;
use crate::store::{Error, Store, Txn};

/// Of each account, in this order.
pub(super) const OF_ACCOUNT: &[Task] =
    &[search, emails, history, mailboxes, lists, begun_lists, deeds, told, thread_refs, uploads, objects, shares];
/// Of an account in which somebody waits for it.
pub(super) const OF_HURRY: &[Task] = &[search, begun_lists];
/// Of the site.
pub(super) const OF_SITE: &[Task] = &[messages, all_messages];

/// Emails of a step; each has some eight rows.
const EMAILS_PER_STEP: usize = 16;
/// Rows of a step.
const ROWS_PER_STEP: usize = 96;
/// Mailboxes of a step: their names are proved anew.
const MAILBOXES_PER_STEP: usize = 16;
/// Messages of a step: they are read.
const MESSAGES_PER_STEP: usize = 64;
/// An account that changes is noted so often: history goes so much later than it might.
const NOTED_EVERY: Duration = Duration::from_secs(24 * 3600);
/// A round over all references to threads begins so often.
const THREAD_REFS_EVERY: Duration = Duration::from_secs(7 * 24 * 3600);
/// A round over all messages begins so often: it reads them all.
const MESSAGES_EVERY: Duration = Duration::from_secs(30 * 24 * 3600);

/// One commit; nothing where the account is gone by now.
fn commit<T: Default>(
    store: &Store,
    account: AccountId,
    change: impl FnOnce(&mut Txn<'_>) -> Result<T, Error>,
) -> Result<T, Error> {
    let (value, ticket) = store.commit(account, |txn| {
        let there = account == AccountId::SITE || txn.view().account(account)?.is_some();
        if there { change(txn) } else { Ok(T::default()) }
    })?;
    ticket.wait_blocking()?;
    Ok(value)
}

fn worked(some: bool, left: bool) -> StepResult {
    if some || left { StepResult::Worked { left } } else { StepResult::Idle }
}

/// Also of an account that is gone by now: it has nothing to fold.
fn search(store: &Store, account: AccountId, _: &Settings, _: &mut RoundReport) -> Result<StepResult, Error> {
    Ok(worked(false, fold::step(store, account)?))
}

fn emails(
    store: &Store,
    account: AccountId,
    settings: &Settings,
    report: &mut RoundReport,
) -> Result<StepResult, Error> {
    let done = commit(store, account, |txn| txn.purge_emails(txn.now().before(settings.restore), EMAILS_PER_STEP))?;
    report.emails += done.emails;
    report.threads += done.threads;
    Ok(worked(done.emails > 0, done.left))
}

fn history(store: &Store, account: AccountId, settings: &Settings, _: &mut RoundReport) -> Result<StepResult, Error> {
    let (noted, left) = commit(store, account, |txn| {
        Ok((txn.note_history(NOTED_EVERY)?, txn.purge_history(txn.now().before(settings.history), ROWS_PER_STEP)?))
    })?;
    Ok(worked(noted, left))
}

fn mailboxes(store: &Store, account: AccountId, _: &Settings, _: &mut RoundReport) -> Result<StepResult, Error> {
    Ok(worked(false, commit(store, account, |txn| txn.clear_mailboxes(ROWS_PER_STEP))?))
}

/// Lists that nobody asked for in their time, one after another.
fn lists(
    store: &Store,
    account: AccountId,
    settings: &Settings,
    report: &mut RoundReport,
) -> Result<StepResult, Error> {
    let (dropped, left) = commit(store, account, |txn| {
        let stale = txn.stale_views(txn.now().before(settings.lists))?;
        let Some((uid, view)) = stale.first() else { return Ok((false, false)) };
        let left = txn.drop_view(*uid, *view, ROWS_PER_STEP)?;
        Ok((!left, left || stale.len() > 1))
    })?;
    report.lists += usize::from(dropped);
    Ok(worked(dropped, left))
}

/// Lists that somebody asked for and that were begun, one after another.
fn begun_lists(store: &Store, account: AccountId, _: &Settings, report: &mut RoundReport) -> Result<StepResult, Error> {
    let (whole, left) = commit(store, account, |txn| {
        let begun = txn.begun_views()?;
        let Some((uid, view)) = begun.first() else { return Ok((false, false)) };
        let whole = txn.keep(*uid, *view, ROWS_PER_STEP)?;
        Ok((whole, !whole || begun.len() > 1))
    })?;
    report.made += usize::from(whole);
    Ok(worked(whole, left))
}

fn deeds(store: &Store, account: AccountId, _: &Settings, _: &mut RoundReport) -> Result<StepResult, Error> {
    Ok(worked(false, commit(store, account, |txn| txn.expire_deeds(ROWS_PER_STEP))?))
}

fn told(store: &Store, account: AccountId, settings: &Settings, _: &mut RoundReport) -> Result<StepResult, Error> {
    Ok(worked(false, commit(store, account, |txn| txn.expire_told(txn.now().before(settings.told), ROWS_PER_STEP))?))
}

fn thread_refs(
    store: &Store,
    account: AccountId,
    settings: &Settings,
    report: &mut RoundReport,
) -> Result<StepResult, Error> {
    let (gone, left) = commit(store, account, |txn| {
        txn.sweep_thread_refs(txn.now().before(settings.threads), THREAD_REFS_EVERY, ROWS_PER_STEP)
    })?;
    report.thread_refs += gone;
    Ok(worked(gone > 0, left))
}

fn uploads(store: &Store, account: AccountId, settings: &Settings, _: &mut RoundReport) -> Result<StepResult, Error> {
    Ok(worked(
        false,
        commit(store, account, |txn| txn.expire_uploads(txn.now().before(settings.uploads), ROWS_PER_STEP))?,
    ))
}

fn objects(store: &Store, account: AccountId, settings: &Settings, _: &mut RoundReport) -> Result<StepResult, Error> {
    Ok(worked(
        false,
        commit(store, account, |txn| txn.expire_objects(txn.now().before(settings.submissions), ROWS_PER_STEP))?,
    ))
}

fn shares(store: &Store, account: AccountId, _: &Settings, _: &mut RoundReport) -> Result<StepResult, Error> {
    Ok(worked(false, commit(store, account, |txn| txn.unshare_gone(MAILBOXES_PER_STEP))?))
}

/// A message that was put meanwhile undoes the step: it is tried again with the next round.
fn messages(
    store: &Store,
    site: AccountId,
    settings: &Settings,
    report: &mut RoundReport,
) -> Result<StepResult, Error> {
    let done =
        match commit(store, site, |txn| txn.collect_blobs(txn.now().before(settings.messages), MESSAGES_PER_STEP)) {
            Err(Error::Conflict(_)) => return Ok(StepResult::Idle),
            done => done?,
        };
    report.messages += done.blobs;
    report.octets += done.octets;
    Ok(worked(done.blobs > 0, done.left))
}

fn all_messages(store: &Store, site: AccountId, _: &Settings, _: &mut RoundReport) -> Result<StepResult, Error> {
    Ok(worked(false, commit(store, site, |txn| txn.sweep_blobs(MESSAGES_EVERY, MESSAGES_PER_STEP))?))
}
