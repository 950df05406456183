//! Rows of a table in key order, drawn a page at a time, so that several tables are read side by side; and how what is
//! found is compared with what should stand there.

use std::collections::VecDeque;

use super::{Checker, Mend, Pace};
use crate::store::engine::{Read, Table, after};
use crate::store::error::{Error, hex};

/// Rows of a page at most, and octets after which it ends.
const PAGE: (usize, usize) = (512, 1 << 20);
/// Octets of a row that a breach quotes.
const QUOTED: usize = 48;

/// A key and its value.
pub(super) type Pair = (Vec<u8>, Vec<u8>);

/// The rows of a range, one after the other.
pub(super) struct Rows<'a> {
    read: &'a dyn Read,
    run: &'a dyn Pace,
    table: Table,
    from: Vec<u8>,
    to: Vec<u8>,
    page: VecDeque<Pair>,
    over: bool,
}

impl<'a> Rows<'a> {
    pub(super) fn new(read: &'a dyn Read, run: &'a dyn Pace, table: Table, prefix: &[u8]) -> Self {
        Self { read, run, table, from: prefix.to_vec(), to: after(prefix), page: VecDeque::new(), over: false }
    }

    pub(super) fn peek(&mut self) -> Result<Option<&Pair>, Error> {
        if self.page.is_empty() && !self.over {
            let (page, mut octets) = (&mut self.page, 0usize);
            self.read.scan(self.table, &self.from, &self.to, false, &mut |key, value| {
                octets = octets.saturating_add(key.len()).saturating_add(value.len());
                page.push_back((key.to_vec(), value.to_vec()));
                Ok(page.len() < PAGE.0 && octets < PAGE.1)
            })?;
            self.over = self.page.len() < PAGE.0 && octets < PAGE.1;
            if let Some((last, _)) = self.page.back() {
                self.from = [last.as_slice(), &[0]].concat();
            }
        }
        Ok(self.page.front())
    }

    pub(super) fn next(&mut self) -> Result<Option<Pair>, Error> {
        self.peek()?;
        let row = self.page.pop_front();
        if row.is_some() {
            self.run.step(self.table)?;
        }
        Ok(row)
    }

    /// The next row, if its key is below this one.
    pub(super) fn below(&mut self, key: &[u8]) -> Result<Option<Pair>, Error> {
        if self.peek()?.is_some_and(|(next, _)| next.as_slice() < key) { self.next() } else { Ok(None) }
    }

    /// The row of this key, if it is the next.
    pub(super) fn at(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        if self.peek()?.is_some_and(|(next, _)| next.as_slice() == key) {
            Ok(self.next()?.map(|(_, value)| value))
        } else {
            Ok(None)
        }
    }

    /// The next row, if its key begins so.
    pub(super) fn within(&mut self, prefix: &[u8]) -> Result<Option<Pair>, Error> {
        if self.peek()?.is_some_and(|(next, _)| next.starts_with(prefix)) { self.next() } else { Ok(None) }
    }
}

impl<'a> Checker<'a> {
    pub(super) fn rows(&self, table: Table, prefix: &[u8]) -> Rows<'a> {
        Rows::new(self.read, self.run, table, prefix)
    }

    /// The account's rows of a table must be exactly these, which come in key order.
    pub(super) fn compare(&self, table: Table, wanted: impl Iterator<Item = Pair>) -> Result<(), Error> {
        let prefix = crate::store::key::account(self.account);
        let mut found = self.rows(table, &prefix);
        self.section(table, &mut found, &prefix, wanted)
    }

    /// The rows under a prefix, at which `found` stands, must be exactly these.
    pub(super) fn section(
        &self,
        table: Table,
        found: &mut Rows<'_>,
        prefix: &[u8],
        wanted: impl Iterator<Item = Pair>,
    ) -> Result<(), Error> {
        for (key, value) in wanted {
            while let Some((extra, _)) = found.below(&key)? {
                self.extra(table, &extra)?;
            }
            let row = found.at(&key)?;
            self.expect(table, &key, row.as_deref(), value)?;
        }
        while let Some((extra, _)) = found.within(prefix)? {
            self.extra(table, &extra)?;
        }
        Ok(())
    }

    /// One row must read so.
    pub(super) fn expect(&self, table: Table, key: &[u8], found: Option<&[u8]>, value: Vec<u8>) -> Result<(), Error> {
        match found {
            Some(found) if found == value => Ok(()),
            Some(found) => {
                let what = format!("reads {}, should read {}", quoted(found), quoted(&value));
                self.say(table, key, what, Mend::Put(value))
            }
            None => self.say(table, key, "the row is missing", Mend::Put(value)),
        }
    }

    pub(super) fn extra(&self, table: Table, key: &[u8]) -> Result<(), Error> {
        self.say(table, key, "the row should not be there", Mend::Delete)
    }
}

fn quoted(row: &[u8]) -> String {
    match row.get(..QUOTED) {
        Some(first) if row.len() > QUOTED => format!("{}… ({} octets)", hex(first), row.len()),
        _ => hex(row),
    }
}
