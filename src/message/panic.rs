//! Keeps a panic of a parser from losing mail.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs code that reads a message from outside, such as a parser or a script. If the code panics,
/// returns `None` and logs an error, in which `what` names the input.
pub fn catch_parser_panic<T>(what: &str, parse: impl FnOnce() -> T) -> Option<T> {
    let result = catch_unwind(AssertUnwindSafe(parse));
    if result.is_err() {
        tracing::error!(what, "reading a message panicked: this is a bug");
    }
    result.ok()
}
