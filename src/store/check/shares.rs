//! Who shares something with whom, as the mailboxes have it.

use std::collections::BTreeSet;
use std::collections::btree_map::{BTreeMap, Entry};

use super::rows::Rows;
use super::{Checker, Fault, Hear, Mend, Pace};
use crate::model::{AccountId, Mailbox};
use crate::store::engine::{Read, Table, after};
use crate::store::error::Error;
use crate::store::key::{self, Parts};
use crate::store::row::Row;

impl Checker<'_> {
    /// Whoever something is shared with finds it. Those who are gone are taken out of mailboxes by and by.
    pub(super) fn shares(&self) -> Result<(), Error> {
        let live = self.census.mailboxes.values().filter(|row| !row.deleted);
        let with: BTreeSet<AccountId> = live.flat_map(|row| row.shares.keys().copied()).collect();
        for with in with {
            if self.read.get(Table::Accounts, &key::account(with))?.is_some() {
                let row = key::shared(with, self.account);
                let found = self.read.get(Table::Shared, &row)?;
                self.expect(Table::Shared, &row, found.as_deref(), vec![1])?;
            }
        }
        Ok(())
    }
}

/// Who shares with whom, by this key.
pub(in crate::store) fn shared_by(key: &[u8]) -> Option<(AccountId, AccountId)> {
    let mut parts = Parts::of(Table::Shared, key);
    let (owner, with) = (parts.u32().ok()?, parts.u32().ok()?);
    (key.len() == 8).then_some((AccountId(owner), AccountId(with)))
}

/// With whom an account shares something, in as far as its mailboxes can be read.
pub(in crate::store) fn shares_of(read: &dyn Read, owner: AccountId) -> Result<BTreeSet<AccountId>, Error> {
    let prefix = key::account(owner);
    let mut with = BTreeSet::new();
    read.scan(Table::Mailboxes, &prefix, &after(&prefix), false, &mut |key, value| {
        if let Ok(row) = Mailbox::decode(key, value)
            && !row.deleted
        {
            with.extend(row.shares.keys().copied());
        }
        Ok(true)
    })?;
    Ok(with)
}

/// Every row is of two accounts that there are, of which one shares something with the other.
pub(super) fn strays(read: &dyn Read, run: &dyn Pace, hear: &mut Hear<'_>) -> Result<(), Error> {
    let is_there = |account| Ok::<bool, Error>(read.get(Table::Accounts, &key::account(account))?.is_some());
    let mut known: BTreeMap<AccountId, BTreeSet<AccountId>> = BTreeMap::new();
    let mut rows = Rows::new(read, run, Table::Shared, &[]);
    while let Some((key, _)) = rows.next()? {
        let (mut account, mut holds) = (AccountId::SITE, false);
        if let Some((owner, with)) = shared_by(&key) {
            account = if is_there(owner)? { owner } else { with };
            let of_owner = match known.entry(owner) {
                Entry::Occupied(entry) => entry.into_mut(),
                Entry::Vacant(entry) => entry.insert(shares_of(read, owner)?),
            };
            holds = of_owner.contains(&with) && is_there(with)?;
        }
        if !holds {
            let what = "says that something is shared that is not".into();
            hear(Fault { account, table: Table::Shared, key, what, mend: Mend::Delete, history: false })?;
        }
    }
    Ok(())
}
