//! A parser that panics costs no mail.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Reads what came from outside. Whoever wrote it, and whatever in it makes a parser panic: the mail is kept all the same.
pub fn catch_parser_panic<T>(what: &str, read: impl FnOnce() -> T) -> Option<T> {
    let read = catch_unwind(AssertUnwindSafe(read));
    if read.is_err() {
        tracing::error!(what, "a parser panicked: this is a fault of the program; the message is kept unread");
    }
    read.ok()
}
