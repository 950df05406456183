//! MDN (RFC 9007): the owner notifies a message's sender of what became of it, and reads such
//! notifications of others.
//!
//! `wish` is an MDN as a client asks for it, `send` puts it into the outbox, `parse` shows one that
//! came. What a request for a notification is, and when it must not be answered, is
//! `outbox::mdn`'s.

mod parse;
mod send;
mod wish;

pub(super) use parse::MdnParse;
pub(super) use send::MdnSend;

use serde_json::{Value, json};

use super::context::Account;
use super::method::Call;
use crate::message::report::DispositionReport;
use crate::wire::jmap::MethodError;

/// The account; one that is not there is a wrong argument (RFC 9007 §2.1, §2.2).
fn open(call: &Call<'_>, id: &str) -> Result<Account, MethodError> {
    call.open(id, false).map_err(|error| match error {
        MethodError::AccountNotFound => {
            MethodError::InvalidArguments("accountId: there is no such account".into())
        }
        other => other,
    })
}

/// What was done, as JSON (RFC 9007 §2).
fn disposition(of: &DispositionReport) -> Value {
    json!({"actionMode": of.action.name(), "sendingMode": of.sending.name(), "type": of.kind.name()})
}

#[cfg(test)]
mod tests;
