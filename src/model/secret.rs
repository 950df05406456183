//! The secret keys with which a store hashes message ids, subjects, senders, words and email ids.
//!
//! Strangers choose what is hashed. Without the keys they cannot provoke collisions.

/// The secret keys of a store, drawn when the store is created and never changed.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Secrets {
    /// The key for message ids and subjects (BLAKE3).
    pub threads: [u8; 32],
    /// The key for handles and senders of told rows, and for the ids of replies (BLAKE3). The salts
    /// of SCRAM and the key for the tokens of owners (RFC 5436 §2.7.1) are derived from it. Another
    /// use must derive a key, too, or begin what it hashes with a prefix of its own.
    pub told: [u8; 32],
    /// The key for words (SipHash-1-3).
    pub words: [u8; 16],
    /// The key for email ids, which gives them their levels in ranks (SipHash-1-3).
    pub ranks: [u8; 16],
}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Secrets(..)")
    }
}
