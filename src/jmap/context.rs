//! What a method works with: the caller, the accounts that the caller may use, and the services of
//! the site.
//!
//! A standard method finds its account by `accessible_account`, through `Call::account` or
//! `Call::managed_account`. A vendor method finds it by `account_of`. The exceptions are the
//! methods of `PushSubscription`, and Store/repair.

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
use crate::wire::jmap::MethodError;
use crate::wire::jmap::admin::AccountRef;
use crate::wire::smtp::Reply;
use crate::{filter, vacation};

/// Who makes a request. At most one of `user` and `account` is set. Without both, the caller has no
/// account.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Caller {
    /// The Unix user at the control socket, if that user has a name.
    pub user: Option<String>,
    /// The account that logged in with a password or a token.
    pub account: Option<AccountId>,
    /// The name of the password or token that was used (`account::Login`); `None` without a login.
    /// Push subscriptions belong to it (RFC 8620 §7.2).
    pub credential: Option<String>,
    /// Whether the caller may manage the whole site.
    pub admin: bool,
}

/// Delivers a message (sender, recipients, bytes) as LMTP would, with one reply for each recipient.
/// The sender `None` is the null path `<>`.
pub type DeliverFn =
    dyn Fn(Option<Address>, Vec<Address>, Vec<u8>) -> Vec<(Address, Reply)> + Send + Sync;

#[derive(Clone)]
pub struct Context {
    pub store: Store,
    pub directory: Directory,
    pub vacation: vacation::Settings,
    pub filter: Arc<filter::Settings>,
    /// The name of the service, as in Received fields.
    pub hostname: Arc<str>,
    /// How long a destroyed email can be restored.
    pub restore_period: Duration,
    pub deliver: Arc<DeliverFn>,
    pub jobs: Jobs,
    /// When push subscriptions were created lately.
    pub subscription_times: SubscriptionTimes,
    /// `None` while the relay can be reached.
    pub relay: LiveValue<Option<RelayTrouble>>,
    pub uploads: Arc<UploadSettings>,
    pub upload_rates: UploadRates,
    pub caller: Caller,
    /// The service's URL as the caller reached it, for example `https://mail.example.org`.
    pub base_url: Arc<str>,
    /// Each request has its own.
    pub budget: Budget,
}

impl fmt::Debug for Context {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Context").field("caller", &self.caller).finish_non_exhaustive()
    }
}

impl Context {
    pub(super) fn require_admin(&self) -> Result<(), MethodError> {
        if self.caller.admin {
            Ok(())
        } else {
            Err(MethodError::Forbidden(
                "only root and the administrators of the service may do this".into(),
            ))
        }
    }

    /// Finds the account that the arguments of a vendor method name: `accountId` has its id,
    /// `account` its id, its name or an address. If both are missing, finds the caller's own. The
    /// caller must be the owner of the account or an administrator.
    ///
    /// # Errors
    /// `InvalidArguments` for both arguments, or for neither if the caller does not have exactly
    /// one account; `AccountNotFound` if `accountId` does not have the form of an id; those of
    /// `managed_account`.
    pub(super) fn account_of(
        &self,
        reference: &AccountRef,
    ) -> Result<(AccountId, AccountRow), MethodError> {
        match (&reference.account_id, &reference.account) {
            (Some(id), None) => {
                let id = id.parse::<AccountId>().map_err(|_| MethodError::AccountNotFound)?;
                self.managed_account(&id.to_string())
            }
            (None, Some(name)) => self.managed_account(name),
            (None, None) => self.only_account(),
            _ => Err(MethodError::InvalidArguments(
                "accountId or account is expected, not both".into(),
            )),
        }
    }

    /// Asks upkeep to make or keep listings. `requests` returns the requests for the current time.
    pub(super) fn request_listings(
        &self,
        account: AccountId,
        requests: impl Fn(UtcMillis) -> Vec<ListingRequest>,
    ) {
        self.store.request_listings(account, requests(self.store.clock().now()));
    }

    /// Finds an account that the caller may manage (as in `managed_account`), or in which a mailbox
    /// is shared with the caller.
    ///
    /// # Errors
    /// `AccountNotFound` for any other account, and those of reading.
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

    /// Returns the caller's own accounts, in the order of their ids: the one that logged in, or
    /// those that are mapped to the Unix user.
    ///
    /// # Errors
    /// Those of reading.
    pub fn own_accounts(&self) -> Result<Vec<(AccountId, AccountRow)>, MethodError> {
        let accounts = match (&self.caller.account, &self.caller.user) {
            (Some(id), _) => self
                .directory
                .find_account(&id.to_string())
                .map(|found| found.into_iter().collect()),
            (None, Some(user)) => self.directory.accounts_of_unix_user(user),
            (None, None) => Ok(Vec::new()),
        };
        let mut accounts: Vec<_> = accounts?;
        accounts.sort_by_key(|(id, _)| *id);
        Ok(accounts)
    }

    /// Returns the caller's own accounts, then those in which a mailbox is shared with the caller.
    /// Leaves out a shared account whose row is damaged or lost. Being an administrator adds none.
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
                if all.iter().any(|account| account.id == id) {
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

    /// Returns the account that logged in, or the only one that is mapped to the Unix user.
    fn only_account(&self) -> Result<(AccountId, AccountRow), MethodError> {
        if let Some(account) = self.caller.account {
            return self.managed_account(&account.to_string());
        }
        let mut all = match self.caller.user.as_deref() {
            Some(user) => self.directory.accounts_of_unix_user(user)?,
            None => Vec::new(),
        };
        match (all.pop(), all.is_empty()) {
            (Some(only), true) => Ok(only),
            (Some(_), false) => Err(MethodError::InvalidArguments(
                "several accounts are mapped to your Unix user: name one (option -a, argument \
                 account)"
                    .into(),
            )),
            (None, _) => Err(MethodError::InvalidArguments(
                "no account is mapped to your Unix user: name one (option -a, argument account)"
                    .into(),
            )),
        }
    }

    /// Finds the account with this id, name or address. The caller must be its owner or an
    /// administrator.
    ///
    /// # Errors
    /// If there is no such account for the caller: `AccountNotFound` after a login and for an
    /// administrator, `Forbidden` for others. Those of reading.
    pub fn managed_account(&self, name: &str) -> Result<(AccountId, AccountRow), MethodError> {
        let found = self.directory.find_account(name)?;
        let is_own = |id: AccountId, row: &AccountRow| {
            self.caller.account == Some(id)
                || (row.unix_user.is_some() && row.unix_user == self.caller.user)
        };
        match found {
            Some((id, row)) if self.caller.admin || is_own(id, &row) => Ok((id, row)),
            // RFC 8620 §3.6.2: the error must not tell which other accounts exist.
            _ if self.caller.account.is_some() => Err(MethodError::AccountNotFound),
            Some(_) | None if !self.caller.admin => Err(MethodError::Forbidden(
                "you may manage only the account that is mapped to your Unix user".into(),
            )),
            _ => Err(MethodError::AccountNotFound),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    pub id: AccountId,
    pub row: AccountRow,
    /// The caller's own account with which mailboxes of this account are shared; if there are
    /// several, the one with the lowest id. `None` for the owner and, except in
    /// `accessible_accounts`, for an administrator.
    pub guest: Option<AccountId>,
}

/// Objects with the creation ids under which a request names them, sorted by creation id.
pub(super) type NamedObjects = Vec<(String, Map<String, Value>)>;

/// Drops repeated texts. The others keep their order.
pub(super) fn distinct(texts: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    texts.into_iter().filter(|text| seen.insert(text.clone())).collect()
}

pub(super) fn parse_address(text: &str) -> Result<Address, MethodError> {
    Address::parse(text).map_err(|error| MethodError::InvalidArguments(format!("{text}: {error}")))
}

pub(super) fn date_or_null(at: Option<UtcMillis>) -> Value {
    at.map_or(Value::Null, |at| at.rfc3339().into())
}
