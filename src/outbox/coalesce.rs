//! Computes the key by which an equal action is found in the queue (`Action::duplicate_key`).

use crate::model::{ActionKind, Address};

/// Returns a digest of the kind, the sender and the recipients (folded, and these in any order),
/// and `about`, which tells actions apart that are equal otherwise. Each part is preceded by its
/// length, so that different parts never give the same input.
#[must_use]
pub fn coalescing_key(
    kind: ActionKind,
    sender: Option<&Address>,
    recipients: &[Address],
    about: &[u8],
) -> [u8; 16] {
    let mut hasher = blake3::Hasher::new_derive_key("restante 2026-11 outbox: one deed");
    let mut part = |bytes: &[u8]| {
        hasher.update(&(bytes.len() as u64).to_be_bytes());
        hasher.update(bytes);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_depends_on_kind_and_recipients_but_not_on_their_order() {
        let to = [Address::from_parts("A", "x"), Address::from_parts("b", "x")];
        let reordered = [to[1].folded(), to[0].folded()];
        let key = coalescing_key(ActionKind::Redirect, None, &to, b"1");
        assert_eq!(key, coalescing_key(ActionKind::Redirect, None, &reordered, b"1"));
        assert_ne!(key, coalescing_key(ActionKind::Notify, None, &to, b"1"));
        assert_ne!(key, coalescing_key(ActionKind::Redirect, None, &to[..1], b"1"));
    }
}
