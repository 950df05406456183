//! Who asks, of which service, and what the arguments say.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};

use super::budget::Budget;
use super::jobs::Jobs;
use super::subscription_times::SubscriptionTimes;
use super::uploads::{UploadRates, UploadSettings};
use crate::account::Directory;
use crate::model::{AccountId, AccountRow, Address, LiveValue, RelayTrouble, UtcMillis};
use crate::store::{Error, ListingRequest, Store};
use crate::vacation;
use crate::wire::jmap::MethodError;
use crate::wire::jmap::admin::AccountRef;
use crate::wire::smtp::Reply;

/// Who asks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Caller {
    /// The Unix user's name, where he came by the control socket.
    pub user: Option<String>,
    /// The account that logged in, with its password or a token. It is no administrator.
    pub account: Option<AccountId>,
    /// The name of that password or token (`account::Login`): push subscriptions belong to it (RFC
    /// 8620 §7.2).
    pub credential: Option<String>,
    /// Whether he may manage everything.
    pub admin: bool,
}

/// Delivers a message as LMTP would: sender, recipients, octets.
pub type DeliverFn =
    dyn Fn(Option<Address>, Vec<Address>, Vec<u8>) -> Vec<(Address, Reply)> + Send + Sync;

/// A method's world.
#[derive(Clone)]
pub struct Context {
    /// The store.
    pub store: Store,
    /// The accounts.
    pub directory: Directory,
    /// The site's vacation settings.
    pub vacation: vacation::Settings,
    /// How long what was destroyed can be restored.
    pub restore: Duration,
    /// The way in.
    pub deliver: Arc<DeliverFn>,
    /// Long work.
    pub jobs: Jobs,
    /// Push subscriptions that were made of late.
    pub pushes: SubscriptionTimes,
    /// Why nothing is sent, while the relay is out of order.
    pub relay: LiveValue<Option<RelayTrouble>>,
    /// What may be uploaded.
    pub uploads: Arc<UploadSettings>,
    /// What was uploaded of late.
    pub rates: UploadRates,
    /// Who asks.
    pub caller: Caller,
    /// What the service's URLs begin with, as the caller reached it, such as
    /// `https://mail.example.org`.
    pub base: Arc<str>,
    /// What the request may still do. `run` gives each request one of its own.
    pub budget: Budget,
}

impl fmt::Debug for Context {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Context").field("caller", &self.caller).finish_non_exhaustive()
    }
}

impl Context {
    /// Refuses who may not manage the site.
    pub(super) fn admin_only(&self) -> Result<(), MethodError> {
        if self.caller.admin {
            Ok(())
        } else {
            Err(MethodError::Forbidden("only root and the service's administrators may".into()))
        }
    }

    /// The account that `accountId` names by its id, or `account` by its name or an address; the
    /// caller must be its owner, or an administrator. Where neither is given it is the caller's
    /// own.
    pub(super) fn account_of(
        &self,
        named: &AccountRef,
    ) -> Result<(AccountId, AccountRow), MethodError> {
        match (&named.account_id, &named.account) {
            (Some(id), None) => {
                let id = id.parse::<AccountId>().map_err(|_| MethodError::AccountNotFound)?;
                self.managed_account(&id.to_string())
            }
            (None, Some(name)) => self.managed_account(name),
            (None, None) => self.only_account(),
            _ => Err(MethodError::InvalidArguments(
                "accountId or account is wanted, not both".into(),
            )),
        }
    }

    /// Asks upkeep for what a query would have done with listings, which `requests` returns for the
    /// current time.
    pub(super) fn request_listings(
        &self,
        account: AccountId,
        requests: impl Fn(UtcMillis) -> Vec<ListingRequest>,
    ) {
        self.store.request_listings(account, requests(self.store.clock().now()));
    }

    /// An account of that id: the caller's own, or one in which something was opened to him.
    ///
    /// # Errors
    /// `AccountNotFound`, and those of reading.
    pub fn accessible_account(&self, id: AccountId) -> Result<Account, MethodError> {
        match self.managed_account(&id.to_string()) {
            Ok((id, row)) => return Ok(Account { id, row, guest: None }),
            Err(MethodError::Forbidden(_) | MethodError::AccountNotFound) => {}
            Err(error) => return Err(error),
        }
        for (user, _) in self.own_accounts()? {
            if self.store.snapshot().is_shared_with(user, id)? {
                let found = self.directory.find_account(&id.to_string())?;
                return found
                    .map(|(id, row)| Account { id, row, guest: Some(user) })
                    .ok_or(MethodError::AccountNotFound);
            }
        }
        Err(MethodError::AccountNotFound)
    }

    /// The accounts that are the caller's own.
    ///
    /// # Errors
    /// Those of reading.
    pub fn own_accounts(&self) -> Result<Vec<(AccountId, AccountRow)>, MethodError> {
        let found = match (&self.caller.account, &self.caller.user) {
            (Some(id), _) => self
                .directory
                .find_account(&id.to_string())
                .map(|found| found.into_iter().collect()),
            (None, Some(user)) => self.directory.accounts_of_unix_user(user),
            (None, None) => Ok(Vec::new()),
        };
        let mut found: Vec<_> = found?;
        found.sort_by_key(|(id, _)| *id);
        Ok(found)
    }

    /// All accounts that he may reach but as an administrator: his own, then those in which
    /// something was opened to him. One of the latter whose row is damaged or lost is left out
    /// until a repair: he must still reach the others.
    ///
    /// # Errors
    /// Those of reading.
    pub fn accessible_accounts(&self) -> Result<Vec<Account>, MethodError> {
        let own = self.own_accounts()?;
        let mut all: Vec<Account> = own
            .iter()
            .map(|(id, row)| Account { id: *id, row: row.clone(), guest: None })
            .collect();
        let snapshot = self.store.snapshot();
        for (user, _) in &own {
            for id in snapshot.accounts_shared_with(*user)? {
                if all.iter().any(|known| known.id == id) {
                    continue;
                }
                let found = match self.directory.find_account(&id.to_string()) {
                    Err(Error::Corrupt { .. }) => None,
                    found => found?,
                };
                all.extend(found.map(|(id, row)| Account { id, row, guest: Some(*user) }));
            }
        }
        Ok(all)
    }

    /// The one account that the caller logged in to, or that is mapped to him.
    fn only_account(&self) -> Result<(AccountId, AccountRow), MethodError> {
        if let Some(account) = self.caller.account {
            return self.managed_account(&account.to_string());
        }
        let user = self.caller.user.as_deref();
        let mut all = match user {
            Some(user) => self.directory.accounts_of_unix_user(user)?,
            None => Vec::new(),
        };
        match (all.pop(), all.is_empty()) {
            (Some(only), true) => Ok(only),
            (Some(_), false) => Err(MethodError::InvalidArguments(
                "several accounts are mapped to your Unix user: name one".into(),
            )),
            (None, _) => Err(MethodError::InvalidArguments(
                "no account is mapped to your Unix user: accountId or account is wanted".into(),
            )),
        }
    }

    /// The account of that id, name or address; the caller must be its owner, or an administrator.
    ///
    /// # Errors
    /// `Forbidden`, `AccountNotFound`, and those of reading.
    pub fn managed_account(&self, name: &str) -> Result<(AccountId, AccountRow), MethodError> {
        let found = self.directory.find_account(name)?;
        let mine = |id: AccountId, row: &AccountRow| {
            self.caller.account == Some(id)
                || (row.unix_user.is_some() && row.unix_user == self.caller.user)
        };
        match found {
            Some((id, row)) if self.caller.admin || mine(id, &row) => Ok((id, row)),
            // Who logged in by name may not ask which other accounts there are (RFC 8620 §3.6.2).
            _ if self.caller.account.is_some() => Err(MethodError::AccountNotFound),
            Some(_) | None if !self.caller.admin => Err(MethodError::Forbidden(
                "you may manage only the account that is mapped to your Unix user".into(),
            )),
            _ => Err(MethodError::AccountNotFound),
        }
    }
}

/// The account that a standard method works with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// Its id.
    pub id: AccountId,
    /// Its row.
    pub row: AccountRow,
    /// As which account the caller is a guest in it: to that one its owner opened mailboxes. `None`
    /// where it is his own.
    pub guest: Option<AccountId>,
}

/// Objects by name, in order of the names.
pub(super) type NamedObjects = Vec<(String, Map<String, Value>)>;

/// The first of each text, in order.
pub(super) fn distinct(texts: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    texts.into_iter().filter(|text| seen.insert(text.clone())).collect()
}

pub(super) fn address(text: &str) -> Result<Address, MethodError> {
    Address::parse(text).map_err(|error| MethodError::InvalidArguments(format!("{text}: {error}")))
}

pub(super) fn date(at: Option<UtcMillis>) -> Value {
    at.map_or(Value::Null, |at| at.rfc3339().into())
}
