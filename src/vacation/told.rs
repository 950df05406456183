//! Under which keys it is remembered who was told.

use super::sender::sender_key;
use crate::model::{Address, ToldKey};

/// Under what it is remembered who was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Handle<'a> {
    /// The account's own response.
    Response,
    /// A handle of a script.
    Named(&'a str),
    /// The arguments of an action without a handle, hashed.
    Arguments([u8; 32]),
}

/// Under which key a sender is remembered for a handle. Both are hashed by themselves, each part
/// with its length before it, so that no two pairs have one key.
#[must_use]
pub fn told_key(secret: &[u8; 32], handle: &Handle<'_>, sender: &Address) -> ToldKey {
    let hash = |context: u8, value: &[u8]| {
        let mut hasher = blake3::Hasher::new_keyed(secret);
        hasher.update(&[context]);
        hasher.update(&(value.len() as u64).to_be_bytes());
        hasher.update(value);
        let mut out = [0u8; 16];
        hasher.finalize_xof().fill(&mut out);
        out
    };
    let handle = match handle {
        Handle::Response => hash(0, &[]),
        Handle::Named(name) => hash(1, name.as_bytes()),
        Handle::Arguments(arguments) => hash(2, arguments),
    };
    let mut key = [0u8; 32];
    let parts = handle.into_iter().chain(hash(3, sender_key(sender).as_bytes()));
    key.iter_mut().zip(parts).for_each(|(to, from)| *to = from);
    ToldKey(key)
}
