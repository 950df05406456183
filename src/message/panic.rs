//! Keeps a panic of a parser from losing mail.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs a parser on a message from outside. If the parser panics, returns `None` and logs an error,
/// in which `what` names the input.
pub fn catch_parser_panic<T>(what: &str, parse: impl FnOnce() -> T) -> Option<T> {
    let result = catch_unwind(AssertUnwindSafe(parse));
    if result.is_err() {
        tracing::error!(
            what,
            "a parser panicked: this is a bug; the message is kept without being parsed"
        );
    }
    result.ok()
}
