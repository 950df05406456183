//! Changes the directory: creates, edits and removes accounts, addresses and alias domains.
//!
//! - The functions that change something wait until it is durable on disk, so an asynchronous task
//!   must not call them.
//! - No two accounts have the same name, compared without the case of ASCII letters. No name has
//!   the form of an account id.
//! - No name is an address of another account, nor becomes one when its alias domain is replaced by
//!   the real one: a login name and mail to the same text never reach two accounts. This does not
//!   hold for addresses that lead to an account only by a catch-all or a detail, such as
//!   `ann+news@`: no login looks them up.
//! - An account is removed in steps, and what is left after a crash gets no mail: first its row
//!   becomes inactive, then its addresses, shares and all else are deleted. Damaged rows of
//!   addresses stay.

use super::Directory;
use crate::model::{AccountId, AccountRow, Address, AddressRow, Role};
use crate::store::{Error, NewMailbox, Txn};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewAccount {
    pub address: Address,
    /// For commands and logins. `None` is the address.
    pub name: Option<String>,
    pub display_name: Option<String>,
    /// `None` for no limit.
    pub quota_bytes: Option<u64>,
    /// `None` for no limit.
    pub quota_emails: Option<u64>,
    /// An IANA name. `None` is the site's.
    pub zone: Option<String>,
    /// Whether mail to `user+Mailbox@` is filed into that mailbox.
    pub detail_files: bool,
    /// The Unix user who may manage the account.
    pub unix_user: Option<String>,
    pub aliases: Vec<Address>,
    /// `Some(false)` creates only the Inbox. `None` is the site's setting.
    pub standard_mailboxes: Option<bool>,
}

impl NewAccount {
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
            standard_mailboxes: None,
        }
    }
}

/// The mailboxes of a new account. The first one is made also if only the Inbox is wanted.
const STANDARD_MAILBOXES: [(&str, Role); 6] = [
    ("Inbox", Role::Inbox),
    ("Drafts", Role::Drafts),
    ("Sent", Role::Sent),
    ("Junk", Role::Junk),
    ("Trash", Role::Trash),
    ("Archive", Role::Archive),
];

/// The most rows of an account that one commit of its removal deletes, or mailboxes from which a
/// commit takes the account's rights.
const ERASE_CHUNK: usize = 5_000;

impl Directory {
    /// Creates an account: takes an id for it, and then writes its row, mailboxes and addresses in
    /// one commit.
    ///
    /// # Errors
    /// `Conflict` if an address is taken, is in an alias domain, or is the name of another account
    /// (written in the real domain or in an alias of it); or if `check_name_is_free` refuses the
    /// name. `Corrupt` if damaged rows leave open whether there is such a conflict; others if the
    /// store fails.
    pub fn add(&self, new: &NewAccount) -> Result<AccountId, Error> {
        let _guard = self.0.change_lock.lock();
        let settings = self.settings().get();
        let primary = settings.stored_form(&new.address);
        let name = new.name.clone().unwrap_or_else(|| primary.to_string());
        self.check_name_is_free(&name)?;
        let mut aliases: Vec<Address> = Vec::new();
        for alias in new.aliases.iter().map(|alias| settings.stored_form(alias)) {
            if alias != primary && !aliases.contains(&alias) {
                aliases.push(alias);
            }
        }
        for address in aliases.iter().chain([&primary]) {
            self.check_real_domain(address)?;
            self.check_address_is_free(None, address)?;
        }
        #[expect(
            clippy::redundant_closure_for_method_calls,
            reason = "the method itself is not general over the lifetime of `Txn`"
        )]
        let account = self.commit_site(|txn| txn.next_account())?;
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
            scram: None,
            addresses: Some(aliases.iter().map(ToString::to_string).collect()),
        };
        let mailbox_count = if new.standard_mailboxes.unwrap_or(settings.standard_mailboxes) {
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
            for ((name, role), order) in STANDARD_MAILBOXES.iter().zip(1..).take(mailbox_count) {
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

    /// Lists the accounts by id, each with its addresses, the primary one first. Leaves out
    /// accounts whose rows are damaged.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn list(&self) -> Result<Vec<(AccountId, AccountRow, Vec<Address>)>, Error> {
        let cache = self.cache()?;
        let addresses_of = |id| cache.addresses_by_account.get(id).cloned().unwrap_or_default();
        let mut accounts: Vec<_> =
            cache.accounts.iter().map(|(id, row)| (*id, row.clone(), addresses_of(id))).collect();
        accounts.sort_by_key(|(id, ..)| *id);
        Ok(accounts)
    }

    /// Changes an account's row. Returns what `edit` returns.
    ///
    /// - `edit` may be called several times. It must not change `primary`.
    /// - It sees `addresses` as `None`, and what it sets there is ignored.
    ///
    /// # Errors
    /// `NotFound` if there is no such account. `Conflict` if `check_name_is_free` refuses its new
    /// name; a change of case alone is not checked. Others if the store fails.
    pub fn update<T>(
        &self,
        account: AccountId,
        edit: impl Fn(&mut AccountRow) -> T,
    ) -> Result<T, Error> {
        let _guard = self.0.change_lock.lock();
        let addresses = self.addresses_of(account)?;
        self.commit(account, |txn| {
            let mut row = txn.snapshot().account(account)?.ok_or(Error::NotFound("account"))?;
            let (name, list) = (row.name.clone(), row.addresses.take());
            let result = edit(&mut row);
            row.addresses = Some(list.unwrap_or_else(|| addresses.clone()));
            if !row.name.eq_ignore_ascii_case(&name) {
                self.check_name_is_free(&row.name)?;
            }
            txn.set_account(&row);
            Ok(result)
        })
    }

    /// Gives an account another address.
    ///
    /// # Errors
    /// `Conflict` if the address is taken, also by this account; if it is in an alias domain; or if
    /// it is the name of another account, written in the real domain or in an alias of it.
    /// `NotFound` if there is no such account. `Corrupt` if damaged rows leave open whether there
    /// is such a conflict or account; others if the store fails.
    pub fn add_alias(&self, account: AccountId, alias: &Address) -> Result<(), Error> {
        let _guard = self.0.change_lock.lock();
        let alias = self.settings().get().stored_form(alias);
        self.check_real_domain(&alias)?;
        self.check_address_is_free(Some(account), &alias)?;
        self.claim_address(account, &alias.to_string(), &AddressRow::Alias(account))
    }

    /// Gives an account the mail for those addresses of a domain that no account has.
    ///
    /// # Errors
    /// Those of `add_alias` with the catch-all as the address, which is not compared with names.
    pub fn add_catch_all(&self, account: AccountId, domain: &str) -> Result<(), Error> {
        let _guard = self.0.change_lock.lock();
        let domain = crate::model::address::fold_domain(domain);
        self.check_real_domain(&Address::from_parts("", &*domain))?;
        let key = format!("@{domain}");
        self.claim_address(account, &key, &AddressRow::CatchAll(account))
    }

    /// Makes a domain an alias of another. An alias domain has no addresses of its own, and no
    /// domain is an alias of it.
    ///
    /// # Errors
    /// `Conflict` if the two domains are the same, if the domain is an alias already, if the rule
    /// above would be broken, or if an account's name would resolve to another account. `Corrupt`
    /// if the row of an address that decides this is damaged; others if the store fails.
    pub fn add_alias_domain(&self, alias: &str, real: &str) -> Result<(), Error> {
        let fold = crate::model::address::fold_domain;
        let (alias, real) = (fold(alias), fold(real));
        if alias == real {
            return Err(Error::Conflict("a domain cannot stand for itself".into()));
        }
        let _guard = self.0.change_lock.lock();
        self.check_names_in_alias_domain(&alias, &real)?;
        self.commit_site(|txn| {
            for (address, row) in txn.snapshot().directory()?.addresses {
                let is_in_alias =
                    address.rsplit_once('@').is_some_and(|(_, domain)| domain == alias);
                let row = match row {
                    Ok(row) => row,
                    // Of the damaged rows, an address in the alias domain is refused, and the row
                    // of the alias domain itself (`@@`) is written anew below. Those of other
                    // domains are passed over: a repair of one may then bring a conflict back.
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

    /// Lists the alias domains as (alias, real), by name.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn alias_domains(&self) -> Result<Vec<(String, String)>, Error> {
        let mut domains = self.cache()?.alias_domains.clone();
        domains.sort();
        Ok(domains)
    }

    /// Refuses an address in an alias domain.
    fn check_real_domain(&self, address: &Address) -> Result<(), Error> {
        match self.cache()?.alias_domains.iter().find(|(alias, _)| alias == address.domain()) {
            Some((alias, real)) => {
                Err(Error::Conflict(format!("{alias} stands for {real}: give the address there")))
            }
            None => Ok(()),
        }
    }

    /// Takes an alias away from an account. A primary address is removed only with its account.
    ///
    /// # Errors
    /// `NotFound` if nobody has the address or there is no such account, `Conflict` if the address
    /// is not an alias of this account; others if the store fails.
    pub fn remove_alias(&self, account: AccountId, alias: &Address) -> Result<(), Error> {
        let _guard = self.0.change_lock.lock();
        let key = self.settings().get().stored_form(alias).to_string();
        self.release_address(account, &key, |row| match row {
            AddressRow::Alias(to) if *to == account => Ok(()),
            AddressRow::Primary(to) if *to == account => {
                Err(Error::Conflict(format!("{key} is the account's primary address")))
            }
            _ => Err(Error::Conflict(format!("{key} leads to another account"))),
        })
    }

    /// Takes the catch-all of a domain away from an account.
    ///
    /// # Errors
    /// The same as `remove_alias`.
    pub fn remove_catch_all(&self, account: AccountId, domain: &str) -> Result<(), Error> {
        let _guard = self.0.change_lock.lock();
        let key = format!("@{}", crate::model::address::fold_domain(domain));
        self.release_address(account, &key, |row| match row {
            AddressRow::CatchAll(to) if *to == account => Ok(()),
            _ => Err(Error::Conflict(format!("{key} leads to another account"))),
        })
    }

    /// Removes an alias domain.
    ///
    /// # Errors
    /// `NotFound` if it is none; others if the store fails.
    pub fn remove_alias_domain(&self, alias: &str) -> Result<(), Error> {
        let _guard = self.0.change_lock.lock();
        let key = format!("@@{}", crate::model::address::fold_domain(alias));
        self.commit_site(|txn| {
            let row = txn.snapshot().address(&key);
            match row {
                Ok(None) => return Err(Error::NotFound("address")),
                Ok(Some(_)) | Err(Error::Corrupt { .. }) => txn.set_address(&key, None),
                Err(error) => return Err(error),
            }
            Ok(())
        })
    }

    /// Removes an account with all its mail. What is left after a crash is removed by the next
    /// call.
    ///
    /// # Errors
    /// `NotFound` if there is no such account; others if the store fails.
    pub fn remove(&self, account: AccountId) -> Result<(), Error> {
        let _guard = self.0.change_lock.lock();
        if self.0.store.snapshot().account(account)?.is_none() {
            return Err(Error::NotFound("account"));
        }
        self.erase(account)
    }

    /// Removes an account, which may have been removed in part, in the steps of the module
    /// documentation.
    fn erase(&self, account: AccountId) -> Result<(), Error> {
        self.commit(account, |txn| {
            let row = txn.snapshot().account(account)?;
            if let Some(row) = row {
                // A repair would write the row of a primary address anew: the account keeps none.
                txn.set_account(&AccountRow {
                    active: false,
                    primary: Address::from_parts("", ""),
                    ..row
                });
            }
            Ok(())
        })?;
        self.commit_site(|txn| {
            let addresses = txn.snapshot().directory()?.addresses;
            for (address, row) in addresses {
                if row.is_ok_and(|row| row.account() == Some(account)) {
                    txn.set_address(&address, None);
                }
            }
            Ok(())
        })?;
        for owner in self.0.store.snapshot().accounts_shared_with(account)? {
            while self.commit(owner, |txn| txn.unshare(&[account].into(), ERASE_CHUNK))? {}
        }
        while self.commit(account, |txn| txn.erase(ERASE_CHUNK))? {}
        // A change of `DataType::Account` would discard the cache, but `Txn::erase` reports none.
        *self.0.cache.write() = None;
        Ok(())
    }

    /// Refuses a new name that is empty, has the form of an account id, or is the name or an
    /// address of any account, even of the one that is being renamed.
    fn check_name_is_free(&self, name: &str) -> Result<(), Error> {
        if name.trim().is_empty() {
            return Err(Error::Conflict("an account needs a name".into()));
        }
        if name.parse::<AccountId>().is_ok() {
            return Err(Error::Conflict(format!("{name} would be taken for the id of an account")));
        }
        if let Some((_, row)) = self.find_account(name)? {
            let text = if row.name.eq_ignore_ascii_case(name) {
                format!("there is an account {} already", row.name)
            } else {
                format!("there is an account {}: {name} is an address of it", row.name)
            };
            return Err(Error::Conflict(text));
        }
        Ok(())
    }

    /// Refuses an address that is taken, or to which the name of another account leads. The address
    /// is in a real domain.
    fn check_address_is_free(
        &self,
        account: Option<AccountId>,
        address: &Address,
    ) -> Result<(), Error> {
        // If the row of the address is lost, the id tells whether the address was of this account.
        // A new account (`None`) has no id yet. The id of the site stands for it, because the site
        // never has addresses.
        self.check_key_is_free(account.unwrap_or(AccountId::SITE), &address.to_string())?;
        let (cache, settings) = (self.cache()?, self.settings().get());
        for (id, name) in self.0.store.snapshot().account_names()? {
            let Ok(parsed) = Address::parse(&name) else { continue };
            // The account of a name without an id is not known.
            let is_other = id.is_none() || id != account;
            if is_other && cache.in_real_domain(settings.stored_form(&parsed))? == *address {
                return Err(Error::Conflict(format!("there is an account named {name}")));
            }
        }
        Ok(())
    }

    /// Refuses an alias domain if an account's name is an address in it that would resolve to
    /// another account.
    fn check_names_in_alias_domain(&self, alias: &str, real: &str) -> Result<(), Error> {
        let (snapshot, settings) = (self.0.store.snapshot(), self.settings().get());
        for (id, name) in snapshot.account_names()? {
            let Ok(parsed) = Address::parse(&name).map(|name| settings.stored_form(&name)) else {
                continue;
            };
            let resolved = match parsed.domain() == alias {
                true => snapshot.address(&Address::from_parts(parsed.local(), real).to_string())?,
                false => None,
            };
            match resolved {
                Some(AddressRow::Primary(to) | AddressRow::Alias(to)) if Some(to) != id => {
                    return Err(Error::Conflict(format!(
                        "there is an account named {name}, and it would lead to another"
                    )));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn commit_site<T>(
        &self,
        change: impl FnMut(&mut Txn<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.commit(AccountId::SITE, change)
    }

    fn commit<T>(
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
