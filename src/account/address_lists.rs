//! Keeps in each account's row the list of its addresses, so that a check notices a lost row of an
//! address.
//!
//! - The row of an address and the list in the account's row are changed by one write.
//! - Rows that an earlier version wrote have no list. They get one at the next start of the
//!   service, or by the next change of the account.
//! - `change_lock` is held from the first read to the write.

use std::collections::{BTreeMap, BTreeSet};

use super::Directory;
use super::local::address_taken;
use crate::model::{AccountId, AccountRow, AddressRow};
use crate::store::{Error, Ticket};

impl Directory {
    /// Adds the list of addresses to the rows of accounts that have none. Returns how many were
    /// completed. An account that is being repaired, or whose row is damaged, is left for the next
    /// time.
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

    /// The aliases and catch-alls of an account: from the list in its row, or if there is none,
    /// from the rows of the addresses.
    pub(super) fn addresses_of(&self, account: AccountId) -> Result<BTreeSet<String>, Error> {
        let snapshot = self.0.store.snapshot();
        if let Some(named) = snapshot.account(account)?.ok_or(Error::NotFound("account"))?.addresses
        {
            return Ok(named);
        }
        let resolves = |row: Result<AddressRow, Error>| match row {
            Ok(AddressRow::Alias(to) | AddressRow::CatchAll(to)) => to == account,
            Ok(AddressRow::Primary(_) | AddressRow::AliasDomain(_)) | Err(_) => false,
        };
        let rows = snapshot.directory()?.addresses.into_iter();
        Ok(rows.filter_map(|(address, row)| resolves(row).then_some(address)).collect())
    }

    /// Gives an address to an account. If the address has an unreadable row, it is written anew.
    ///
    /// # Errors
    /// `Conflict` if the address is taken.
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

    /// Takes an address away from an account, if `check` allows it for the row of the address.
    pub(super) fn release_address(
        &self,
        account: AccountId,
        key: &str,
        check: impl FnOnce(&AddressRow) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let addresses = self.addresses_of(account)?;
        match self.0.store.snapshot().address(key) {
            // The row of the address is lost or damaged, but the account's own row names it.
            Ok(None) | Err(Error::Corrupt { .. }) if addresses.contains(key) => {}
            row => check(&row?.ok_or(Error::NotFound("address"))?)?,
        }
        self.write_address(account, key, None, &addresses)
    }

    /// Writes the row of an address and the list in the account's row in one commit. `current`
    /// are the addresses of the account, for a row without a list. The caller holds
    /// `change_lock`.
    fn write_address(
        &self,
        account: AccountId,
        key: &str,
        row: Option<&AddressRow>,
        current: &BTreeSet<String>,
    ) -> Result<(), Error> {
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

    /// Refuses an address that is taken, or whose damaged row may belong to another account that
    /// names it.
    pub(super) fn check_key_is_free(&self, account: AccountId, key: &str) -> Result<(), Error> {
        let mut rows = self.0.store.snapshot().directory()?;
        let names = |row: &AccountRow| {
            row.primary.to_string() == key
                || row.addresses.iter().flatten().any(|named| named == key)
        };
        match rows.addresses.remove(key) {
            None => Ok(()),
            Some(Ok(_)) => Err(address_taken(key)),
            Some(Err(damage)) => {
                let mut others = rows.accounts.iter().filter(|(id, _)| **id != account);
                if others.any(|(_, row)| row.as_ref().is_ok_and(names)) {
                    Err(damage)
                } else {
                    Ok(())
                }
            }
        }
    }
}
