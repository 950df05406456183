//! Which actions are one deed.

use crate::model::{ActionKind, Address};

/// The digest of a deed: what it is, from whom, to whom in any order, and what about. Every part
/// has its length before it, so that no two deeds meet by being put together otherwise.
#[must_use]
pub fn coalescing_key(
    kind: ActionKind,
    sender: Option<&Address>,
    recipients: &[Address],
    about: &[u8],
) -> [u8; 16] {
    let mut hasher = blake3::Hasher::new_derive_key("restante 2026-11 outbox: one deed");
    let mut part = |octets: &[u8]| {
        hasher.update(&(octets.len() as u64).to_be_bytes());
        hasher.update(octets);
    };
    part(kind.name().as_bytes());
    let sender = sender.map(|sender| sender.folded().to_string());
    part(sender.unwrap_or_default().as_bytes());
    let mut to: Vec<String> =
        recipients.iter().map(|recipient| recipient.folded().to_string()).collect();
    to.sort_unstable();
    to.dedup();
    to.iter().for_each(|recipient| part(recipient.as_bytes()));
    part(about);
    let mut digest = [0; 16];
    hasher.finalize_xof().fill(&mut digest);
    digest
}
