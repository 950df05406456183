//! Checks before each attempt that the account may still send as the addresses in its submission.
//!
//! - A submission may wait long before it is sent. Meanwhile its addresses may have been given to
//!   another account.
//! - A submission that fails the check fails for good, without a report: its envelope sender may be
//!   the address of another account now. The submission's `deliveryStatus` has the reason.

use crate::account::Directory;
use crate::message::header::{body_offset, fields};
use crate::message::parse::addresses;
use crate::model::{AccountId, Action, ActionKind, Address, UtcMillis};
use crate::outbox::{AttemptOutcome, NextStep, RetrySchedule, next_step};
use crate::store::Error;

/// Returns the next step of a submission that may not be sent, and `None` for one that may. Its
/// envelope sender, and every address in From and Sender, must be an address of the account now. A
/// text that cannot be parsed as an address counts as another account's. The envelope sender may be
/// missing. Actions of other kinds may always be sent. `message` is the whole message.
///
/// # Errors
/// `Corrupt` if a row of the directory that decides this is damaged or lost; other errors if the
/// directory cannot be read.
pub(super) fn step_if_not_entitled(
    directory: &Directory,
    account: AccountId,
    (action, message): (&Action, &[u8]),
    now: UtcMillis,
    retry: &RetrySchedule,
) -> Result<Option<NextStep>, Error> {
    if action.kind != ActionKind::Submission {
        return Ok(None);
    }
    let own = directory.own_addresses(account)?;
    let header = message.get(..body_offset(message)).unwrap_or(message);
    let authors = fields(header).filter(|field| field.is("From") || field.is("Sender"));
    let authors = authors.flat_map(|field| addresses(field.value)).map(|author| author.email);
    let mut foreign = None;
    for email in action.sender.iter().map(ToString::to_string).chain(authors) {
        let is_own = Address::parse(&email).map_or(Ok(false), |address| own.has(&address))?;
        if !is_own {
            foreign = Some(email);
            break;
        }
    }
    let Some(foreign) = foreign else { return Ok(None) };
    tracing::warn!(
        %account,
        action = %action.id,
        address = foreign,
        "not sent: the address does not belong to the account any more"
    );
    let text = format!("{foreign} is no more an address of the account");
    let outstanding = action.recipients.iter().filter(|target| target.is_outstanding());
    let outcomes = outstanding
        .map(|_| AttemptOutcome::Permanent { status: [5, 7, 1], text: text.clone() })
        .collect();
    // Nothing is tried again, so the jitter does not matter. Without `failed`, there is no report.
    let next = next_step(action, outcomes, now, retry, 0);
    Ok(Some(NextStep { failed: Vec::new(), ..next }))
}
