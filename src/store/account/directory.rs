//! Writes the rows of accounts and addresses, and erases an account in steps, its own row last.

use std::collections::BTreeSet;

use crate::model::{AccountId, AccountRow, Action, AddressRow, DataType, EmailMetadata, Mailbox};
use crate::store::engine::typed::TypedRead as _;
use crate::store::engine::{RowReader, Table, after};
use crate::store::error::Error;
use crate::store::row::Row as _;
#[cfg(any(test, feature = "internals"))]
use crate::store::row::{AccountStateRow, RowFormat as _};
use crate::store::table::codec::Prefix as _;
#[cfg(any(test, feature = "internals"))]
use crate::store::table::keys::AccountKey;
use crate::store::table::keys::{AddressKey, SharedKey};
use crate::store::table::{self, AccountState, Accounts, Addresses, Shared, Uploads, decode_key};
use crate::store::txn::Txn;

impl Txn<'_> {
    /// Returns an account id that was never used. Called in a transaction of the site.
    ///
    /// The id is above `last_account`, and above the ids of all rows of `accounts` and
    /// `account_state`: the site's state may have been lost since they were given.
    ///
    /// # Errors
    /// `Conflict` if no id is left; those of reading.
    pub fn next_account(&mut self) -> Result<AccountId, Error> {
        let in_use = highest_existing_account(self)?;
        let next = self.state.last_account.max(in_use.0).checked_add(1);
        self.state.last_account =
            next.ok_or_else(|| Error::Conflict("there is no account id left".into()))?;
        self.stage_state();
        Ok(AccountId(self.state.last_account))
    }

    /// Writes the row of a new account and the row of its primary address, both in a transaction of
    /// the account, and raises the site's `last_account` to its id. Only for tests, benches and
    /// fuzzing, while no commit of the site is queued: the directory (`account::Directory`) uses
    /// `next_account`, `set_account` and `set_address`.
    #[cfg(any(test, feature = "internals"))]
    pub fn register(&mut self, row: &AccountRow) {
        self.set_account(row);
        self.put::<Addresses>(
            &AddressKey(row.primary.to_string()),
            &AddressRow::Primary(self.account),
        );
        let site = AccountKey { account: AccountId::SITE };
        let state = self.row::<AccountState>(&site).ok().flatten();
        let state = state.unwrap_or_else(AccountStateRow::fresh);
        if state.last_account < self.account.0 {
            let state = AccountStateRow { last_account: self.account.0, ..state };
            // Not by `put`, which asserts that the row is the account's own.
            self.stage.insert((Table::AccountState, site.encode()), Some(state.to_bytes()));
        }
    }

    /// Writes the account's own row, and no row of its addresses.
    pub fn set_account(&mut self, row: &AccountRow) {
        self.next_modseq();
        self.put::<Accounts>(&self.account_key(), row);
        self.touch(DataType::Account);
    }

    /// Writes in the account's own row which addresses lead to it besides its primary one. The
    /// caller changes the rows of the addresses in the same commit (`Store::commit_together`).
    /// Clients do not see this list, so the change takes no modseq.
    ///
    /// # Errors
    /// `NotFound` if the account has no row; those of reading.
    pub fn set_account_addresses(&mut self, addresses: BTreeSet<String>) -> Result<(), Error> {
        let own = self.account_key();
        let row = self.row::<Accounts>(&own)?.ok_or(Error::NotFound("account"))?;
        self.put::<Accounts>(&own, &AccountRow { addresses: Some(addresses), ..row });
        Ok(())
    }

    /// Writes the row of an address, or deletes it (`None`). Called in a transaction of the site.
    pub fn set_address(&mut self, address: &str, row: Option<&AddressRow>) {
        self.next_modseq();
        let key = AddressKey(address.to_owned());
        match row {
            Some(row) => self.put::<Addresses>(&key, row),
            None => self.delete::<Addresses>(&key),
        }
        self.touch(DataType::Account);
    }

    /// Deletes up to `limit` rows of the account, and what belongs to them: references to messages,
    /// wake-ups, and the rows of its guests in `shared`. The call that finds fewer than `limit`
    /// rows also deletes the account's own row and its state, and returns `false`. The others
    /// return `true`: the caller calls again, each time in a new transaction.
    ///
    /// Before the first call, the caller has deleted the rows of addresses that lead to the
    /// account, and ended what other accounts share with it.
    ///
    /// # Errors
    /// `Corrupt` if the row of an email or an action, or the key of an email or an upload, is
    /// damaged: its references are not known. Those of reading.
    pub fn erase(&mut self, limit: usize) -> Result<bool, Error> {
        let prefix = self.account_key().encode();
        let mut rows: Vec<(Table, Vec<u8>, Vec<u8>)> = Vec::new();
        for table in Table::ALL.iter().copied().filter(|table| table.is_erased()) {
            self.scan(table, &prefix, &after(&prefix), false, &mut |key, value| {
                rows.push((table, key.to_vec(), value.to_vec()));
                Ok(rows.len() < limit)
            })?;
            if rows.len() >= limit {
                break;
            }
        }
        let left = rows.len() >= limit;
        for (table, key, value) in rows {
            match table {
                Table::EmailMetadata => {
                    let email = EmailMetadata::decode(&key, &value)?;
                    self.release_email_blob(
                        &email.blob,
                        decode_key::<table::EmailMetadata>(&key)?.email,
                    );
                }
                Table::Outbox => {
                    let action = Action::decode(&key, &value)?;
                    self.wake(&action, false);
                    self.release_action_blob(&action);
                }
                Table::Mailboxes => {
                    // A damaged mailbox row must not prevent the erasure.
                    let row = Mailbox::decode(&key, &value).unwrap_or_default();
                    for with in row.shares.into_keys() {
                        self.delete::<Shared>(&SharedKey { user: with, account: self.account });
                    }
                }
                Table::Uploads => self.forget_upload(&decode_key::<Uploads>(&key)?),
                _ => {}
            }
            self.stage_row(table, key, None);
        }
        if !left {
            // The directory has emptied the primary address in the row (`account::local`). If a
            // test has not, the row of the primary address is deleted here.
            let own = self.account_key();
            let row = self
                .bytes::<Accounts>(&own)?
                .and_then(|row| AccountRow::decode(&prefix, &row).ok());
            let address = AddressKey(row.map(|row| row.primary.to_string()).unwrap_or_default());
            let address_row = self.bytes::<Addresses>(&address)?;
            let is_own = |row: Vec<u8>| {
                AddressRow::decode(&address.encode(), &row) == Ok(AddressRow::Primary(self.account))
            };
            if address_row.is_some_and(is_own) {
                self.delete::<Addresses>(&address);
            }
            self.delete::<Accounts>(&own);
            self.delete::<AccountState>(&own);
        }
        Ok(left)
    }
}

/// Returns the highest account id that a row of `accounts` or `account_state` has; 0 if there is
/// none. Damaged keys do not count.
pub(in crate::store) fn highest_existing_account(read: &dyn RowReader) -> Result<AccountId, Error> {
    let highest = |table| highest_account_in(read, table, AccountId(u32::MAX));
    Ok(highest(Table::Accounts)?.max(highest(Table::AccountState)?))
}

/// Returns the highest account id up to `most` of a table whose keys begin with an account; 0 if
/// there is none.
pub(in crate::store) fn highest_account_in(
    read: &dyn RowReader,
    table: Table,
    most: AccountId,
) -> Result<AccountId, Error> {
    let mut highest = AccountId::SITE;
    read.scan(table, &[], &after(&[]), true, &mut |key, _| {
        let id = key.first_chunk().filter(|_| table.check_key(key).is_ok());
        let id = id.map(|id| AccountId(u32::from_be_bytes(*id))).filter(|id| *id <= most);
        highest = id.unwrap_or(highest);
        Ok(id.is_none())
    })?;
    Ok(highest)
}
