//! The vendor methods that list, show and change queued actions, and that accept a damaged or
//! restored queue. The texts for people call an action a message.

use super::mail::charge_message;
use super::{AdminMethod, charge_row};
use crate::jmap::context::Context;
use crate::jmap::method::Call;
use crate::model::address::fold_domain;
use crate::model::{
    AccountId, Action, ActionId, ActionKind, ActionState, RecipientState, Target, UtcMillis, limits,
};
use crate::outbox::{HELD, NOT_SENT, by_hand};
use crate::store::{Error, QueueMark, Txn};
use crate::wire::jmap::admin::queue::{
    QueueAcceptLoss, QueueAcceptLossAnswer, QueueChangeAnswer, QueueChangeArguments, QueueHold,
    QueueList, QueueListAnswer, QueueListArguments, QueueRelease, QueueRemove, QueueRetry,
    QueueSelection, QueueShow, QueueShowAnswer, QueueShowArguments, QueueTarget, QueuedAction,
    QueuedRecipient, RelayOutage,
};
use crate::wire::jmap::admin::{AccountRef, EmptyArguments, OfAccount};
use crate::wire::jmap::{MethodError, With, to_base64};

/// The most actions that are read at once, and changed in one commit.
const ACTIONS_PER_BATCH: usize = 256;

/// A condition on actions: every field that is set must hold.
struct QueueFilter {
    kind: Option<ActionKind>,
    state: Option<ActionState>,
    /// If set, at least one recipient has this domain, in the form of `fold_domain`.
    domain: Option<String>,
    /// If set, the action was queued at this time or before.
    until: Option<UtcMillis>,
}

impl QueueFilter {
    fn read(selection: &QueueSelection) -> Result<Self, MethodError> {
        let invalid = |what: String| MethodError::InvalidArguments(what);
        let kind = selection.kind.as_ref().map(|name| {
            let found = ActionKind::ALL.into_iter().find(|kind| kind.name() == name);
            found.ok_or_else(|| invalid(format!("kind: there is no \"{name}\"")))
        });
        let state = selection.state.as_ref().map(|name| {
            let found = ActionState::ALL.into_iter().find(|state| state.name() == name);
            found.ok_or_else(|| invalid(format!("state: there is no \"{name}\"")))
        });
        let until = selection.queued_before.as_ref().map(|at| {
            UtcMillis::parse_rfc3339(at)
                .ok_or_else(|| invalid("queuedBefore: a UTCDate is expected".into()))
        });
        Ok(Self {
            kind: kind.transpose()?,
            state: state.transpose()?,
            domain: selection.domain.as_deref().map(fold_domain),
            until: until.transpose()?,
        })
    }

    fn matches(&self, action: &Action) -> bool {
        let to = |domain: &String| {
            action.recipients.iter().any(|target| fold_domain(target.address.domain()) == *domain)
        };
        self.kind.is_none_or(|kind| kind == action.kind)
            && self.state.is_none_or(|state| state == action.state)
            && self.until.is_none_or(|until| action.created <= until)
            && self.domain.as_ref().is_none_or(to)
    }
}

/// Returns the named account. Without a name, requires an administrator and returns all accounts.
fn accounts(
    context: &Context,
    account_ref: &AccountRef,
) -> Result<Vec<(AccountId, String)>, MethodError> {
    if account_ref.is_named() {
        let (id, row) = context.account_of(account_ref)?;
        return Ok(vec![(id, row.name)]);
    }
    context.require_admin()?;
    let all = context.directory.list()?;
    Ok(all.into_iter().map(|(id, row, _)| (id, row.name)).collect())
}

/// Passes the actions that match a filter to `each`, in batches that are each read from a new
/// snapshot. `each` never gets an empty batch, and returns whether to go on.
fn walk(
    context: &Context,
    account: AccountId,
    filter: &QueueFilter,
    mut each: impl FnMut(Vec<Action>) -> Result<bool, MethodError>,
) -> Result<(), MethodError> {
    let mut after = None;
    loop {
        let page = context.store.snapshot().actions(account, after, ACTIONS_PER_BATCH)?;
        let (count, last) = (page.len(), page.last().map(|action| action.id));
        let matching: Vec<Action> =
            page.into_iter().filter(|action| filter.matches(action)).collect();
        if (!matching.is_empty() && !each(matching)?) || count < ACTIONS_PER_BATCH {
            return Ok(());
        }
        after = last;
    }
}

impl AdminMethod for QueueList {
    fn call(
        &Call { context, .. }: &Call<'_>,
        With(account_ref, With(selection, QueueListArguments { limit })): Self::Args,
    ) -> Result<QueueListAnswer, MethodError> {
        let filter = QueueFilter::read(&selection)?;
        let limit = limit.and_then(|limit| usize::try_from(limit).ok());
        let limit = limit.unwrap_or(limits::MAX_LISTED_ROWS).min(limits::MAX_LISTED_ROWS);
        let mut list = Vec::new();
        let mut more = false;
        for (id, name) in accounts(context, &account_ref)? {
            walk(context, id, &filter, |actions| {
                for action in actions {
                    more |= list.len() >= limit;
                    if more {
                        return Ok(false);
                    }
                    list.push(charge_row(context, describe(id, &name, &action))?);
                }
                Ok(true)
            })?;
            if more {
                break;
            }
        }
        Ok(QueueListAnswer {
            list,
            more,
            held: hold_reason(context)?,
            relay: relay_outage(context),
        })
    }
}

/// Returns why the whole queue is held, if it is.
pub(super) fn hold_reason(context: &Context) -> Result<Option<String>, MethodError> {
    Ok(context.store.snapshot().queue_mark()?.and_then(|mark| mark.held))
}

/// Returns the outage of the relay; `None` if there is none.
pub(super) fn relay_outage(context: &Context) -> Option<RelayOutage> {
    let (current, clock) = (context.relay.get(), context.store.clock());
    let trouble = current.as_ref().as_ref()?;
    // The time of the next try is kept on the monotonic clock, and clients get a date.
    let until = clock.now().after(trouble.until.since(clock.steady()));
    Some(RelayOutage { error: trouble.error.clone(), until: until.rfc3339() })
}

fn describe(account: AccountId, name: &str, action: &Action) -> QueuedAction {
    let due = matches!(action.state, ActionState::Waiting | ActionState::Attempting)
        .then_some(action.due);
    let expires = action.state.is_open().then_some(action.expires);
    // Of an action that was sent, `due` is the time at which it is removed.
    let kept_until = (action.state == ActionState::Sent).then_some(action.due);
    QueuedAction {
        id: action.id.to_string(),
        account_id: account.to_string(),
        account: name.to_owned(),
        kind: action.kind.name().to_owned(),
        state: action.state.name().to_owned(),
        urgent: action.urgent,
        sender: action.sender.as_ref().map(ToString::to_string),
        recipient: action.recipient_summary(),
        recipients: action.recipients.iter().map(recipient).collect(),
        created: action.created.rfc3339(),
        due: due.map(UtcMillis::rfc3339),
        expires: expires.map(UtcMillis::rfc3339),
        kept_until: kept_until.map(UtcMillis::rfc3339),
        attempts: action.attempts,
        last_error: action.last_error.clone(),
        message_id: action.message_id.clone(),
        email_id: action.email.map(|id| id.to_string()),
        after: action.after.map(|id| id.to_string()),
    }
}

fn recipient(target: &Target) -> QueuedRecipient {
    let (state, reply) = match &target.state {
        RecipientState::Waiting => ("waiting", None),
        RecipientState::Sent(text) => ("sent", Some(text)),
        RecipientState::Failed { text, .. } => ("failed", Some(text)),
    };
    QueuedRecipient {
        address: target.address.to_string(),
        state: state.to_owned(),
        reply: reply.cloned(),
    }
}

fn read_id(text: &str) -> Result<ActionId, MethodError> {
    text.parse().map_err(|_| no_message(text))
}

fn no_message(id: &str) -> MethodError {
    MethodError::NotFound(format!("there is no message {id} in the queue"))
}

impl AdminMethod for QueueShow {
    fn call(
        &Call { context, .. }: &Call<'_>,
        With(account_ref, args): OfAccount<QueueShowArguments>,
    ) -> Result<QueueShowAnswer, MethodError> {
        let (account, row) = context.account_of(&account_ref)?;
        let id = read_id(&args.id)?;
        let snapshot = context.store.snapshot();
        let action = snapshot.action(account, id)?.ok_or_else(|| no_message(&args.id))?;
        // A sent action has lost its message (`Txn::update_action`).
        let message = if args.with_message && action.state != ActionState::Sent {
            charge_message(context, snapshot.action_size(&action)?)?;
            Some(to_base64(&snapshot.action_message(account, &action)?))
        } else {
            None
        };
        Ok(QueueShowAnswer { action: describe(account, &row.name, &action), message })
    }
}

impl AdminMethod for QueueRetry {
    fn call(
        &Call { context, .. }: &Call<'_>,
        args: QueueChangeArguments,
    ) -> Result<QueueChangeAnswer, MethodError> {
        change(context, args, |txn, action| {
            update(txn, action, by_hand::retry_action(action, txn.now()))
        })
    }
}

impl AdminMethod for QueueHold {
    fn call(
        &Call { context, .. }: &Call<'_>,
        args: QueueChangeArguments,
    ) -> Result<QueueChangeAnswer, MethodError> {
        change(context, args, |txn, action| {
            update(txn, action, by_hand::hold_action(action, txn.now()))
        })
    }
}

impl AdminMethod for QueueRelease {
    fn call(
        &Call { context, .. }: &Call<'_>,
        args: QueueChangeArguments,
    ) -> Result<QueueChangeAnswer, MethodError> {
        change(context, args, |txn, action| {
            update(txn, action, by_hand::release_action(action, txn.now()))
        })
    }
}

impl AdminMethod for QueueRemove {
    fn call(
        &Call { context, .. }: &Call<'_>,
        args: QueueChangeArguments,
    ) -> Result<QueueChangeAnswer, MethodError> {
        change(context, args, |txn, action| {
            // A message that is being sent may arrive, so the log must not say that it was not
            // sent.
            if action.state == ActionState::Attempting {
                return txn.remove_action(action.id).map(drop);
            }
            for removed in txn.remove_unsent_action(action.id)? {
                txn.take_back_answer(&removed, NOT_SENT, "removed by hand")?;
            }
            Ok(())
        })
    }
}

/// Stores what a function of `by_hand` returned. Its refusal becomes a `Conflict`.
fn update(
    txn: &mut Txn<'_>,
    read: &Action,
    changed: Result<Action, &'static str>,
) -> Result<(), Error> {
    txn.update_action(read, &changed.map_err(|why| Error::Conflict(why.into()))?)
}

/// Changes the action `id`, or with `all` every action of the selection. Actions that were being
/// sent are counted as `under_way`, too: their messages may have gone out.
///
/// # Errors
/// `InvalidArguments` unless there is either `id` without a selection, or `all`. Those of
/// `change_one` and `change_all`.
fn change(
    context: &Context,
    With(account_ref, With(selection, QueueTarget { id, all })): QueueChangeArguments,
    act: impl FnMut(&mut Txn<'_>, &Action) -> Result<(), Error>,
) -> Result<QueueChangeAnswer, MethodError> {
    let invalid = |what: &str| Err(MethodError::InvalidArguments(what.into()));
    match (id, all) {
        (Some(_), false) if selection != QueueSelection::default() => {
            invalid("kind, state, domain and queuedBefore select with all, not with id")
        }
        (Some(id), false) => change_one(context, &account_ref, &id, act),
        (None, true) => change_all(context, &account_ref, &selection, act),
        _ => invalid("either id or all is expected"),
    }
}

/// Changes the action with this id.
///
/// # Errors
/// `NotFound`; `Conflict` if the action cannot be changed.
fn change_one(
    context: &Context,
    account_ref: &AccountRef,
    text: &str,
    mut act: impl FnMut(&mut Txn<'_>, &Action) -> Result<(), Error>,
) -> Result<QueueChangeAnswer, MethodError> {
    let (account, _) = context.account_of(account_ref)?;
    let id = read_id(text)?;
    let done = context.store.commit(account, |txn| {
        let action = txn.action(id)?;
        act(txn, &action)?;
        Ok(u64::from(action.state == ActionState::Attempting))
    });
    if matches!(done, Err(Error::NotFound("action"))) {
        return Err(no_message(text));
    }
    let under_way = durable(done)?;
    Ok(QueueChangeAnswer { changed: 1, unchanged: 0, under_way })
}

/// Changes every action of the selection. One that cannot be changed is no error, but counted as
/// `unchanged`.
fn change_all(
    context: &Context,
    account_ref: &AccountRef,
    selection: &QueueSelection,
    mut act: impl FnMut(&mut Txn<'_>, &Action) -> Result<(), Error>,
) -> Result<QueueChangeAnswer, MethodError> {
    let filter = QueueFilter::read(selection)?;
    let mut sum = QueueChangeAnswer { changed: 0, unchanged: 0, under_way: 0 };
    for (account, _) in accounts(context, account_ref)? {
        walk(context, account, &filter, |actions| {
            let done = context.store.commit(account, |txn| {
                let mut counts = QueueChangeAnswer { changed: 0, unchanged: 0, under_way: 0 };
                for listed in &actions {
                    // The action may have been removed since it was read, or with an earlier one.
                    let action = match txn.action(listed.id) {
                        Err(Error::NotFound(_)) => continue,
                        action => action?,
                    };
                    counts.under_way += u64::from(action.state == ActionState::Attempting);
                    match act(txn, &action) {
                        Ok(()) => counts.changed += 1,
                        Err(Error::Conflict(_)) => counts.unchanged += 1,
                        Err(error) => return Err(error),
                    }
                }
                Ok(counts)
            });
            let counts = durable(done)?;
            sum.changed += counts.changed;
            sum.unchanged += counts.unchanged;
            sum.under_way += counts.under_way;
            Ok(true)
        })?;
    }
    Ok(sum)
}

impl AdminMethod for QueueAcceptLoss {
    const ADMIN_ONLY: bool = true;

    fn call(
        &Call { context, .. }: &Call<'_>,
        _: EmptyArguments,
    ) -> Result<QueueAcceptLossAnswer, MethodError> {
        accept_loss(context)
    }
}

/// Accepts a damaged or restored queue as it is, and lets sending go on. If the store was restored,
/// drops the replies, which may have been sent since the backup, and the actions that depend on
/// them.
///
/// # Errors
/// `Conflict` if the queue is not held; those of the store.
fn accept_loss(context: &Context) -> Result<QueueAcceptLossAnswer, MethodError> {
    let epoch = context.store.epoch();
    let mark = context.store.snapshot().queue_mark()?;
    let Some(QueueMark { epoch: queue_epoch, held: Some(reason) }) = mark else {
        return Err(MethodError::Conflict(
            "the queue is not held: there is no loss to accept".into(),
        ));
    };
    // A restore draws a new epoch for the store.
    let restored = queue_epoch != epoch;
    let (mut dropped, mut kept) = (0u64, 0u64);
    let all_actions = QueueFilter { kind: None, state: None, domain: None, until: None };
    for account in context.store.snapshot().account_ids()? {
        walk(context, account, &all_actions, |actions| {
            let done = context.store.commit(account, |txn| {
                let (mut dropped, mut kept) = (0u64, 0u64);
                for listed in &actions {
                    let action = match txn.action(listed.id) {
                        Err(Error::NotFound(_)) => continue,
                        action => action?,
                    };
                    if restored && action.kind == ActionKind::Reply {
                        for removed in txn.remove_action(action.id)? {
                            txn.take_back_answer(
                                &removed,
                                NOT_SENT,
                                "it may have been sent before the store was restored",
                            )?;
                            dropped += 1;
                        }
                    } else {
                        // Writes the row again that says when the action is due (its wake-up), and
                        // drops the last error if it only says that the queue is held.
                        let is_other_error = action.last_error.as_deref() != Some(HELD);
                        let last_error = action.last_error.clone().filter(|_| is_other_error);
                        txn.update_action(&action, &Action { last_error, ..action.clone() })?;
                        kept += 1;
                    }
                }
                Ok((dropped, kept))
            });
            let counts = durable(done)?;
            dropped += counts.0;
            kept += counts.1;
            Ok(true)
        })?;
        durable(context.store.commit(account, |txn| txn.recount_actions().map(drop)))?;
    }
    durable(context.store.commit(AccountId::SITE, |txn| {
        txn.mark_queue(&QueueMark { epoch, held: None });
        Ok(())
    }))?;
    tracing::warn!(why = reason, dropped, kept, "the queue was accepted as it is: sending goes on");
    Ok(QueueAcceptLossAnswer { accepted: reason, dropped, kept })
}

/// Waits until a commit is durable, and returns its result.
fn durable<T>(done: Result<(T, crate::store::Ticket), Error>) -> Result<T, MethodError> {
    let (value, ticket) = done?;
    ticket.wait_blocking()?;
    Ok(value)
}
