//! Rows of the directory: accounts, their access tokens, and the addresses that lead to them.

use std::collections::BTreeSet;

use super::address::Address;
use super::clock::UtcMillis;
use super::id::AccountId;

/// The row of table `accounts`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountRow {
    /// The name of the account in commands and at login; by default the primary address.
    pub name: String,
    /// The primary address, as the directory stores and looks up addresses: the domain folded, and
    /// the local part too unless the site distinguishes case. Empty once the removal of the account
    /// has begun.
    pub primary: Address,
    /// The owner's name.
    pub display_name: Option<String>,
    /// Whether new mail is accepted. New mail for an inactive account is refused with 5.2.1; its
    /// owner can still read the mail that is there.
    pub active: bool,
    /// How many bytes of mail the account may hold; `None` for no limit.
    pub quota_bytes: Option<u64>,
    /// How many emails the account may hold; `None` for no limit.
    pub quota_emails: Option<u64>,
    /// The IANA name of the owner's time zone; `None` for the zone of the machine.
    pub zone: Option<String>,
    /// Whether mail to `user+Mailbox@` is filed into that mailbox.
    pub detail_files: bool,
    /// The Unix user who may manage the account.
    pub unix_user: Option<String>,
    pub created: UtcMillis,
    /// Passwords: name and PHC string.
    pub passwords: Vec<(String, String)>,
    pub tokens: Vec<AccessToken>,
    /// The keys of table `addresses` that lead to this account, without the primary address:
    /// aliases, and catch-alls as `@domain`. They are written together with the rows of those
    /// addresses, so that a check notices a lost row. `None` if the keys are not stored: an earlier
    /// version wrote this row. The next start of the service stores them, or the next change of the
    /// account by the directory.
    pub addresses: Option<BTreeSet<String>>,
}

/// A token that logs in to an account (RFC 6750). Only the hash of the secret is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessToken {
    /// The name that the owner gave it.
    pub name: String,
    /// The hash of the token's text.
    pub hash: [u8; 32],
    pub created: UtcMillis,
    pub expires: Option<UtcMillis>,
}

impl AccountRow {
    /// Returns an active account with all other settings at their defaults. `addresses` is `None`,
    /// so a caller that knows them must set them.
    #[must_use]
    pub fn new(name: impl Into<String>, primary: Address, created: UtcMillis) -> Self {
        Self {
            name: name.into(),
            primary,
            display_name: None,
            active: true,
            quota_bytes: None,
            quota_emails: None,
            zone: None,
            detail_files: false,
            unix_user: None,
            created,
            passwords: Vec::new(),
            tokens: Vec::new(),
            addresses: None,
        }
    }

    /// Whether the removal of the account has begun: `Directory::remove` first empties the primary
    /// address.
    #[must_use]
    pub fn is_being_removed(&self) -> bool {
        self.primary.local().is_empty() && self.primary.domain().is_empty()
    }
}

/// Where an address leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AddressRow {
    /// The primary address of an account.
    Primary(AccountId),
    /// An alias of an account.
    Alias(AccountId),
    /// The account that gets mail for all addresses of a domain that have no row of their own.
    CatchAll(AccountId),
    /// The domain that this alias domain stands for.
    AliasDomain(String),
}

impl AddressRow {
    /// Returns the account that the address leads to, or `None` for an alias domain.
    #[must_use]
    pub fn account(&self) -> Option<AccountId> {
        match self {
            Self::Primary(account) | Self::Alias(account) | Self::CatchAll(account) => {
                Some(*account)
            }
            Self::AliasDomain(_) => None,
        }
    }
}
