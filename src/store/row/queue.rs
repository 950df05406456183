//! The row of the site that says whether the queue may send.

use super::{FieldReader, FieldWriter, decode_with};
use crate::store::engine::Table;
use crate::store::error::Error;

/// Says whether the queue may send. Only `held` stops it. If `epoch` is not the store's, the store
/// was restored from a backup, and actions may have been sent since the backup was made.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QueueMark {
    /// The store's epoch when a check last found the queue complete, or an administrator last
    /// accepted it; 0 if the mark was lost since.
    pub epoch: u64,
    /// Why nothing is sent; `None` if actions are sent.
    pub held: Option<String>,
}

impl QueueMark {
    pub(in crate::store) fn encode(&self) -> Vec<u8> {
        let mut out = FieldWriter::new(1);
        out.num(self.epoch);
        out.maybe_text(self.held.as_ref());
        out.0
    }

    pub(in crate::store) fn decode(key: &[u8], row: &[u8]) -> Result<Self, Error> {
        decode_with(Table::Site, key, row, 1, |input, _| {
            Ok(Self { epoch: input.num()?, held: input.option(FieldReader::text)? })
        })
    }
}
