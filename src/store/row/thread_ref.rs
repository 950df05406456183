//! The rows of `thread_refs`: the threads to which a Message-ID with a base subject leads.
//!
//! - A key names one thread, unless a guest filed a message whose key named only threads that the
//!   guest may not see. Then it also names the guest's thread, behind the others.
//! - Of the threads of a key, a user can join only the first live one that the user may see.
//! - A row names at most `ThreadRefRow::MAX` threads. A full row may have displaced others.
//!
//! A row of version 1 names one thread, a row of version 2 several. A thread takes 16 bytes: its
//! number (8), and the time when it was last seen (8).

use super::{RowError, RowFormat, decode_with};
use crate::model::{ThreadId, UtcMillis};
use crate::store::engine::Table;
use crate::store::error::Error;

const ENTRY_BYTES: usize = 16;

/// A thread that a key names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadRef {
    pub thread: ThreadId,
    /// When a message with this key was last filed in this thread, to within a day.
    pub seen: UtcMillis,
}

/// The threads that a key names, in order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ThreadRefRow(pub Vec<ThreadRef>);

impl ThreadRefRow {
    /// The most threads of a row.
    pub const MAX: usize = 16;

    #[must_use]
    pub fn is_full(&self) -> bool {
        self.0.len() >= Self::MAX
    }

    /// Whether the row names a thread, or may have displaced it.
    #[must_use]
    pub fn may_name(&self, thread: ThreadId) -> bool {
        self.is_full() || self.0.iter().any(|named| named.thread == thread)
    }

    /// Adds a thread at the end. `dead` are threads of the row that are destroyed.
    ///
    /// - If the row is full, first removes one thread: a dead one, or else the longest unseen one
    ///   behind the first. Returns `None`.
    /// - If not, first removes the dead threads. Returns the newest of them if it is newer than all
    ///   that the row then names, for `SweepRow::thread`.
    pub fn add(&mut self, new: ThreadRef, dead: &[ThreadId]) -> Option<ThreadId> {
        let is_dead = |named: &ThreadRef| dead.contains(&named.thread);
        if self.is_full() {
            let longest_unseen =
                || (1..self.0.len()).min_by_key(|at| self.0.get(*at).map(|named| named.seen));
            if let Some(at) = self.0.iter().position(is_dead).or_else(longest_unseen) {
                self.0.remove(at);
            }
            self.0.push(new);
            return None;
        }
        self.0.retain(|named| !is_dead(named));
        self.0.push(new);
        let newest_dead = dead.iter().copied().max();
        newest_dead.filter(|dead| self.0.iter().all(|named| named.thread < *dead))
    }

    /// Adds a thread that a check misses in the row, before the first newer one: a guest's thread
    /// is newer than the threads that the guest could not join. The row must not be full.
    pub fn restore(&mut self, missing: ThreadRef) {
        let position = self.0.iter().position(|named| named.thread > missing.thread);
        self.0.insert(position.unwrap_or(self.0.len()), missing);
    }
}

impl RowFormat for ThreadRefRow {
    fn to_bytes(&self) -> Vec<u8> {
        let mut value =
            Vec::with_capacity(ENTRY_BYTES.saturating_mul(self.0.len()).saturating_add(1));
        value.push(if self.0.len() == 1 { 1 } else { 2 });
        for named in &self.0 {
            value.extend_from_slice(&named.thread.0.to_be_bytes());
            value.extend_from_slice(&named.seen.0.to_be_bytes());
        }
        value
    }

    fn from_bytes(table: Table, key: &[u8], bytes: &[u8]) -> Result<Self, Error> {
        decode_with(table, key, bytes, 2, |input, version| {
            let count = input.0.len() / ENTRY_BYTES;
            let fits = match version {
                1 => count == 1,
                2 => (2..=Self::MAX).contains(&count),
                _ => false,
            };
            if !fits {
                return Err(RowError("a number of threads that the version cannot have"));
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
