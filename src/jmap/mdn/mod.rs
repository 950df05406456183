//! Message disposition notifications (MDN, RFC 9007): the owner notifies the sender of a message,
//! for example that it was displayed, and reads the notifications of others. `outbox::mdn` says
//! when a message that requests a notification must get none.

mod object;
mod parse;
mod send;

pub(super) use parse::MdnParse;
pub(super) use send::MdnSend;

use serde_json::{Value, json};

use super::context::Account;
use super::method::Call;
use crate::message::report::DispositionReport;
use crate::wire::jmap::MethodError;

/// Returns an account in which the caller is not a guest.
///
/// # Errors
/// `InvalidArguments` if there is no such account (RFC 9007 §2.1, §2.2); others as
/// `Call::managed_account`.
fn managed_account(call: &Call<'_>, id: &str) -> Result<Account, MethodError> {
    call.managed_account(id).map_err(|error| match error {
        MethodError::AccountNotFound => {
            MethodError::InvalidArguments("accountId: there is no such account".into())
        }
        other => other,
    })
}

/// Returns the object `disposition` of an MDN (RFC 9007 §2).
fn disposition(report: &DispositionReport) -> Value {
    json!({
        "actionMode": report.action.name(),
        "sendingMode": report.sending.name(),
        "type": report.kind.name(),
    })
}

#[cfg(test)]
mod tests;
