//! An account's rows that are not on disk yet, in the order of their keys: a change's own over
//! those that are queued, and of these the later over the earlier.
//!
//! A change of a thousand emails has as many rows of a table as a mailbox, and looks into it
//! thousands of times: so rows are merged as they are asked for, and what lies behind the last that
//! is wanted costs nothing.

use std::collections::{BTreeMap, btree_map};
use std::sync::Arc;

use crate::store::engine::{Batch, Put, Table};

/// Rows by table and key; nothing for one that is deleted.
pub(in crate::store) type StagedRows = BTreeMap<(Table, Vec<u8>), Option<Vec<u8>>>;

/// A key, and its value or that it is deleted.
type OverlayRow<'a> = (&'a [u8], Option<&'a [u8]>);

/// The rows of a range that are on their way to the disk.
pub(in crate::store) struct Overlay<'a> {
    /// Each with its next row; of one key the last one's counts.
    sources: Vec<(OverlaySource<'a>, OverlayRow<'a>)>,
    reverse: bool,
}

enum OverlaySource<'a> {
    Queued(std::slice::Iter<'a, Put>),
    Own(btree_map::Range<'a, (Table, Vec<u8>), Option<Vec<u8>>>),
}

impl<'a> OverlaySource<'a> {
    fn next(&mut self, reverse: bool) -> Option<OverlayRow<'a>> {
        match self {
            Self::Queued(rows) => {
                let put = if reverse { rows.next_back() } else { rows.next() }?;
                Some((&put.key, put.value.as_deref()))
            }
            Self::Own(rows) => {
                let ((_, key), value) = if reverse { rows.next_back() } else { rows.next() }?;
                Some((key, value.as_deref()))
            }
        }
    }
}

impl<'a> Overlay<'a> {
    /// The rows of a table from the first key up to the second; `from` is not behind `to`.
    pub(in crate::store) fn of(
        queued: &'a [Arc<Batch>],
        own: &'a StagedRows,
        table: Table,
        [from, to]: [&[u8]; 2],
        reverse: bool,
    ) -> Self {
        let queued =
            queued.iter().map(|batch| OverlaySource::Queued(batch.range(table, from, to).iter()));
        let own = OverlaySource::Own(own.range((table, from.to_vec())..(table, to.to_vec())));
        let sources = queued
            .chain([own])
            .filter_map(|mut source| source.next(reverse).map(|next| (source, next)));
        Self { sources: sources.collect(), reverse }
    }

    pub(in crate::store) fn is_empty(&self) -> bool {
        self.sources.is_empty()
    }

    /// The next row.
    pub(in crate::store) fn take(&mut self) -> Option<OverlayRow<'a>> {
        let next = self.first()?;
        self.advance(next.0);
        Some(next)
    }

    /// The next row, where it does not lie behind this key.
    pub(in crate::store) fn take_upto(&mut self, key: &[u8]) -> Option<OverlayRow<'a>> {
        let next = self.first()?;
        if self.is_before(key, next.0) {
            return None;
        }
        self.advance(next.0);
        Some(next)
    }

    fn is_before(&self, one: &[u8], other: &[u8]) -> bool {
        if self.reverse { one > other } else { one < other }
    }

    fn first(&self) -> Option<OverlayRow<'a>> {
        let nexts = self.sources.iter().map(|(_, next)| *next);
        nexts.reduce(|best, next| if self.is_before(best.0, next.0) { best } else { next })
    }

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
