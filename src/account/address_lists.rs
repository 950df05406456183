//! Keeps in each account's row the list of its aliases and catch-alls, so that `restante check`
//! notices a lost address row.
//!
//! - The row of an address and the list in the account's row are changed in one commit, unless the
//!   account is removed.
//! - Account rows that an earlier version wrote may have no list. The service calls
//!   `complete_address_lists` at its start to give them one.
//! - `complete_address_lists` takes `change_lock`. Callers of the other functions hold it.
//! - A `key` is the key of an address row: the stored form of an address, or `@domain` for a
//!   catch-all.

use std::collections::{BTreeMap, BTreeSet};

use super::Directory;
use super::local::address_taken;
use crate::model::{AccountId, AccountRow, AddressRow};
use crate::store::{Error, Ticket};

impl Directory {
    /// Writes the list of addresses into each account row that has none, and returns the number of
    /// these rows. Skips accounts that are damaged or under repair.
    ///
    /// # Errors
    /// If the store cannot be read or written.
    pub fn complete_address_lists(&self) -> Result<usize, Error> {
        let _guard = self.0.change_lock.lock();
        let rows = self.0.store.snapshot().directory()?;
        let has_no_list = |row: &&Result<AccountRow, Error>| {
            row.as_ref().is_ok_and(|row| row.addresses.is_none())
        };
        let mut lists: BTreeMap<AccountId, BTreeSet<String>> = rows
            .accounts
            .iter()
            .filter(|(_, row)| has_no_list(row))
            .map(|(id, _)| (*id, BTreeSet::new()))
            .collect();
        for (address, row) in rows.addresses {
            if let Ok(AddressRow::Alias(account) | AddressRow::CatchAll(account)) = row
                && let Some(list) = lists.get_mut(&account)
            {
                list.insert(address);
            }
        }
        let mut tickets = Vec::new();
        for (account, addresses) in lists {
            match self.0.store.commit(account, |txn| txn.set_account_addresses(addresses.clone())) {
                Ok(((), ticket)) => tickets.push(ticket),
                Err(Error::Rebuilding(_) | Error::Corrupt { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        let completed = tickets.len();
        tickets.into_iter().try_for_each(Ticket::wait_blocking).map(|()| completed)
    }

    /// Returns the keys of the aliases and catch-alls of an account: from the list in its row, or
    /// if it has no list, from the address rows that can be read.
    ///
    /// # Errors
    /// `NotFound` if there is no such account; others if the store cannot be read.
    pub(super) fn addresses_of(&self, account: AccountId) -> Result<BTreeSet<String>, Error> {
        let snapshot = self.0.store.snapshot();
        let row = snapshot.account(account)?.ok_or(Error::NotFound("account"))?;
        if let Some(list) = row.addresses {
            return Ok(list);
        }
        let leads_here = |row: Result<AddressRow, Error>| match row {
            Ok(AddressRow::Alias(to) | AddressRow::CatchAll(to)) => to == account,
            Ok(AddressRow::Primary(_) | AddressRow::AliasDomain(_)) | Err(_) => false,
        };
        let rows = snapshot.directory()?.addresses.into_iter();
        Ok(rows.filter_map(|(address, row)| leads_here(row).then_some(address)).collect())
    }

    /// Gives an account the address `key`: writes the address row and adds it to the account's
    /// list. A lost or damaged address row is replaced, unless the row of another account names the
    /// address.
    ///
    /// # Errors
    /// Those of `check_key_is_free`; `NotFound` if there is no such account; others if the store
    /// fails.
    pub(super) fn claim_address(
        &self,
        account: AccountId,
        key: &str,
        row: &AddressRow,
    ) -> Result<(), Error> {
        let addresses = self.addresses_of(account)?;
        self.check_key_is_free(account, key)?;
        self.write_address(account, key, Some(row), &addresses)
    }

    /// Takes the address `key` away from an account: deletes the address row and removes it from
    /// the account's list. If the address row is readable, `check` must allow this. If it is lost
    /// or damaged, the list in the account's row must contain the address.
    ///
    /// # Errors
    /// `NotFound` if nobody has the address, or there is no such account; `Corrupt` if the address
    /// row is damaged and the list does not contain the address; those of `check`; others if the
    /// store fails.
    pub(super) fn release_address(
        &self,
        account: AccountId,
        key: &str,
        check: impl FnOnce(&AddressRow) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let addresses = self.addresses_of(account)?;
        match self.0.store.snapshot().address(key) {
            Ok(None) | Err(Error::Corrupt { .. }) if addresses.contains(key) => {}
            row => check(&row?.ok_or(Error::NotFound("address"))?)?,
        }
        self.write_address(account, key, None, &addresses)
    }

    /// Writes or deletes (`None`) an address row, and changes the list in the account's row, in one
    /// commit. A row without a list gets the addresses in `current` first.
    fn write_address(
        &self,
        account: AccountId,
        key: &str,
        row: Option<&AddressRow>,
        current: &BTreeSet<String>,
    ) -> Result<(), Error> {
        // The closure runs once for each account; the site has the address rows.
        let ticket = self.0.store.commit_together(&[AccountId::SITE, account], |txn| {
            if txn.account() == AccountId::SITE {
                txn.set_address(key, row);
                return Ok(());
            }
            let list =
                txn.snapshot().account(account)?.ok_or(Error::NotFound("account"))?.addresses;
            let mut addresses = list.unwrap_or_else(|| current.clone());
            if row.is_some() {
                addresses.insert(key.to_owned());
            } else {
                addresses.remove(key);
            }
            txn.set_account_addresses(addresses)
        })?;
        ticket.wait_blocking()
    }

    /// Checks that `account` may get the address `key`.
    ///
    /// # Errors
    /// `Conflict` if the address has a readable row; `Corrupt` if its row is lost or damaged, and
    /// the row of another account lists the address or has it as primary address; others if the
    /// store cannot be read.
    pub(super) fn check_key_is_free(&self, account: AccountId, key: &str) -> Result<(), Error> {
        let mut rows = self.0.store.snapshot().directory()?;
        let has_address = |row: &AccountRow| {
            row.primary.to_string() == key
                || row.addresses.iter().flatten().any(|listed| listed == key)
        };
        // If the row of the address is lost but an account lists the address, `rows` has an error
        // for it.
        match rows.addresses.remove(key) {
            None => Ok(()),
            Some(Ok(_)) => Err(address_taken(key)),
            Some(Err(damage)) => {
                let mut others = rows.accounts.iter().filter(|(id, _)| **id != account);
                if others.any(|(_, row)| row.as_ref().is_ok_and(has_address)) {
                    Err(damage)
                } else {
                    Ok(())
                }
            }
        }
    }
}
