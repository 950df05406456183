//! Checks at the start that the queue is complete, before anything is sent.
//!
//! - Each account must have as many actions as its row says. All accounts together must have as
//!   many rows of wake-ups (`outbox_due`) as actions that are neither held nor failed. Accounts
//!   under repair are left out.
//! - If there are actions, the queue's mark must exist, and its epoch must be that of the store.
//!   The epochs differ after a backup was restored: then the actions may have been sent since the
//!   backup was made.
//! - If one of these does not hold, or a row is damaged, the queue is held: nothing is sent until
//!   `restante queue accept-loss`.

use crate::model::{AccountId, Action};
use crate::outbox::HELD;
use crate::store::{Error, QueueMark, Store};

const ACTIONS_PER_COMMIT: usize = 256;

/// Checks the queue and stores the result in its mark. If the queue is held, sets the status of the
/// waiting submissions to say so.
///
/// # Errors
/// If the store cannot be read or written. Then nothing may be sent.
pub(super) async fn audit(store: &Store) -> Result<(), Error> {
    let cloned = store.clone();
    let checked = tokio::task::spawn_blocking(move || find_new_mark(&cloned)).await;
    let mark = checked.map_err(|error| Error::Io(error.to_string()))??;
    if let Some(mark) = mark {
        if let Some(why) = &mark.held {
            tracing::error!(
                why,
                "nothing is sent: the queue is not what it should be. \
                 `restante queue accept-loss` makes it go on"
            );
        }
        let ((), ticket) = store.commit(AccountId::SITE, |txn| {
            txn.mark_queue(&mark);
            Ok(())
        })?;
        ticket.wait().await?;
    }
    let cloned = store.clone();
    let notified = tokio::task::spawn_blocking(move || notify_held_submissions(&cloned)).await;
    notified.map_err(|error| Error::Io(error.to_string()))?
}

/// If the queue is held, has the waiting submissions of all accounts say so. Passes over accounts
/// for which that fails, unless the store takes no writes at all.
fn notify_held_submissions(store: &Store) -> Result<(), Error> {
    let mark = store.snapshot().queue_mark()?;
    if mark.is_none_or(|mark| mark.held.is_none()) {
        return Ok(());
    }
    for account in store.snapshot().account_ids()? {
        if let Err(error) = notify_account(store, account) {
            store.health()?;
            tracing::warn!(
                %account,
                %error,
                "the submissions of an account cannot be marked as held"
            );
        }
    }
    Ok(())
}

fn notify_account(store: &Store, account: AccountId) -> Result<(), Error> {
    let mut last = None;
    loop {
        let page = store.snapshot().actions(account, last, ACTIONS_PER_COMMIT)?;
        last = page.last().map(|action| action.id);
        let is_unmarked = |action: &&Action| {
            action.submission.is_some()
                && action.state.is_open()
                && action.last_error.as_deref() != Some(HELD)
        };
        let unmarked: Vec<&Action> = page.iter().filter(is_unmarked).collect();
        if !unmarked.is_empty() {
            let ((), ticket) = store.commit(account, |txn| {
                unmarked.iter().try_for_each(|action| {
                    let marked = Action { last_error: Some(HELD.into()), ..(*action).clone() };
                    match txn.update_action(action, &marked) {
                        // A person changed or removed it meanwhile.
                        Err(Error::NotFound(_) | Error::Conflict(_)) => Ok(()),
                        done => done,
                    }
                })
            })?;
            ticket.wait_blocking()?;
        }
        if page.len() < ACTIONS_PER_COMMIT {
            return Ok(());
        }
    }
}

/// Checks the queue and returns its new mark; `None` if the mark stays as it is. Fails only if the
/// disk cannot be read, or the old mark or the marks of repairs cannot.
fn find_new_mark(store: &Store) -> Result<Option<QueueMark>, Error> {
    let snapshot = store.snapshot();
    let repaired: Vec<AccountId> =
        store.accounts_under_repair()?.into_iter().map(|(account, _)| account).collect();
    let audit = match snapshot.audit_queue(&repaired) {
        Ok(audit) => audit,
        Err(error @ Error::Io(_)) => return Err(error),
        // A queue that cannot be read is held, and counts as not empty below.
        Err(error) => crate::store::QueueAudit { problems: vec![error.to_string()], actions: 1 },
    };
    let epoch = store.epoch();
    let old_mark = snapshot.queue_mark()?;
    let mut problems = audit.problems;
    match &old_mark {
        Some(mark) if mark.epoch != epoch && audit.actions > 0 => problems.push(format!(
            "the store was restored from a backup: its {} actions may have been sent since that \
                 was made",
            audit.actions
        )),
        None if audit.actions > 0 => problems.push("the queue's own mark is lost".into()),
        _ => {}
    }
    let held = old_mark.as_ref().and_then(|mark| mark.held.clone());
    let mark = match (problems.is_empty(), held) {
        // A held queue stays held until an administrator accepts the loss.
        (true, Some(_)) => return Ok(None),
        (true, None) => QueueMark { epoch, held: None },
        // The mark keeps its old epoch: if it is not that of the store, `accept-loss` takes the
        // store for restored, and drops replies. In place of a lost mark, 0 has the same effect.
        (false, _) => {
            let epoch = old_mark.as_ref().map_or(0, |mark| mark.epoch);
            QueueMark { epoch, held: Some(problems.join("; ")) }
        }
    };
    Ok((old_mark.as_ref() != Some(&mark)).then_some(mark))
}
