//! The octets that go out, made for what the relay offers.

use super::send::RelayExtensions;
use super::signed::signed;
use super::worker::Settings;
use crate::message::header;
use crate::message::seven::seven_bit;
use crate::model::Action;
use crate::outbox::AttemptOutcome;

/// The final octets of an action's message, from where its header begins: behind a blank line every
/// field would be text to whoever receives it. They are as they were stored, but where the relay
/// takes seven-bit text alone (RFC 6152 §3): and what stands in a signature must be what goes out,
/// so a signature is made here, last, over them.
pub(super) fn dress(
    settings: &Settings,
    action: &Action,
    octets: &[u8],
    offers: RelayExtensions,
) -> Result<Vec<u8>, AttemptOutcome> {
    let octets = header::trimmed(octets);
    let as_it_is = octets.is_ascii() || (offers.eight_bit && !action.seven_bit);
    let octets = if as_it_is { Some(octets.to_vec()) } else { seven_bit(octets) };
    let octets = octets.ok_or_else(|| AttemptOutcome::Permanent {
        status: [5, 6, 3],
        text: "it cannot be put into seven-bit text, and the relay takes nothing else".into(),
    })?;
    // Kept is what was composed: each attempt signs anew, with the keys of its time.
    Ok(signed(settings.signer.as_deref(), action, octets))
}
