//! The rows of listings and ranks: numbers of fixed width.

use super::{RowFormat, decode_with};
use crate::model::{EmailId, ModSeq, ThreadId};
use crate::store::engine::Table;
use crate::store::error::Error;

/// A row of `mailbox_rank`: the number of emails from a boundary to the next one of its level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RankCount(pub u64);

impl RowFormat for RankCount {
    fn to_bytes(&self) -> Vec<u8> {
        [&[1], self.0.to_be_bytes().as_slice()].concat()
    }

    fn from_bytes(table: Table, key: &[u8], bytes: &[u8]) -> Result<Self, Error> {
        decode_with(table, key, bytes, 1, |input, _| Ok(Self(u64::from_be_bytes(input.fixed()?))))
    }
}

/// A row of `mailbox_email_list`: an email and its thread.
impl RowFormat for (EmailId, ThreadId) {
    fn to_bytes(&self) -> Vec<u8> {
        pair(self.0.0, self.1.0)
    }

    fn from_bytes(table: Table, key: &[u8], bytes: &[u8]) -> Result<Self, Error> {
        numbers(table, key, bytes).map(|(email, thread)| (EmailId(email), ThreadId(thread)))
    }
}

/// A row of `mailbox_email_index`: the change since which the listing shows an email, and the
/// email's thread.
impl RowFormat for (ModSeq, ThreadId) {
    fn to_bytes(&self) -> Vec<u8> {
        pair(self.0.0, self.1.0)
    }

    fn from_bytes(table: Table, key: &[u8], bytes: &[u8]) -> Result<Self, Error> {
        numbers(table, key, bytes).map(|(added, thread)| (ModSeq(added), ThreadId(thread)))
    }
}

fn pair(first: u64, second: u64) -> Vec<u8> {
    let mut value = Vec::with_capacity(17);
    value.push(1);
    value.extend_from_slice(&first.to_be_bytes());
    value.extend_from_slice(&second.to_be_bytes());
    value
}

fn numbers(table: Table, key: &[u8], value: &[u8]) -> Result<(u64, u64), Error> {
    decode_with(table, key, value, 1, |input, _| {
        Ok((u64::from_be_bytes(input.fixed()?), u64::from_be_bytes(input.fixed()?)))
    })
}
