//! Whether an account may still send what it submitted.
//!
//! A submission can wait for long: until the time that its owner chose (RFC 4865), while an
//! administrator holds it, while the relay puts it off. Its addresses may lead to somebody else by
//! then. So they are asked for again right before each attempt, as they were when it was made. What
//! may not be sent any more fails for good, and nobody is sent a report of it: the envelope sender
//! may be another's address now. The owner sees it in the submission's `deliveryStatus`.

use crate::account::Directory;
use crate::message::header::{body_offset, fields};
use crate::message::parse::addresses;
use crate::model::{AccountId, Action, ActionKind, Address, UtcMillis};
use crate::outbox::{AttemptOutcome, NextStep, RetrySchedule, next_step};
use crate::store::Error;

/// What follows where a submission names an address that is no more the account's, as its envelope
/// sender, in From or in Sender; `None` where it may be sent.
///
/// # Errors
/// `Corrupt` where a row of the directory that would tell is damaged or lost, and those of reading
/// it.
pub(super) fn reason_not_entitled(
    directory: &Directory,
    account: AccountId,
    (action, octets): (&Action, &[u8]),
    now: UtcMillis,
    pace: &RetrySchedule,
) -> Result<Option<NextStep>, Error> {
    if action.kind != ActionKind::Submission {
        return Ok(None);
    }
    let own = directory.own_addresses(account)?;
    let header = octets.get(..body_offset(octets)).unwrap_or(octets);
    let named = fields(header).filter(|field| field.is("From") || field.is("Sender"));
    let named = named.flat_map(|field| addresses(field.value)).map(|one| one.email);
    let mut lost = None;
    for email in action.sender.iter().map(ToString::to_string).chain(named) {
        let is_own = Address::parse(&email).map_or(Ok(false), |address| own.has(&address))?;
        if !is_own {
            lost = Some(email);
            break;
        }
    }
    let Some(lost) = lost else { return Ok(None) };
    tracing::warn!(%account, action = %action.id, address = lost, "not sent: the address is no more the account's");
    let text = format!("{lost} is no more an address of the account");
    let waiting = action.recipients.iter().filter(|target| target.waits());
    let outcomes = waiting
        .map(|_| AttemptOutcome::Permanent { status: [5, 7, 1], text: text.clone() })
        .collect();
    let next = next_step(action, outcomes, now, pace, 0);
    Ok(Some(NextStep { failed: Vec::new(), ..next }))
}
