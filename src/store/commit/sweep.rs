//! Slow rounds over whole tables, in pieces: where a round is stands in a row, so that it goes on there after a restart.

use std::time::Duration;

use super::Txn;
use crate::model::{ThreadId, UtcMillis};
use crate::store::engine::{Read, Table, after};
use crate::store::error::Error;
use crate::store::key;
use crate::store::row::{Sweep, Thread, ThreadRefs};

/// The round over references to threads.
pub(in crate::store) const THREAD_REFS: u8 = 1;
/// The round over messages.
pub(super) const BLOBS: u8 = 2;

impl Txn<'_> {
    /// A step, of `most` rows at most, of a round that forgets by which message ids threads are found: those last seen at
    /// `upto` or before, and those of threads that are dead. A round begins no sooner than `every` after the last one
    /// began. Gives how many were forgotten, and whether more of the round is left. What may be gone is noted in the round's
    /// row: the check goes by it. A full row goes only as a whole (`row::thread_ref`).
    ///
    /// # Errors
    /// Those of reading.
    pub fn sweep_thread_refs(&mut self, upto: UtcMillis, every: Duration, most: usize) -> Result<(usize, bool), Error> {
        let prefix = key::account(self.account);
        let Some(from) = self.sweep_from(THREAD_REFS, &prefix, every)? else { return Ok((0, false)) };
        let mut seen = Vec::new();
        self.scan(Table::ThreadRefs, &from, &after(&prefix), false, &mut |key, value| {
            seen.push((key.to_vec(), ThreadRefs::decode(value)));
            Ok(seen.len() < most)
        })?;
        let next = (seen.len() >= most).then(|| seen.last().map(|(key, _)| key.clone())).flatten();
        let (mut forgotten, mut dead) = (0, ThreadId(0));
        for (key, found) in seen {
            // What cannot be read finds no thread, and is written anew when it is needed.
            let Some(refs) = found else {
                self.delete(Table::ThreadRefs, key);
                forgotten += 1;
                continue;
            };
            if refs.is_full() && refs.0.iter().any(|named| named.seen > upto) {
                continue;
            }
            let mut kept = ThreadRefs::default();
            for named in refs.0.iter().filter(|named| named.seen > upto) {
                let row = self.row::<Thread>(&key::thread(self.account, named.thread))?;
                if row.is_some_and(|row| !row.deleted) {
                    kept.0.push(*named);
                } else {
                    dead = dead.max(named.thread);
                }
            }
            forgotten += refs.0.len() - kept.0.len();
            if kept.0.is_empty() {
                self.delete(Table::ThreadRefs, key);
            } else if kept != refs {
                self.put(Table::ThreadRefs, key, kept.encode());
            }
        }
        let key = key::sweep(self.account, THREAD_REFS);
        let known = self.row::<Sweep>(&key)?.unwrap_or_default();
        let noted = Sweep { upto: known.upto.max(upto), thread: known.thread.max(dead), ..known.clone() };
        self.put_row(key, &noted);
        Ok((forgotten, self.swept_to(THREAD_REFS, next)?))
    }

    /// Where a round goes on, or begins at `start`; nothing where the last one began less than `every` ago and is through.
    pub(super) fn sweep_from(&mut self, what: u8, start: &[u8], every: Duration) -> Result<Option<Vec<u8>>, Error> {
        let key = key::sweep(self.account, what);
        let known = self.row::<Sweep>(&key)?;
        Ok(match known {
            Some(sweep) if !sweep.next.is_empty() => Some(sweep.next),
            Some(sweep) if self.now < sweep.begun.after(every) => None,
            _ => {
                self.put_row(key, &Sweep { begun: self.now, next: Vec::new(), ..known.unwrap_or_default() });
                Some(start.to_vec())
            }
        })
    }

    /// Remembers the last row that was looked at, where the round is not through; says so.
    pub(super) fn swept_to(&mut self, what: u8, last: Option<Vec<u8>>) -> Result<bool, Error> {
        let key = key::sweep(self.account, what);
        let sweep = self.row::<Sweep>(&key)?.unwrap_or_default();
        // Of the keys behind it the first.
        let next = last.map(|last| [last.as_slice(), &[0]].concat()).unwrap_or_default();
        let left = !next.is_empty();
        self.put_row(key, &Sweep { next, ..sweep });
        Ok(left)
    }
}
