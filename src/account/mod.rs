//! L3: who exists here: accounts, the addresses that lead to them, and who may log in.
//!
//! An address leads to an account by itself, without its detail (`user+detail`), through an alias
//! domain, or by its domain's catch-all, in this order. The whole directory is held in memory and
//! read anew after a change of it is durable, so that RCPT costs a look-up.
//!
//! A row that cannot be read, or that another names and that is lost, keeps nobody but its own from
//! the directory: it is logged once, and what would lead to it or through it is an error that is
//! temporary, never "nobody has that address".

mod acquaintance;
pub mod arrivals;
mod local;
mod login;
mod naming;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};

pub use acquaintance::AccountSnapshot;
pub use local::NewAccount;
pub use login::{Login, LoginSource, Logins, TooManyFailures, hash_password, new_token};
#[cfg(test)]
use login::{token_hash, verify_password};

use crate::model::{AccountId, AccountRow, Address, AddressRow, Identity, LiveValue, UtcMillis};
use crate::store::{DirectoryRows, Error, Store};

/// How addresses are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// What separates user and detail; `None`: sub-addresses are off.
    pub delimiter: Option<char>,
    /// Whether local parts differ by case.
    pub case_sensitive: bool,
    /// Where mail for `<Postmaster>` without a domain goes (RFC 5321 §4.5.1).
    pub postmaster: Option<Address>,
    /// Whether a new account gets all usual mailboxes, or the Inbox alone.
    pub all_mailboxes: bool,
    /// IANA name of the time zone of accounts that name none; `None` is the machine's.
    pub zone: Option<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            delimiter: Some('+'),
            case_sensitive: false,
            postmaster: None,
            all_mailboxes: true,
            zone: None,
        }
    }
}

impl Settings {
    /// The form in which an address is kept and looked up.
    fn form(&self, address: &Address) -> Address {
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

/// Where an address leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolvedAddress {
    pub account: AccountId,
    pub row: AccountRow,
    /// The address that led there, folded, without detail and in its real domain; a catch-all keeps
    /// what was asked.
    pub address: Address,
    pub detail: Option<String>,
}

/// The addresses that lead to one account, as the directory had them at one moment: those that it
/// may send from.
#[derive(Debug, Clone)]
pub struct OwnAddresses {
    account: AccountId,
    known: Arc<DirectoryCache>,
    settings: Arc<Settings>,
}

/// The accounts and addresses of a site.
#[derive(Debug, Clone)]
pub struct Directory(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    store: Store,
    settings: LiveValue<Settings>,
    known: Arc<RwLock<Option<Arc<DirectoryCache>>>>,
    /// Held by a change of the directory from its first read to its last commit: a name that was
    /// free stays free.
    changing: Mutex<()>,
    /// Damage that was logged.
    reported: Mutex<HashSet<String>>,
}

/// The directory in memory.
#[derive(Debug, Default)]
struct DirectoryCache {
    addresses: HashMap<String, AddressRow>,
    accounts: HashMap<AccountId, AccountRow>,
    of: HashMap<AccountId, Vec<Address>>,
    catch_alls: HashMap<AccountId, Vec<String>>,
    alias_domains: Vec<(String, String)>,
    /// By the hash of a token.
    tokens: HashMap<[u8; 32], (AccountId, Option<UtcMillis>)>,
    /// Passwords of the account that has most of them.
    most_passwords: usize,
    /// What is wrong with the rows of these, which are damaged or lost: what would lead to them is
    /// put off.
    damaged_accounts: BTreeMap<AccountId, Error>,
    damaged_addresses: BTreeMap<String, Error>,
}

impl Directory {
    /// The directory of a store.
    #[must_use]
    pub fn new(store: Store, settings: Settings) -> Self {
        let known: Arc<RwLock<Option<Arc<DirectoryCache>>>> = Arc::default();
        let stale = Arc::clone(&known);
        store.on_change(move |change| {
            if change.types.iter().any(|(data, _)| *data == crate::model::DataType::Account) {
                *stale.write() = None;
            }
        });
        Self(Arc::new(Inner {
            store,
            settings: LiveValue::new(settings),
            known,
            changing: Mutex::default(),
            reported: Mutex::default(),
        }))
    }

    /// How addresses are read; another may be set at any time, and holds from the next question on.
    #[must_use]
    pub fn settings(&self) -> &LiveValue<Settings> {
        &self.0.settings
    }

    fn cache(&self) -> Result<Arc<DirectoryCache>, Error> {
        if let Some(known) = self.0.known.read().clone() {
            return Ok(known);
        }
        // Under the write lock, so that a change that becomes durable meanwhile makes this stale
        // afterwards.
        let mut slot = self.0.known.write();
        let known = Arc::new(DirectoryCache::of(self.0.store.snapshot().directory()?));
        self.report(&known);
        *slot = Some(Arc::clone(&known));
        Ok(known)
    }

    /// Logs each damaged row when it is met first; one that was mended since is forgotten.
    fn report(&self, known: &DirectoryCache) {
        let damage: HashSet<String> = known.damage().map(ToString::to_string).collect();
        let mut reported = self.0.reported.lock();
        for error in damage.difference(&reported) {
            tracing::error!(%error, "mail for an address or account is put off: run `restante repair`");
        }
        *reported = damage;
    }

    /// Whether there is no account at all.
    ///
    /// # Errors
    /// Those of reading the store.
    pub fn is_empty(&self) -> Result<bool, Error> {
        let known = self.cache()?;
        Ok(known.accounts.is_empty() && known.damaged_accounts.is_empty())
    }

    /// Where an address leads; `None` where nobody has it. Whether the account takes mail is the
    /// caller's to look at.
    ///
    /// # Errors
    /// `Corrupt` where a row that would tell is damaged or lost, and those of reading the store.
    pub fn resolve(&self, address: &Address) -> Result<Option<ResolvedAddress>, Error> {
        let (known, settings) = (self.cache()?, self.0.settings.get());
        let Some((account, address, detail)) = known.lookup(&settings, address)? else {
            return Ok(None);
        };
        let row = known.account(account)?.cloned();
        Ok(row.map(|row| ResolvedAddress { account, row, address, detail }))
    }

    /// The addresses that lead to an account, as the directory has them now.
    ///
    /// # Errors
    /// Those of reading the store.
    pub fn own_addresses(&self, account: AccountId) -> Result<OwnAddresses, Error> {
        Ok(OwnAddresses { account, known: self.cache()?, settings: self.0.settings.get() })
    }

    /// The accounts that are mapped to a Unix user.
    ///
    /// # Errors
    /// Those of reading the store.
    pub fn accounts_of_unix_user(&self, user: &str) -> Result<Vec<(AccountId, AccountRow)>, Error> {
        let known = self.cache()?;
        let mine = known.accounts.iter().filter(|(_, row)| row.unix_user.as_deref() == Some(user));
        Ok(mine.map(|(id, row)| (*id, row.clone())).collect())
    }

    /// The account that a token of this hash logs in to, unless its time is over.
    ///
    /// # Errors
    /// `Corrupt` where it may be a token of an account whose row is damaged, and those of reading
    /// the store.
    pub fn account_of_token(
        &self,
        hash: &[u8; 32],
        now: UtcMillis,
    ) -> Result<Option<AccountId>, Error> {
        let known = self.cache()?;
        let Some((account, expires)) = known.tokens.get(hash) else {
            return known.unless_damaged();
        };
        Ok(expires.is_none_or(|expires| now < expires).then_some(*account))
    }

    /// How many passwords the account has that has most of them.
    ///
    /// # Errors
    /// Those of reading the store.
    pub fn max_passwords(&self) -> Result<usize, Error> {
        Ok(self.cache()?.most_passwords)
    }

    /// All addresses of an account, in the form in which the directory keeps them: with their case
    /// where local parts differ by it, so that each leads to the account when it is looked up.
    ///
    /// # Errors
    /// `NotFound`, and those of reading the store.
    pub fn identity(&self, account: AccountId) -> Result<Identity, Error> {
        let known = self.cache()?;
        let settings = self.0.settings.get();
        let row = known.account(account)?.ok_or(Error::NotFound("account"))?;
        Ok(Identity {
            primary: row.primary.clone(),
            name: row.display_name.clone(),
            addresses: known.of.get(&account).cloned().unwrap_or_default(),
            alias_domains: known.alias_domains.clone(),
            delimiter: settings.delimiter,
            zone: row.zone.clone().or_else(|| settings.zone.clone()),
        })
    }

    /// The catch-alls of an account, as `@domain`, by name.
    ///
    /// # Errors
    /// Those of reading the store.
    pub fn catch_alls(&self, account: AccountId) -> Result<Vec<String>, Error> {
        Ok(self.cache()?.catch_alls.get(&account).cloned().unwrap_or_default())
    }

    /// The id of the account that `find` gives, also where its own row is damaged or lost: then it
    /// is found by its id and by its addresses. An address whose row is damaged or lost is the
    /// account's that names it.
    ///
    /// # Errors
    /// `Corrupt` where it may be an account that only its id still tells, and those of reading the
    /// store.
    pub fn find_damaged_account(&self, name: &str) -> Result<Option<AccountId>, Error> {
        let damage = match self.find_account(name) {
            Err(damage @ Error::Corrupt { .. }) => damage,
            found => return found.map(|found| found.map(|(id, _)| id)),
        };
        let known = self.cache()?;
        if let Ok(id) = name.parse::<AccountId>() {
            return Ok(Some(id));
        }
        let Ok(address) = Address::parse(name) else { return Err(damage) };
        let key = known.in_real_domain(self.0.settings.get().form(&address))?.to_string();
        let by_row = known.row(&key).ok().flatten().and_then(AddressRow::account);
        let names = |row: &AccountRow| {
            row.primary.to_string() == key
                || row.addresses.as_ref().is_some_and(|all| all.contains(&key))
        };
        let by_account = || known.accounts.iter().find(|(_, row)| names(row)).map(|(id, _)| *id);
        by_row.or_else(by_account).map_or(Err(damage), |id| Ok(Some(id)))
    }

    /// The account of that id, that name, or that primary address or alias, through an alias domain
    /// too. Never by a catch-all or without a detail: who manages accounts and mistypes one must
    /// not get at another.
    ///
    /// # Errors
    /// `Corrupt` where it may be an account whose row is damaged, and those of reading the store.
    pub fn find_account(&self, name: &str) -> Result<Option<(AccountId, AccountRow)>, Error> {
        let known = self.cache()?;
        let id = name.parse::<AccountId>().ok();
        if let Some(id) = id
            && let Some(row) = known.account(id)?
        {
            return Ok(Some((id, row.clone())));
        }
        if let Some((id, row)) =
            known.accounts.iter().find(|(_, row)| row.name.eq_ignore_ascii_case(name))
        {
            return Ok(Some((*id, row.clone())));
        }
        let Ok(address) = Address::parse(name) else {
            // No account's name is read as an id.
            return if id.is_some() { Ok(None) } else { known.unless_damaged() };
        };
        let real = known.in_real_domain(self.0.settings.get().form(&address))?;
        match known.row(&real.to_string())? {
            Some(AddressRow::Primary(id) | AddressRow::Alias(id)) => {
                Ok(known.account(*id)?.map(|row| (*id, row.clone())))
            }
            Some(AddressRow::CatchAll(_) | AddressRow::AliasDomain(_)) | None => Ok(None),
        }
    }
}

impl OwnAddresses {
    /// Whether the directory leads mail for `address` to the account: an address of its own, a
    /// detail of one, either in an alias domain, or anything else in a domain that it takes whole
    /// and in which nobody else has that address.
    ///
    /// # Errors
    /// `Corrupt` where a row that would tell is damaged or lost.
    pub fn has(&self, address: &Address) -> Result<bool, Error> {
        let found = self.known.lookup(&self.settings, address)?;
        Ok(found.is_some_and(|(account, ..)| account == self.account))
    }

    /// Whether the row of an address, without a look at its detail or at an alias domain, is
    /// damaged or lost.
    #[must_use]
    pub fn is_damaged(&self, address: &Address) -> bool {
        self.known.row(&self.settings.form(address).to_string()).is_err()
    }

    /// Whether the account takes a whole domain, given in folded form: whether it has the catch-all
    /// of it.
    ///
    /// # Errors
    /// `Corrupt` where the row of the catch-all is damaged or lost.
    pub fn has_domain(&self, domain: &str) -> Result<bool, Error> {
        let row = self.known.row(&format!("@{domain}"))?;
        Ok(matches!(row, Some(AddressRow::CatchAll(account)) if *account == self.account))
    }
}

impl DirectoryCache {
    fn of(rows: DirectoryRows) -> Self {
        let mut known = Self::default();
        for (address, row) in rows.addresses {
            let row = match row {
                Ok(row) => row,
                Err(damage) => {
                    known.damaged_addresses.insert(address, damage);
                    continue;
                }
            };
            match &row {
                AddressRow::AliasDomain(real) => {
                    known
                        .alias_domains
                        .push((address.trim_start_matches('@').to_owned(), real.clone()));
                }
                AddressRow::Primary(account) | AddressRow::Alias(account) => {
                    if let Ok(address) = Address::parse(&address) {
                        let of = known.of.entry(*account).or_default();
                        if matches!(row, AddressRow::Primary(_)) {
                            of.insert(0, address)
                        } else {
                            of.push(address)
                        }
                    }
                }
                AddressRow::CatchAll(account) => {
                    known.catch_alls.entry(*account).or_default().push(address.clone());
                }
            }
            known.addresses.insert(address, row);
        }
        for (id, row) in rows.accounts {
            match row {
                Ok(row) => {
                    known
                        .tokens
                        .extend(row.tokens.iter().map(|token| (token.hash, (id, token.expires))));
                    known.most_passwords = known.most_passwords.max(row.passwords.len());
                    known.accounts.insert(id, row);
                }
                Err(damage) => drop(known.damaged_accounts.insert(id, damage)),
            }
        }
        known
    }

    fn damage(&self) -> impl Iterator<Item = &Error> {
        self.damaged_accounts.values().chain(self.damaged_addresses.values())
    }

    fn account(&self, account: AccountId) -> Result<Option<&AccountRow>, Error> {
        match self.damaged_accounts.get(&account) {
            Some(damage) => Err(damage.clone()),
            None => Ok(self.accounts.get(&account)),
        }
    }

    /// The row of an address, in the form in which it is kept.
    fn row(&self, address: &str) -> Result<Option<&AddressRow>, Error> {
        match self.damaged_addresses.get(address) {
            Some(damage) => Err(damage.clone()),
            None => Ok(self.addresses.get(address)),
        }
    }

    /// Nothing, where every account's row can be read: else it may be one of those that cannot.
    fn unless_damaged<T>(&self) -> Result<Option<T>, Error> {
        self.damaged_accounts.values().next().map_or(Ok(None), |damage| Err(damage.clone()))
    }

    /// The account that an address leads to, the address that led there, and the detail. A damaged
    /// row on the way is an error: what is less exact must not take what may be another's.
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
        let real = self.in_real_domain(settings.form(address))?;
        let account = |key: &str| match self.row(key)?.and_then(AddressRow::account) {
            Some(account) => Ok(self.account(account)?.map(|_| account)),
            None => Ok(None),
        };
        if let Some(exact) = account(&real.to_string())? {
            return Ok(Some((exact, real, None)));
        }
        if let Some(delimiter) = settings.delimiter
            && let (base, Some(detail)) = real.split_detail(delimiter)
            && let Some(found) = account(&base.to_string())?
        {
            return Ok(Some((found, base, Some(detail.to_owned()))));
        }
        Ok(account(&format!("@{}", real.domain()))?.map(|found| (found, real, None)))
    }

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
