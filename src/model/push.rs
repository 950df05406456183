//! Push subscriptions (RFC 8620 §7.2).
//!
//! A subscription belongs to a user and is stored in the account of that user, also if it reports
//! changes of other accounts.

use std::fmt;

use super::clock::UtcMillis;

#[derive(Clone, PartialEq, Eq, Default)]
pub struct PushSubscription {
    /// Names the device; the client chooses it.
    pub device_client_id: String,
    pub url: String,
    /// The keys with which pushes are encrypted (RFC 8291); with `None` they are not.
    pub keys: Option<PushKeys>,
    /// The verification code, which is sent to the URL.
    pub code: String,
    /// Whether the client sent the code back. Before that, no changes are pushed.
    pub is_verified: bool,
    pub expires: UtcMillis,
    /// `None` for all types.
    pub types: Option<Vec<String>>,
    /// The credential (`account::Login`) with which the subscription was created. The subscription
    /// ends when the credential does. `None` if it was created on the control socket.
    pub credential: Option<String>,
}

/// The encryption keys of a client (RFC 8291).
#[derive(Clone, PartialEq, Eq, Default)]
pub struct PushKeys {
    pub p256dh: Vec<u8>,
    pub auth: Vec<u8>,
}

impl fmt::Debug for PushSubscription {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Whoever knows the other fields could send to the device.
        out.debug_struct("PushSubscription").field("expires", &self.expires).finish_non_exhaustive()
    }
}

impl fmt::Debug for PushKeys {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("PushKeys(..)")
    }
}
