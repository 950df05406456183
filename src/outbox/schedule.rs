//! Decides what follows an attempt: done, again later, or given up. Nothing is stored here.

use std::time::Duration;

use super::kind::rules;
use crate::model::{Action, ActionKind, ActionState, RecipientState, Target, UtcMillis, limits};

/// The outcome of an attempt for one recipient.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AttemptOutcome {
    /// The relay accepted the message, with this answer.
    Sent(String),
    /// The message went out, but no answer came: it may have been sent. Says what happened.
    Unknown(String),
    Temporary {
        text: String,
        scope: RefusalScope,
    },
    Permanent {
        status: [u8; 3],
        text: String,
    },
    /// Permanent: an address is not ASCII, and the relay lacks SMTPUTF8 (RFC 6531 §3.5).
    NoSmtpUtf8,
    /// The relay refused 8-bit bytes, with this answer. The message is sent again as 7-bit text, if
    /// it was not sent as such.
    EightBit(String),
    /// The relay takes no more recipients in one transaction.
    TooMany,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusalScope {
    /// The relay, or the connection to it: all messages alike.
    Relay,
    Destination,
    Recipient,
    Message,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NextStep {
    pub step: ActionStep,
    /// Recipients that this step gives up, for the report to the sender.
    pub failed: Vec<Target>,
    /// For the log: that the action may have been sent, or, if it is tried again, that it is sent
    /// as seven-bit text.
    pub note: Option<String>,
    /// Set if the action is over, failed, and reached nobody (also if it is kept).
    pub unsent: Option<UnsentAction>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ActionStep {
    /// The action counts as sent to at least one recipient, and is removed. Its dependants may be
    /// sent.
    Done,
    /// The action failed and reached nobody. It is removed, and its dependants with it.
    Dropped,
    /// The action, as changed here, is tried again when it is due.
    Again(Box<Action>),
    /// The action is over, and kept for its owner. It failed (`Failed`) if any recipient was not
    /// reached: then it stays until a person acts, and its dependants are removed. Otherwise it was
    /// sent (`Sent`): then it stays until it is due once more, and its dependants may be sent.
    Kept(Box<Action>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnsentAction {
    /// The code of the reason in the owner's log.
    pub reason: &'static str,
    pub detail: String,
    /// Whether the told row is removed, so that the recipient may be answered another time.
    pub forget_told: bool,
}

/// The `UnsentAction::reason` after `AttemptOutcome::NoSmtpUtf8`.
pub const NO_SMTPUTF8: &str = "no-smtputf8";
/// The `UnsentAction::reason` in every other case, also if the action was removed from the queue.
pub const NOT_SENT: &str = "not-sent";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetrySchedule {
    /// The wait after the first failure. It doubles with each failure.
    pub first: Duration,
    /// The longest wait, without jitter.
    pub longest: Duration,
    /// How long a sent submission is kept for its owner.
    pub keep_sent: Duration,
}

impl Default for RetrySchedule {
    fn default() -> Self {
        Self {
            first: Duration::from_secs(60),
            longest: Duration::from_secs(3600),
            keep_sent: Duration::from_secs(30 * 24 * 3600),
        }
    }
}

impl RetrySchedule {
    /// Returns the wait after a failure. `failures` is how many came before this one. `jitter`
    /// makes it longer, by a quarter at 255.
    #[must_use]
    pub fn delay(&self, failures: u32, jitter: u8) -> Duration {
        let factor = 1u32.checked_shl(failures).unwrap_or(u32::MAX);
        let delay = self.first.saturating_mul(factor).min(self.longest);
        delay.saturating_add(delay / 4 * u32::from(jitter) / 255)
    }
}

/// RFC 3463 §3.5: the delivery time expired.
const TIMED_OUT: [u8; 3] = [4, 4, 7];
const NO_UTF8: &str = "the address is not ASCII, and the relay lacks SMTPUTF8";

/// Decides what follows an attempt.
///
/// `outcomes` are those of the recipients that wait, in order. Recipients beyond the last outcome
/// were not tried. `Action::attempts` rises only if there was an error, or no progress.
#[must_use]
pub fn next_step(
    action: &Action,
    outcomes: Vec<AttemptOutcome>,
    now: UtcMillis,
    pace: &RetrySchedule,
    jitter: u8,
) -> NextStep {
    let rules = rules(action.kind);
    // An end of the lifetime later than this was written while the clock was wrong; or the owner
    // chose a later time to send, and the action is tried by hand before that time.
    let expires = action.expires.min(now.after(rules.lifetime));
    let mut after = Action { state: ActionState::Waiting, expires, ..action.clone() };
    let (mut failed, mut error) = (Vec::new(), None);
    // That the action may have been sent, and the answer because of which it is converted.
    let (mut doubt, mut eight_bit_refusal) = (None, None);
    // `NoSmtpUtf8`, and `EightBit` after the conversion, fail a recipient, but are no progress: the
    // recipients that still wait are not tried at once. (After `Unknown` for a reply none waits,
    // because a reply has only one recipient.)
    let mut has_progress = false;
    let tried = outcomes.len();
    let mut outcomes = outcomes.into_iter();
    for target in after.recipients.iter_mut().filter(|target| target.is_outstanding()) {
        // A recipient that was not tried goes on waiting, like one for whom the relay had no room.
        match outcomes.next().unwrap_or(AttemptOutcome::TooMany) {
            AttemptOutcome::Sent(text) => {
                (target.state, has_progress) = (RecipientState::Sent(text), true);
            }
            AttemptOutcome::Unknown(text) if rules.at_most_once => {
                doubt = Some(format!("may have been sent: {text}"));
                target.state = RecipientState::Sent(text);
            }
            AttemptOutcome::Unknown(text) | AttemptOutcome::Temporary { text, .. } => {
                error = Some(text);
            }
            // RFC 3463 §3.7: a conversion is required, and cannot be made.
            AttemptOutcome::EightBit(text) if action.seven_bit => {
                fail(target, &mut failed, [5, 6, 3], text);
            }
            AttemptOutcome::EightBit(text) => {
                eight_bit_refusal = Some(text);
            }
            AttemptOutcome::TooMany => {}
            AttemptOutcome::Permanent { status, text } => {
                has_progress = true;
                fail(target, &mut failed, status, text);
            }
            // RFC 6531 §3.5.
            AttemptOutcome::NoSmtpUtf8 => fail(target, &mut failed, [5, 6, 7], NO_UTF8.into()),
        }
    }
    after.seven_bit |= eight_bit_refusal.is_some();
    if !after.recipients.iter().any(Target::is_outstanding) {
        return finish(action, after, failed, doubt, now, pace);
    }
    // Attempts at once come to an end, because each of them settles a recipient, or converts the
    // message (once).
    let goes_on_at_once = error.is_none() && (has_progress || eight_bit_refusal.is_some());
    let due = if goes_on_at_once { now } else { now.after(pace.delay(action.attempts, jitter)) };
    if !goes_on_at_once {
        after.attempts = action.attempts.saturating_add(1);
    }
    if due >= expires {
        let last = error.or(eight_bit_refusal).or(action.last_error.clone());
        let last = last.unwrap_or_else(|| "never tried".into());
        return give_up(action, after, failed, doubt, &last, now, pace);
    }
    after.due = due;
    after.last_error = error.or(after.last_error);
    // Recipients that were not tried come first the next time. Otherwise those that are refused
    // would keep them from being tried.
    let (mut first, mut last) = (Vec::new(), Vec::new());
    let mut waiting_index = 0;
    for (target, before) in after.recipients.into_iter().zip(&action.recipients) {
        let was_tried = !before.is_outstanding() || waiting_index < tried;
        waiting_index += usize::from(before.is_outstanding());
        let group = if was_tried { &mut last } else { &mut first };
        group.push(target);
    }
    first.append(&mut last);
    after.recipients = first;
    let conversion = eight_bit_refusal.map(|text| format!("goes as seven-bit text: {text}"));
    let note = doubt.or(conversion);
    NextStep { step: ActionStep::Again(Box::new(after)), failed, note, unsent: None }
}

/// Returns the step of an action whose lifetime is over: every recipient that waits is given up.
#[must_use]
pub fn expire(action: &Action, now: UtcMillis, pace: &RetrySchedule) -> NextStep {
    let last = action.last_error.clone().unwrap_or_else(|| "never tried".into());
    give_up(action, action.clone(), Vec::new(), None, &last, now, pace)
}

/// Corrects an action that is due later than the schedule ever sets, because the clock was set back
/// since. `None` if the due time can be right, if the owner chose it, or if the action is neither
/// waiting nor sent.
#[must_use]
pub fn clamp_times(action: &Action, now: UtcMillis, pace: &RetrySchedule) -> Option<Action> {
    let latest = match action.state {
        ActionState::Sent => now.after(pace.keep_sent),
        ActionState::Waiting if !is_delayed(action) => now.after(pace.delay(u32::MAX, u8::MAX)),
        _ => return None,
    };
    (action.due > latest).then(|| Action { due: latest, ..action.clone() })
}

/// Whether an action waits for the time that its owner chose (RFC 4865), and has not been tried or
/// put off.
#[must_use]
pub fn is_delayed(action: &Action) -> bool {
    let lifetime = rules(action.kind).lifetime;
    // `SubmissionAction::into_action` has the lifetime begin at the chosen time.
    let is_chosen = action.due > action.created && action.due.after(lifetime) == action.expires;
    action.kind == ActionKind::Submission && action.attempts == 0 && is_chosen
}

/// Returns the time up to which an action waits for earlier actions to the same address, unless
/// they end before it.
#[must_use]
pub fn order_deadline(action: &Action, now: UtcMillis) -> UtcMillis {
    // The lifetime begins when an action is first due.
    let first_due = action.created.max(action.expires.before(rules(action.kind).lifetime)).min(now);
    first_due.after(limits::MAX_ORDER_WAIT).min(action.expires)
}

/// Decides what becomes of an action whose attempt was recorded but has no result. `None` if there
/// is no such attempt.
#[must_use]
pub fn recover(action: &Action, now: UtcMillis, pace: &RetrySchedule) -> Option<NextStep> {
    if action.state != ActionState::Attempting {
        return None;
    }
    let waiting = action.recipients.iter().filter(|target| target.is_outstanding()).count();
    let unknown = AttemptOutcome::Unknown("the service ended while it was being sent".into());
    Some(next_step(action, vec![unknown; waiting], now, pace, 0))
}

/// Gives up every recipient that waits, and ends the action. `last` is the last error.
fn give_up(
    action: &Action,
    mut after: Action,
    mut failed: Vec<Target>,
    note: Option<String>,
    last: &str,
    now: UtcMillis,
    pace: &RetrySchedule,
) -> NextStep {
    for target in after.recipients.iter_mut().filter(|target| target.is_outstanding()) {
        fail(target, &mut failed, TIMED_OUT, format!("not sent in time: {last}"));
    }
    finish(action, after, failed, note, now, pace)
}

fn fail(target: &mut Target, failed: &mut Vec<Target>, status: [u8; 3], text: String) {
    target.state = RecipientState::Failed { status, text };
    failed.push(target.clone());
}

fn finish(
    action: &Action,
    after: Action,
    failed: Vec<Target>,
    note: Option<String>,
    now: UtcMillis,
    pace: &RetrySchedule,
) -> NextStep {
    let failure = after.recipients.iter().find_map(|target| match &target.state {
        RecipientState::Failed { status, text } => Some((*status, text.clone())),
        _ => None,
    });
    let is_reached =
        after.recipients.iter().any(|target| matches!(target.state, RecipientState::Sent(_)));
    let unsent =
        failure.as_ref().filter(|_| !is_reached).map(|([class, subject, detail], text)| {
            // The status that `next_step` gives for `NoSmtpUtf8`.
            let needs_utf8 = [*class, *subject, *detail] == [5, 6, 7];
            UnsentAction {
                reason: if needs_utf8 { NO_SMTPUTF8 } else { NOT_SENT },
                detail: text.clone(),
                // RFC 3463 §3.2: the recipient's address itself is bad.
                forget_told: !needs_utf8 && (*class, *subject) != (5, 1),
            }
        });
    let step = match (rules(action.kind).is_kept, failure) {
        (true, None) => {
            let due = now.after(pace.keep_sent);
            ActionStep::Kept(Box::new(Action {
                state: ActionState::Sent,
                due,
                last_error: None,
                ..after
            }))
        }
        (true, Some((_, text))) => ActionStep::Kept(Box::new(Action {
            state: ActionState::Failed,
            last_error: Some(text),
            ..after
        })),
        (false, _) if is_reached => ActionStep::Done,
        // Nobody waits and nobody failed: there are no recipients, which `queue_action` refuses.
        (false, None) => ActionStep::Done,
        (false, Some(_)) => ActionStep::Dropped,
    };
    NextStep { step, failed, note, unsent }
}

/// Whether a failure of a recipient is not reported: the action has no sender, its kind makes no
/// reports, or the sender asked for none (RFC 3461 §4.1).
#[must_use]
pub fn wants_no_report(action: &Action, target: &Target) -> bool {
    // A `DsnNotify` without any flag stands for no NOTIFY, with which failures are reported.
    let is_wanted = target
        .notify
        .is_none_or(|notify| !notify.never && (notify.failure || notify == Default::default()));
    action.sender.is_none() || !rules(action.kind).bounces || !is_wanted
}
