//! Who shares something with whom, as the mailboxes have it.

use std::collections::BTreeSet;
use std::collections::btree_map::{BTreeMap, Entry};

use crate::model::AccountId;
use crate::store::engine::typed::TypedRead as _;
use crate::store::engine::{RowReader, Table};
use crate::store::error::Error;
use crate::store::repair::check::rows::{Found, RowCursor};
use crate::store::repair::check::{CheckObserver, Checker, FaultFn, RowFault, RowFix};
use crate::store::repair::references::shares_of;
use crate::store::table::keys::{AccountKey, SharedKey};
use crate::store::table::{Accounts, Present, Shared, decode_key};

impl Checker<'_> {
    /// Every user with rights in a mailbox has a row in `shared`. Rights of accounts that no longer
    /// exist are removed later, by upkeep.
    pub(in crate::store) fn check_shares(&self) -> Result<(), Error> {
        let live = self.census.mailboxes.values().filter(|row| !row.deleted);
        let with: BTreeSet<AccountId> = live.flat_map(|row| row.shares.keys().copied()).collect();
        for with in with {
            if self.read.bytes::<Accounts>(&AccountKey { account: with })?.is_some() {
                self.expect_row::<Shared>(&SharedKey { with, account: self.account }, &Present)?;
            }
        }
        Ok(())
    }
}

/// Who shares with whom, by this key.
fn shared_by(key: &[u8]) -> Option<(AccountId, AccountId)> {
    decode_key::<Shared>(key).ok().map(|key| (key.account, key.with))
}

/// Every row is of two accounts that there are, of which one shares something with the other.
pub(in crate::store) fn check_shared_rows(
    read: &dyn RowReader,
    run: &dyn CheckObserver,
    on_fault: &mut FaultFn<'_>,
) -> Result<(), Error> {
    let is_there =
        |account| Ok::<bool, Error>(read.bytes::<Accounts>(&AccountKey { account })?.is_some());
    let mut known: BTreeMap<AccountId, BTreeSet<AccountId>> = BTreeMap::new();
    let mut rows = RowCursor::<Shared>::of_table(read, run);
    while let Some(Found { key, .. }) = rows.next()? {
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
            on_fault(RowFault {
                account,
                table: Table::Shared,
                key,
                what,
                mend: RowFix::Delete,
                history: false,
            })?;
        }
    }
    Ok(())
}
