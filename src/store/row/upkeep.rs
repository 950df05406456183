//! What upkeep remembers: how far changes had come at a time, and how far a slow round has come.

use super::{FieldReader, FieldWriter, Row, RowError};
use crate::model::{ModSeq, ThreadId, UtcMillis};
use crate::store::engine::Table;

/// `history`: the account's newest change at the time that the key names.
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

/// `sweeps`: a round over a whole table, in pieces.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SweepRow {
    /// When the round began, or the last one did.
    pub begun: UtcMillis,
    /// The key where it goes on; empty where it is through.
    pub next: Vec<u8>,
    /// What was last of use then or before may be gone: the highest time up to which a round
    /// forgot.
    pub upto: UtcMillis,
    /// Of references to threads: the highest thread whose references were forgotten because it was
    /// dead.
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
