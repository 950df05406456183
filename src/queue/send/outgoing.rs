//! Makes the final bytes of a message: in a form that the relay accepts, with DKIM signatures on
//! top if the site has keys for the domain in From.

use super::RelayExtensions;
use crate::message::header;
use crate::message::seven_bit::to_seven_bit;
use crate::model::{Action, ActionKind};
use crate::outbox::AttemptOutcome;
use crate::proof::Signer;
use crate::queue::settings::Settings;

/// Makes the final bytes of an action's message.
///
/// - They begin with the header. What stands before it is removed, because behind a blank line
///   every field would be text to the recipient.
/// - Otherwise they are as stored, unless the relay accepts only 7-bit text (RFC 6152 §3).
/// - The signature is made last, because it must cover what goes out.
///
/// # Errors
/// A permanent failure if the message cannot be converted to 7-bit text, and must be.
pub(in crate::queue) fn prepare(
    settings: &Settings,
    action: &Action,
    message: &[u8],
    extensions: RelayExtensions,
) -> Result<Vec<u8>, AttemptOutcome> {
    let message = header::trimmed(message);
    let is_accepted = message.is_ascii() || (extensions.eight_bit && !action.seven_bit);
    let message = if is_accepted { Some(message.to_vec()) } else { to_seven_bit(message) };
    let message = message.ok_or_else(|| AttemptOutcome::Permanent {
        status: [5, 6, 3],
        text: "it cannot be put into seven-bit text, and the relay takes nothing else".into(),
    })?;
    // The stored message is unsigned: each attempt signs anew, with the current keys.
    Ok(sign(settings.signer.as_deref(), action, message))
}

/// Puts signatures on top of a message.
///
/// A redirected message is not signed: it may name a domain of the site in From without being from
/// the site. If a key fails, the message goes unsigned, with a warning, as on every site without
/// keys: a reply that waited for an administrator would come too late.
fn sign(signer: Option<&Signer>, action: &Action, message: Vec<u8>) -> Vec<u8> {
    let signer = signer.filter(|_| action.kind != ActionKind::Redirect);
    match signer.map(|signer| signer.sign(&message)) {
        Some(Ok(Some(signatures))) => [&signatures[..], &message].concat(),
        Some(Err(error)) => {
            tracing::warn!(action = %action.id, %error, "not signed: it goes without a signature");
            message
        }
        Some(Ok(None)) | None => message,
    }
}
