//! The directory: the accounts, the addresses that resolve to them, and their logins.
//!
//! - An alias domain is first replaced by the real one. Then the address resolves to an account by
//!   itself, without its detail (`user+detail`), or by the catch-all of its domain, in this order.
//! - The whole directory is held in memory, and read anew after a change is durable.
//! - The row of an account names its addresses, and the row of an address names its account. A row
//!   is lost if it is missing though another row names it.
//! - Looking up an address that may resolve through a damaged or lost row is an error, not `None`.

mod acquaintance;
mod address_lists;
pub mod arrivals;
mod local;
mod login;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};

pub use acquaintance::AccountSnapshot;
pub use local::NewAccount;
pub use login::{
    Login, LoginAttempt, LoginSource, Logins, TooManyFailures, hash_password, new_token,
};
#[cfg(test)]
use login::{token_hash, verify_password};

use crate::model::{
    AccountId, AccountRow, Address, AddressRow, Identity, LiveValue, UtcMillis, clock,
};
use crate::store::{DirectoryRows, Error, Store};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The character before the detail in `user+detail@`; `None` disables details.
    pub delimiter: Option<char>,
    /// Whether local parts that differ only in case are different.
    pub case_sensitive: bool,
    /// RFC 5321 §4.5.1: where mail for `<Postmaster>` without a domain goes.
    pub postmaster: Option<Address>,
    /// Whether a new account gets all standard mailboxes, or only the Inbox.
    pub standard_mailboxes: bool,
    /// The time zone (IANA name) of accounts without one of their own. `None` is the machine's.
    pub zone: Option<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            delimiter: Some('+'),
            case_sensitive: false,
            postmaster: None,
            standard_mailboxes: true,
            zone: None,
        }
    }
}

impl Settings {
    /// Returns the form in which an address is stored and looked up: the domain folded, and the
    /// local part too, unless its case counts.
    fn stored_form(&self, address: &Address) -> Address {
        if self.case_sensitive {
            Address::from_parts(
                address.local(),
                crate::model::address::fold_domain(address.domain()),
            )
        } else {
            address.folded()
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolvedAddress {
    pub account: AccountId,
    pub row: AccountRow,
    /// The address that matched, in its stored form and real domain; without the detail if `detail`
    /// is set.
    pub address: Address,
    /// In stored form; `None` if the address matched as a whole or by a catch-all.
    pub detail: Option<String>,
}

/// Says which addresses are those of one account. Later changes of the directory are not seen.
#[derive(Debug, Clone)]
pub struct OwnAddresses {
    account: AccountId,
    cache: Arc<DirectoryCache>,
    settings: Arc<Settings>,
}

#[derive(Debug, Clone)]
pub struct Directory(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    store: Store,
    settings: LiveValue<Settings>,
    /// `None` if the directory changed since it was read.
    cache: Arc<RwLock<Option<Arc<DirectoryCache>>>>,
    /// Held by each change of the directory from its first read to its last commit, so that a name
    /// that was free stays free.
    change_lock: Mutex<()>,
    /// The damage that was logged already.
    reported: Mutex<HashSet<String>>,
}

#[derive(Debug, Default)]
struct DirectoryCache {
    /// By address in its stored form, `@domain` of a catch-all, or `@@domain` of an alias domain.
    addresses: HashMap<String, AddressRow>,
    accounts: HashMap<AccountId, AccountRow>,
    /// The primary address comes first.
    addresses_by_account: HashMap<AccountId, Vec<Address>>,
    /// Each as `@domain`.
    catch_alls: HashMap<AccountId, Vec<String>>,
    /// As (alias, real).
    alias_domains: Vec<(String, String)>,
    /// By the hash of the token: its account, and when it expires, if it does.
    tokens: HashMap<[u8; 32], (AccountId, Option<UtcMillis>)>,
    /// The largest number of passwords that one account has.
    max_passwords: usize,
    /// The errors of damaged or lost rows, by the keys of `accounts` and `addresses`.
    damaged_accounts: BTreeMap<AccountId, Error>,
    damaged_addresses: BTreeMap<String, Error>,
    /// The errors of rows of accounts whose keys are damaged.
    unplaced_accounts: Vec<Error>,
}

impl Directory {
    #[must_use]
    pub fn new(store: Store, settings: Settings) -> Self {
        let cache: Arc<RwLock<Option<Arc<DirectoryCache>>>> = Arc::default();
        let stale = Arc::clone(&cache);
        store.on_change(move |change| {
            if change.types.iter().any(|(data, _)| *data == crate::model::DataType::Account) {
                *stale.write() = None;
            }
        });
        Self(Arc::new(Inner {
            store,
            settings: LiveValue::new(settings),
            cache,
            change_lock: Mutex::default(),
            reported: Mutex::default(),
        }))
    }

    /// Changes of the settings apply from the next look-up on.
    #[must_use]
    pub fn settings(&self) -> &LiveValue<Settings> {
        &self.0.settings
    }

    fn cache(&self) -> Result<Arc<DirectoryCache>, Error> {
        if let Some(cache) = self.0.cache.read().clone() {
            return Ok(cache);
        }
        // Read under the write lock, so that a change that becomes durable meanwhile discards this
        // cache afterwards.
        let mut slot = self.0.cache.write();
        let cache = Arc::new(DirectoryCache::of(self.0.store.snapshot().directory()?));
        self.log_damage(&cache);
        *slot = Some(Arc::clone(&cache));
        Ok(cache)
    }

    /// Logs each damaged row once, and again if it is damaged anew after a repair.
    fn log_damage(&self, cache: &DirectoryCache) {
        let damage: HashSet<String> = cache.damage().map(ToString::to_string).collect();
        let mut reported = self.0.reported.lock();
        for error in damage.difference(&reported) {
            tracing::error!(
                %error,
                "mail for an address or account is put off: run `restante repair`"
            );
        }
        *reported = damage;
    }

    /// Whether there is no account, not even a damaged or lost one.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn is_empty(&self) -> Result<bool, Error> {
        let cache = self.cache()?;
        Ok(cache.accounts.is_empty()
            && cache.damaged_accounts.is_empty()
            && cache.unplaced_accounts.is_empty())
    }

    /// Resolves an address to an account, active or not; `None` if nobody has it.
    ///
    /// # Errors
    /// `Corrupt` if a row that decides this is damaged or lost; others if the store cannot be read.
    pub fn resolve(&self, address: &Address) -> Result<Option<ResolvedAddress>, Error> {
        let (cache, settings) = (self.cache()?, self.0.settings.get());
        let Some((account, address, detail)) = cache.lookup(&settings, address)? else {
            return Ok(None);
        };
        let row = cache.account(account)?.cloned();
        Ok(row.map(|row| ResolvedAddress { account, row, address, detail }))
    }

    /// Returns the addresses of an account as the directory has them now.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn own_addresses(&self, account: AccountId) -> Result<OwnAddresses, Error> {
        Ok(OwnAddresses { account, cache: self.cache()?, settings: self.0.settings.get() })
    }

    /// Returns the accounts of a Unix user, in no order, without those whose rows are damaged.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn accounts_of_unix_user(&self, user: &str) -> Result<Vec<(AccountId, AccountRow)>, Error> {
        let cache = self.cache()?;
        let accounts =
            cache.accounts.iter().filter(|(_, row)| row.unix_user.as_deref() == Some(user));
        Ok(accounts.map(|(id, row)| (*id, row.clone())).collect())
    }

    /// Returns the account that the token with this hash logs in to; `None` if the token is unknown
    /// or has expired.
    ///
    /// # Errors
    /// `Corrupt` if the token may belong to an account whose row is damaged or lost; others if the
    /// store cannot be read.
    pub fn account_of_token(
        &self,
        hash: &[u8; 32],
        now: UtcMillis,
    ) -> Result<Option<AccountId>, Error> {
        let cache = self.cache()?;
        let Some((account, expires)) = cache.tokens.get(hash) else {
            return cache.unless_damaged();
        };
        Ok(expires.is_none_or(|expires| now < expires).then_some(*account))
    }

    /// Returns the largest number of passwords that one account has. `Logins::verify` tries as many
    /// for every name, so that its time does not tell which accounts exist.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn max_passwords(&self) -> Result<usize, Error> {
        Ok(self.cache()?.max_passwords)
    }

    /// Returns the identity of an account. Its addresses are in their stored form.
    ///
    /// # Errors
    /// `NotFound` if there is no such account; `Corrupt` if its row is damaged or lost; others if
    /// the store cannot be read.
    pub fn identity(&self, account: AccountId) -> Result<Identity, Error> {
        let cache = self.cache()?;
        let settings = self.0.settings.get();
        let row = cache.account(account)?.ok_or(Error::NotFound("account"))?;
        Ok(Identity {
            primary: row.primary.clone(),
            name: row.display_name.clone(),
            addresses: cache.addresses_by_account.get(&account).cloned().unwrap_or_default(),
            alias_domains: cache.alias_domains.clone(),
            delimiter: settings.delimiter,
            // A zone that is not known here counts as none.
            zone: [&row.zone, &settings.zone]
                .into_iter()
                .flatten()
                .find(|zone| clock::zone(zone).is_some())
                .cloned(),
        })
    }

    /// Returns the catch-alls of an account as `@domain`, sorted by name.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn catch_alls(&self, account: AccountId) -> Result<Vec<String>, Error> {
        Ok(self.cache()?.catch_alls.get(&account).cloned().unwrap_or_default())
    }

    /// Finds the account that `find_account` finds. If damaged or lost rows prevent that, returns
    /// the account whose id is `name`, without checking whether it exists; else the account that
    /// the row of the address `name` names; else the one whose row lists this address.
    ///
    /// # Errors
    /// `Corrupt` if damage stopped `find_account` and nothing was found; others if the store cannot
    /// be read.
    pub fn find_damaged_account(&self, name: &str) -> Result<Option<AccountId>, Error> {
        let damage = match self.find_account(name) {
            Err(damage @ Error::Corrupt { .. }) => damage,
            result => return result.map(|account| account.map(|(id, _)| id)),
        };
        let cache = self.cache()?;
        if let Ok(id) = name.parse::<AccountId>() {
            return Ok(Some(id));
        }
        let Ok(address) = Address::parse(name) else { return Err(damage) };
        let key = cache.in_real_domain(self.0.settings.get().stored_form(&address))?.to_string();
        let by_row = cache.row(&key).ok().flatten().and_then(AddressRow::account);
        let names = |row: &AccountRow| {
            row.primary.to_string() == key
                || row.addresses.as_ref().is_some_and(|all| all.contains(&key))
        };
        let by_account = || cache.accounts.iter().find(|(_, row)| names(row)).map(|(id, _)| *id);
        by_row.or_else(by_account).map_or(Err(damage), |id| Ok(Some(id)))
    }

    /// Finds an account by its id, its name, its primary address or an alias; addresses also in an
    /// alias domain. Catch-alls and details are not considered.
    ///
    /// # Errors
    /// `Corrupt` if a damaged or lost row may decide this; others if the store cannot be read. An
    /// address that has no row is nobody's, though it could be the name of a damaged account.
    pub fn find_account(&self, name: &str) -> Result<Option<(AccountId, AccountRow)>, Error> {
        let cache = self.cache()?;
        let id = name.parse::<AccountId>().ok();
        if let Some(id) = id
            && let Some(row) = cache.account(id)?
        {
            return Ok(Some((id, row.clone())));
        }
        if let Some((id, row)) =
            cache.accounts.iter().find(|(_, row)| row.name.eq_ignore_ascii_case(name))
        {
            return Ok(Some((*id, row.clone())));
        }
        let Ok(address) = Address::parse(name) else {
            // No name of an account has the form of an id.
            return if id.is_some() { Ok(None) } else { cache.unless_damaged() };
        };
        let real = cache.in_real_domain(self.0.settings.get().stored_form(&address))?;
        match cache.row(&real.to_string())? {
            Some(AddressRow::Primary(id) | AddressRow::Alias(id)) => {
                Ok(cache.account(*id)?.map(|row| (*id, row.clone())))
            }
            Some(AddressRow::CatchAll(_) | AddressRow::AliasDomain(_)) | None => Ok(None),
        }
    }
}

impl OwnAddresses {
    /// Whether `address` resolves to the account.
    ///
    /// # Errors
    /// `Corrupt` if a row that decides this is damaged or lost.
    pub fn has(&self, address: &Address) -> Result<bool, Error> {
        let resolved = self.cache.lookup(&self.settings, address)?;
        Ok(resolved.is_some_and(|(account, ..)| account == self.account))
    }

    /// Whether the row of exactly this address is damaged or lost.
    #[must_use]
    pub fn is_damaged(&self, address: &Address) -> bool {
        self.cache.row(&self.settings.stored_form(address).to_string()).is_err()
    }

    /// Whether the account has the catch-all of `domain`, which is in folded form.
    ///
    /// # Errors
    /// `Corrupt` if the row of the catch-all is damaged or lost.
    pub fn has_catch_all(&self, domain: &str) -> Result<bool, Error> {
        let row = self.cache.row(&format!("@{domain}"))?;
        Ok(matches!(row, Some(AddressRow::CatchAll(account)) if *account == self.account))
    }
}

impl DirectoryCache {
    fn of(rows: DirectoryRows) -> Self {
        let mut cache = Self { unplaced_accounts: rows.unplaced_accounts, ..Self::default() };
        for (address, row) in rows.addresses {
            let row = match row {
                Ok(row) => row,
                Err(damage) => {
                    cache.damaged_addresses.insert(address, damage);
                    continue;
                }
            };
            match &row {
                AddressRow::AliasDomain(real) => {
                    cache
                        .alias_domains
                        .push((address.trim_start_matches('@').to_owned(), real.clone()));
                }
                AddressRow::Primary(account) | AddressRow::Alias(account) => {
                    if let Ok(address) = Address::parse(&address) {
                        let addresses = cache.addresses_by_account.entry(*account).or_default();
                        if matches!(row, AddressRow::Primary(_)) {
                            addresses.insert(0, address);
                        } else {
                            addresses.push(address);
                        }
                    }
                }
                AddressRow::CatchAll(account) => {
                    cache.catch_alls.entry(*account).or_default().push(address.clone());
                }
            }
            cache.addresses.insert(address, row);
        }
        for (id, row) in rows.accounts {
            match row {
                Ok(row) => {
                    cache
                        .tokens
                        .extend(row.tokens.iter().map(|token| (token.hash, (id, token.expires))));
                    cache.max_passwords = cache.max_passwords.max(row.passwords.len());
                    cache.accounts.insert(id, row);
                }
                Err(damage) => drop(cache.damaged_accounts.insert(id, damage)),
            }
        }
        cache
    }

    fn damage(&self) -> impl Iterator<Item = &Error> {
        self.account_damage().chain(self.damaged_addresses.values())
    }

    fn account_damage(&self) -> impl Iterator<Item = &Error> {
        self.damaged_accounts.values().chain(&self.unplaced_accounts)
    }

    fn account(&self, account: AccountId) -> Result<Option<&AccountRow>, Error> {
        match self.damaged_accounts.get(&account) {
            Some(damage) => Err(damage.clone()),
            None => Ok(self.accounts.get(&account)),
        }
    }

    fn row(&self, address: &str) -> Result<Option<&AddressRow>, Error> {
        match self.damaged_addresses.get(address) {
            Some(damage) => Err(damage.clone()),
            None => Ok(self.addresses.get(address)),
        }
    }

    /// Returns `None`, or an error if the row of any account is unreadable: that row may have what
    /// was looked up.
    fn unless_damaged<T>(&self) -> Result<Option<T>, Error> {
        self.account_damage().next().map_or(Ok(None), |damage| Err(damage.clone()))
    }

    /// Returns the account, the address that matched, and the detail. A damaged row of a more exact
    /// match is an error: mail must not go to a less exact one.
    fn lookup(
        &self,
        settings: &Settings,
        address: &Address,
    ) -> Result<Option<(AccountId, Address, Option<String>)>, Error> {
        let address = match address.domain() {
            "" if address.local().eq_ignore_ascii_case("postmaster") => {
                match &settings.postmaster {
                    Some(postmaster) => postmaster,
                    None => return Ok(None),
                }
            }
            _ => address,
        };
        let real = self.in_real_domain(settings.stored_form(address))?;
        let account = |key: &str| match self.row(key)?.and_then(AddressRow::account) {
            Some(account) => Ok(self.account(account)?.map(|_| account)),
            None => Ok(None),
        };
        if let Some(id) = account(&real.to_string())? {
            return Ok(Some((id, real, None)));
        }
        if let Some(delimiter) = settings.delimiter
            && let (base, Some(detail)) = real.split_detail(delimiter)
            && let Some(id) = account(&base.to_string())?
        {
            return Ok(Some((id, base, Some(detail.to_owned()))));
        }
        Ok(account(&format!("@{}", real.domain()))?.map(|id| (id, real, None)))
    }

    /// Replaces an alias domain by the real one. The address is in its stored form.
    fn in_real_domain(&self, address: Address) -> Result<Address, Error> {
        if let Some(damage) = self.damaged_addresses.get(&format!("@@{}", address.domain())) {
            return Err(damage.clone());
        }
        Ok(match self.alias_domains.iter().find(|(alias, _)| alias == address.domain()) {
            Some((_, real)) => Address::from_parts(address.local(), real),
            None => address,
        })
    }
}

#[cfg(test)]
mod tests;
