//! Compares accounts with the addresses that lead to them.
//!
//! - An account's own row names its primary address, its aliases and its catch-alls, and the rows
//!   of these addresses name the account. Either is recovered from the other. An address that leads
//!   to another account is only reported.
//! - A lost account row is recovered from addresses and identities, without passwords, quota and
//!   settings; or as a whole, if only its key is damaged (`unplaced_check`).
//! - The loss of an alias domain cannot be noticed: no other row names it.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{AccountId, AccountRow, Address, AddressRow, SenderIdentity, UtcMillis};
use crate::store::account::unplaced_check::unplaced_row_of;
use crate::store::engine::typed::{KeyRange, TypedRead as _};
use crate::store::engine::{RowReader, Table};
use crate::store::error::Error;
use crate::store::repair::check::rows::{Found, RowCursor};
use crate::store::repair::check::{CheckObserver, Checker, FaultFn, RowFault, RowFix};
use crate::store::row::{Object as _, ObjectRow, Row as _, RowFormat as _};
use crate::store::table::codec::Prefix as _;
use crate::store::table::keys::{AccountKey, AddressKey};
use crate::store::table::{self, Accounts, Addresses, Mailboxes, Objects, Table as _, decode_key};

impl Checker<'_> {
    /// Checks the account's own row and the rows of its addresses. A lost or damaged row of the
    /// account is recovered; if nothing tells what it was, it is only reported.
    pub(in crate::store) fn check_registration(&self) -> Result<(), Error> {
        let own = self.account_key().encode();
        let problem = match self.read.row_if_any::<Accounts>(&self.account_key())? {
            Some(Ok(row)) => return self.check_named_addresses(&row),
            Some(Err(error)) => error.to_string(),
            None => "the row, which says whose account this is, is missing".to_owned(),
        };
        if let Some(row) = unplaced_row_of(self.read, self.account)? {
            let what = format!("{problem}; the row is there under a damaged key");
            self.report(Table::Accounts, &own, what, RowFix::Put(row.to_bytes()))?;
            return self.check_named_addresses(&row);
        }
        let Some(row) = self.recovered_account()? else {
            let what = format!("{problem}; nothing else in the store names the account");
            return self.report(Table::Accounts, &own, what, RowFix::Nothing);
        };
        let what = format!(
            "{problem}; it is recovered as {}: passwords, quota and settings must be set anew",
            row.name
        );
        self.report(Table::Accounts, &own, what, RowFix::Put(row.to_bytes()))?;
        self.check_primary_address(&row)
    }

    fn account_key(&self) -> AccountKey {
        AccountKey { account: self.account }
    }

    /// The addresses that lead to the account, with their rows.
    fn addresses(&self) -> Result<Vec<(String, AddressRow)>, Error> {
        let mut out = Vec::new();
        for address in self.options.addresses.get(&self.account).into_iter().flatten() {
            // An address may have been moved to another account since the run began.
            if let Some(Ok(row)) = self.address_row(address)?.filter(|row| self.is_to(row)) {
                out.push((address.clone(), row));
            }
        }
        Ok(out)
    }

    fn address_row(&self, address: &str) -> Result<Option<Result<AddressRow, Error>>, Error> {
        self.read.row_if_any::<Addresses>(&AddressKey(address.to_owned()))
    }

    /// Whether the row of an address can be read and leads to this account.
    fn is_to(&self, row: &Result<AddressRow, Error>) -> bool {
        row.as_ref().is_ok_and(|row| row.account() == Some(self.account))
    }

    /// Checks that all addresses in the account's row lead to the account, and that all addresses
    /// which lead to it are in the row. A row of an earlier version has no list of addresses
    /// (`AccountRow::addresses`): then only the primary address is checked. An account that is
    /// being removed is only reported: the removal deletes its addresses.
    fn check_named_addresses(&self, row: &AccountRow) -> Result<(), Error> {
        if row.is_being_removed() {
            let what = format!(
                "the account is being removed: run `restante account remove {}`",
                self.account
            );
            return self.report(
                Table::Accounts,
                &self.account_key().encode(),
                what,
                RowFix::Nothing,
            );
        }
        self.check_primary_address(row)?;
        let Some(named) = &row.addresses else { return Ok(()) };
        let own = row.primary.to_string();
        for address in named.iter().filter(|address| **address != own) {
            let is_catch_all = address.starts_with('@');
            let wanted = if is_catch_all {
                AddressRow::CatchAll(self.account)
            } else {
                AddressRow::Alias(self.account)
            };
            let (problem, fix) = match self.address_row(address)? {
                Some(Ok(row)) if row == wanted => continue,
                None => ("leads nowhere", RowFix::Put(wanted.to_bytes())),
                Some(Err(_)) => ("cannot be read", RowFix::Put(wanted.to_bytes())),
                Some(row) if self.is_to(&row) => {
                    ("is another kind of address", RowFix::Put(wanted.to_bytes()))
                }
                Some(Ok(_)) => ("leads elsewhere", RowFix::Nothing),
            };
            let kind = if is_catch_all { "a catch-all" } else { "an alias" };
            let what = format!("{address}, {kind} of account {}, {problem}", self.account);
            self.report(Table::Addresses, address.as_bytes(), what, fix)?;
        }
        let others = self.addresses()?.into_iter().map(|(address, _)| address);
        let unnamed: Vec<String> =
            others.filter(|address| *address != own && !named.contains(address)).collect();
        if unnamed.is_empty() {
            return Ok(());
        }
        let what =
            format!("the row does not name {}, which leads to the account", unnamed.join(", "));
        let addresses = Some(named.iter().cloned().chain(unnamed).collect());
        let fix = RowFix::Put(AccountRow { addresses, ..row.clone() }.to_bytes());
        self.report(Table::Accounts, &self.account_key().encode(), what, fix)
    }

    /// Checks that the primary address in the account's row leads to the account as its primary
    /// address.
    fn check_primary_address(&self, row: &AccountRow) -> Result<(), Error> {
        let own = row.primary.to_string();
        let wanted = AddressRow::Primary(self.account);
        let problem = match self.address_row(&own)? {
            Some(Ok(row)) if row == wanted => None,
            None => Some(("leads nowhere", true)),
            Some(Err(_)) => Some(("cannot be read", true)),
            Some(Ok(AddressRow::Alias(to))) if to == self.account => Some(("is an alias", true)),
            Some(Ok(_)) => Some(("leads elsewhere", false)),
        };
        if let Some((problem, is_fixable)) = problem {
            let what = format!("{own}, the primary address of account {}, {problem}", self.account);
            let fix = if is_fixable { RowFix::Put(wanted.to_bytes()) } else { RowFix::Nothing };
            self.report(Table::Addresses, own.as_bytes(), what, fix)?;
        }
        Ok(())
    }

    /// Makes the account's own row again from the addresses that lead to it and the identities that
    /// the server made for it. `None` if there is no address of these that can be the primary one:
    /// a catch-all cannot.
    fn recovered_account(&self) -> Result<Option<AccountRow>, Error> {
        let addresses = self.addresses()?;
        let mut identities: Vec<SenderIdentity> = Vec::new();
        let range = KeyRange::<Objects>::under(&(self.account, SenderIdentity::KIND));
        self.read.raw_rows(&range, |key, value| {
            let object =
                ObjectRow::<SenderIdentity>::decode(key, value).ok().and_then(|row| row.object);
            // Only an identity that the server made has a default name.
            identities.extend(object.filter(|identity| identity.default_name.is_some()));
            Ok(true)
        })?;
        let first = |is_of_kind: fn(&AddressRow) -> bool| {
            addresses.iter().find(|(_, row)| is_of_kind(row)).map(|(at, _)| at.clone())
        };
        let named = first(|row| matches!(row, AddressRow::Primary(_)))
            .or_else(|| first(|row| matches!(row, AddressRow::Alias(_))))
            .or_else(|| identities.first().map(|identity| identity.email.clone()));
        let Some(primary) = named.and_then(|address| Address::parse(&address).ok()) else {
            return Ok(None);
        };
        let of_primary =
            identities.iter().find(|one| one.email.eq_ignore_ascii_case(&primary.to_string()));
        let display_name =
            of_primary.and_then(|one| one.default_name.clone()).filter(|name| !name.is_empty());
        let row = AccountRow::new(primary.to_string(), primary.clone(), self.oldest_email_time()?);
        let others = addresses.into_iter().map(|(address, _)| address);
        let others = others.filter(|address| *address != row.name).collect();
        Ok(Some(AccountRow { display_name, addresses: Some(others), ..row }))
    }

    /// Returns when the oldest email or tombstone was received; 0 if there is none. A recovered row
    /// has this as the time when the account was created.
    fn oldest_email_time(&self) -> Result<UtcMillis, Error> {
        let mut oldest = UtcMillis(0);
        // Ascending keys are newest first.
        let range = KeyRange::<table::EmailMetadata>::under(&(self.account,)).reversed();
        self.read.keys_or_damage(&range, |key, _| {
            let Ok(key) = key else { return Ok(true) };
            oldest = key.email.received_at();
            Ok(false)
        })?;
        Ok(oldest)
    }
}

/// Checks that every address can be read and leads to an existing account, and that no account has
/// a second primary address. These faults are only reported: a person must decide.
pub(in crate::store) fn check_addresses(
    read: &dyn RowReader,
    run: &dyn CheckObserver,
    on_fault: &mut FaultFn<'_>,
) -> Result<(), Error> {
    let mut rows = RowCursor::<Addresses>::of_table(read, run);
    while let Some(found) = rows.next()? {
        let target = match (found.id(), found.row()) {
            (Some(AddressKey(address)), Ok(AddressRow::Primary(to))) => {
                let row =
                    read.row_if_any::<Accounts>(&AccountKey { account: to })?.and_then(Result::ok);
                if let Some(row) = row.filter(|row| row.primary.to_string() != address) {
                    let what = format!(
                        "is a second primary address of account {to}, which has {}",
                        row.primary
                    );
                    on_fault(address_fault(&found, what))?;
                }
                Some(to)
            }
            (Some(_), Ok(AddressRow::Alias(to) | AddressRow::CatchAll(to))) => Some(to),
            (Some(_), Ok(AddressRow::AliasDomain(_))) => continue,
            (None, _) | (_, Err(_)) => None,
        };
        let what = match target {
            Some(to) if read.bytes::<Accounts>(&AccountKey { account: to })?.is_some() => continue,
            // `check_registration` reports and recovers such an account.
            Some(to) if has_mailboxes(read, to)? => continue,
            Some(to) => format!("leads to account {to}, which does not exist"),
            None => "cannot be read: add the address again".to_owned(),
        };
        on_fault(address_fault(&found, what))?;
    }
    Ok(())
}

/// A fault of an address row that a repair leaves as it is.
fn address_fault(found: &Found<Addresses>, what: String) -> RowFault {
    let (account, table, key) = (AccountId::SITE, Table::Addresses, found.key.clone());
    RowFault { account, table, key, what, fix: RowFix::Nothing, seen_by_clients: false }
}

fn has_mailboxes(read: &dyn RowReader, account: AccountId) -> Result<bool, Error> {
    let mut found = false;
    read.raw_rows(&KeyRange::<Mailboxes>::under(&(account,)), |_, _| {
        found = true;
        Ok(false)
    })?;
    Ok(found)
}

/// The keys of the address rows that lead to each account.
pub(in crate::store) type AddressesByAccount = BTreeMap<AccountId, Vec<String>>;

/// Returns the addresses that lead to each account. Adds to `all` every account that has both an
/// address and a mailbox: it exists, even if its own row and its state are lost.
pub(in crate::store) fn read_addresses(
    read: &dyn RowReader,
    all: &mut BTreeSet<AccountId>,
) -> Result<AddressesByAccount, Error> {
    let mut addresses = AddressesByAccount::new();
    read.raw_rows(&KeyRange::<Addresses>::under(&()), |key, value| {
        // `check_addresses` reports the rows that cannot be read.
        if let (Ok(AddressKey(address)), Ok(row)) =
            (decode_key::<Addresses>(key), AddressRow::from_bytes(Addresses::ID, key, value))
            && let Some(account) = row.account()
        {
            addresses.entry(account).or_default().push(address);
        }
        Ok(true)
    })?;
    for account in addresses.keys() {
        if !all.contains(account) && has_mailboxes(read, *account)? {
            all.insert(*account);
        }
    }
    Ok(addresses)
}
