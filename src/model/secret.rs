//! The store's secrets: keys of the hashes over what strangers choose (message ids, senders,
//! words).

/// Made once, at the making of the store; a store keeps its own.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Secrets {
    /// Key of `ThreadKey`.
    pub threads: [u8; 32],
    /// Key of `ToldKey`.
    pub told: [u8; 32],
    /// Key of word hashes (SipHash-1-3).
    pub words: [u8; 16],
    /// Key of rank levels (SipHash-1-3).
    pub ranks: [u8; 16],
}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Secrets(..)")
    }
}
