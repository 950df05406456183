//! Keeps a panic of a parser from losing mail.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs a parser on a message from outside. Returns `None`, and logs an error, if the parser
/// panics.
pub fn catch_parser_panic<T>(what: &str, read: impl FnOnce() -> T) -> Option<T> {
    let read = catch_unwind(AssertUnwindSafe(read));
    if read.is_err() {
        tracing::error!(
            what,
            "a parser panicked: this is a bug; the message is kept without being parsed"
        );
    }
    read.ok()
}
