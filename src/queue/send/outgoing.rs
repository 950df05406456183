//! The bytes that go out, made for what the relay offers, with our DKIM signatures on top where the
//! domain of their From has keys.

use super::RelayExtensions;
use crate::message::header;
use crate::message::seven_bit::to_seven_bit;
use crate::model::{Action, ActionKind};
use crate::outbox::AttemptOutcome;
use crate::proof::Signer;
use crate::queue::settings::Settings;

/// The final octets of an action's message, from where its header begins: behind a blank line every
/// field would be text to whoever receives it. They are as they were stored, but where the relay
/// takes seven-bit text alone (RFC 6152 §3): and what stands in a signature must be what goes out,
/// so a signature is made here, last, over them.
pub(in crate::queue) fn prepare(
    settings: &Settings,
    action: &Action,
    octets: &[u8],
    offers: RelayExtensions,
) -> Result<Vec<u8>, AttemptOutcome> {
    let octets = header::trimmed(octets);
    let as_it_is = octets.is_ascii() || (offers.eight_bit && !action.seven_bit);
    let octets = if as_it_is { Some(octets.to_vec()) } else { to_seven_bit(octets) };
    let octets = octets.ok_or_else(|| AttemptOutcome::Permanent {
        status: [5, 6, 3],
        text: "it cannot be put into seven-bit text, and the relay takes nothing else".into(),
    })?;
    // Kept is what was composed: each attempt signs anew, with the keys of its time.
    Ok(sign(settings.signer.as_deref(), action, octets))
}

/// The octets to send of an action whose message is `message`. Only what was composed here is
/// signed: what is sent on for somebody else may bear our domain in its From without being ours.
/// Where a key fails it goes unsigned, with a warning: a reply that waits for an administrator is
/// no reply any more, and an unsigned one is what every site without keys sends.
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
