//! `thread_refs`: the threads that a message id, with a base subject, names.
//!
//! - A key names one thread, unless a guest filed a message whose key names only threads that the
//!   guest may not see: then it names the guest's thread, too, behind those that it named before.
//! - Who may read the whole account looks at the first live thread alone; a guest at the first one
//!   in sight.
//! - A row holds `ThreadRefRow::MAX` threads at most. One that holds so many may have displaced
//!   another: it is deleted only as a whole, for its age, so that a check can say of a row that is
//!   not there what it must have held.
//!
//! Version 1 is one thread, version 2 several: the number of the thread, and when it was last seen,
//! in 8 octets each.

use super::{RowError, RowFormat, decode_with};
use crate::model::{ThreadId, UtcMillis};
use crate::store::engine::Table;
use crate::store::error::Error;

const ENTRY: usize = 16;

/// A thread that a key names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadRef {
    /// The thread.
    pub thread: ThreadId,
    /// When a message with this key was last filed; true to a day.
    pub seen: UtcMillis,
}

/// The row of a key.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ThreadRefRow(pub Vec<ThreadRef>);

impl ThreadRefRow {
    /// The most threads that one key names.
    pub const MAX: usize = 16;

    /// Whether it holds as many threads as a row may.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.0.len() >= Self::MAX
    }

    /// Whether a thread is named here, or may have been displaced.
    #[must_use]
    pub fn may_name(&self, thread: ThreadId) -> bool {
        self.is_full() || self.0.iter().any(|named| named.thread == thread)
    }

    /// Names a thread behind those that are here, in the place of `dead` ones. Gives the youngest
    /// of those that are gone, if it is younger than all that stay. A full row stays full: where no
    /// thread of it is dead, the one that was not seen for longest makes room, and never the first.
    pub fn add(&mut self, new: ThreadRef, dead: &[ThreadId]) -> Option<ThreadId> {
        let is_dead = |named: &ThreadRef| dead.contains(&named.thread);
        if self.is_full() {
            let unseen =
                || (1..self.0.len()).min_by_key(|at| self.0.get(*at).map(|named| named.seen));
            if let Some(at) = self.0.iter().position(is_dead).or_else(unseen) {
                self.0.remove(at);
            }
            self.0.push(new);
            return None;
        }
        self.0.retain(|named| !is_dead(named));
        self.0.push(new);
        let gone = dead.iter().copied().max();
        gone.filter(|gone| self.0.iter().all(|named| named.thread < *gone))
    }

    /// Adds a thread that was lost from the row, before the first younger one: what a guest filed
    /// is younger than what it was not to join.
    pub fn restore(&mut self, lost: ThreadRef) {
        let at = self.0.iter().position(|named| named.thread > lost.thread).unwrap_or(self.0.len());
        self.0.insert(at, lost);
    }
}

impl RowFormat for ThreadRefRow {
    fn to_bytes(&self) -> Vec<u8> {
        let mut value = Vec::with_capacity(ENTRY.saturating_mul(self.0.len()).saturating_add(1));
        value.push(if self.0.len() == 1 { 1 } else { 2 });
        for named in &self.0 {
            value.extend_from_slice(&named.thread.0.to_be_bytes());
            value.extend_from_slice(&named.seen.0.to_be_bytes());
        }
        value
    }

    fn from_bytes(table: Table, key: &[u8], bytes: &[u8]) -> Result<Self, Error> {
        decode_with(table, key, bytes, 2, |input, version| {
            let count = input.0.len() / ENTRY;
            let fits = match version {
                1 => count == 1,
                2 => (2..=Self::MAX).contains(&count),
                _ => false,
            };
            if !fits {
                return Err(RowError("not as many threads as its version has"));
            }
            let named = (0..count).map(|_| {
                Ok(ThreadRef {
                    thread: ThreadId(u64::from_be_bytes(input.fixed()?)),
                    seen: UtcMillis(i64::from_be_bytes(input.fixed()?)),
                })
            });
            named.collect::<Result<_, _>>().map(Self)
        })
    }
}
