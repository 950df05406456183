//! Changing the directory. Each function returns when its change is durable; none may be called
//! from an asynchronous task (they wait for the disk).
//!
//! - Who changes the directory does so alone. A name is one account's: no other has it as its name
//!   or as an address that leads to it, and none is read as an account's id.
//! - An account is made by one write, with its mailboxes and the addresses that lead to it: there
//!   is no half of one.
//! - An account that goes loses its primary address in its own row first, and then its addresses
//!   and its rows: what is left after a crash gets no mail, and the next removal removes it.

use super::Directory;
use crate::model::{AccountId, AccountRow, Address, AddressRow, Role};
use crate::store::{Error, NewMailbox, Txn};

/// An account to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewAccount {
    /// Its primary address.
    pub address: Address,
    /// Its name for commands and logins; the address where none is given.
    pub name: Option<String>,
    /// The owner's name.
    pub display_name: Option<String>,
    /// Most octets that it may hold.
    pub quota_bytes: Option<u64>,
    /// Most emails that it may hold.
    pub quota_emails: Option<u64>,
    /// IANA time zone.
    pub zone: Option<String>,
    /// Whether `user+Mailbox@` may file into that mailbox.
    pub detail_files: bool,
    /// The Unix user who may manage it.
    pub unix_user: Option<String>,
    /// Other addresses of it.
    pub aliases: Vec<Address>,
    /// Whether it begins with a mailbox for each usual role, or with the Inbox alone; as the site
    /// has it where not said.
    pub all_mailboxes: Option<bool>,
}

impl NewAccount {
    /// An account with nothing but an address.
    #[cfg(any(test, feature = "internals"))]
    #[must_use]
    pub fn at(address: Address) -> Self {
        Self {
            address,
            name: None,
            display_name: None,
            quota_bytes: None,
            quota_emails: None,
            zone: None,
            detail_files: false,
            unix_user: None,
            aliases: Vec::new(),
            all_mailboxes: None,
        }
    }
}

/// The usual mailboxes, the Inbox first.
const STANDARD_MAILBOXES: [(&str, Role); 6] = [
    ("Inbox", Role::Inbox),
    ("Drafts", Role::Drafts),
    ("Sent", Role::Sent),
    ("Junk", Role::Junk),
    ("Trash", Role::Trash),
    ("Archive", Role::Archive),
];

/// Rows removed by one step of an account's end.
const ERASE_STEP: usize = 5_000;

impl Directory {
    /// Makes an account with its mailboxes.
    ///
    /// # Errors
    /// `Conflict` where an address or the name is taken, and those of the store.
    pub fn add(&self, new: &NewAccount) -> Result<AccountId, Error> {
        let _alone = self.0.changing.lock();
        let settings = self.settings().get();
        let primary = settings.form(&new.address);
        let name = new.name.clone().unwrap_or_else(|| primary.to_string());
        self.check_name_is_free(&name)?;
        let mut aliases: Vec<Address> = Vec::new();
        for alias in new.aliases.iter().map(|alias| settings.form(alias)) {
            if alias != primary && !aliases.contains(&alias) {
                aliases.push(alias);
            }
        }
        for address in aliases.iter().chain([&primary]) {
            self.check_real_domain(address)?;
            self.check_address_is_free(None, address)?;
        }
        let account = self.site(|txn| Ok(txn.next_account()))?;
        let row = AccountRow {
            name,
            primary: primary.clone(),
            display_name: new.display_name.clone(),
            active: true,
            quota_bytes: new.quota_bytes,
            quota_emails: new.quota_emails,
            zone: new.zone.clone(),
            detail_files: new.detail_files,
            unix_user: new.unix_user.clone(),
            created: self.0.store.clock().now(),
            passwords: Vec::new(),
            tokens: Vec::new(),
            addresses: Some(aliases.iter().map(ToString::to_string).collect()),
        };
        let usual = if new.all_mailboxes.unwrap_or(settings.all_mailboxes) {
            STANDARD_MAILBOXES.len()
        } else {
            1
        };
        let ticket = self.0.store.commit_together(&[AccountId::SITE, account], |txn| {
            if txn.account() == AccountId::SITE {
                txn.set_address(&primary.to_string(), Some(&AddressRow::Primary(account)));
                for alias in &aliases {
                    txn.set_address(&alias.to_string(), Some(&AddressRow::Alias(account)));
                }
                return Ok(());
            }
            txn.set_account(&row);
            for ((name, role), order) in STANDARD_MAILBOXES.iter().zip(1..).take(usual) {
                let role = Some(*role);
                txn.create_mailbox(&NewMailbox {
                    name: (*name).into(),
                    parent: None,
                    role,
                    sort_order: order * 10,
                })?;
            }
            Ok(())
        })?;
        ticket.wait_blocking()?;
        Ok(account)
    }

    /// All accounts with their addresses, by id.
    ///
    /// # Errors
    /// Those of the store.
    pub fn list(&self) -> Result<Vec<(AccountId, AccountRow, Vec<Address>)>, Error> {
        let known = self.cache()?;
        let mut all: Vec<_> = known
            .accounts
            .iter()
            .map(|(id, row)| (*id, row.clone(), known.of.get(id).cloned().unwrap_or_default()))
            .collect();
        all.sort_by_key(|(id, ..)| *id);
        Ok(all)
    }

    /// Changes an account's row; returns what `edit` says of it.
    ///
    /// # Errors
    /// `NotFound`, and those of the store.
    pub fn update<T>(
        &self,
        account: AccountId,
        edit: impl Fn(&mut AccountRow) -> T,
    ) -> Result<T, Error> {
        let _alone = self.0.changing.lock();
        let addresses = self.addresses_of(account)?;
        self.change(account, |txn| {
            let mut row = txn.snapshot().account(account)?.ok_or(Error::NotFound("account"))?;
            let (name, named) = (row.name.clone(), row.addresses.take());
            let said = edit(&mut row);
            row.addresses = Some(named.unwrap_or_else(|| addresses.clone()));
            if !row.name.eq_ignore_ascii_case(&name) {
                self.check_name_is_free(&row.name)?;
            }
            txn.set_account(&row);
            Ok(said)
        })
    }

    /// Adds an address to an account.
    ///
    /// # Errors
    /// `Conflict` where it is taken, `NotFound`, and those of the store.
    pub fn add_alias(&self, account: AccountId, alias: &Address) -> Result<(), Error> {
        let _alone = self.0.changing.lock();
        let alias = self.settings().get().form(alias);
        self.check_real_domain(&alias)?;
        self.check_address_is_free(Some(account), &alias)?;
        self.claim(account, &alias.to_string(), &AddressRow::Alias(account))
    }

    /// Gives an account everything in a domain that nothing else claims.
    ///
    /// # Errors
    /// As `add_alias`.
    pub fn add_catch_all(&self, account: AccountId, domain: &str) -> Result<(), Error> {
        let _alone = self.0.changing.lock();
        let domain = crate::model::address::fold_domain(domain);
        self.check_real_domain(&Address::from_parts("", &*domain))?;
        let key = format!("@{domain}");
        self.claim(account, &key, &AddressRow::CatchAll(account))
    }

    /// Lets one domain stand for another. It is looked up once: a domain that stands for another
    /// has no addresses of its own, and is nobody's target.
    ///
    /// # Errors
    /// `Conflict` where it does so already or would break that, and those of the store.
    pub fn add_alias_domain(&self, alias: &str, real: &str) -> Result<(), Error> {
        let fold = crate::model::address::fold_domain;
        let (alias, real) = (fold(alias), fold(real));
        if alias == real {
            return Err(Error::Conflict("a domain cannot stand for itself".into()));
        }
        let _alone = self.0.changing.lock();
        self.refuse_names_in(&alias, &real)?;
        self.site(|txn| {
            for (address, row) in txn.snapshot().directory()?.addresses {
                let is_in_alias =
                    address.rsplit_once('@').is_some_and(|(_, domain)| domain == alias);
                let row = match row {
                    Ok(row) => row,
                    Err(damage) if is_in_alias && !address.starts_with("@@") => return Err(damage),
                    Err(_) => continue,
                };
                let conflict = match &row {
                    AddressRow::AliasDomain(_) if address == format!("@@{alias}") => {
                        Some(address_taken(&alias))
                    }
                    AddressRow::AliasDomain(target) if *target == alias => {
                        let other = address.trim_start_matches('@');
                        Some(Error::Conflict(format!("{other} stands for {alias}")))
                    }
                    AddressRow::AliasDomain(_) if address == format!("@@{real}") => {
                        Some(Error::Conflict(format!("{real} stands for another domain itself")))
                    }
                    AddressRow::Primary(_) | AddressRow::Alias(_) | AddressRow::CatchAll(_)
                        if is_in_alias =>
                    {
                        Some(Error::Conflict(format!(
                            "{address} would be reached no more: remove it first"
                        )))
                    }
                    _ => None,
                };
                conflict.map_or(Ok(()), Err)?;
            }
            txn.set_address(&format!("@@{alias}"), Some(&AddressRow::AliasDomain(real.clone())));
            Ok(())
        })
    }

    /// The domains that stand for another: (alias, real), by name.
    ///
    /// # Errors
    /// Those of the store.
    pub fn alias_domains(&self) -> Result<Vec<(String, String)>, Error> {
        let mut all = self.cache()?.alias_domains.clone();
        all.sort();
        Ok(all)
    }

    /// Refuses an address that nothing would ever lead to, for its domain stands for another.
    fn check_real_domain(&self, address: &Address) -> Result<(), Error> {
        match self.cache()?.alias_domains.iter().find(|(alias, _)| alias == address.domain()) {
            Some((alias, real)) => {
                Err(Error::Conflict(format!("{alias} stands for {real}: give the address there")))
            }
            None => Ok(()),
        }
    }

    /// Takes an alias away from an account. A primary address goes only with its account.
    ///
    /// # Errors
    /// `NotFound`, `Conflict` where it is not this account's alias, and those of the store.
    pub fn remove_alias(&self, account: AccountId, alias: &Address) -> Result<(), Error> {
        let _alone = self.0.changing.lock();
        let key = self.settings().get().form(alias).to_string();
        self.release(account, &key, |row| match row {
            AddressRow::Alias(to) if *to == account => Ok(()),
            AddressRow::Primary(to) if *to == account => {
                Err(Error::Conflict(format!("{key} is the account's primary address")))
            }
            _ => Err(Error::Conflict(format!("{key} leads to another account"))),
        })
    }

    /// Takes everything in a domain that nothing else claims away from an account.
    ///
    /// # Errors
    /// As `remove_alias`.
    pub fn remove_catch_all(&self, account: AccountId, domain: &str) -> Result<(), Error> {
        let _alone = self.0.changing.lock();
        let key = format!("@{}", crate::model::address::fold_domain(domain));
        self.release(account, &key, |row| match row {
            AddressRow::CatchAll(to) if *to == account => Ok(()),
            _ => Err(Error::Conflict(format!("{key} leads to another account"))),
        })
    }

    /// Lets a domain that stood for another stand for nothing.
    ///
    /// # Errors
    /// `NotFound`, and those of the store.
    pub fn remove_alias_domain(&self, alias: &str) -> Result<(), Error> {
        let _alone = self.0.changing.lock();
        let key = format!("@@{}", crate::model::address::fold_domain(alias));
        self.site(|txn| {
            let found = txn.snapshot().address(&key);
            match found {
                Ok(None) => return Err(Error::NotFound("address")),
                Ok(Some(_)) | Err(Error::Corrupt { .. }) => txn.set_address(&key, None),
                Err(error) => return Err(error),
            }
            Ok(())
        })
    }

    /// Removes an account with all its mail. A step at a time; what is left after a crash, the next
    /// call removes.
    ///
    /// # Errors
    /// `NotFound`, and those of the store.
    pub fn remove(&self, account: AccountId) -> Result<(), Error> {
        let _alone = self.0.changing.lock();
        if self.0.store.snapshot().account(account)?.is_none() {
            return Err(Error::NotFound("account"));
        }
        self.erase(account)
    }

    /// Removes what there is of an account.
    fn erase(&self, account: AccountId) -> Result<(), Error> {
        self.change(account, |txn| {
            let row = txn.snapshot().account(account)?;
            if let Some(row) = row {
                // From now on it is neither complete nor to be completed.
                txn.set_account(&AccountRow {
                    active: false,
                    primary: Address::from_parts("", ""),
                    ..row
                });
            }
            Ok(())
        })?;
        self.site(|txn| {
            let all = txn.snapshot().directory()?.addresses;
            for (address, row) in all {
                if row.is_ok_and(|row| row.account() == Some(account)) {
                    txn.set_address(&address, None);
                }
            }
            Ok(())
        })?;
        for owner in self.0.store.snapshot().accounts_shared_with(account)? {
            while self.change(owner, |txn| txn.unshare(&[account].into(), ERASE_STEP))? {}
        }
        while self.change(account, |txn| txn.erase(ERASE_STEP))? {}
        *self.0.known.write() = None;
        Ok(())
    }

    /// Refuses a name that another account has, that leads to one as an address, or that reads as
    /// an account's id.
    fn check_name_is_free(&self, name: &str) -> Result<(), Error> {
        if name.trim().is_empty() {
            return Err(Error::Conflict("an account needs a name".into()));
        }
        if name.parse::<AccountId>().is_ok() {
            return Err(Error::Conflict(format!("{name} would be taken for the id of an account")));
        }
        if let Some((_, row)) = self.find_account(name)? {
            let by = if row.name.eq_ignore_ascii_case(name) {
                "is its name"
            } else {
                "is an address of it"
            };
            return Err(Error::Conflict(format!("there is an account {}: {name} {by}", row.name)));
        }
        Ok(())
    }

    /// Refuses an address that is taken, or that is the name of an account but this one.
    fn check_address_is_free(
        &self,
        account: Option<AccountId>,
        address: &Address,
    ) -> Result<(), Error> {
        self.check_key_is_free(account.unwrap_or(AccountId::SITE), &address.to_string())?;
        let named = |(id, row): &(AccountId, AccountRow)| {
            Some(*id) != account && self.is_name(row, address)
        };
        match self.0.store.snapshot().accounts()?.into_iter().find(named) {
            Some((_, row)) => {
                Err(Error::Conflict(format!("there is an account named {}", row.name)))
            }
            None => Ok(()),
        }
    }

    fn is_name(&self, row: &AccountRow, address: &Address) -> bool {
        let settings = self.settings().get();
        Address::parse(&row.name).is_ok_and(|name| settings.form(&name) == *address)
    }

    /// Refuses to let a domain stand for another where an account is named like an address that
    /// would lead to another one.
    fn refuse_names_in(&self, alias: &str, real: &str) -> Result<(), Error> {
        let (snapshot, settings) = (self.0.store.snapshot(), self.settings().get());
        for (id, row) in snapshot.accounts()? {
            let Ok(name) = Address::parse(&row.name).map(|name| settings.form(&name)) else {
                continue;
            };
            let leads = match name.domain() == alias {
                true => snapshot.address(&Address::from_parts(name.local(), real).to_string())?,
                false => None,
            };
            match leads {
                Some(AddressRow::Primary(to) | AddressRow::Alias(to)) if to != id => {
                    return Err(Error::Conflict(format!(
                        "there is an account named {}, and it would lead to another",
                        row.name
                    )));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn site<T>(&self, change: impl FnMut(&mut Txn<'_>) -> Result<T, Error>) -> Result<T, Error> {
        self.change(AccountId::SITE, change)
    }

    fn change<T>(
        &self,
        account: AccountId,
        change: impl FnMut(&mut Txn<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let (value, ticket) = self.0.store.commit(account, change)?;
        ticket.wait_blocking()?;
        Ok(value)
    }
}

pub(super) fn address_taken(address: impl std::fmt::Display) -> Error {
    Error::Conflict(format!("{address} is taken"))
}
