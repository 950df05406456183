//! What is filtered, and for whom.

use super::settings::Settings;
use crate::message::header::Header;
use crate::model::{AccountId, Envelope, Identity, Recipient, UtcMillis};
use crate::store::Snapshot;

/// A message and the account for which it is filtered.
#[derive(Debug, Clone, Copy)]
pub struct FilterRequest<'a> {
    pub settings: &'a Settings,
    pub snapshot: &'a Snapshot<'a>,
    pub account: AccountId,
    pub identity: &'a Identity,
    /// `Header::raw` is the message, which begins with its header.
    pub header: &'a Header<'a>,
    pub envelope: &'a Envelope,
    pub recipient: &'a Recipient,
    pub hostname: &'a str,
    pub now: UtcMillis,
    /// Whether the message is stored already. Then the `duplicate` test is false, since what it
    /// remembers may be the delivery of this very message; the environment is that of a message
    /// store (RFC 5183 §4.1); and an `EditedMessage` to store, keep or redirect is without bytes,
    /// since stored mail is not edited.
    pub is_stored: bool,
    /// The most edited versions of the message that all scripts may make together. The limit of the
    /// site holds, too (`settings::MAX_VERSIONS`), so `u16::MAX` adds no limit.
    pub max_versions: u16,
}
