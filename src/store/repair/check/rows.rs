//! Reads the rows of a table in key order, page by page, and compares them with the rows that
//! should exist.
//!
//! A cursor holds one page, so a check can read several tables side by side.

use std::collections::VecDeque;
use std::marker::PhantomData;

use crate::model::AccountId;
use crate::store::engine::typed::TypedRead as _;
use crate::store::engine::{RowReader, Table as TableId, after, next_key};
use crate::store::error::{Error, hex};
use crate::store::repair::check::{CheckObserver, Checker, RowFix};
use crate::store::row::RowFormat;
use crate::store::table::codec::Prefix;
use crate::store::table::{Encoded, Table, decode_key};

/// Rows after which a page ends.
const MAX_PAGE_ROWS: usize = 512;
/// Bytes of keys and values after which a page ends.
const MAX_PAGE_BYTES: usize = 1 << 20;
/// Bytes of a row that a breach quotes.
const MAX_QUOTED_BYTES: usize = 48;

/// A key and its value.
pub(in crate::store) type Pair = (Vec<u8>, Vec<u8>);

/// A row as it is stored. Key and value may be damaged.
pub(in crate::store) struct Found<T> {
    pub(in crate::store) key: Vec<u8>,
    pub(in crate::store) value: Vec<u8>,
    table: PhantomData<T>,
}

impl<T: Table> Found<T> {
    fn new((key, value): Pair) -> Self {
        Self { key, value, table: PhantomData }
    }

    /// Returns the decoded key; `None` if it is damaged.
    pub(in crate::store) fn id(&self) -> Option<T::Key> {
        decode_key::<T>(&self.key).ok()
    }

    /// Returns the decoded row.
    ///
    /// # Errors
    /// `Corrupt` if the value is damaged.
    pub(in crate::store) fn row(&self) -> Result<T::Row, Error>
    where
        T::Row: RowFormat,
    {
        T::Row::from_bytes(T::ID, &self.key, &self.value)
    }
}

/// A cursor over the rows of a range.
pub(in crate::store) struct RowCursor<'a, T> {
    pub(in crate::store) raw: RawRows<'a>,
    table: PhantomData<T>,
}

impl<'a, T: Table> RowCursor<'a, T> {
    /// Begins at the first row of a table.
    pub(in crate::store) fn of_table(read: &'a dyn RowReader, run: &'a dyn CheckObserver) -> Self {
        Self::under(read, run, &())
    }

    pub(in crate::store) fn under(
        read: &'a dyn RowReader,
        run: &'a dyn CheckObserver,
        prefix: &impl Prefix<T::Key>,
    ) -> Self {
        Self { raw: RawRows::new(read, run, T::ID, &prefix.encode()), table: PhantomData }
    }

    pub(in crate::store) fn next(&mut self) -> Result<Option<Found<T>>, Error> {
        Ok(self.raw.next()?.map(Found::new))
    }

    /// Returns the next row and moves on, if its key is less than `key`.
    pub(in crate::store) fn below(&mut self, key: &[u8]) -> Result<Option<Found<T>>, Error> {
        Ok(self.raw.below(key)?.map(Found::new))
    }

    /// Returns the next row and moves on, if its key begins with `prefix`.
    pub(in crate::store) fn within(&mut self, prefix: &[u8]) -> Result<Option<Found<T>>, Error> {
        Ok(self.raw.within(prefix)?.map(Found::new))
    }
}

/// A cursor over the rows of a range as bytes.
pub(in crate::store) struct RawRows<'a> {
    read: &'a dyn RowReader,
    run: &'a dyn CheckObserver,
    pub(in crate::store) table: TableId,
    from: Vec<u8>,
    to: Vec<u8>,
    page: VecDeque<Pair>,
    /// Whether `page` has, or had, the last rows of the range.
    is_last_page: bool,
}

impl<'a> RawRows<'a> {
    fn new(
        read: &'a dyn RowReader,
        run: &'a dyn CheckObserver,
        table: TableId,
        prefix: &[u8],
    ) -> Self {
        Self {
            read,
            run,
            table,
            from: prefix.to_vec(),
            to: after(prefix),
            page: VecDeque::new(),
            is_last_page: false,
        }
    }

    /// Returns the next row without moving on; `None` at the end.
    pub(in crate::store) fn peek(&mut self) -> Result<Option<&Pair>, Error> {
        if self.page.is_empty() && !self.is_last_page {
            let (page, mut bytes) = (&mut self.page, 0usize);
            self.read.scan(self.table, &self.from, &self.to, false, &mut |key, value| {
                bytes = bytes.saturating_add(key.len()).saturating_add(value.len());
                page.push_back((key.to_vec(), value.to_vec()));
                Ok(page.len() < MAX_PAGE_ROWS && bytes < MAX_PAGE_BYTES)
            })?;
            self.is_last_page = self.page.len() < MAX_PAGE_ROWS && bytes < MAX_PAGE_BYTES;
            if let Some((last, _)) = self.page.back() {
                self.from = next_key(last);
            }
        }
        Ok(self.page.front())
    }

    pub(in crate::store) fn next(&mut self) -> Result<Option<Pair>, Error> {
        self.peek()?;
        let row = self.page.pop_front();
        if row.is_some() {
            self.run.step(self.table)?;
        }
        Ok(row)
    }

    /// Returns the next row and moves on, if its key is less than `key`.
    pub(in crate::store) fn below(&mut self, key: &[u8]) -> Result<Option<Pair>, Error> {
        if self.peek()?.is_some_and(|(next, _)| next.as_slice() < key) {
            self.next()
        } else {
            Ok(None)
        }
    }

    /// Returns the value of the next row and moves on, if its key is `key`.
    pub(in crate::store) fn at(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        if self.peek()?.is_some_and(|(next, _)| next.as_slice() == key) {
            Ok(self.next()?.map(|(_, value)| value))
        } else {
            Ok(None)
        }
    }

    /// Returns the next row and moves on, if its key begins with `prefix`.
    pub(in crate::store) fn within(&mut self, prefix: &[u8]) -> Result<Option<Pair>, Error> {
        if self.peek()?.is_some_and(|(next, _)| next.starts_with(prefix)) {
            self.next()
        } else {
            Ok(None)
        }
    }
}

impl<'a> Checker<'a> {
    /// Returns a cursor over the account's rows of a table.
    pub(in crate::store) fn rows<T: Table>(&self) -> RowCursor<'a, T>
    where
        (AccountId,): Prefix<T::Key>,
    {
        RowCursor::under(self.read, self.run, &(self.account,))
    }

    /// Reports where the account's rows of a table differ from `wanted`, which is in key order.
    pub(in crate::store) fn expect_rows<T: Table<Row: RowFormat>>(
        &self,
        wanted: impl Iterator<Item = (T::Key, T::Row)>,
    ) -> Result<(), Error>
    where
        (AccountId,): Prefix<T::Key>,
    {
        self.expect_rows_under::<T>(&mut self.rows(), &(self.account,), wanted)
    }

    /// Does the same as `expect_rows` for a table whose rows `store::row` has encoded.
    pub(in crate::store) fn expect_encoded_rows<T: Table<Row = Encoded>>(
        &self,
        wanted: impl Iterator<Item = (T::Key, Vec<u8>)>,
    ) -> Result<(), Error>
    where
        (AccountId,): Prefix<T::Key>,
    {
        let wanted = wanted.map(|(key, value)| (key.encode(), value));
        self.expect_raw_rows_under(&mut self.rows::<T>().raw, &(self.account,).encode(), wanted)
    }

    /// Reports where the rows under a prefix differ from `wanted`, which is in key order. `found`
    /// stands at the first of these rows, and is left behind the last.
    pub(in crate::store) fn expect_rows_under<T: Table<Row: RowFormat>>(
        &self,
        found: &mut RowCursor<'_, T>,
        prefix: &impl Prefix<T::Key>,
        wanted: impl Iterator<Item = (T::Key, T::Row)>,
    ) -> Result<(), Error> {
        let wanted = wanted.map(|(key, row)| (key.encode(), row.to_bytes()));
        self.expect_raw_rows_under(&mut found.raw, &prefix.encode(), wanted)
    }

    fn expect_raw_rows_under(
        &self,
        found: &mut RawRows<'_>,
        prefix: &[u8],
        wanted: impl Iterator<Item = Pair>,
    ) -> Result<(), Error> {
        let table = found.table;
        for (key, value) in wanted {
            while let Some((extra, _)) = found.below(&key)? {
                self.report_extra(table, &extra)?;
            }
            let row = found.at(&key)?;
            self.expect(table, &key, row.as_deref(), value)?;
        }
        while let Some((extra, _)) = found.within(prefix)? {
            self.report_extra(table, &extra)?;
        }
        Ok(())
    }

    /// Reports a fault if the row under a key differs from `row`, or is missing.
    pub(in crate::store) fn expect_row<T: Table<Row: RowFormat>>(
        &self,
        key: &T::Key,
        row: &T::Row,
    ) -> Result<(), Error> {
        let found = self.read.bytes::<T>(key)?;
        self.expect(T::ID, &key.encode(), found.as_deref(), row.to_bytes())
    }

    /// Reports a fault if the stored value `found` differs from `value`, or is missing (`None`).
    pub(in crate::store) fn expect(
        &self,
        table: TableId,
        key: &[u8],
        found: Option<&[u8]>,
        value: Vec<u8>,
    ) -> Result<(), Error> {
        match found {
            Some(found) if found == value => Ok(()),
            Some(found) => {
                let what = format!("reads {}, should read {}", quoted(found), quoted(&value));
                self.report(table, key, what, RowFix::Put(value))
            }
            None => self.report(table, key, "the row is missing", RowFix::Put(value)),
        }
    }

    /// Reports a row that should not exist.
    pub(in crate::store) fn report_extra(&self, table: TableId, key: &[u8]) -> Result<(), Error> {
        self.report(table, key, "the row should not be there", RowFix::Delete)
    }
}

fn quoted(row: &[u8]) -> String {
    match row.get(..MAX_QUOTED_BYTES) {
        Some(first) if row.len() > MAX_QUOTED_BYTES => {
            format!("{}… ({} bytes)", hex(first), row.len())
        }
        _ => hex(row),
    }
}
