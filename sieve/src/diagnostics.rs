//! Collects the diagnostics of a check or of the formatter, up to a limit.

use std::collections::BinaryHeap;

use crate::diagnostic::{Code, Diagnostic};
use crate::span::Span;

/// The diagnostics found so far.
///
/// - At most `limit` are stored, which is at least 1. If there are more, the last warning in the
///   source is dropped, or the last error if there is no warning.
/// - [`Self::into_sorted`] drops a diagnostic with the code, span and message of the one before it.
#[derive(Debug)]
pub(crate) struct Diagnostics {
    limit: usize,
    /// The one to drop next is at the top.
    stored: BinaryHeap<Stored>,
    /// How many were pushed so far, with those that were dropped.
    number: usize,
    /// Whether one was dropped.
    is_cut: bool,
    /// Whether an error was pushed, even if it was dropped.
    has_errors: bool,
}

#[derive(Debug)]
struct Stored {
    /// Whether it is a warning, its span and code, and its number in the order of pushing. The
    /// greatest rank is dropped first.
    rank: (bool, Span, Code, usize),
    diagnostic: Diagnostic,
}

impl PartialEq for Stored {
    fn eq(&self, other: &Self) -> bool {
        self.rank == other.rank
    }
}

impl Eq for Stored {}

impl PartialOrd for Stored {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Stored {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.rank.cmp(&other.rank)
    }
}

impl Diagnostics {
    pub(crate) fn new(limit: u16) -> Self {
        Self {
            limit: usize::from(limit.max(1)),
            stored: BinaryHeap::new(),
            number: 0,
            is_cut: false,
            has_errors: false,
        }
    }

    pub(crate) fn push(&mut self, diagnostic: Diagnostic) {
        self.has_errors |= diagnostic.is_error();
        self.number += 1;
        let rank = (!diagnostic.is_error(), diagnostic.span, diagnostic.code, self.number);
        self.stored.push(Stored { rank, diagnostic });
        if self.stored.len() > self.limit {
            self.stored.pop();
            self.is_cut = true;
        }
    }

    pub(crate) const fn has_errors(&self) -> bool {
        self.has_errors
    }

    /// Returns the diagnostics in the order of their spans. If some were dropped, one more at the
    /// span `end` says so: an error if there was an error, or else a warning.
    pub(crate) fn into_sorted(self, end: Span) -> Vec<Diagnostic> {
        let Self { limit, stored, is_cut, has_errors, .. } = self;
        let mut all = stored.into_sorted_vec();
        all.sort_by_key(|stored| (stored.diagnostic.span, stored.rank));
        let mut all: Vec<_> = all.into_iter().map(|stored| stored.diagnostic).collect();
        all.dedup_by(|a, b| a.code == b.code && a.span == b.span && a.message == b.message);
        if is_cut {
            let message = format!("only {limit} errors and warnings are shown");
            let last = Diagnostic::new(Code::TooManyDiagnostics, end, message);
            all.push(if has_errors { last } else { last.as_warning() });
        }
        all
    }
}
