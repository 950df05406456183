//! Accounts, addresses, vacation, decisions.

use std::collections::BTreeMap;
use std::time::Duration;

use super::View;
use crate::model::{
    AccountId, AccountRow, AddressRow, DataType, Decision, ModSeq, Recall, ToldKey, UtcMillis, VacationResponse,
};
use crate::store::engine::{Table, after};
use crate::store::error::Error;
use crate::store::key::{self, Parts};
use crate::store::row::{Delivery, Row, State, Told};

/// A time in a row that lies so far ahead is not believed.
const CLOCKS_DISAGREE: Duration = Duration::from_secs(24 * 3600);

/// The accounts and addresses of a site, as far as their rows can be read.
#[derive(Debug, Default)]
pub struct DirectoryRows {
    /// Every account that there is, or that an address leads to.
    pub accounts: BTreeMap<AccountId, Result<AccountRow, Error>>,
    /// Every address that there is, or that an account names.
    pub addresses: BTreeMap<String, Result<AddressRow, Error>>,
}

impl View<'_> {
    /// An account.
    ///
    /// # Errors
    /// Those of reading; so for every function here.
    pub fn account(&self, account: AccountId) -> Result<Option<AccountRow>, Error> {
        self.row(&key::account(account))
    }

    /// All accounts, by id.
    ///
    /// # Errors
    /// Those of reading.
    pub fn accounts(&self) -> Result<Vec<(AccountId, AccountRow)>, Error> {
        let mut out = Vec::new();
        self.rows(&[], |key, row| {
            out.push((AccountId(Parts::of(Table::Accounts, key).u32()?), row));
            Ok(true)
        })?;
        Ok(out)
    }

    /// All accounts and addresses, each with its row or with what is wrong with that: a row that cannot be read keeps nobody
    /// from the others. An address that leads to an account without a row, and an account's row that names an address
    /// without one, are damage, too.
    ///
    /// # Errors
    /// Those of reading, but for damage of a row.
    pub fn directory(&self) -> Result<DirectoryRows, Error> {
        let mut found = DirectoryRows::default();
        self.keys(Table::Accounts, &[], &after(&[]), |key, value| {
            found.accounts.insert(AccountId(Parts::of(Table::Accounts, key).u32()?), AccountRow::decode(key, value));
            Ok(true)
        })?;
        self.keys(Table::Addresses, &[], &after(&[]), |key, value| {
            found.addresses.insert(String::from_utf8_lossy(key).into_owned(), AddressRow::decode(key, value));
            Ok(true)
        })?;
        for account in found.addresses.values().filter_map(|row| row.as_ref().ok()?.account()) {
            let missing = || Err(Error::missing(Table::Accounts.name(), &key::account(account)));
            found.accounts.entry(account).or_insert_with(missing);
        }
        for row in found.accounts.values().filter_map(|row| row.as_ref().ok()).filter(|row| !row.is_being_removed()) {
            for address in row.addresses.iter().flatten().cloned().chain([row.primary.to_string()]) {
                let missing = Error::missing(Table::Addresses.name(), address.as_bytes());
                found.addresses.entry(address).or_insert(Err(missing));
            }
        }
        Ok(found)
    }

    /// The ids of all accounts, ascending.
    ///
    /// # Errors
    /// Those of reading.
    pub fn account_ids(&self) -> Result<Vec<AccountId>, Error> {
        let mut out = Vec::new();
        self.keys(Table::Accounts, &[], &after(&[]), |key, _| {
            out.push(AccountId(Parts::of(Table::Accounts, key).u32()?));
            Ok(true)
        })?;
        Ok(out)
    }

    /// Where an address leads; `store::key` has the forms.
    ///
    /// # Errors
    /// Those of reading.
    pub fn address(&self, address: &str) -> Result<Option<AddressRow>, Error> {
        self.row(address.as_bytes())
    }

    /// Every address and where it leads.
    ///
    /// # Errors
    /// Those of reading.
    pub fn addresses(&self) -> Result<Vec<(String, AddressRow)>, Error> {
        let mut out = Vec::new();
        self.rows(&[], |key, row| {
            out.push((String::from_utf8_lossy(key).into_owned(), row));
            Ok(true)
        })?;
        Ok(out)
    }

    /// Next ids, marks and totals.
    ///
    /// # Errors
    /// Those of reading.
    pub fn account_state(&self, account: AccountId) -> Result<State, Error> {
        Ok(self.row(&key::account(account))?.unwrap_or_default())
    }

    /// The newest change of a data type.
    ///
    /// # Errors
    /// Those of reading.
    pub fn state(&self, account: AccountId, data: DataType) -> Result<ModSeq, Error> {
        Ok(self.account_state(account)?.state(data))
    }

    /// The vacation response; a disabled one where none was set.
    ///
    /// # Errors
    /// Those of reading.
    pub fn vacation(&self, account: AccountId) -> Result<VacationResponse, Error> {
        Ok(self.row(&key::account(account))?.unwrap_or_default())
    }

    /// The responses of all accounts of whose absence a report is wished for and not filed yet.
    ///
    /// # Errors
    /// Those of reading.
    pub fn reports_owed(&self) -> Result<Vec<(AccountId, VacationResponse)>, Error> {
        let mut out = Vec::new();
        self.read.scan(Table::Vacation, &[], &[0xff; 5], false, &mut |key, value| {
            // One that cannot be read is the checker's to name; the others must not wait for it.
            if let Ok(response) = VacationResponse::decode(key, value)
                && response.report
                && !response.absence.reported
            {
                out.push((AccountId(Parts::of(Table::Vacation, key).u32()?), response));
            }
            Ok(true)
        })?;
        Ok(out)
    }

    /// When a sender was told, if that still counts at `now`.
    ///
    /// # Errors
    /// Those of reading.
    pub fn told_at(
        &self,
        account: AccountId,
        who: &ToldKey,
        memory: &Recall,
        now: UtcMillis,
    ) -> Result<Option<UtcMillis>, Error> {
        let told = self.row::<Told>(&key::told(account, who))?;
        let counts = |told: &Told| match memory {
            Recall::Response { generation, since } => {
                told.generation == Some(*generation) && since.is_none_or(|since| told.at >= since)
            }
            // What lies further ahead than clocks disagree was written by a clock that went wrong.
            Recall::For(time) => {
                told.generation.is_none() && now < told.at.after(*time) && told.at <= now.after(CLOCKS_DISAGREE)
            }
        };
        Ok(told.filter(counts).map(|told| told.at))
    }

    /// Who was told, newest first.
    ///
    /// # Errors
    /// Those of reading.
    pub fn told(&self, account: AccountId, limit: usize) -> Result<Vec<Told>, Error> {
        let prefix = key::account(account);
        let mut out = Vec::new();
        if limit == 0 {
            return Ok(out);
        }
        self.read.scan(Table::ToldByTime, &prefix, &after(&prefix), true, &mut |key, _| {
            let who = ToldKey(Parts::of(Table::ToldByTime, key).take()?);
            out.extend(self.row::<Told>(&key::told(account, &who))?);
            Ok(out.len() < limit)
        })?;
        Ok(out)
    }

    /// A transaction that was served.
    ///
    /// # Errors
    /// Those of reading.
    pub fn delivery(&self, account: AccountId, hash: &[u8; 32]) -> Result<Option<Delivery>, Error> {
        self.row(&key::delivery(account, hash))
    }

    /// The newest decisions.
    ///
    /// # Errors
    /// Those of reading.
    pub fn decisions(&self, account: AccountId, limit: usize) -> Result<Vec<Decision>, Error> {
        let mut out = Vec::new();
        if limit > 0 {
            self.rows(&key::account(account), |_, row| {
                out.push(row);
                Ok(out.len() < limit)
            })?;
        }
        Ok(out)
    }

    /// Every decision, newest first, as long as `each` says to go on.
    ///
    /// # Errors
    /// Those of reading.
    pub fn each_decision(&self, account: AccountId, each: &mut dyn FnMut(Decision) -> bool) -> Result<(), Error> {
        self.rows(&key::account(account), |_, row| Ok(each(row)))
    }

    /// Every row of a table of an account, decoded: for export and for tests.
    ///
    /// # Errors
    /// Those of reading.
    pub fn all<R: Row>(&self, account: AccountId) -> Result<Vec<R>, Error> {
        let mut out = Vec::new();
        self.rows(&key::account(account), |_, row| {
            out.push(row);
            Ok(true)
        })?;
        Ok(out)
    }
}
