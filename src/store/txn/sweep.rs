//! Slow rounds over whole tables, in pieces: where a round is stands in a row, so that it goes on
//! there after a restart.

use std::time::Duration;

use crate::model::{ThreadId, UtcMillis};
use crate::store::engine::typed::{KeyRange, TypedRead as _};
use crate::store::error::Error;
use crate::store::row::{RowFormat as _, SweepRow, ThreadRefRow};
use crate::store::table::codec::Prefix;
use crate::store::table::keys::SweepKey;
use crate::store::table::{Sweeps, Table, ThreadRefs, Threads};
use crate::store::txn::Txn;

/// The round over references to threads.
pub(in crate::store) const THREAD_REFS: u8 = 1;
/// The round over messages.
pub(in crate::store) const BLOBS: u8 = 2;

impl Txn<'_> {
    /// A step, of `most` rows at most, of a round that forgets by which message ids threads are
    /// found: those last seen at `upto` or before, and those of threads that are dead. A round
    /// begins no sooner than `every` after the last one began. Gives how many were forgotten, and
    /// whether more of the round is left. What may be gone is noted in the round's row: the check
    /// goes by it. A full row goes only as a whole (`row::thread_ref`).
    ///
    /// # Errors
    /// Those of reading.
    pub fn sweep_thread_refs(
        &mut self,
        upto: UtcMillis,
        every: Duration,
        most: usize,
    ) -> Result<(usize, bool), Error> {
        let range =
            self.begin_or_resume_sweep::<ThreadRefs>(THREAD_REFS, &(self.account,), every)?;
        let Some(range) = range else { return Ok((0, false)) };
        let mut seen = Vec::new();
        self.keys(&range, |key, row| {
            let row = ThreadRefRow::from_bytes(ThreadRefs::ID, &key.encode(), row);
            seen.push((key, row.ok()));
            Ok(seen.len() < most)
        })?;
        let next = seen.last().map(|(key, _)| key.clone()).filter(|_| seen.len() >= most);
        let (mut forgotten, mut dead) = (0, ThreadId(0));
        for (key, found) in seen {
            // What cannot be read finds no thread, and is written anew when it is needed.
            let Some(refs) = found else {
                self.delete::<ThreadRefs>(&key);
                forgotten += 1;
                continue;
            };
            if refs.is_full() && refs.0.iter().any(|named| named.seen > upto) {
                continue;
            }
            let mut kept = ThreadRefRow::default();
            for named in refs.0.iter().filter(|named| named.seen > upto) {
                let row = self.row::<Threads>(&self.thread_key(named.thread))?;
                if row.is_some_and(|row| !row.deleted) {
                    kept.0.push(*named);
                } else {
                    dead = dead.max(named.thread);
                }
            }
            forgotten += refs.0.len() - kept.0.len();
            if kept.0.is_empty() {
                self.delete::<ThreadRefs>(&key);
            } else if kept != refs {
                self.put::<ThreadRefs>(&key, &kept);
            }
        }
        let key = self.sweep_key(THREAD_REFS);
        let known = self.row::<Sweeps>(&key)?.unwrap_or_default();
        let noted = SweepRow {
            upto: known.upto.max(upto),
            thread: known.thread.max(dead),
            ..known.clone()
        };
        self.put::<Sweeps>(&key, &noted);
        Ok((forgotten, self.note_sweep_progress::<ThreadRefs>(THREAD_REFS, next.as_ref())?))
    }

    /// What a round over the rows that begin with `prefix` has still to look at: all of them where
    /// it begins now. `None` where the last round began less than `every` ago and is through.
    pub(in crate::store) fn begin_or_resume_sweep<T: Table>(
        &mut self,
        round: u8,
        prefix: &impl Prefix<T::Key>,
        every: Duration,
    ) -> Result<Option<KeyRange<T>>, Error> {
        let key = self.sweep_key(round);
        let known = self.row::<Sweeps>(&key)?;
        Ok(match known {
            Some(sweep) if !sweep.next.is_empty() => Some(KeyRange::resumed(prefix, sweep.next)),
            Some(sweep) if self.now < sweep.begun.after(every) => None,
            _ => {
                let begun =
                    SweepRow { begun: self.now, next: Vec::new(), ..known.unwrap_or_default() };
                self.put::<Sweeps>(&key, &begun);
                Some(KeyRange::under(prefix))
            }
        })
    }

    /// Notes the last row that a round looked at, or that the round is through. Returns whether
    /// rows are left.
    pub(in crate::store) fn note_sweep_progress<T: Table>(
        &mut self,
        round: u8,
        last: Option<&T::Key>,
    ) -> Result<bool, Error> {
        let key = self.sweep_key(round);
        let sweep = self.row::<Sweeps>(&key)?.unwrap_or_default();
        // The round goes on at the first key behind that one.
        let next = last.map(|last| [last.encode().as_slice(), &[0]].concat()).unwrap_or_default();
        let left = !next.is_empty();
        self.put::<Sweeps>(&key, &SweepRow { next, ..sweep });
        Ok(left)
    }

    fn sweep_key(&self, round: u8) -> SweepKey {
        SweepKey { account: self.account, round }
    }
}
