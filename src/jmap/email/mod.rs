//! Email, as JMAP has it (RFC 8621 §4).

mod blobs;
mod body;
mod copy;
mod create;
mod filing;
pub mod filter;
mod get;
mod import;
mod keep;
pub(super) mod listings;
mod parse;
mod property;
mod query;
mod set;
mod snippet;
pub mod sort;
pub mod window;

pub(super) use copy::copy;
pub(super) use create::message_id;
pub(super) use get::{get, head, newest_emails};
pub(super) use import::import;
pub(super) use parse::parse;
pub(super) use query::{changes, query, query_changes};
pub(super) use set::set;
pub(super) use snippet::snippets;

use super::budget::TOO_MUCH_WALKED;
use super::context::fail;
use super::standard::value::{date, flag, id, int, text, unsigned, wanted};
use crate::query as questions;
use crate::wire::jmap::MethodError;

/// A question's error as a method's.
pub(super) fn refused(error: questions::Error) -> MethodError {
    match error {
        questions::Error::Unsupported(what) => MethodError::UnsupportedFilter(what.into()),
        questions::Error::TooMuchRead => MethodError::UnsupportedFilter(error.to_string()),
        questions::Error::TooMuchWalked => MethodError::RequestTooLarge(TOO_MUCH_WALKED),
        questions::Error::AnchorNotFound => MethodError::AnchorNotFound,
        questions::Error::CannotCalculateChanges => MethodError::CannotCalculateChanges,
        questions::Error::TooManyChanges => MethodError::TooManyChanges,
        questions::Error::Store(error) => fail(&error),
    }
}

#[cfg(test)]
pub(in crate::jmap) mod read_tests;
#[cfg(test)]
mod set_tests;
#[cfg(test)]
mod tests;
