//! An action: one durable outbound deed. Plain data; what may follow what is `outbox`'s business.

use super::address::Address;
use super::clock::UtcMillis;
use super::id::{ActionId, EmailId, ToldKey};

/// A queued deed, with its final bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Action {
    /// Its id within the account.
    pub id: ActionId,
    /// What it is, and so by which rules it is tried again.
    pub kind: ActionKind,
    /// Where it stands.
    pub state: ActionState,
    /// When it was queued.
    pub created: UtcMillis,
    /// Not before.
    pub due: UtcMillis,
    /// Dropped after.
    pub expires: UtcMillis,
    /// Attempts that were begun.
    pub attempts: u32,
    /// What the last attempt met.
    pub last_error: Option<String>,
    /// Envelope sender of what is sent; `None` is `<>`.
    pub sender: Option<Address>,
    /// To whom.
    pub recipient: Address,
    /// Whether NOTIFY=NEVER is asked for (RFC 3461 §4.1).
    pub notify_never: bool,
    /// The email that gave rise to it.
    pub email: Option<EmailId>,
    /// The told row that goes with it.
    pub told: Option<ToldKey>,
    /// The Message-ID of what is sent, without angle brackets.
    pub message_id: String,
    /// The message, CRLF lines.
    pub message: Vec<u8>,
}

/// What an action is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ActionKind {
    /// A vacation reply: sent at most once.
    Reply,
    /// A delivery status notification: sent at least once.
    Notification,
}

/// Where an action stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ActionState {
    /// Waits for its time.
    Waiting,
    /// An attempt has begun, and was recorded so before the final dot went out.
    Attempting,
    /// Held until someone says otherwise.
    Held,
}
