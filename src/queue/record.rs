//! Records the result of an attempt in one commit: the next state of the action, what becomes of
//! its dependants (the actions whose `Action::after` it is), and a report to the sender.

use super::attempt::{AttemptContext, AttemptResult, lanes, nothing_learned};
use crate::model::{AccountId, Action, ActionState, RecipientState};
use crate::outbox::{ActionStep, NOT_SENT, NewAction, NextStep, Reporter, dsn};
use crate::store::Error;
use crate::trace::metrics;

impl AttemptContext {
    /// Records the next step of an action. `stored` is its row as this attempt last read or wrote
    /// it. `action` is the action as the attempt left it in memory, with its recipients in another
    /// order or with another error. `message` is for the report to the sender.
    ///
    /// Returns `Unrecorded` if the commit failed, and otherwise `nothing_learned()`, a `Recorded`
    /// that says nothing of the relay and the domains. If somebody else changed the action
    /// meanwhile, nothing is recorded, and that is no failure: `order` then only forgets an action
    /// that is gone.
    pub(super) async fn record_next_step(
        &self,
        account: AccountId,
        (stored, action): (&Action, &Action),
        next: NextStep,
        message: &[u8],
    ) -> AttemptResult {
        let report = self.compose_report(account, action, &next, message);
        let committed = self.store.commit(account, |txn| {
            txn.assert_action(stored)?;
            let dropped_dependants = match &next.step {
                ActionStep::Done => txn.complete_action(action.id).map(|_| Vec::new())?,
                // The first of the removed actions is this action itself.
                ActionStep::Dropped => txn.remove_unsent_action(action.id)?.split_off(1),
                ActionStep::Again(again) => {
                    txn.update_action(stored, again).map(|()| Vec::new())?
                }
                ActionStep::Kept(kept) => {
                    txn.update_action(stored, kept)?;
                    if kept.state == ActionState::Failed {
                        txn.drop_dependants(action.id)?
                    } else {
                        txn.release_dependants(action.id)?;
                        Vec::new()
                    }
                }
            };
            // The log of decisions says of a message whose reply was dropped that it got none.
            for dependant in &dropped_dependants {
                txn.take_back_answer(dependant, NOT_SENT, "what it depends on was not sent")?;
            }
            if let Some(unsent) = &next.unsent {
                txn.take_back_answer(action, unsent.reason, &unsent.detail)?;
                if let Some(told_key) = action.told.filter(|_| unsent.forget_told) {
                    txn.remove_told(&told_key)?;
                }
            }
            if let Some(NewAction { action, bytes }) = &report {
                txn.queue_action(action.clone(), bytes)?;
            }
            Ok(())
        });
        let recorded = match committed {
            Ok(((), ticket)) => {
                log_next_step(account, action, &next);
                ticket.wait().await
            }
            Err(error @ (Error::NotFound(_) | Error::Conflict(_))) => {
                tracing::info!(
                    %account,
                    action = %action.id,
                    %error,
                    "what came of an attempt is not recorded"
                );
                if matches!(error, Error::NotFound(_)) {
                    self.order.lock().forget((account, action.id));
                }
                return nothing_learned();
            }
            Err(error) => Err(error),
        };
        if let Err(error) = recorded {
            tracing::error!(
                %account,
                action = %action.id,
                %error,
                "what came of an action could not be recorded"
            );
            return AttemptResult::Unrecorded;
        }
        let mut order = self.order.lock();
        match &next.step {
            ActionStep::Again(again) if again.due > self.store.clock().now() => {
                order.postpone((account, action.id), lanes(account, again), again.due);
            }
            _ => order.forget((account, action.id)),
        }
        nothing_learned()
    }

    /// Holds an action whose message cannot be read, so that it is not dropped silently. If
    /// somebody else changed the action meanwhile, does nothing.
    pub(super) async fn hold_unreadable(
        &self,
        account: AccountId,
        action: &Action,
        error: &Error,
    ) -> AttemptResult {
        tracing::error!(
            %account,
            action = %action.id,
            %error,
            "what an action sends cannot be read: it is held"
        );
        let held = Action {
            state: ActionState::Held,
            last_error: Some(error.to_string()),
            ..action.clone()
        };
        let committed = self.store.commit(account, |txn| txn.update_action(action, &held));
        match committed {
            Ok(((), ticket)) => {
                ticket.wait().await.map_or(AttemptResult::Unrecorded, |()| nothing_learned())
            }
            // The action was changed meanwhile: it is read again.
            Err(Error::NotFound(_) | Error::Conflict(_)) => nothing_learned(),
            Err(_) => AttemptResult::Unrecorded,
        }
    }

    /// Composes the report to the sender about the recipients that `next` gives up; `None` if there
    /// are none, or if `dsn::compose_failed` makes no report. Its Message-ID follows from the
    /// action and the number of its attempts, so that a repeated report has the same one.
    fn compose_report(
        &self,
        account: AccountId,
        action: &Action,
        next: &NextStep,
        message: &[u8],
    ) -> Option<NewAction> {
        if next.failed.is_empty() {
            return None;
        }
        let hostname = &self.settings.relay.hostname;
        let (epoch, account, id) = (self.store.epoch(), account.0, action.id.0);
        let message_id = format!("f.{epoch:x}.{account:x}.{id:x}.{:x}@{hostname}", action.attempts);
        let reporter =
            Reporter { hostname, message_id: &message_id, now: self.store.clock().now() };
        dsn::compose_failed(action, &next.failed, message, &reporter)
    }
}

fn log_next_step(account: AccountId, action: &Action, next: &NextStep) {
    let (id, kind, to) = (action.id, action.kind.name(), action.recipient_summary());
    for target in &next.failed {
        if let RecipientState::Failed { text, .. } = &target.state {
            let recipient = &target.address;
            tracing::warn!(
                %account,
                action = %id,
                kind,
                %recipient,
                why = text,
                "given up"
            );
        }
    }
    let result = match (&next.step, &next.note) {
        (ActionStep::Again(_), _) => "again",
        // The note of an action that is over says that it may have been sent.
        (_, Some(_)) => "unknown",
        (ActionStep::Dropped, None) => "failed",
        (ActionStep::Kept(kept), None) if kept.state == ActionState::Failed => "failed",
        (ActionStep::Done | ActionStep::Kept(_), None) => "sent",
    };
    metrics::count_attempt(kind, result);
    match (&next.step, &next.note) {
        (ActionStep::Again(again), note) => {
            let (error, due) = (again.last_error.as_deref(), again.due);
            tracing::info!(%account, action = %id, kind, to, error, note, %due, "again");
        }
        (_, Some(note)) => tracing::warn!(%account, action = %id, kind, to, note, "done"),
        (ActionStep::Done | ActionStep::Kept(_), None)
            if result == "sent" && next.failed.is_empty() && action.state.is_open() =>
        {
            tracing::info!(%account, action = %id, kind, to, "sent");
        }
        // The failed recipients are logged above. An action that is not open was sent before, and
        // is only removed now.
        _ => {}
    }
}
