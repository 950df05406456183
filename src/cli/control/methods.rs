//! Names of the methods that the commands call, in one place.

pub(in crate::cli) const VACATION_GET: &str = "Vacation/get";
pub(in crate::cli) const VACATION_SET: &str = "Vacation/set";
