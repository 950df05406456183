//! The vacation response, told rows, decisions, and the records of LMTP transactions.

pub(in crate::store) mod check;
pub(in crate::store) mod deliveries;
pub(in crate::store) mod write;
