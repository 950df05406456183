//! Computes the keys of told rows.

use super::sender::sender_key;
use crate::model::{Address, ToldKey};

/// Says which replies count as the same. A sender who was told under a handle is not told again
/// under this handle while the told row counts (`ToldLifetime`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Handle<'a> {
    /// The account's own response.
    Response,
    /// The `:handle` of a script.
    Named(&'a str),
    /// A hash of the arguments of an action that has no handle.
    Arguments([u8; 32]),
}

/// The key under which a sender is remembered for a handle: one half is made from the handle, and
/// the other from the sender. Addresses of one sender that differ only in tags have one key
/// (`sender_key`).
#[must_use]
pub fn told_key(secret: &[u8; 32], handle: &Handle<'_>, sender: &Address) -> ToldKey {
    let hash = |kind: u8, value: &[u8]| {
        let mut hasher = blake3::Hasher::new_keyed(secret);
        hasher.update(&[kind]);
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
