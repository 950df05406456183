//! The first rows that a transaction has read, so that it looks each of them up once. Rows of its
//! account stay as they are, because the account is locked. Of other accounts, it sees the rows as
//! they were when it first read them.

use std::cell::RefCell;

use crate::store::engine::Table;
use crate::store::error::Error;
use crate::store::table::Home;

/// The most rows that are remembered: the first ones that are read. A delivery reads half as many,
/// and they are searched one after the other.
const MAX_ROWS: usize = 16;
/// Longer rows are not remembered.
const MAX_ROW_BYTES: usize = 4096;

struct ReadRow {
    table: Table,
    key: Vec<u8>,
    /// `None` if there is no such row.
    row: Option<Vec<u8>>,
}

#[derive(Default)]
pub(super) struct ReadRows(RefCell<Vec<ReadRow>>);

impl ReadRows {
    /// Returns the row under a key as it was read before, or else what `read` returns. Rows that
    /// are not an account's are always read.
    pub(super) fn get_or_read(
        &self,
        table: Table,
        key: &[u8],
        read: impl FnOnce() -> Result<Option<Vec<u8>>, Error>,
    ) -> Result<Option<Vec<u8>>, Error> {
        if table.home() != Home::Account {
            return read();
        }
        if let Some(known) =
            self.0.borrow().iter().find(|known| known.table == table && known.key == key)
        {
            return Ok(known.row.clone());
        }
        let row = read()?;
        self.remember(table, key, row.as_deref());
        Ok(row)
    }

    /// Remembers the row under a key of an account's table; `None` if there is none.
    pub(super) fn remember(&self, table: Table, key: &[u8], row: Option<&[u8]>) {
        let mut rows = self.0.borrow_mut();
        if rows.len() < MAX_ROWS && row.is_none_or(|row| row.len() <= MAX_ROW_BYTES) {
            rows.push(ReadRow { table, key: key.to_vec(), row: row.map(<[u8]>::to_vec) });
        }
    }
}
