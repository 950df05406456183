//! The authenticated caller of a request.

use std::sync::Arc;

use crate::jmap::Caller;

/// An extension of every admitted request.
#[derive(Debug, Clone)]
pub(super) struct RequestContext {
    pub(super) caller: Caller,
    /// The base of URLs in responses, such as `https://mail.example.org`.
    pub(super) base: Arc<str>,
}

impl RequestContext {
    /// Returns the key under which the operations of the caller are counted: the account, or the
    /// Unix user on the control socket.
    pub(super) fn key(&self) -> String {
        match (&self.caller.account, &self.caller.user) {
            (Some(account), _) => account.to_string(),
            (None, user) => format!("user {}", user.as_deref().unwrap_or_default()),
        }
    }
}
