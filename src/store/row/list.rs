//! The values of the listings' tables: pairs of numbers of fixed width.

use super::decode_with;
use crate::model::{EmailId, ModSeq, ThreadId};
use crate::store::engine::Table;
use crate::store::error::Error;

/// The value of a `mailbox_email_list` row: which email and thread.
#[must_use]
pub fn list_value(email: EmailId, thread: ThreadId) -> Vec<u8> {
    pair(email.0, thread.0)
}

/// Reads it.
///
/// # Errors
/// `Corrupt`.
pub fn decode_list(key: &[u8], value: &[u8]) -> Result<(EmailId, ThreadId), Error> {
    let (email, thread) = numbers(Table::MailboxEmailList, key, value)?;
    Ok((EmailId(email), ThreadId(thread)))
}

/// The value of a `mailbox_email_index` row: since which change, and which thread.
#[must_use]
pub fn index_value(added: ModSeq, thread: ThreadId) -> Vec<u8> {
    pair(added.0, thread.0)
}

/// Reads it.
///
/// # Errors
/// `Corrupt`.
pub fn decode_index(key: &[u8], value: &[u8]) -> Result<(ModSeq, ThreadId), Error> {
    let (added, thread) = numbers(Table::MailboxEmailIndex, key, value)?;
    Ok((ModSeq(added), ThreadId(thread)))
}

/// The value of a `mailbox_rank` row: emails from this boundary to the next.
#[must_use]
pub fn rank_value(count: u64) -> Vec<u8> {
    let mut value = vec![1];
    value.extend_from_slice(&count.to_be_bytes());
    value
}

/// Reads it.
///
/// # Errors
/// `Corrupt`.
pub fn decode_rank(key: &[u8], value: &[u8]) -> Result<u64, Error> {
    decode_with(Table::MailboxRank, key, value, 1, |input, _| Ok(u64::from_be_bytes(input.fixed()?)))
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
