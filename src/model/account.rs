//! Rows of the directory: accounts, their access tokens, and the addresses that lead to them.

use std::collections::BTreeSet;

use super::address::Address;
use super::clock::UtcMillis;
use super::id::AccountId;

/// The row of table `accounts`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountRow {
    /// Used in commands and at login; by default the primary address.
    pub name: String,
    /// In the form in which the directory looks addresses up (`stored_form` in `account`). Empty
    /// once the removal of the account has begun.
    pub primary: Address,
    pub display_name: Option<String>,
    /// Whether new mail is accepted. The owner of an inactive account can still read its mail.
    pub active: bool,
    /// `None` for no limit.
    pub quota_bytes: Option<u64>,
    /// `None` for no limit.
    pub quota_emails: Option<u64>,
    /// An IANA name; `None` for the zone of the site, or that of the machine if the site has none.
    pub zone: Option<String>,
    /// Whether mail to `user+Mailbox@` is filed into that mailbox.
    pub detail_files: bool,
    /// The Unix user who may manage the account on the control socket, besides the administrators.
    /// `None` if there is no such user.
    pub unix_user: Option<String>,
    pub created: UtcMillis,
    /// Names and PHC strings.
    pub passwords: Vec<(String, String)>,
    pub tokens: Vec<AccessToken>,
    /// For logins with SCRAM; `None` if no password has keys for it.
    pub scram: Option<ScramPasswords>,
    /// The keys of table `addresses` that lead to this account, without the primary address:
    /// aliases, and catch-alls as `@domain`. A check compares them with the rows of addresses.
    /// `None` in a row of an earlier version, until the directory changes it or the service starts.
    pub addresses: Option<BTreeSet<String>>,
}

/// A token that logs in to an account (RFC 6750). Only the hash of the secret is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessToken {
    pub name: String,
    /// The hash of the token's text (`account::token_hash`).
    pub hash: [u8; 32],
    pub created: UtcMillis,
    /// `None` if the token does not expire.
    pub expires: Option<UtcMillis>,
}

/// The keys by which the passwords of an account are proven with SCRAM-SHA-256 (RFC 5802,
/// RFC 7677).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScramPasswords {
    /// The same for all keys.
    pub salt: [u8; 16],
    /// The rounds of PBKDF2, the same for all keys.
    pub iterations: u32,
    /// By the names of the passwords. Passwords that an earlier version of Restante stored have no
    /// keys.
    pub keys: Vec<(String, ScramKeys)>,
}

/// The keys of one password (RFC 5802 §3). `Debug` does not show them.
#[derive(Clone, PartialEq, Eq)]
pub struct ScramKeys {
    pub stored_key: [u8; 32],
    pub server_key: [u8; 32],
}

/// The keys of a password, and how they were derived from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DerivedScramKeys {
    pub salt: [u8; 16],
    pub iterations: u32,
    pub keys: ScramKeys,
}

impl std::fmt::Debug for ScramKeys {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("ScramKeys(..)")
    }
}

impl AccountRow {
    /// Returns an active account with all other settings at their defaults. The directory sets
    /// `addresses`.
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
            scram: None,
            addresses: None,
        }
    }

    /// Sets the password with this name; removes it if `phc` is `None`, and then `scram` must be
    /// `None`, too. SCRAM does not accept the password if `scram` is `None`, or if other passwords
    /// have keys of another salt or other rounds.
    pub fn set_password(
        &mut self,
        name: &str,
        phc: Option<String>,
        scram: Option<DerivedScramKeys>,
    ) {
        self.passwords.retain(|(other, _)| other != name);
        self.passwords.extend(phc.map(|phc| (name.to_owned(), phc)));
        if let Some(passwords) = &mut self.scram {
            passwords.keys.retain(|(other, _)| other != name);
        }
        self.scram = self.scram.take().filter(|passwords| !passwords.keys.is_empty());
        if let Some(DerivedScramKeys { salt, iterations, keys }) = scram {
            let empty = ScramPasswords { salt, iterations, keys: Vec::new() };
            let passwords = self.scram.get_or_insert(empty);
            if (passwords.salt, passwords.iterations) == (salt, iterations) {
                passwords.keys.push((name.to_owned(), keys));
            }
        }
    }

    /// Whether `Directory::remove` has emptied the primary address.
    #[must_use]
    pub fn is_being_removed(&self) -> bool {
        self.primary.local().is_empty() && self.primary.domain().is_empty()
    }
}

/// Where an address leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AddressRow {
    Primary(AccountId),
    Alias(AccountId),
    /// Gets mail for all addresses of a domain that lead to no account otherwise.
    CatchAll(AccountId),
    /// The domain for which this alias domain stands.
    AliasDomain(String),
}

impl AddressRow {
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
