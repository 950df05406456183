//! Makes the bytes of a message that go to the relay.

use super::RelayExtensions;
use crate::message::header;
use crate::message::seven_bit::to_seven_bit;
use crate::model::{Action, ActionKind};
use crate::outbox::AttemptOutcome;
use crate::proof::Signer;
use crate::queue::settings::Settings;

/// Removes what stands before the header, converts the message to 7-bit text if the relay accepts
/// nothing else (RFC 6152 §3) or refused it as it was (`Action::seven_bit`), and puts DKIM
/// signatures on top if the site has keys for From and the message is no redirect (`sign`).
///
/// What stands before the header may be a blank line. Below the signatures, that line would end the
/// header, and the recipient would be shown the fields after it as text.
///
/// # Errors
/// A permanent failure if the message must be converted to 7-bit text, and cannot be.
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
    Ok(sign(settings.signer.as_deref(), action, message))
}

/// A redirected message is not signed: it may name a domain of the site in From without being from
/// the site. If a key fails, the message goes unsigned rather than late.
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
