//! Sweeps: passes over a table, or over an account's rows of it, in bounded steps. A row of
//! `sweeps` says where the sweep goes on, also after a restart.
//!
//! A step is one transaction: `begin_or_resume_sweep` tells which rows are left, the caller reads
//! some of them, and `note_sweep_progress` notes how far it came.

use std::time::Duration;

use crate::model::{ThreadId, UtcMillis};
use crate::store::engine::next_key;
use crate::store::engine::typed::{KeyRange, TypedRead as _};
use crate::store::error::Error;
use crate::store::row::{RowFormat as _, SweepRow, ThreadRefRow};
use crate::store::table::codec::Prefix;
use crate::store::table::keys::SweepKey;
use crate::store::table::{Sweeps, Table, ThreadRefs, Threads};
use crate::store::txn::Txn;

/// The number of the sweep over references to threads.
pub(in crate::store) const THREAD_REFS: u8 = 1;
/// The number of the sweep over messages.
pub(in crate::store) const BLOBS: u8 = 2;

impl Txn<'_> {
    /// Runs a step of the sweep that removes references to threads: those last seen at `upto` or
    /// before, and those to dead threads. A step reads at most `limit` rows, at least one. Once a
    /// sweep is done, steps do nothing until `every` has passed since it began.
    ///
    /// Returns how many references were removed, and whether the sweep has more rows. A damaged row
    /// is deleted, and counts as one reference. A full row is only deleted as a whole, once all its
    /// references were last seen at `upto` or before (`row::thread_ref`). The row in `sweeps` notes
    /// what may have been removed, so that a check does not report it as lost.
    ///
    /// # Errors
    /// Those of reading.
    pub fn sweep_thread_refs(
        &mut self,
        upto: UtcMillis,
        every: Duration,
        limit: usize,
    ) -> Result<(usize, bool), Error> {
        let range =
            self.begin_or_resume_sweep::<ThreadRefs>(THREAD_REFS, &(self.account,), every)?;
        let Some(range) = range else { return Ok((0, false)) };
        let mut rows = Vec::new();
        self.keys(&range, |key, row| {
            let row = ThreadRefRow::from_bytes(ThreadRefs::ID, &key.encode(), row);
            rows.push((key, row.ok()));
            Ok(rows.len() < limit)
        })?;
        let last = rows.last().map(|(key, _)| key.clone()).filter(|_| rows.len() >= limit);
        let (mut removed, mut newest_dead) = (0, ThreadId(0));
        for (key, row) in rows {
            // A damaged row finds no thread. It is written anew when it is needed.
            let Some(refs) = row else {
                self.delete::<ThreadRefs>(&key);
                removed += 1;
                continue;
            };
            if refs.is_full() && refs.0.iter().any(|named| named.seen > upto) {
                continue;
            }
            let mut remaining = ThreadRefRow::default();
            for named in refs.0.iter().filter(|named| named.seen > upto) {
                let row = self.row::<Threads>(&self.thread_key(named.thread))?;
                if row.is_some_and(|row| !row.destroyed) {
                    remaining.0.push(*named);
                } else {
                    newest_dead = newest_dead.max(named.thread);
                }
            }
            removed += refs.0.len() - remaining.0.len();
            if remaining.0.is_empty() {
                self.delete::<ThreadRefs>(&key);
            } else if remaining != refs {
                self.put::<ThreadRefs>(&key, &remaining);
            }
        }
        let key = self.sweep_key(THREAD_REFS);
        let sweep = self.row::<Sweeps>(&key)?.unwrap_or_default();
        let sweep = SweepRow {
            upto: sweep.upto.max(upto),
            thread: sweep.thread.max(newest_dead),
            ..sweep.clone()
        };
        self.put::<Sweeps>(&key, &sweep);
        Ok((removed, self.note_sweep_progress::<ThreadRefs>(THREAD_REFS, last.as_ref())?))
    }

    /// Returns the rows under `prefix` that a sweep still has to read. All rows if it begins now:
    /// then its beginning is noted. `None` if the last sweep is finished and began less than
    /// `every` ago. (If it began in the future, a clock was wrong, and a sweep begins now.)
    pub(in crate::store) fn begin_or_resume_sweep<T: Table>(
        &mut self,
        number: u8,
        prefix: &impl Prefix<T::Key>,
        every: Duration,
    ) -> Result<Option<KeyRange<T>>, Error> {
        let key = self.sweep_key(number);
        let row = self.row::<Sweeps>(&key)?;
        Ok(match row {
            Some(sweep) if !sweep.next.is_empty() => Some(KeyRange::resumed(prefix, sweep.next)),
            Some(sweep) if (sweep.begun..sweep.begun.after(every)).contains(&self.now) => None,
            _ => {
                let sweep =
                    SweepRow { begun: self.now, next: Vec::new(), ..row.unwrap_or_default() };
                self.put::<Sweeps>(&key, &sweep);
                Some(KeyRange::under(prefix))
            }
        })
    }

    /// Notes the last row that a step of a sweep read; `None` if the sweep is finished. Returns
    /// whether rows are left.
    pub(in crate::store) fn note_sweep_progress<T: Table>(
        &mut self,
        number: u8,
        last: Option<&T::Key>,
    ) -> Result<bool, Error> {
        let key = self.sweep_key(number);
        let sweep = self.row::<Sweeps>(&key)?.unwrap_or_default();
        let next = last.map(|last| next_key(&last.encode())).unwrap_or_default();
        let has_more = !next.is_empty();
        self.put::<Sweeps>(&key, &SweepRow { next, ..sweep });
        Ok(has_more)
    }

    fn sweep_key(&self, number: u8) -> SweepKey {
        SweepKey { account: self.account, number }
    }
}
