//! L1: one RFC 5322 message, pure.
