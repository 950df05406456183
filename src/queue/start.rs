//! Whether the queue is what the store says that it should be, before anything is sent.
//!
//! Two things are looked at: that each account has as many actions as its row says, all of them
//! woken; and that the store is of the line of history in which its queue was last worked on. A
//! store that was restored from a backup is not: what it would send was perhaps sent since.
//! Whatever is wrong is said aloud, also by every submission that waits, and nothing is sent until
//! an administrator accepts it (`restante queue accept-loss`).

use crate::model::{AccountId, Action};
use crate::outbox::HELD;
use crate::store::{Error, QueueMark, Store};

/// Actions of one look, and of one commit.
const ACTIONS_PER_COMMIT: usize = 256;

/// Looks, and says in the store why nothing may be sent, if so.
pub(super) async fn audit(store: &Store) -> Result<(), Error> {
    let own = store.clone();
    let found = tokio::task::spawn_blocking(move || find_new_mark(&own)).await;
    let mark = found.map_err(|error| Error::Io(error.to_string()))??;
    if let Some(mark) = mark {
        if let Some(why) = &mark.held {
            tracing::error!(
                why,
                "nothing is sent: the queue is not what it should be. `restante queue accept-loss` goes on"
            );
        }
        let ((), ticket) = store.commit(AccountId::SITE, |txn| {
            txn.mark_queue(&mark);
            Ok(())
        })?;
        ticket.wait().await?;
    }
    let own = store.clone();
    let done = tokio::task::spawn_blocking(move || notify_held_submissions(&own)).await;
    done.map_err(|error| Error::Io(error.to_string()))?
}

/// While the queue is held, every submission that waits says so to its owner.
fn notify_held_submissions(store: &Store) -> Result<(), Error> {
    let mark = store.snapshot().queue_mark()?;
    if mark.is_none_or(|mark| mark.held.is_none()) {
        return Ok(());
    }
    for account in store.snapshot().account_ids()? {
        if let Err(error) = notify_account(store, account) {
            store.health()?;
            tracing::warn!(%account, %error, "the owner of an account cannot be told that the queue is held");
        }
    }
    Ok(())
}

fn notify_account(store: &Store, account: AccountId) -> Result<(), Error> {
    let mut behind = None;
    loop {
        let page = store.snapshot().actions(account, behind, ACTIONS_PER_COMMIT)?;
        behind = page.last().map(|action| action.id);
        let is_silent = |action: &&Action| {
            action.submission.is_some()
                && action.state.is_open()
                && action.last_error.as_deref() != Some(HELD)
        };
        let silent: Vec<&Action> = page.iter().filter(is_silent).collect();
        if !silent.is_empty() {
            let ((), ticket) = store.commit(account, |txn| {
                silent.iter().try_for_each(|action| {
                    let told = Action { last_error: Some(HELD.into()), ..(*action).clone() };
                    match txn.update_action(action, &told) {
                        // What was done with it since was done by hand.
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

/// What is to be said from now on, where it is not said already.
fn find_new_mark(store: &Store) -> Result<Option<QueueMark>, Error> {
    let snapshot = store.snapshot();
    let repaired: Vec<AccountId> =
        store.accounts_under_repair()?.into_iter().map(|(account, _)| account).collect();
    let audit = match snapshot.audit_queue(&repaired) {
        Ok(audit) => audit,
        Err(error @ Error::Io(_)) => return Err(error),
        // What cannot be read cannot be trusted.
        Err(error) => crate::store::QueueAudit { problems: vec![error.to_string()], actions: 1 },
    };
    let epoch = store.epoch();
    let known = snapshot.queue_mark()?;
    let mut wrong = audit.problems;
    match &known {
        Some(mark) if mark.epoch != epoch && audit.actions > 0 => wrong.push(format!(
            "the store was restored from a backup: its {} actions may have been sent since that was made",
            audit.actions
        )),
        None if audit.actions > 0 => wrong.push("the queue's own mark is lost".into()),
        _ => {}
    }
    let held = known.as_ref().and_then(|mark| mark.held.clone());
    let mark = match (wrong.is_empty(), held) {
        // What was held stays held, until it is accepted.
        (true, Some(_)) => return Ok(None),
        (true, None) => QueueMark { epoch, held: None },
        // The epoch stays what it was: that is how it is known later that replies are not to be
        // sent again.
        (false, _) => {
            let epoch = known.as_ref().map_or(0, |mark| mark.epoch);
            QueueMark { epoch, held: Some(wrong.join("; ")) }
        }
    };
    Ok((known.as_ref() != Some(&mark)).then_some(mark))
}
