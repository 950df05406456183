//! The queued actions: looked at, and done with by hand.

use serde_json::{Value, json};

use super::mail::charge;
use crate::jmap::context::{Args, Context, date};
use crate::model::address::fold_domain;
use crate::model::{AccountId, Action, ActionId, ActionKind, ActionState, RecipientState, Target, UtcMillis, limits};
use crate::outbox::{HELD, NOT_SENT, by_hand};
use crate::store::{Error, QueueMark, Txn};
use crate::wire::jmap::{MethodError, octets};

/// Actions of one commit, and of one look.
const ACTIONS_PER_COMMIT: usize = 256;

/// Which actions are meant.
struct QueueFilter {
    kind: Option<ActionKind>,
    state: Option<ActionState>,
    domain: Option<String>,
    /// Queued at this time or before.
    until: Option<UtcMillis>,
}

impl QueueFilter {
    fn of(arguments: &Args<'_>) -> Result<Self, MethodError> {
        let bad = |what: String| MethodError::InvalidArguments(what);
        let kind = arguments.maybe_text("kind")?.map(|name| {
            let found = ActionKind::ALL.into_iter().find(|kind| kind.name() == name);
            found.ok_or_else(|| bad(format!("kind: there is no \"{name}\"")))
        });
        let state = arguments.maybe_text("state")?.map(|name| {
            let found = ActionState::ALL.into_iter().find(|state| state.name() == name);
            found.ok_or_else(|| bad(format!("state: there is no \"{name}\"")))
        });
        let until = arguments
            .maybe_text("queuedBefore")?
            .map(|at| UtcMillis::parse_rfc3339(&at).ok_or_else(|| bad("queuedBefore: a UTCDate is wanted".into())));
        Ok(Self {
            kind: kind.transpose()?,
            state: state.transpose()?,
            domain: arguments.maybe_text("domain")?.map(|domain| fold_domain(&domain)),
            until: until.transpose()?,
        })
    }

    fn takes(&self, action: &Action) -> bool {
        let to =
            |domain: &String| action.recipients.iter().any(|target| fold_domain(target.address.domain()) == *domain);
        self.kind.is_none_or(|kind| kind == action.kind)
            && self.state.is_none_or(|state| state == action.state)
            && self.until.is_none_or(|until| action.created <= until)
            && self.domain.as_ref().is_none_or(to)
    }
}

/// The account that is named, or all of them for who may see them.
fn accounts(context: &Context, arguments: &Args<'_>) -> Result<Vec<(AccountId, String)>, MethodError> {
    if arguments.get("accountId").is_some() || arguments.get("account").is_some() {
        let (id, row) = context.account(arguments)?;
        return Ok(vec![(id, row.name)]);
    }
    context.admin_only()?;
    let all = context.directory.list()?;
    Ok(all.into_iter().map(|(id, row, _)| (id, row.name)).collect())
}

/// The actions that a filter takes, a step at a time; `each` says whether to go on.
fn walk(
    context: &Context,
    account: AccountId,
    filter: &QueueFilter,
    mut each: impl FnMut(Vec<Action>) -> Result<bool, MethodError>,
) -> Result<(), MethodError> {
    let mut behind = None;
    loop {
        let page = context.store.view().actions(account, behind, ACTIONS_PER_COMMIT)?;
        let (count, last) = (page.len(), page.last().map(|action| action.id));
        let taken: Vec<Action> = page.into_iter().filter(|action| filter.takes(action)).collect();
        if !taken.is_empty() && !each(taken)? || count < ACTIONS_PER_COMMIT {
            return Ok(());
        }
        behind = last;
    }
}

pub(super) fn list(context: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    let filter = QueueFilter::of(arguments)?;
    let limit = arguments.number("limit")?.and_then(|limit| usize::try_from(limit).ok());
    let limit = limit.unwrap_or(limits::LISTED).min(limits::LISTED);
    let mut list = Vec::new();
    let mut more = false;
    for (id, name) in accounts(context, arguments)? {
        walk(context, id, &filter, |actions| {
            for action in actions {
                more |= list.len() >= limit;
                if more {
                    return Ok(false);
                }
                let row = describe(id, &name, &action);
                context.budget.tell(&row)?;
                list.push(row);
            }
            Ok(true)
        })?;
        if more {
            break;
        }
    }
    Ok(json!({ "list": list, "more": more, "held": held(context)?, "relay": relay(context) }))
}

/// Why nothing is sent, if so: the queue is not what it should be.
pub(super) fn held(context: &Context) -> Result<Option<String>, MethodError> {
    Ok(context.store.view().queue_mark()?.and_then(|mark| mark.held))
}

/// What is the matter with the relay, if anything is, and when it is asked again.
pub(super) fn relay(context: &Context) -> Option<Value> {
    let (trouble, clock) = (context.relay.get(), context.store.clock());
    let trouble = trouble.as_ref().as_ref()?;
    let until = clock.now().after(trouble.until.since(clock.steady()));
    Some(json!({"error": trouble.error, "until": date(Some(until))}))
}

fn describe(account: AccountId, name: &str, action: &Action) -> Value {
    let due = matches!(action.state, ActionState::Waiting | ActionState::Attempting).then_some(action.due);
    json!({
        "id": action.id.to_string(), "accountId": account.to_string(), "account": name, "kind": action.kind.name(),
        "state": action.state.name(), "urgent": action.urgent,
        "sender": action.sender.as_ref().map(ToString::to_string), "recipient": action.to_line(),
        "recipients": action.recipients.iter().map(recipient).collect::<Vec<_>>(),
        "created": date(Some(action.created)), "due": date(due),
        "expires": date(action.state.is_open().then_some(action.expires)),
        "keptUntil": date((action.state == ActionState::Sent).then_some(action.due)),
        "attempts": action.attempts, "lastError": action.last_error, "messageId": action.message_id,
        "emailId": action.email.map(|id| id.to_string()), "after": action.after.map(|id| id.to_string()),
    })
}

fn recipient(target: &Target) -> Value {
    let (state, said) = match &target.fate {
        RecipientState::Waiting => ("waiting", None),
        RecipientState::Sent(text) => ("sent", Some(text)),
        RecipientState::Failed { text, .. } => ("failed", Some(text)),
    };
    json!({"address": target.address.to_string(), "state": state, "said": said})
}

fn one(arguments: &Args<'_>) -> Result<ActionId, MethodError> {
    arguments.text("id")?.parse().map_err(|_| MethodError::NotFound("no such action".into()))
}

pub(super) fn show(context: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    let (account, row) = context.account(arguments)?;
    let id = one(arguments)?;
    let view = context.store.view();
    let action = view.action(account, id)?;
    let action = action.ok_or_else(|| MethodError::NotFound("no such action".into()))?;
    let mut shown = describe(account, &row.name, &action);
    if arguments.flag("withMessage")?
        && action.state != ActionState::Sent
        && let Some(object) = shown.as_object_mut()
    {
        charge(context, view.action_size(&action)?)?;
        let message = view.action_message(account, &action)?;
        object.insert("message".into(), octets(&message).into());
    }
    Ok(shown)
}

pub(super) fn retry(context: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    change(context, arguments, |txn, action| put(txn, action, by_hand::retry_action(action, txn.now())))
}

pub(super) fn hold(context: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    change(context, arguments, |txn, action| put(txn, action, by_hand::hold_action(action, txn.now())))
}

pub(super) fn release(context: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    change(context, arguments, |txn, action| put(txn, action, by_hand::release_action(action, txn.now())))
}

pub(super) fn remove(context: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    change(context, arguments, |txn, action| {
        // What is under way may arrive: that it was not sent would be untrue.
        if action.state == ActionState::Attempting {
            return txn.remove_action(action.id).map(drop);
        }
        for gone in txn.remove_unsent_action(action.id)? {
            txn.take_back_answer(&gone, NOT_SENT, "removed by hand")?;
        }
        Ok(())
    })
}

fn put(txn: &mut Txn<'_>, read: &Action, changed: Result<Action, &'static str>) -> Result<(), Error> {
    txn.update_action(read, &changed.map_err(|why| Error::Conflict(why.into()))?)
}

/// Changes one action (`id`), or `all` that the filter takes: of those, what cannot be changed is left as it is. The answer
/// counts them, and those that were under way, which may have been sent already.
fn change(
    context: &Context,
    arguments: &Args<'_>,
    mut act: impl FnMut(&mut Txn<'_>, &Action) -> Result<(), Error>,
) -> Result<Value, MethodError> {
    if !arguments.flag("all")? {
        let (account, _) = context.account(arguments)?;
        let id = one(arguments)?;
        let done = context.store.commit(account, |txn| {
            let action = txn.action(id)?;
            act(txn, &action)?;
            Ok(u64::from(action.state == ActionState::Attempting))
        });
        let under_way = durable(done)?;
        return Ok(json!({ "changed": 1, "left": 0, "underWay": under_way }));
    }
    let filter = QueueFilter::of(arguments)?;
    let (mut changed, mut left, mut under_way) = (0u64, 0u64, 0u64);
    for (account, _) in accounts(context, arguments)? {
        walk(context, account, &filter, |actions| {
            let done = context.store.commit(account, |txn| {
                let (mut changed, mut left, mut under_way) = (0u64, 0u64, 0u64);
                for seen in &actions {
                    // Anything may have become of it since it was seen; and it may hang on one before it.
                    let Ok(action) = txn.action(seen.id) else { continue };
                    under_way += u64::from(action.state == ActionState::Attempting);
                    match act(txn, &action) {
                        Ok(()) => changed += 1,
                        Err(Error::Conflict(_)) => left += 1,
                        Err(error) => return Err(error),
                    }
                }
                Ok((changed, left, under_way))
            });
            let counts = durable(done)?;
            changed += counts.0;
            left += counts.1;
            under_way += counts.2;
            Ok(true)
        })?;
    }
    Ok(json!({ "changed": changed, "left": left, "underWay": under_way }))
}

/// What is lost or may have been sent is taken as it is: the counts are those of what there is, whatever waits is woken,
/// and of a store that was restored the replies are dropped, for they may have been sent since the backup was made.
pub(super) fn accept_loss(context: &Context, _: &Args<'_>) -> Result<Value, MethodError> {
    context.admin_only()?;
    let epoch = context.store.epoch();
    let mark = context.store.view().queue_mark()?;
    let Some(QueueMark { epoch: of, held: Some(why) }) = mark else {
        return Err(MethodError::Conflict("nothing is held: there is no loss to accept".into()));
    };
    let restored = of != epoch;
    let (mut dropped, mut kept) = (0u64, 0u64);
    let everything = QueueFilter { kind: None, state: None, domain: None, until: None };
    for (account, _, _) in context.directory.list()? {
        walk(context, account, &everything, |actions| {
            let done = context.store.commit(account, |txn| {
                let (mut dropped, mut kept) = (0u64, 0u64);
                for seen in &actions {
                    let Ok(action) = txn.action(seen.id) else { continue };
                    if restored && action.kind == ActionKind::Reply {
                        for gone in txn.remove_action(action.id)? {
                            txn.take_back_answer(
                                &gone,
                                NOT_SENT,
                                "it may have been sent before the store was restored",
                            )?;
                            dropped += 1;
                        }
                    } else {
                        // As it is: what wakes it is written anew, and its owner hears that it is not held any more.
                        let told = action.last_error.as_deref() != Some(HELD);
                        let last_error = action.last_error.clone().filter(|_| told);
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
        finish(context.store.commit(account, |txn| txn.recount_actions().map(drop)))?;
    }
    finish(context.store.commit(AccountId::SITE, |txn| {
        txn.mark_queue(&QueueMark { epoch, held: None });
        Ok(())
    }))?;
    tracing::warn!(why, dropped, kept, "the queue was accepted as it is: sending goes on");
    Ok(json!({ "accepted": why, "dropped": dropped, "kept": kept }))
}

fn finish(done: Result<((), crate::store::Ticket), Error>) -> Result<Value, MethodError> {
    durable(done).map(|()| json!({}))
}

/// What a commit gave, once it is durable.
fn durable<T>(done: Result<(T, crate::store::Ticket), Error>) -> Result<T, MethodError> {
    let (value, ticket) = done?;
    ticket.wait_blocking()?;
    Ok(value)
}
