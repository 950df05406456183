//! Where a user wants to hear of changes (RFC 8620 §7.2). A subscription belongs to the user,
//! whatever accounts it tells of, and stands in the account of that user.

use std::fmt;

use super::clock::UtcMillis;

/// A push subscription.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct PushSubscription {
    /// The client and device, in the client's words.
    pub device_client_id: String,
    /// Where it is sent to.
    pub url: String,
    /// By what it is encrypted (RFC 8291); none: it is not.
    pub keys: Option<PushKeys>,
    /// The code that was sent to the URL, and proves that the client hears there.
    pub code: String,
    /// Whether the client gave it back: before that nothing else is sent.
    pub is_verified: bool,
    /// It ends then.
    pub expires: UtcMillis,
    /// Names of the types that it is told of; none: of all.
    pub types: Option<Vec<String>>,
    /// By which of the user's credentials it was made: it goes with that.
    pub credential: Option<String>,
}

/// The client's keys (RFC 8291).
#[derive(Clone, PartialEq, Eq, Default)]
pub struct PushKeys {
    /// Its public key.
    pub p256dh: Vec<u8>,
    pub auth: Vec<u8>,
}

impl fmt::Debug for PushSubscription {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What it holds else lets one write to the device.
        out.debug_struct("PushSubscription").field("expires", &self.expires).finish_non_exhaustive()
    }
}

impl fmt::Debug for PushKeys {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("PushKeys(..)")
    }
}
