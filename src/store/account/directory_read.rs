//! Accounts, addresses, vacation, decisions.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::model::{
    AccountId, AccountRow, AddressRow, DataType, Decision, ModSeq, ToldKey, ToldLifetime,
    UtcMillis, VacationResponse,
};
use crate::store::engine::typed::{KeyRange, TypedRead as _};
use crate::store::error::Error;
use crate::store::row::{AccountStateRow, DeliveryRow, RowFormat as _, ToldRow};
use crate::store::table::codec::Prefix as _;
use crate::store::table::keys::{AccountKey, AddressKey, DeliveryKey, VacationToldKey};
use crate::store::table::{
    AccountState, Accounts, Addresses, Decisions, Deliveries, Table as _, ToldByTime, Vacation,
    VacationTold, decode_key,
};
use crate::store::txn::snapshot::Snapshot;

/// A time in a row that lies so far ahead is not believed.
const MAX_CLOCK_SKEW: Duration = Duration::from_secs(24 * 3600);

/// The accounts and addresses of a site, as far as their rows can be read.
#[derive(Debug, Default)]
pub struct DirectoryRows {
    /// Every account that there is, or that an address leads to.
    pub accounts: BTreeMap<AccountId, Result<AccountRow, Error>>,
    /// Every address that there is, or that an account names.
    pub addresses: BTreeMap<String, Result<AddressRow, Error>>,
}

impl Snapshot<'_> {
    /// An account.
    ///
    /// # Errors
    /// Those of reading; so for every function here.
    pub fn account(&self, account: AccountId) -> Result<Option<AccountRow>, Error> {
        self.read.row::<Accounts>(&AccountKey { account })
    }

    /// All accounts, by id.
    ///
    /// # Errors
    /// Those of reading.
    pub fn accounts(&self) -> Result<Vec<(AccountId, AccountRow)>, Error> {
        let mut out = Vec::new();
        self.read.rows::<Accounts>(&KeyRange::under(&()), |key, row| {
            out.push((key.account, row));
            Ok(true)
        })?;
        Ok(out)
    }

    /// All accounts and addresses, each with its row or with what is wrong with that: a row that
    /// cannot be read keeps nobody from the others. An address that leads to an account without a
    /// row, and an account's row that names an address without one, are damage, too.
    ///
    /// # Errors
    /// Those of reading, but for damage of a row.
    pub fn directory(&self) -> Result<DirectoryRows, Error> {
        let mut found = DirectoryRows::default();
        self.read.keys::<Accounts>(&KeyRange::under(&()), |key, value| {
            let row = AccountRow::from_bytes(Accounts::ID, &key.encode(), value);
            found.accounts.insert(key.account, row);
            Ok(true)
        })?;
        self.read.raw_rows::<Addresses>(&KeyRange::under(&()), |key, value| {
            let row = decode_key::<Addresses>(key)
                .and_then(|_| AddressRow::from_bytes(Addresses::ID, key, value));
            found.addresses.insert(String::from_utf8_lossy(key).into_owned(), row);
            Ok(true)
        })?;
        for account in found.addresses.values().filter_map(|row| row.as_ref().ok()?.account()) {
            let missing =
                || Err(Error::missing(Accounts::ID.name(), &AccountKey { account }.encode()));
            found.accounts.entry(account).or_insert_with(missing);
        }
        for row in found
            .accounts
            .values()
            .filter_map(|row| row.as_ref().ok())
            .filter(|row| !row.is_being_removed())
        {
            for address in row.addresses.iter().flatten().cloned().chain([row.primary.to_string()])
            {
                let missing = Error::missing(Addresses::ID.name(), address.as_bytes());
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
        self.read.keys::<Accounts>(&KeyRange::under(&()), |key, _| {
            out.push(key.account);
            Ok(true)
        })?;
        Ok(out)
    }

    /// Where an address leads; `AddressKey` has the forms.
    ///
    /// # Errors
    /// Those of reading.
    pub fn address(&self, address: &str) -> Result<Option<AddressRow>, Error> {
        self.read.row::<Addresses>(&AddressKey(address.to_owned()))
    }

    /// Next ids, marks and totals.
    ///
    /// # Errors
    /// Those of reading.
    pub fn account_state(&self, account: AccountId) -> Result<AccountStateRow, Error> {
        Ok(self.read.row::<AccountState>(&AccountKey { account })?.unwrap_or_default())
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
        Ok(self.read.row::<Vacation>(&AccountKey { account })?.unwrap_or_default())
    }

    /// The responses of all accounts of whose absence a report is wished for and not filed yet.
    ///
    /// # Errors
    /// Those of reading.
    pub fn pending_absence_reports(&self) -> Result<Vec<(AccountId, VacationResponse)>, Error> {
        let mut out = Vec::new();
        self.read.keys::<Vacation>(&KeyRange::under(&()), |key, value| {
            // One that cannot be read is the checker's to name; the others must not wait for it.
            if let Ok(response) = VacationResponse::from_bytes(Vacation::ID, &key.encode(), value)
                && response.report
                && !response.absence.reported
            {
                out.push((key.account, response));
            }
            Ok(true)
        })?;
        Ok(out)
    }

    /// When a sender was told, if that still counts at `now`.
    ///
    /// # Errors
    /// Those of reading.
    pub fn last_told(
        &self,
        account: AccountId,
        who: &ToldKey,
        memory: &ToldLifetime,
        now: UtcMillis,
    ) -> Result<Option<UtcMillis>, Error> {
        let told = self.read.row::<VacationTold>(&VacationToldKey { account, told: *who })?;
        let counts = |told: &ToldRow| match memory {
            ToldLifetime::Response { generation, since } => {
                told.generation == Some(*generation) && since.is_none_or(|since| told.at >= since)
            }
            // What lies further ahead than clocks disagree was written by a clock that went wrong.
            ToldLifetime::For(time) => {
                told.generation.is_none()
                    && now < told.at.after(*time)
                    && told.at <= now.after(MAX_CLOCK_SKEW)
            }
        };
        Ok(told.filter(counts).map(|told| told.at))
    }

    /// Who was told, newest first.
    ///
    /// # Errors
    /// Those of reading.
    pub fn told_rows(&self, account: AccountId, limit: usize) -> Result<Vec<ToldRow>, Error> {
        let mut out = Vec::new();
        if limit == 0 {
            return Ok(out);
        }
        self.read.keys::<ToldByTime>(&KeyRange::under(&(account,)).reversed(), |key, _| {
            out.extend(
                self.read.row::<VacationTold>(&VacationToldKey { account, told: key.told })?,
            );
            Ok(out.len() < limit)
        })?;
        Ok(out)
    }

    /// A transaction that was served.
    ///
    /// # Errors
    /// Those of reading.
    pub fn delivery(
        &self,
        account: AccountId,
        hash: &[u8; 32],
    ) -> Result<Option<DeliveryRow>, Error> {
        self.read.row::<Deliveries>(&DeliveryKey { account, hash: *hash })
    }

    /// Every decision, newest first, as long as `each` says to go on.
    ///
    /// # Errors
    /// Those of reading.
    pub fn each_decision(
        &self,
        account: AccountId,
        each: &mut dyn FnMut(Decision) -> bool,
    ) -> Result<(), Error> {
        self.read.rows::<Decisions>(&KeyRange::under(&(account,)), |_, row| Ok(each(row)))
    }
}
