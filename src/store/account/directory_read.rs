//! Reads accounts and their states, addresses, vacation responses, told rows, deliveries and
//! decisions.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use crate::model::{
    AccountId, AccountRow, AddressRow, DataType, Decision, EmailId, ModSeq, ToldKey, ToldLifetime,
    UtcMillis, VacationResponse,
};
use crate::store::engine::typed::{KeyRange, TypedRead as _};
use crate::store::error::Error;
use crate::store::row::{AccountStateRow, DeliveryRow, RowFormat as _, ToldRow};
use crate::store::table::codec::Prefix as _;
use crate::store::table::keys::{
    AccountKey, AddressKey, DecisionKey, DeliveryKey, VacationToldKey,
};
use crate::store::table::{
    AccountState, Accounts, Addresses, Decisions, Deliveries, Table as _, ToldByTime, Vacation,
    VacationTold, decode_key,
};
use crate::store::txn::snapshot::Snapshot;

/// A told row of a script does not count if its time is further in the future than this: the clock
/// that wrote it was wrong.
const MAX_CLOCK_SKEW: Duration = Duration::from_secs(24 * 3600);

/// All accounts and addresses of a site. The entry of a row that cannot be read is the error.
#[derive(Debug, Default)]
pub struct DirectoryRows {
    /// Every account that has a row or that an address leads to.
    pub accounts: BTreeMap<AccountId, Result<AccountRow, Error>>,
    /// Every address with a row, and every address in the row of an account, unless the account is
    /// being removed. The keys are those of `AddressKey`: catch-alls and alias domains are there,
    /// too.
    pub addresses: BTreeMap<String, Result<AddressRow, Error>>,
    /// An error for each row of `accounts` whose key is damaged: it is not known whose row it is.
    pub unplaced_accounts: Vec<Error>,
}

impl Snapshot<'_> {
    pub fn account(&self, account: AccountId) -> Result<Option<AccountRow>, Error> {
        self.read.row::<Accounts>(&AccountKey { account })
    }

    /// Returns all accounts with their rows. Fails if one row is damaged, unlike `directory`,
    /// `account_ids` and `account_names`.
    #[cfg(any(test, feature = "internals"))]
    pub fn accounts(&self) -> Result<Vec<(AccountId, AccountRow)>, Error> {
        let mut out = Vec::new();
        self.read.rows::<Accounts>(&KeyRange::under(&()), |key, row| {
            out.push((key.account, row));
            Ok(true)
        })?;
        Ok(out)
    }

    /// Returns the name in each account's row, with the account. The account is `None` if the key
    /// of the row is damaged: the name is taken all the same, since a repair may bring the account
    /// back. Rows that cannot be read are left out: a repair cannot bring back their names.
    pub fn account_names(&self) -> Result<Vec<(Option<AccountId>, String)>, Error> {
        let mut names = Vec::new();
        self.read.keys_or_damage::<Accounts>(&KeyRange::under(&()), |key, value| {
            if let Ok(row) = AccountRow::from_bytes(Accounts::ID, &[], value) {
                names.push((key.ok().map(|key| key.account), row.name));
            }
            Ok(true)
        })?;
        Ok(names)
    }

    /// Returns all accounts and addresses, each with its row or the error of reading it. An account
    /// or an address without a row, which another row names, has the error of a missing row.
    ///
    /// # Errors
    /// Those of the engine; none for damage.
    pub fn directory(&self) -> Result<DirectoryRows, Error> {
        let mut directory = DirectoryRows::default();
        self.read.keys_or_damage::<Accounts>(&KeyRange::under(&()), |key, value| {
            match key {
                Ok(key) => {
                    let row = AccountRow::from_bytes(Accounts::ID, &key.encode(), value);
                    directory.accounts.insert(key.account, row);
                }
                Err(damage) => directory.unplaced_accounts.push(damage),
            }
            Ok(true)
        })?;
        self.read.raw_rows::<Addresses>(&KeyRange::under(&()), |key, value| {
            let row = decode_key::<Addresses>(key)
                .and_then(|_| AddressRow::from_bytes(Addresses::ID, key, value));
            directory.addresses.insert(String::from_utf8_lossy(key).into_owned(), row);
            Ok(true)
        })?;
        for account in directory.addresses.values().filter_map(|row| row.as_ref().ok()?.account()) {
            let missing =
                || Err(Error::missing(Accounts::ID.name(), &AccountKey { account }.encode()));
            directory.accounts.entry(account).or_insert_with(missing);
        }
        for row in directory
            .accounts
            .values()
            .filter_map(|row| row.as_ref().ok())
            // While an account is removed, its primary address is empty, and the rows of its other
            // addresses may be deleted already.
            .filter(|row| !row.is_being_removed())
        {
            for address in row.addresses.iter().flatten().cloned().chain([row.primary.to_string()])
            {
                let missing = Error::missing(Addresses::ID.name(), address.as_bytes());
                directory.addresses.entry(address).or_insert(Err(missing));
            }
        }
        Ok(directory)
    }

    /// Returns the accounts that have a row, also a damaged one. A row whose key is damaged is left
    /// out: it names no account.
    pub fn account_ids(&self) -> Result<Vec<AccountId>, Error> {
        let mut out = Vec::new();
        self.read.keys_or_damage::<Accounts>(&KeyRange::under(&()), |key, _| {
            out.extend(key.ok().map(|key| key.account));
            Ok(true)
        })?;
        Ok(out)
    }

    /// Returns the row of an address, a catch-all or an alias domain. `address` has the form of
    /// `AddressKey`.
    pub fn address(&self, address: &str) -> Result<Option<AddressRow>, Error> {
        self.read.row::<Addresses>(&AddressKey(address.to_owned()))
    }

    /// Returns the account's state; an empty one if it has no row.
    pub fn account_state(&self, account: AccountId) -> Result<AccountStateRow, Error> {
        Ok(self.read.row::<AccountState>(&AccountKey { account })?.unwrap_or_default())
    }

    /// Returns the high mark of a data type, which JMAP shows as its state.
    pub fn state(&self, account: AccountId, data: DataType) -> Result<ModSeq, Error> {
        Ok(self.account_state(account)?.high_mark(data))
    }

    /// Returns the vacation response; a disabled one if none was set.
    pub fn vacation(&self, account: AccountId) -> Result<VacationResponse, Error> {
        Ok(self.read.row::<Vacation>(&AccountKey { account })?.unwrap_or_default())
    }

    /// Returns the vacation responses whose owners want a report of the absence that is not filed
    /// yet, each with its account. The absence need not be over.
    pub fn pending_absence_reports(&self) -> Result<Vec<(AccountId, VacationResponse)>, Error> {
        let mut out = Vec::new();
        self.read.keys_or_damage::<Vacation>(&KeyRange::under(&()), |key, value| {
            // A damaged response is skipped, so that the other accounts get their reports.
            if let Ok(key) = key
                && let Ok(response) =
                    VacationResponse::from_bytes(Vacation::ID, &key.encode(), value)
                && response.report
                && !response.absence.reported
            {
                out.push((key.account, response));
            }
            Ok(true)
        })?;
        Ok(out)
    }

    /// Returns when the sender `who` was told; `None` if the sender has no told row that counts at
    /// `now`. `memory` says which told rows count. A damaged told row does not count, and is no
    /// error, which would keep mail from being delivered: the next answer replaces the row.
    pub fn last_told(
        &self,
        account: AccountId,
        who: &ToldKey,
        memory: &ToldLifetime,
        now: UtcMillis,
    ) -> Result<Option<UtcMillis>, Error> {
        let key = VacationToldKey { account, told: *who };
        let told = self.read.row_if_any::<VacationTold>(&key)?.and_then(Result::ok);
        let counts = |told: &ToldRow| match memory {
            ToldLifetime::Response { generation, since } => {
                told.generation == Some(*generation) && since.is_none_or(|since| told.at >= since)
            }
            ToldLifetime::For(time) => {
                told.generation.is_none()
                    && now < told.at.after(*time)
                    && told.at <= now.after(MAX_CLOCK_SKEW)
            }
        };
        Ok(told.filter(counts).map(|told| told.at))
    }

    /// Returns the told rows of an account. At most `limit`, newest first.
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

    /// Returns the row of an LMTP transaction that was served, by the hash of envelope sender and
    /// message.
    pub fn delivery(
        &self,
        account: AccountId,
        hash: &[u8; 32],
    ) -> Result<Option<DeliveryRow>, Error> {
        self.read.row::<Deliveries>(&DeliveryKey { account, hash: *hash })
    }

    /// Returns the decision of the delivery that created an email. `None` if the email was not
    /// delivered, or if the decision is no longer stored or cannot be read.
    pub fn decision(&self, account: AccountId, email: EmailId) -> Result<Option<Decision>, Error> {
        // A delivery gives the email and its decision the same time.
        let key = DecisionKey { account, at: Reverse(email.received_at().into()), email };
        Ok(self.read.row_if_any::<Decisions>(&key)?.and_then(Result::ok))
    }

    /// Calls `each` for every decision, newest first, until `each` returns false.
    pub fn each_decision(
        &self,
        account: AccountId,
        each: &mut dyn FnMut(Decision) -> bool,
    ) -> Result<(), Error> {
        self.read.rows::<Decisions>(&KeyRange::under(&(account,)), |_, row| Ok(each(row)))
    }
}
