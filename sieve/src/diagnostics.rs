//! Collects diagnostics up to a limit.

use std::collections::BinaryHeap;

use crate::diagnostic::{Code, Diagnostic};
use crate::span::Span;

/// The diagnostics of a check.
///
/// - At most as many are stored as the limit says: errors before warnings, and of either the first
///   in the source.
/// - A diagnostic with the code and the span of another is not stored again.
#[derive(Debug)]
pub(crate) struct Diagnostics {
    limit: usize,
    /// The one to drop next is at the top.
    stored: BinaryHeap<Stored>,
    number: usize,
    is_cut: bool,
    has_errors: bool,
}

#[derive(Debug)]
struct Stored {
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

    /// Returns the diagnostics in the order of their spans, with a last one if some are missing.
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
