//! Checks that the table `shared` agrees with the shares of the mailboxes.

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
    /// Checks that every guest of a mailbox has a row in `shared`. Guests without a row in
    /// `accounts` need none.
    pub(in crate::store) fn check_shares(&self) -> Result<(), Error> {
        let live = self.census.mailboxes.values().filter(|row| !row.destroyed);
        let with: BTreeSet<AccountId> = live.flat_map(|row| row.shares.keys().copied()).collect();
        for with in with {
            if self.read.bytes::<Accounts>(&AccountKey { account: with })?.is_some() {
                self.expect_row::<Shared>(
                    &SharedKey { user: with, account: self.account },
                    &Present,
                )?;
            }
        }
        Ok(())
    }
}

/// Decodes the key of a row of `shared` into owner and guest.
fn owner_and_guest(key: &[u8]) -> Option<(AccountId, AccountId)> {
    decode_key::<Shared>(key).ok().map(|key| (key.account, key.user))
}

/// Checks every row of `shared`, which names an owner and a guest: the guest must exist, and the
/// owner must share a mailbox with the guest. A fault is reported for the owner; if the owner has
/// no row in `accounts`, for the guest; and if the key is damaged, for the site. A repair deletes
/// the row in a commit of the account for which it is reported.
pub(in crate::store) fn check_shared_rows(
    read: &dyn RowReader,
    run: &dyn CheckObserver,
    on_fault: &mut FaultFn<'_>,
) -> Result<(), Error> {
    let exists =
        |account| Ok::<bool, Error>(read.bytes::<Accounts>(&AccountKey { account })?.is_some());
    // The guests of each owner, read when the first row names the owner.
    let mut guests: BTreeMap<AccountId, BTreeSet<AccountId>> = BTreeMap::new();
    let mut rows = RowCursor::<Shared>::of_table(read, run);
    while let Some(Found { key, .. }) = rows.next()? {
        let (mut account, mut is_right) = (AccountId::SITE, false);
        if let Some((owner, with)) = owner_and_guest(&key) {
            account = if exists(owner)? { owner } else { with };
            let of_owner = match guests.entry(owner) {
                Entry::Occupied(entry) => entry.into_mut(),
                Entry::Vacant(entry) => entry.insert(shares_of(read, owner)?),
            };
            is_right = of_owner.contains(&with) && exists(with)?;
        }
        if !is_right {
            let what = "says that something is shared that is not".into();
            on_fault(RowFault {
                account,
                table: Table::Shared,
                key,
                what,
                fix: RowFix::Delete,
                seen_by_clients: false,
            })?;
        }
    }
    Ok(())
}
