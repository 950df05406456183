//! The bytes of messages and uploads, and the references of emails, actions and uploads to them.
//! Also checks subscriptions and the rows of upkeep.

pub(in crate::store) mod check;
mod pack;
pub(in crate::store) mod read;
pub(in crate::store) mod reclaim;
pub(in crate::store) mod uploads;
pub(in crate::store) mod uploads_check;
pub(in crate::store) mod write;
