//! Merges rows that are not in the tables with those that are, lazily and in the order of keys.
//!
//! - A transaction (`Txn`) merges queued and staged rows. Queued rows were committed by earlier
//!   transactions of its account, and are not written yet. Staged rows are its own.
//! - A store that is open for reading only (`rocks::read_only`) merges the rows of the journal that
//!   the tables may lack, as staged ones.
//! - Staged rows replace queued ones, and later queued rows earlier ones.

use std::collections::{BTreeMap, btree_map};
use std::sync::Arc;

use super::{Batch, Put, RowFn, RowReader, Table};
use crate::store::error::Error;

/// Rows by table and key; `None` for a deleted row.
pub(in crate::store) type StagedRows = BTreeMap<(Table, Vec<u8>), Option<Vec<u8>>>;

type OverlayRow<'a> = (&'a [u8], Option<&'a [u8]>);

/// The rows of a range of one table that are not in the table yet, as a cursor.
pub(in crate::store) struct Overlay<'a> {
    /// Each source with its next row. If several have the same key, the last source counts.
    sources: Vec<(OverlaySource<'a>, OverlayRow<'a>)>,
    reverse: bool,
}

/// The rows of one queued batch, or the staged rows.
enum OverlaySource<'a> {
    Queued(std::slice::Iter<'a, Put>),
    Staged(btree_map::Range<'a, (Table, Vec<u8>), Option<Vec<u8>>>),
}

impl<'a> OverlaySource<'a> {
    fn next(&mut self, reverse: bool) -> Option<OverlayRow<'a>> {
        match self {
            Self::Queued(rows) => {
                let put = if reverse { rows.next_back() } else { rows.next() }?;
                Some((&put.key, put.value.as_deref()))
            }
            Self::Staged(rows) => {
                let ((_, key), value) = if reverse { rows.next_back() } else { rows.next() }?;
                Some((key, value.as_deref()))
            }
        }
    }
}

impl<'a> Overlay<'a> {
    /// The rows of a table with `from <= key < to`. `from` must not be greater than `to`.
    pub(in crate::store) fn of(
        queued: &'a [Arc<Batch>],
        staged: &'a StagedRows,
        table: Table,
        [from, to]: [&[u8]; 2],
        reverse: bool,
    ) -> Self {
        let queued =
            queued.iter().map(|batch| OverlaySource::Queued(batch.range(table, from, to).iter()));
        let staged =
            OverlaySource::Staged(staged.range((table, from.to_vec())..(table, to.to_vec())));
        let sources = queued
            .chain([staged])
            .filter_map(|mut source| source.next(reverse).map(|next| (source, next)));
        Self { sources: sources.collect(), reverse }
    }

    fn is_empty(&self) -> bool {
        self.sources.is_empty()
    }

    /// Removes and returns the next row.
    fn take(&mut self) -> Option<OverlayRow<'a>> {
        let next = self.first()?;
        self.advance(next.0);
        Some(next)
    }

    /// Removes and returns the next row, unless it comes after this key.
    fn take_upto(&mut self, key: &[u8]) -> Option<OverlayRow<'a>> {
        let next = self.first()?;
        if self.is_before(key, next.0) {
            return None;
        }
        self.advance(next.0);
        Some(next)
    }

    /// Whether the scan comes to one key before the other.
    fn is_before(&self, one: &[u8], other: &[u8]) -> bool {
        if self.reverse { one > other } else { one < other }
    }

    /// Returns the next row. Of several sources with its key, the last one gives the row.
    fn first(&self) -> Option<OverlayRow<'a>> {
        let nexts = self.sources.iter().map(|(_, next)| *next);
        nexts.reduce(|best, next| if self.is_before(best.0, next.0) { best } else { next })
    }

    /// Moves every source that stands at this key to its next row.
    fn advance(&mut self, key: &[u8]) {
        let reverse = self.reverse;
        self.sources.retain_mut(|(source, next)| {
            if next.0 != key {
                return true;
            }
            match source.next(reverse) {
                Some(row) => *next = row,
                None => return false,
            }
            true
        });
    }
}

/// Scans the rows of `stored` as they would be with the rows of the overlay, which must be of the
/// same table, range and direction. The arguments are those of [`RowReader::scan`].
///
/// # Errors
/// Those of the engine, and what `each` returns.
pub(in crate::store) fn scan_merged(
    stored: &(impl RowReader + ?Sized),
    mut overlay: Overlay<'_>,
    table: Table,
    [from, to]: [&[u8]; 2],
    each: &mut RowFn<'_>,
) -> Result<(), Error> {
    if overlay.is_empty() {
        return stored.scan(table, from, to, overlay.reverse, each);
    }
    let mut wants_more = true;
    stored.scan(table, from, to, overlay.reverse, &mut |key, value| {
        while let Some((next, row)) = overlay.take_upto(key) {
            if let Some(row) = row {
                wants_more = each(next, row)?;
            }
            // The row or the deletion in the overlay replaces the stored row.
            if next == key {
                return Ok(wants_more);
            }
            if !wants_more {
                return Ok(false);
            }
        }
        wants_more = each(key, value)?;
        Ok(wants_more)
    })?;
    while wants_more && let Some((key, row)) = overlay.take() {
        if let Some(row) = row {
            wants_more = each(key, row)?;
        }
    }
    Ok(())
}
