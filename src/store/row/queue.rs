//! The site's word on the queue.

use super::{FieldReader, FieldWriter, decode_with};
use crate::store::engine::Table;
use crate::store::error::Error;

/// Which line of history the queue is of, and why nothing is sent. A store that was restored from a
/// backup has another epoch: what it holds may have been sent since the backup was made.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QueueMark {
    /// The store's epoch when it was last accepted.
    pub epoch: u64,
    /// Why sending is held.
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
