//! A reader that refuses rows of accounts under repair, because they may be half written.

use std::collections::BTreeSet;

use crate::model::AccountId;
use crate::store::engine::segments::Segments;
use crate::store::engine::{LookupFn, RowFn, RowReader, Table, WalkFn, WalkStep};
use crate::store::error::Error;
use crate::store::table::Home;
use crate::store::table::codec::KeyPart as _;

/// Fails with `Rebuilding` for the rows of accounts under repair.
///
/// - Tables of which `RepairMethod::closes_account` is false can still be read.
/// - A scan or a walk is judged by the account with which its lower bound begins. One of a whole
///   table is not refused.
pub(in crate::store) struct RepairGuard<'a> {
    pub(in crate::store) read: Box<dyn RowReader + 'a>,
    pub(in crate::store) under_repair: BTreeSet<AccountId>,
}

impl RepairGuard<'_> {
    fn check_open(&self, table: Table, key: &[u8]) -> Result<(), Error> {
        let is_of_account = table.home() == Home::Account && table.repair().closes_account();
        let account = AccountId::read(&mut { key }).ok().filter(|_| is_of_account);
        match account.filter(|account| self.under_repair.contains(account)) {
            Some(account) => Err(Error::Rebuilding(account)),
            None => Ok(()),
        }
    }
}

impl RowReader for RepairGuard<'_> {
    fn segments(&self) -> Option<&Segments> {
        self.read.segments()
    }

    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.check_open(table, key)?;
        self.read.get(table, key)
    }

    fn get_many(
        &self,
        table: Table,
        keys: &[Vec<u8>],
        each: &mut LookupFn<'_>,
    ) -> Result<(), Error> {
        keys.iter().try_for_each(|key| self.check_open(table, key))?;
        self.read.get_many(table, keys, each)
    }

    fn scan(
        &self,
        table: Table,
        from: &[u8],
        to: &[u8],
        reverse: bool,
        each: &mut RowFn<'_>,
    ) -> Result<(), Error> {
        self.check_open(table, from)?;
        self.read.scan(table, from, to, reverse, each)
    }

    fn walk(
        &self,
        table: Table,
        from: &[u8],
        to: &[u8],
        first: WalkStep,
        each: &mut WalkFn<'_>,
    ) -> Result<(), Error> {
        self.check_open(table, from)?;
        self.read.walk(table, from, to, first, each)
    }
}
