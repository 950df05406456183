//! Attempt and outcome to what is next.

use std::time::Duration;

use super::kind::rules;
use crate::model::{Action, ActionKind, ActionState, RecipientState, Target, UtcMillis, limits};

/// What came of an attempt for one recipient.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AttemptOutcome {
    /// The next hop has it; what it said.
    Sent(String),
    /// The message went out and no answer came: it may have been sent.
    Unknown(String),
    /// Not now.
    Temporary {
        /// What the next hop said, or what broke.
        text: String,
        /// Whom it concerns.
        scope: RefusalScope,
    },
    /// Never.
    Permanent {
        /// The enhanced status (RFC 3463).
        status: [u8; 3],
        /// What the next hop said.
        text: String,
    },
    /// Never: an address is not ASCII, and the next hop lacks SMTPUTF8 (RFC 6531 §3.5).
    NoSmtpUtf8,
    /// Refused for its eight-bit octets: it goes again as seven-bit text.
    EightBit(String),
    /// Not asked, for the next hop takes no more recipients in one go: it goes with the next.
    TooMany,
}

/// Whom a temporary refusal concerns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusalScope {
    /// Us or the next hop: all messages alike.
    Relay,
    /// The recipient's domain.
    Destination,
    Recipient,
    Message,
}

/// What is next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NextStep {
    /// What becomes of the action.
    pub step: ActionStep,
    /// Recipients that were given up by this step.
    pub failed: Vec<Target>,
    /// For the log, where it is not plainly sent.
    pub note: Option<String>,
    /// That it did not go out to anyone, and why.
    pub lost: Option<LostAction>,
}

/// What becomes of an action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ActionStep {
    /// It is done: it goes, and what depends on it goes on.
    Done,
    /// It is not done and will not be: it goes, and what depends on it with it.
    Dropped,
    /// It waits, as it is here.
    Again(Box<Action>),
    /// It is over, and kept for its owner as it is here.
    Kept(Box<Action>),
}

/// That an action came to nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostAction {
    /// The code of the reason, as the owner's log has it.
    pub reason: &'static str,
    pub why: String,
    /// Whether its recipient counts as not told.
    pub forget_told: bool,
}

/// Reason: an address is not ASCII, and the relay lacks SMTPUTF8.
pub const NO_SMTPUTF8: &str = "no-smtputf8";
/// Reason: the relay refused it for good, or it could not be sent in time.
pub const NOT_SENT: &str = "not-sent";

/// How long is waited between attempts, and how long it is kept what was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetrySchedule {
    /// The first wait; it doubles.
    pub first: Duration,
    /// The longest.
    pub longest: Duration,
    /// How long a submission that was sent is kept for its owner.
    pub kept: Duration,
}

impl Default for RetrySchedule {
    fn default() -> Self {
        Self {
            first: Duration::from_secs(60),
            longest: Duration::from_secs(3600),
            kept: Duration::from_secs(30 * 24 * 3600),
        }
    }
}

impl RetrySchedule {
    /// Returns the wait after a number of failures; `jitter` is 0 to 255, and spreads it over a
    /// quarter more.
    #[must_use]
    pub fn delay(&self, failures: u32, jitter: u8) -> Duration {
        let factor = 1u32.checked_shl(failures.min(20)).unwrap_or(u32::MAX);
        let whole = self.first.saturating_mul(factor).min(self.longest);
        whole.saturating_add(whole / 4 * u32::from(jitter) / 255)
    }
}

const TIMED_OUT: [u8; 3] = [4, 4, 7];
const NO_UTF8: &str = "the address is not ASCII, and the relay lacks SMTPUTF8";

/// What follows an attempt at `now`, by what came of it for each recipient that waits, in their
/// order; those behind the last outcome were not asked.
#[must_use]
pub fn next_step(
    action: &Action,
    outcomes: Vec<AttemptOutcome>,
    now: UtcMillis,
    pace: &RetrySchedule,
    jitter: u8,
) -> NextStep {
    let rules = rules(action.kind);
    // A time that lies further ahead than any that is written was written by a clock that went
    // wrong.
    let expires = action.expires.min(now.after(rules.lifetime));
    let mut after = Action { state: ActionState::Waiting, expires, ..action.clone() };
    let (mut failed, mut note, mut error) = (Vec::new(), None, None);
    // Whether some recipients are asked at once, for there was no refusal of them.
    let (mut moved, mut mended) = (false, false);
    let asked = outcomes.len();
    let mut outcomes = outcomes.into_iter();
    for target in after.recipients.iter_mut().filter(|target| target.waits()) {
        match outcomes.next().unwrap_or(AttemptOutcome::TooMany) {
            AttemptOutcome::Sent(text) => {
                (target.state, moved) = (RecipientState::Sent(text), true)
            }
            AttemptOutcome::Unknown(text) if rules.at_most_once => {
                note = Some(format!("may have been sent: {text}"));
                target.state = RecipientState::Sent(text);
            }
            AttemptOutcome::Unknown(text) | AttemptOutcome::Temporary { text, .. } => {
                error = Some(text)
            }
            AttemptOutcome::EightBit(text) if action.seven_bit => {
                fail(target, &mut failed, [5, 6, 3], text)
            }
            AttemptOutcome::EightBit(text) => {
                (note, mended) = (Some(format!("goes as seven-bit text: {text}")), true)
            }
            AttemptOutcome::TooMany => {}
            AttemptOutcome::Permanent { status, text } => {
                moved = true;
                fail(target, &mut failed, status, text);
            }
            // No other message to that address would fare better.
            AttemptOutcome::NoSmtpUtf8 => fail(target, &mut failed, [5, 6, 7], NO_UTF8.into()),
        }
    }
    after.seven_bit |= mended;
    if !after.recipients.iter().any(Target::waits) {
        return end(action, after, failed, note, now, pace);
    }
    let due = match &error {
        // Nobody refused: the rest goes at once. That this ends is seen to by `moved`, which each
        // such round needs.
        None if moved || mended => now,
        _ => now.after(pace.delay(action.attempts, jitter)),
    };
    if error.is_some() || !(moved || mended) {
        after.attempts = action.attempts.saturating_add(1);
    }
    if due >= expires {
        let last = error.or(action.last_error.clone()).unwrap_or_else(|| "never tried".into());
        return give_up(action, after, failed, note, &last, now, pace);
    }
    after.due = due;
    after.last_error = error.or(after.last_error);
    // Who was not asked comes first the next time: else those that are refused would keep the
    // others from being asked.
    let (mut first, mut last) = (Vec::new(), Vec::new());
    let mut place = 0;
    for (target, old) in after.recipients.into_iter().zip(&action.recipients) {
        let was_asked = !old.waits() || place < asked;
        place += usize::from(old.waits());
        let group = if was_asked { &mut last } else { &mut first };
        group.push(target);
    }
    first.append(&mut last);
    after.recipients = first;
    NextStep { step: ActionStep::Again(Box::new(after)), failed, note, lost: None }
}

/// What becomes of an action whose time is over.
#[must_use]
pub fn too_late(action: &Action, now: UtcMillis, pace: &RetrySchedule) -> NextStep {
    let last = action.last_error.clone().unwrap_or_else(|| "never tried".into());
    give_up(action, action.clone(), Vec::new(), None, &last, now, pace)
}

/// An action whose time lies further ahead than the schedule puts any, for the clock was set back
/// since it was written: as it should be. `None` where its time can be right.
#[must_use]
pub fn clamp_times(action: &Action, now: UtcMillis, pace: &RetrySchedule) -> Option<Action> {
    let most = match action.state {
        ActionState::Sent => now.after(pace.kept),
        ActionState::Waiting if !is_delayed(action) => now.after(pace.delay(u32::MAX, u8::MAX)),
        _ => return None,
    };
    (action.due > most).then(|| Action { due: most, ..action.clone() })
}

/// Whether an action waits for a time that its owner chose (RFC 4865): nothing has put it off.
#[must_use]
pub fn is_delayed(action: &Action) -> bool {
    let lifetime = rules(action.kind).lifetime;
    let is_chosen = action.due > action.created && action.due.after(lifetime) == action.expires;
    action.kind == ActionKind::Submission && action.attempts == 0 && is_chosen
}

/// Until when an action waits at most for earlier ones to the same address, from the time that it
/// first was to go.
#[must_use]
pub fn in_order_until(action: &Action, now: UtcMillis) -> UtcMillis {
    let first = action.created.max(action.expires.before(rules(action.kind).lifetime)).min(now);
    first.after(limits::MAX_ORDER_WAIT).min(action.expires)
}

/// What becomes of an action that was found half attempted.
#[must_use]
pub fn recover(action: &Action, now: UtcMillis, pace: &RetrySchedule) -> Option<NextStep> {
    if action.state != ActionState::Attempting {
        return None;
    }
    let waiting = action.recipients.iter().filter(|target| target.waits()).count();
    let unknown = AttemptOutcome::Unknown("the service ended while it was being sent".into());
    Some(next_step(action, vec![unknown; waiting], now, pace, 0))
}

fn give_up(
    action: &Action,
    mut after: Action,
    mut failed: Vec<Target>,
    note: Option<String>,
    last: &str,
    now: UtcMillis,
    pace: &RetrySchedule,
) -> NextStep {
    for target in after.recipients.iter_mut().filter(|target| target.waits()) {
        fail(target, &mut failed, TIMED_OUT, format!("not sent in time: {last}"));
    }
    end(action, after, failed, note, now, pace)
}

fn fail(target: &mut Target, failed: &mut Vec<Target>, status: [u8; 3], text: String) {
    target.state = RecipientState::Failed { status, text };
    failed.push(target.clone());
}

/// Nobody waits any more.
fn end(
    action: &Action,
    after: Action,
    failed: Vec<Target>,
    note: Option<String>,
    now: UtcMillis,
    pace: &RetrySchedule,
) -> NextStep {
    let worst = after.recipients.iter().find_map(|target| match &target.state {
        RecipientState::Failed { status, text } => Some((*status, text.clone())),
        _ => None,
    });
    let reached =
        after.recipients.iter().any(|target| matches!(target.state, RecipientState::Sent(_)));
    let lost = worst.as_ref().filter(|_| !reached).map(|([class, subject, detail], text)| {
        let is_utf8 = [*class, *subject, *detail] == [5, 6, 7];
        LostAction {
            reason: if is_utf8 { NO_SMTPUTF8 } else { NOT_SENT },
            why: text.clone(),
            // 5.1.x: it is the recipient's own address that is bad (RFC 3463 §3.2).
            forget_told: !is_utf8 && (*class, *subject) != (5, 1),
        }
    });
    let step = match (rules(action.kind).is_kept, worst) {
        (true, None) => {
            let due = now.after(pace.kept);
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
        (false, _) if reached => ActionStep::Done,
        (false, None) => ActionStep::Done,
        (false, Some(_)) => ActionStep::Dropped,
    };
    NextStep { step, failed, note, lost }
}

/// Whether a failure of this recipient is not to be reported: nobody sent it, or asked not to hear
/// (RFC 3461 §4.1).
#[must_use]
pub fn has_no_report_wish(action: &Action, target: &Target) -> bool {
    let silent = target
        .notify
        .is_some_and(|notify| notify.never || !(notify.failure || notify == Default::default()));
    action.sender.is_none() || !rules(action.kind).bounces || silent
}
