//! A parser that panics costs no mail.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Reads a message from outside. A parser that panics does not keep the mail from being stored.
pub fn catch_parser_panic<T>(what: &str, read: impl FnOnce() -> T) -> Option<T> {
    let read = catch_unwind(AssertUnwindSafe(read));
    if read.is_err() {
        tracing::error!(
            what,
            "a parser panicked: this is a fault of the program; the message is kept unread"
        );
    }
    read.ok()
}
