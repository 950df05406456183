//! The authenticated caller of a request.

use std::sync::Arc;

use crate::jmap::Caller;

/// The caller of a request and the base of its URLs. Every admitted request has this extension.
#[derive(Debug, Clone)]
pub(super) struct RequestContext {
    pub(super) caller: Caller,
    /// The base of URLs in responses, such as `https://mail.example.org`.
    pub(super) base: Arc<str>,
}

impl RequestContext {
    /// The key by which the caller's requests are counted: the account, or the Unix user.
    pub(super) fn key(&self) -> String {
        match (&self.caller.account, &self.caller.user) {
            (Some(account), _) => account.to_string(),
            (None, user) => format!("user {}", user.as_deref().unwrap_or_default()),
        }
    }
}
