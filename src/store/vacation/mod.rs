//! The vacation response, whom it answered, and which deliveries were served.

pub(in crate::store) mod check;
pub(in crate::store) mod deliveries;
pub(in crate::store) mod write;
