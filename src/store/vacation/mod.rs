//! The vacation response, the senders who were told, and the transactions that were served.

pub(in crate::store) mod check;
pub(in crate::store) mod deliveries;
pub(in crate::store) mod write;
