//! Rows: encodes values as bytes, and decodes them.
//!
//! - A row begins with the version of its format, except those that are a bare id
//!   (`email_by_modseq`, `thread_by_modseq`, `object_by_modseq`, `active_script`). Versions count
//!   from 1. Older versions are read; a newer one, and 0, is an error.
//! - In most rows, numbers are LEB128, signed ones zigzag, and texts and byte strings have their
//!   length before them. The numbers in rows of listings, ranks and `thread_refs` have a fixed
//!   width.
//! - Any bytes decode to a row or to an error. Bytes after the last field are an error.
#![warn(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

mod account;
mod action;
mod blob;
pub mod block;
mod content;
mod email;
pub mod fold;
mod leb128;
mod list;
mod mailbox;
mod object;
mod queue;
mod repair;
mod script;
mod thread_ref;
mod upkeep;
mod upload;
mod vacation;
mod words;

pub use account::AccountStateRow;
pub(crate) use action::{Destination, SameAction};
pub use action::{
    Digest, decode_kind_and_state, decode_outbox_message, domain_digest, encode_outbox_message,
    lane_digest, wake_condition,
};
pub(in crate::store) use blob::blob_frames;
pub use blob::{BlobBytes, BlobRow, FRAME_BYTES, decode_frame};
pub use content::{
    EncodedMessage, are_tokens_outdated, content_prefix, decode_content, decode_tokens,
    decode_wanted_tokens, encode_content, encode_tokens, is_content_outdated,
};
pub use email::Thread;
pub(crate) use list::RankCount;
pub use object::{Object, ObjectRow, is_live_object, object_marks};
pub use queue::QueueMark;
pub use repair::RepairScope;
pub use script::{DuplicateRow, ScriptErrorsRow, ScriptSource};
pub use thread_ref::{ThreadRef, ThreadRefRow};
pub use upkeep::{HistoryRow, SweepRow};
pub use upload::UploadRow;
pub use vacation::{DeliveredEmail, DeliveryRow, RecipientOutcome, ToldRow};

use super::engine::Table;
use super::error::{Error, hex};
use super::table::Present;
use crate::model::{EmailId, ObjectId, Positions, ThreadId};

/// A row of `TABLE` that begins with the version of its format and then has fields. `VERSION` is
/// the newest version. The type has `RowFormat`, too. `docs/storage.md` lists the tables.
pub trait Row: Sized {
    const TABLE: Table;
    const VERSION: u8 = 1;

    /// Writes the fields of `VERSION`.
    fn write(&self, out: &mut FieldWriter);

    /// Reads the fields of a version not above `VERSION`.
    fn read(input: &mut FieldReader<'_>, version: u8) -> Result<Self, RowError>;

    fn encode(&self) -> Vec<u8> {
        let mut out = FieldWriter::new(Self::VERSION);
        self.write(&mut out);
        out.0
    }

    /// Decodes the bytes that were read under `key`.
    ///
    /// # Errors
    /// `Corrupt`, with table and key.
    fn decode(key: &[u8], bytes: &[u8]) -> Result<Self, Error> {
        decode_with(Self::TABLE, key, bytes, Self::VERSION, Self::read)
    }
}

/// Decodes a row of at most version `newest`: `read` gets the bytes behind the version byte, and
/// must read them to the end.
///
/// # Errors
/// `Corrupt`, with table and key.
pub(super) fn decode_with<T>(
    table: Table,
    key: &[u8],
    bytes: &[u8],
    newest: u8,
    read: impl FnOnce(&mut FieldReader<'_>, u8) -> Result<T, RowError>,
) -> Result<T, Error> {
    let corrupt = |what: &'static str| RowError(what).of(table, key);
    let (version, rest) = bytes.split_first().ok_or_else(|| corrupt("empty row"))?;
    if *version > newest {
        return Err(corrupt("written by a newer version of Restante"));
    }
    if *version == 0 {
        return Err(corrupt("a row of version 0, which no version of Restante writes"));
    }
    let mut input = FieldReader(rest);
    let row = read(&mut input, *version).map_err(|bad| bad.of(table, key))?;
    if input.0.is_empty() { Ok(row) } else { Err(corrupt("bytes after the last field")) }
}

/// A value that is stored as a row. A type that is a list of fields implements `Row`, and gets this
/// trait through `Row`. A bare id, or a row of numbers of fixed width, implements this trait.
pub(crate) trait RowFormat: Sized {
    fn to_bytes(&self) -> Vec<u8>;

    /// Decodes the bytes that were read under `key`.
    ///
    /// # Errors
    /// `Corrupt`, with table and key.
    fn from_bytes(table: Table, key: &[u8], bytes: &[u8]) -> Result<Self, Error>;
}

impl<R: Row> RowFormat for R {
    fn to_bytes(&self) -> Vec<u8> {
        self.encode()
    }

    fn from_bytes(table: Table, key: &[u8], bytes: &[u8]) -> Result<Self, Error> {
        decode_with(table, key, bytes, R::VERSION, R::read)
    }
}

/// Rows that are one id: eight bytes without a version.
macro_rules! bare_id {
    ($($name:ident),*) => {$(
        impl RowFormat for $name {
            fn to_bytes(&self) -> Vec<u8> {
                self.0.to_be_bytes().to_vec()
            }

            fn from_bytes(table: Table, key: &[u8], bytes: &[u8]) -> Result<Self, Error> {
                let id = bytes.try_into().map(u64::from_be_bytes);
                id.map(Self).map_err(|_| RowError("not an id of eight bytes").of(table, key))
            }
        }
    )*};
}

bare_id!(EmailId, ObjectId, ThreadId);

impl RowFormat for Present {
    fn to_bytes(&self) -> Vec<u8> {
        vec![1]
    }

    fn from_bytes(table: Table, key: &[u8], bytes: &[u8]) -> Result<Self, Error> {
        decode_with(table, key, bytes, 1, |_, _| Ok(Self))
    }
}

/// Why bytes are no row, or no key. `of` makes it an `Error::Corrupt`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowError(pub &'static str);

impl RowError {
    pub(in crate::store) fn of(self, table: Table, key: &[u8]) -> Error {
        Error::Corrupt { table: table.name(), key: hex(key), what: self.0.into() }
    }
}

/// Appends the fields of a row.
#[derive(Debug, Clone)]
pub struct FieldWriter(pub Vec<u8>);

impl FieldWriter {
    /// Begins a row with the version of its format.
    #[must_use]
    pub fn new(version: u8) -> Self {
        let mut out = Vec::with_capacity(128);
        out.push(version);
        Self(out)
    }

    pub fn num(&mut self, value: impl Into<u64>) {
        let mut value = value.into();
        if value < leb128::LONG {
            let (bytes, length) = leb128::encode(value);
            let end = self.0.len().saturating_add(length);
            self.0.extend_from_slice(&bytes);
            self.0.truncate(end);
            return;
        }
        while value >= 0x80 {
            self.0.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.0.push((value & 0x7f) as u8);
    }

    pub fn signed(&mut self, value: i64) {
        self.num((value.cast_unsigned() << 1) ^ (value >> 63).cast_unsigned());
    }

    pub fn len(&mut self, value: usize) {
        self.num(value as u64);
    }

    pub fn bool(&mut self, value: bool) {
        self.0.push(u8::from(value));
    }

    /// Writes bytes with their length before them.
    pub fn bytes(&mut self, value: &[u8]) {
        self.len(value.len());
        self.0.extend_from_slice(value);
    }

    /// Writes bytes whose number the reader knows.
    pub fn fixed(&mut self, value: &[u8]) {
        self.0.extend_from_slice(value);
    }

    pub fn text(&mut self, value: &str) {
        self.bytes(value.as_bytes());
    }

    /// Writes whether there is a value, and the value.
    pub fn option<T>(&mut self, value: Option<&T>, write: impl FnOnce(&mut Self, &T)) {
        self.bool(value.is_some());
        if let Some(value) = value {
            write(self, value);
        }
    }

    pub fn maybe_text(&mut self, value: Option<&String>) {
        self.option(value, |out, text| out.text(text));
    }

    /// Writes ascending numbers with their count before them: each as the difference from the one
    /// before, the first from 0.
    pub fn ascending(&mut self, values: &[u32]) {
        self.len(values.len());
        let mut before = 0;
        for some in values.chunks(32) {
            // The last number may have bytes behind it that do not belong to it.
            let (mut buffer, mut end) = ([0; 32 * 5 + 3], 0);
            for value in some {
                let (bytes, length) = leb128::encode(u64::from(value.saturating_sub(before)));
                before = *value;
                if let Some(to) = buffer.get_mut(end..).and_then(<[u8]>::first_chunk_mut) {
                    *to = bytes;
                }
                end = end.saturating_add(length);
            }
            self.0.extend_from_slice(buffer.get(..end).unwrap_or_default());
        }
    }

    /// Writes values with their count before them.
    pub fn list<T>(
        &mut self,
        values: impl ExactSizeIterator<Item = T>,
        mut write: impl FnMut(&mut Self, T),
    ) {
        self.len(values.len());
        for value in values {
            write(self, value);
        }
    }
}

/// The bytes of a row that are not read yet. Each function reads one field from their front.
#[derive(Debug, Clone, Copy)]
pub struct FieldReader<'a>(pub &'a [u8]);

impl<'a> FieldReader<'a> {
    pub fn byte(&mut self) -> Result<u8, RowError> {
        let (first, rest) = self.0.split_first().ok_or(RowError("too short"))?;
        self.0 = rest;
        Ok(*first)
    }

    #[inline]
    pub fn num(&mut self) -> Result<u64, RowError> {
        if let Some((value, length)) = self.0.first_chunk().and_then(|bytes| leb128::decode(*bytes))
        {
            self.0 = self.0.get(length..).unwrap_or_default();
            return Ok(value);
        }
        self.num_by_bytes()
    }

    fn num_by_bytes(&mut self) -> Result<u64, RowError> {
        let (mut value, mut shift, mut rest) = (0u64, 0u32, self.0.iter());
        for byte in rest.by_ref() {
            let bits = u64::from(byte & 0x7f);
            if shift > 63 || shift == 63 && bits > 1 {
                return Err(RowError("number too large"));
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                self.0 = rest.as_slice();
                return Ok(value);
            }
            shift = shift.saturating_add(7);
        }
        Err(RowError("too short"))
    }

    /// Reads a number. Also returns what is behind the number after it, if at least eight bytes are
    /// left and both numbers end within the first eight.
    #[inline]
    pub fn num_and_behind_next(&mut self) -> Result<(u64, Option<&'a [u8]>), RowError> {
        let length = self.0.first_chunk().and_then(|bytes| leb128::length_of_two(*bytes));
        let behind = length.and_then(|length| self.0.get(length..));
        Ok((self.num()?, behind))
    }

    /// Passes over a number.
    #[inline]
    pub fn skip_num(&mut self) -> Result<(), RowError> {
        let length = self.0.first_chunk().and_then(|bytes| leb128::length(*bytes));
        match length.and_then(|length| self.0.get(length..)) {
            Some(rest) => self.0 = rest,
            None => drop(self.num()?),
        }
        Ok(())
    }

    pub fn num32(&mut self) -> Result<u32, RowError> {
        u32::try_from(self.num()?).map_err(|_| RowError("number too large"))
    }

    pub fn signed(&mut self) -> Result<i64, RowError> {
        let value = self.num()?;
        Ok((value >> 1).cast_signed() ^ (value & 1).cast_signed().wrapping_neg())
    }

    pub fn bool(&mut self) -> Result<bool, RowError> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(RowError("neither true nor false")),
        }
    }

    pub fn bytes(&mut self) -> Result<&'a [u8], RowError> {
        let len = usize::try_from(self.num()?).map_err(|_| RowError("length too large"))?;
        let (bytes, rest) = self.0.split_at_checked(len).ok_or(RowError("too short"))?;
        self.0 = rest;
        Ok(bytes)
    }

    pub fn fixed<const N: usize>(&mut self) -> Result<[u8; N], RowError> {
        let (bytes, rest) = self.0.split_first_chunk::<N>().ok_or(RowError("too short"))?;
        self.0 = rest;
        Ok(*bytes)
    }

    pub fn text(&mut self) -> Result<String, RowError> {
        std::str::from_utf8(self.bytes()?)
            .map(str::to_owned)
            .map_err(|_| RowError("text is not UTF-8"))
    }

    pub fn option<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, RowError>,
    ) -> Result<Option<T>, RowError> {
        if self.bool()? { read(self).map(Some) } else { Ok(None) }
    }

    /// Reads values with their count before them.
    ///
    /// # Errors
    /// Those of the values; the count is larger than the rest of the row.
    pub fn list<T, C: FromIterator<T>>(
        &mut self,
        mut read: impl FnMut(&mut Self) -> Result<T, RowError>,
    ) -> Result<C, RowError> {
        let count = self.count()?;
        (0..count).map(|_| read(self)).collect()
    }

    /// Reads what `FieldWriter::ascending` wrote.
    pub fn ascending(&mut self) -> Result<Positions, RowError> {
        self.each_ascending()?.collect()
    }

    /// Reads what `FieldWriter::ascending` wrote, one number at a time.
    pub fn each_ascending(
        &mut self,
    ) -> Result<impl Iterator<Item = Result<u32, RowError>>, RowError> {
        let (count, mut before) = (self.count()?, 0u32);
        Ok((0..count).map(move |_| {
            before = before.checked_add(self.num32()?).ok_or(RowError("position too large"))?;
            Ok(before)
        }))
    }

    /// Passes over what `FieldWriter::ascending` wrote. Returns the first number (0 if there is
    /// none) and the bytes.
    pub fn skip_ascending(&mut self) -> Result<(u32, &'a [u8]), RowError> {
        let all = self.0;
        let count = self.count()?;
        let mut numbers = *self;
        let first = if count == 0 { 0 } else { numbers.num32()? };
        (0..count).try_for_each(|_| self.skip_num())?;
        let length = all.len().saturating_sub(self.0.len());
        Ok((first, all.get(..length).unwrap_or_default()))
    }

    /// Reads the count before values, each of which has at least one byte.
    ///
    /// # Errors
    /// The count is larger than the rest of the row.
    pub fn count(&mut self) -> Result<usize, RowError> {
        let count = usize::try_from(self.num()?).ok().filter(|count| *count <= self.0.len());
        count.ok_or(RowError("count too large"))
    }
}

#[cfg(test)]
mod tests;
