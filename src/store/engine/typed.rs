//! Reads rows by the types of their keys and values instead of by bytes.
//!
//! - A `KeyRange` says which rows of a table, and in which order. Its bounds are leading fields of
//!   keys (`Prefix`), or the place where an earlier scan stopped.
//! - `TypedRead` adds typed reads to every `RowReader`: an engine, a snapshot, a transaction.

use std::marker::PhantomData;

use super::{Batch, Put, RowReader, WalkStep, after};
use crate::store::error::Error;
use crate::store::row::RowFormat;
use crate::store::table::codec::Prefix;
use crate::store::table::{Encoded, Table, decode_key};

/// A range of rows of one table: those with `from <= key < to`. If a constructor takes a `prefix`
/// and another bound, the bound must begin with the prefix.
#[derive(Debug)]
pub(crate) struct KeyRange<T> {
    from: Vec<u8>,
    to: Vec<u8>,
    reverse: bool,
    table: PhantomData<T>,
}

impl<T: Table> KeyRange<T> {
    /// The rows whose keys begin with these fields.
    pub(crate) fn under(prefix: &impl Prefix<T::Key>) -> Self {
        let from = prefix.encode();
        Self { to: after(&from), from, reverse: false, table: PhantomData }
    }

    /// The rows whose keys begin with `prefix` and are not less than `from`.
    pub(crate) fn from(prefix: &impl Prefix<T::Key>, from: &impl Prefix<T::Key>) -> Self {
        Self { from: from.encode(), ..Self::under(prefix) }
    }

    /// The rows whose keys begin with `prefix` and are less than every key that begins with `to`.
    pub(crate) fn before(prefix: &impl Prefix<T::Key>, to: &impl Prefix<T::Key>) -> Self {
        Self { to: to.encode(), ..Self::under(prefix) }
    }

    /// The rows whose keys are not less than `from`, and less than every key that begins with `to`.
    pub(crate) fn between(from: &impl Prefix<T::Key>, to: &impl Prefix<T::Key>) -> Self {
        Self { from: from.encode(), to: to.encode(), reverse: false, table: PhantomData }
    }

    /// The rows from the first whose key is not less than `from` to the last whose key begins with
    /// `last`.
    pub(crate) fn through(from: &impl Prefix<T::Key>, last: &impl Prefix<T::Key>) -> Self {
        Self { from: from.encode(), to: after(&last.encode()), reverse: false, table: PhantomData }
    }

    /// The rows whose keys begin with `prefix` and are greater than every key that begins with
    /// `key`.
    pub(crate) fn behind(prefix: &impl Prefix<T::Key>, key: &impl Prefix<T::Key>) -> Self {
        Self { from: after(&key.encode()), ..Self::under(prefix) }
    }

    /// The rows whose keys are greater than every key that begins with `key`, to the last whose key
    /// begins with `last`.
    pub(crate) fn behind_through(key: &impl Prefix<T::Key>, last: &impl Prefix<T::Key>) -> Self {
        Self { from: after(&key.encode()), ..Self::through(key, last) }
    }

    /// The rows whose keys begin with `prefix` and are not less than these bytes, which say where
    /// an earlier scan stopped.
    pub(crate) fn resumed(prefix: &impl Prefix<T::Key>, from: Vec<u8>) -> Self {
        Self { from, ..Self::under(prefix) }
    }

    /// The same rows in the opposite order.
    pub(crate) fn reversed(self) -> Self {
        Self { reverse: !self.reverse, ..self }
    }
}

/// A key of a table with its row.
type Entry<T> = (<T as Table>::Key, <T as Table>::Row);

/// Reads a table by its types of keys and rows.
///
/// Every function fails with the errors of the engine and of its callbacks, and with `Corrupt` if a
/// key or a row that it decodes is damaged. `row_if_any` and `keys_or_damage` hand `Corrupt` over
/// as a value instead.
pub(crate) trait TypedRead: RowReader {
    /// Returns the row under a key.
    fn row<T: Table<Row: RowFormat>>(&self, key: &T::Key) -> Result<Option<T::Row>, Error> {
        let key = key.encode();
        self.get(T::ID, &key)?.map(|bytes| T::Row::from_bytes(T::ID, &key, &bytes)).transpose()
    }

    /// Returns the row under a key, if there is one. A row that cannot be decoded is
    /// `Ok(Some(Err))`, so that callers can tell it from an error of the engine.
    fn row_if_any<T: Table<Row: RowFormat>>(
        &self,
        key: &T::Key,
    ) -> Result<Option<Result<T::Row, Error>>, Error> {
        let key = key.encode();
        Ok(self.get(T::ID, &key)?.map(|bytes| T::Row::from_bytes(T::ID, &key, &bytes)))
    }

    /// Returns the bytes of the row under a key.
    fn bytes<T: Table>(&self, key: &T::Key) -> Result<Option<Vec<u8>>, Error> {
        self.get(T::ID, &key.encode())
    }

    /// Returns the row under a key, of a table whose rows have a format of their own.
    fn row_with<T: Table<Row = Encoded>, V>(
        &self,
        key: &T::Key,
        decode: impl Fn(&[u8], &[u8]) -> Result<V, Error>,
    ) -> Result<Option<V>, Error> {
        let key = key.encode();
        self.get(T::ID, &key)?.map(|bytes| decode(&key, &bytes)).transpose()
    }

    /// Calls `each` with these keys and the bytes of their rows, in their order; `None` for a key
    /// without a row.
    fn many<T: Table>(
        &self,
        keys: impl Iterator<Item = T::Key>,
        mut each: impl FnMut(&[u8], Option<&[u8]>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let keys: Vec<Vec<u8>> = keys.map(|key| key.encode()).collect();
        self.get_many(T::ID, &keys, &mut each)
    }

    /// Calls `each` with the keys and rows of a range, until it returns `false`.
    fn rows<T: Table<Row: RowFormat>>(
        &self,
        range: &KeyRange<T>,
        mut each: impl FnMut(T::Key, T::Row) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        self.scan(T::ID, &range.from, &range.to, range.reverse, &mut |key, bytes| {
            each(decode_key::<T>(key)?, T::Row::from_bytes(T::ID, key, bytes)?)
        })
    }

    /// Calls `each` with the keys and rows of a range of a table whose rows have a format of their
    /// own, until it returns `false`.
    fn rows_with<T: Table<Row = Encoded>, V>(
        &self,
        range: &KeyRange<T>,
        decode: impl Fn(&[u8], &[u8]) -> Result<V, Error>,
        mut each: impl FnMut(T::Key, V) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        self.scan(T::ID, &range.from, &range.to, range.reverse, &mut |key, bytes| {
            each(decode_key::<T>(key)?, decode(key, bytes)?)
        })
    }

    /// Calls `each` with the keys of a range and the bytes of their rows, until it returns `false`.
    fn keys<T: Table>(
        &self,
        range: &KeyRange<T>,
        mut each: impl FnMut(T::Key, &[u8]) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        self.scan(T::ID, &range.from, &range.to, range.reverse, &mut |key, bytes| {
            each(decode_key::<T>(key)?, bytes)
        })
    }

    /// Does the same as `keys`, and gives `each` an error in place of a damaged key. For ranges of
    /// several accounts, so that damage of one row does not stop what concerns the others.
    fn keys_or_damage<T: Table>(
        &self,
        range: &KeyRange<T>,
        mut each: impl FnMut(Result<T::Key, Error>, &[u8]) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        self.scan(T::ID, &range.from, &range.to, range.reverse, &mut |key, bytes| {
            each(decode_key::<T>(key), bytes)
        })
    }

    /// Calls `each` with the bytes of the keys and rows of a range, damaged ones too, until it
    /// returns `false`.
    fn raw_rows<T: Table>(
        &self,
        range: &KeyRange<T>,
        mut each: impl FnMut(&[u8], &[u8]) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        self.scan(T::ID, &range.from, &range.to, range.reverse, &mut each)
    }

    /// Walks forwards and backwards over the rows of a range: calls `each` with the row where the
    /// walk stands, if there is one, and moves as `each` says (`RowReader::walk`). Whether the
    /// range is reversed does not matter.
    fn walk_rows<T: Table<Row: RowFormat>>(
        &self,
        range: &KeyRange<T>,
        first: WalkStep,
        mut each: impl FnMut(Option<(T::Key, T::Row)>) -> Result<WalkStep, Error>,
    ) -> Result<(), Error> {
        self.walk(T::ID, &range.from, &range.to, first, &mut |row| {
            let row = row.map(|(key, bytes)| {
                Ok((decode_key::<T>(key)?, T::Row::from_bytes(T::ID, key, bytes)?))
            });
            each(row.transpose()?)
        })
    }

    /// Returns whether a range has any row.
    fn has_any<T: Table>(&self, range: &KeyRange<T>) -> Result<bool, Error> {
        let mut found = false;
        self.raw_rows(range, |_, _| {
            found = true;
            Ok(false)
        })?;
        Ok(found)
    }

    /// Counts the rows of a range.
    fn count<T: Table>(&self, range: &KeyRange<T>) -> Result<u64, Error> {
        let mut count = 0;
        self.scan(T::ID, &range.from, &range.to, range.reverse, &mut |_, _| {
            count += 1;
            Ok(true)
        })?;
        Ok(count)
    }

    /// Returns the first key of a range in its order, with its row: of a reversed range, the last.
    fn first<T: Table<Row: RowFormat>>(
        &self,
        range: &KeyRange<T>,
    ) -> Result<Option<Entry<T>>, Error> {
        let mut found = None;
        self.rows(range, |key, row| {
            found = Some((key, row));
            Ok(false)
        })?;
        Ok(found)
    }

    /// Returns the first key of a range in its order.
    fn first_key<T: Table>(&self, range: &KeyRange<T>) -> Result<Option<T::Key>, Error> {
        let mut found = None;
        self.keys(range, |key, _| {
            found = Some(key);
            Ok(false)
        })?;
        Ok(found)
    }
}

impl<R: RowReader + ?Sized> TypedRead for R {}

impl Put {
    /// Sets the row under a key.
    #[cfg(test)]
    pub(crate) fn row<T: Table<Row: RowFormat>>(key: &T::Key, row: &T::Row) -> Self {
        Self { table: T::ID, key: key.encode(), value: Some(row.to_bytes()) }
    }

    /// Sets the row under a key, of a table whose rows have a format of their own.
    pub(crate) fn bytes<T: Table<Row = Encoded>>(key: &T::Key, bytes: Vec<u8>) -> Self {
        Self { table: T::ID, key: key.encode(), value: Some(bytes) }
    }
}

impl Batch {
    /// Whether `puts` sets any row of a range. Deletions do not count.
    pub(crate) fn sets_any<T: Table>(&self, range: &KeyRange<T>) -> bool {
        self.range(T::ID, &range.from, &range.to).iter().any(|put| put.value.is_some())
    }
}
