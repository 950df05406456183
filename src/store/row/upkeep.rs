//! The rows in which upkeep notes how old changes are (`history`), and how far sweeps have come.

use super::{FieldReader, FieldWriter, Row, RowError};
use crate::model::{ModSeq, ThreadId, UtcMillis};
use crate::store::engine::Table;

/// A row of `history`: the account's newest change at the time in the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HistoryRow(pub ModSeq);

impl Row for HistoryRow {
    const TABLE: Table = Table::History;

    fn write(&self, out: &mut FieldWriter) {
        out.num(self.0.0);
    }

    fn read(input: &mut FieldReader<'_>, _version: u8) -> Result<Self, RowError> {
        Ok(Self(ModSeq(input.num()?)))
    }
}

/// A row of `sweeps`: the progress of a sweep.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SweepRow {
    /// When the sweep began; if none is running, when the last one began.
    pub begun: UtcMillis,
    /// The key where the sweep goes on; empty if it is finished.
    pub next: Vec<u8>,
    /// Only for references to threads: those last seen at this time or before may be missing.
    pub upto: UtcMillis,
    /// Only for references to threads: the newest thread of which a reference was removed because
    /// the thread was dead; 0 if there was none.
    pub thread: ThreadId,
}

impl Row for SweepRow {
    const TABLE: Table = Table::Sweeps;

    fn write(&self, out: &mut FieldWriter) {
        out.signed(self.begun.0);
        out.bytes(&self.next);
        out.signed(self.upto.0);
        out.num(self.thread.0);
    }

    fn read(input: &mut FieldReader<'_>, _version: u8) -> Result<Self, RowError> {
        Ok(Self {
            begun: UtcMillis(input.signed()?),
            next: input.bytes()?.to_vec(),
            upto: UtcMillis(input.signed()?),
            thread: ThreadId(input.num()?),
        })
    }
}
