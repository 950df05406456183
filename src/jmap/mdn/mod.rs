//! Message disposition notifications (MDN, RFC 9007): the owner notifies the sender of a message,
//! for example that it was displayed, and reads the notifications of others.
//!
//! - `object` reads the MDN object that a client gives, `send` puts the notification into the
//!   outbox, and `parse` reads a received notification.
//! - `outbox::mdn` reads the request of the sender, and says when it must not be answered.

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

/// Returns the account with this id, of which the caller must not be a guest.
///
/// # Errors
/// `InvalidArguments` if there is no such account (RFC 9007 §2.1, §2.2).
fn managed_account(call: &Call<'_>, id: &str) -> Result<Account, MethodError> {
    call.managed_account(id).map_err(|error| match error {
        MethodError::AccountNotFound => {
            MethodError::InvalidArguments("accountId: there is no such account".into())
        }
        other => other,
    })
}

/// Returns a `Disposition` object (RFC 9007 §2).
fn disposition(report: &DispositionReport) -> Value {
    json!({
        "actionMode": report.action.name(),
        "sendingMode": report.sending.name(),
        "type": report.kind.name(),
    })
}

#[cfg(test)]
mod tests;
