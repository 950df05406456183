//! An account's own row names the addresses that lead to it, so that one that is lost is missed.
//!
//! - What an address leads to and what the account's row names is one write.
//! - Rows that an earlier version wrote name none: they are completed at the next start of the
//!   service, or by the next change of the account.
//! - `changing` is held from the first look to the write.

use std::collections::{BTreeMap, BTreeSet};

use super::Directory;
use super::local::address_taken;
use crate::model::{AccountId, AccountRow, AddressRow};
use crate::store::{Error, Ticket};

impl Directory {
    /// Has the rows of all accounts name their addresses, as those that an earlier version wrote do
    /// not: once they do, an address that is lost is missed. An account that is being repaired, or
    /// whose row is damaged, is left for the next time.
    ///
    /// # Errors
    /// Those of the store.
    pub fn name_addresses(&self) -> Result<usize, Error> {
        let _alone = self.0.changing.lock();
        let rows = self.0.store.snapshot().directory()?;
        let unnamed = |row: &&Result<AccountRow, Error>| {
            row.as_ref().is_ok_and(|row| row.addresses.is_none())
        };
        let mut of: BTreeMap<AccountId, BTreeSet<String>> = rows
            .accounts
            .iter()
            .filter(|(_, row)| unnamed(row))
            .map(|(id, _)| (*id, BTreeSet::new()))
            .collect();
        for (address, row) in rows.addresses {
            if let Ok(AddressRow::Alias(account) | AddressRow::CatchAll(account)) = row
                && let Some(of) = of.get_mut(&account)
            {
                of.insert(address);
            }
        }
        let mut tickets = Vec::new();
        for (account, addresses) in of {
            match self.0.store.commit(account, |txn| txn.set_account_addresses(addresses.clone())) {
                Ok(((), ticket)) => tickets.push(ticket),
                Err(Error::Rebuilding(_) | Error::Corrupt { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        let named = tickets.len();
        tickets.into_iter().try_for_each(Ticket::wait_blocking).map(|()| named)
    }

    /// The aliases and catch-alls of an account: as its row names them, or as they lead to it where
    /// an earlier version wrote the row.
    pub(super) fn addresses_of(&self, account: AccountId) -> Result<BTreeSet<String>, Error> {
        let snapshot = self.0.store.snapshot();
        if let Some(named) = snapshot.account(account)?.ok_or(Error::NotFound("account"))?.addresses
        {
            return Ok(named);
        }
        let leads = |row: Result<AddressRow, Error>| match row {
            Ok(AddressRow::Alias(to) | AddressRow::CatchAll(to)) => to == account,
            Ok(AddressRow::Primary(_) | AddressRow::AliasDomain(_)) | Err(_) => false,
        };
        let all = snapshot.directory()?.addresses.into_iter();
        Ok(all.filter_map(|(address, row)| leads(row).then_some(address)).collect())
    }

    /// Lets an address lead to an account. A row that stands there and cannot be read is written
    /// anew.
    pub(super) fn claim(
        &self,
        account: AccountId,
        key: &str,
        row: &AddressRow,
    ) -> Result<(), Error> {
        let found = self.addresses_of(account)?;
        self.check_key_is_free(account, key)?;
        self.write_address(account, key, Some(row), &found)
    }

    pub(super) fn release(
        &self,
        account: AccountId,
        key: &str,
        may: impl FnOnce(&AddressRow) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let found = self.addresses_of(account)?;
        match self.0.store.snapshot().address(key) {
            // The account's own row says that the address is the account's.
            Ok(None) | Err(Error::Corrupt { .. }) if found.contains(key) => {}
            row => may(&row?.ok_or(Error::NotFound("address"))?)?,
        }
        self.write_address(account, key, None, &found)
    }

    /// Writes where an address leads, and what the account's own row names, in one commit. `found`
    /// are the addresses of the account, for a row that names none yet. The caller holds
    /// `changing`.
    fn write_address(
        &self,
        account: AccountId,
        key: &str,
        row: Option<&AddressRow>,
        found: &BTreeSet<String>,
    ) -> Result<(), Error> {
        let ticket = self.0.store.commit_together(&[AccountId::SITE, account], |txn| {
            if txn.account() == AccountId::SITE {
                txn.set_address(key, row);
                return Ok(());
            }
            let named =
                txn.snapshot().account(account)?.ok_or(Error::NotFound("account"))?.addresses;
            let mut addresses = named.unwrap_or_else(|| found.clone());
            if row.is_some() {
                addresses.insert(key.to_owned());
            } else {
                addresses.remove(key);
            }
            txn.set_account_addresses(addresses)
        })?;
        ticket.wait_blocking()
    }

    /// Refuses an address that is taken, or that another account names though its row is damaged.
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
