//! Messages and uploads: their bytes and who holds them.

pub(in crate::store) mod check;
pub(in crate::store) mod read;
pub(in crate::store) mod uploads;
pub(in crate::store) mod uploads_check;
pub(in crate::store) mod write;
