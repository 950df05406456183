//! Who asks, as the door found out.

use std::sync::Arc;

use crate::jmap::Caller;

/// Goes with each request that was let in.
#[derive(Debug, Clone)]
pub(super) struct RequestContext {
    /// He.
    pub(super) caller: Caller,
    /// What URLs that he is told begin with.
    pub(super) base: Arc<str>,
}

impl RequestContext {
    /// By what his requests are counted: his account, or his Unix user.
    pub(super) fn key(&self) -> String {
        match (&self.caller.account, &self.caller.user) {
            (Some(account), _) => account.to_string(),
            (None, user) => format!("user {}", user.as_deref().unwrap_or_default()),
        }
    }
}
