//! Email, as JMAP has it (RFC 8621 §4).

pub mod filter;
pub(super) mod listings;
mod query;
pub mod sort;
pub mod window;

pub(super) use query::{changes, query, query_changes};

use super::context::fail;
use super::standard::value::{flag, id, int, text, unsigned, utc_date, wanted};
use crate::query as questions;
use crate::wire::jmap::MethodError;

/// A question's error as a method's.
pub(super) fn refused(error: questions::Error) -> MethodError {
    match error {
        questions::Error::Unsupported(what) => MethodError::UnsupportedFilter(what.into()),
        questions::Error::AnchorNotFound => MethodError::AnchorNotFound,
        questions::Error::CannotCalculateChanges => MethodError::CannotCalculateChanges,
        questions::Error::TooManyChanges => MethodError::TooManyChanges,
        questions::Error::Store(error) => fail(&error),
    }
}

#[cfg(test)]
mod tests;
