//! Accounts and the addresses that lead to them.

use std::collections::BTreeSet;

use super::address::Address;
use super::clock::UtcMillis;
use super::id::AccountId;

/// An account's own row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountRow {
    /// Its name: what commands and logins call it. By default the primary address.
    pub name: String,
    /// Its primary address, folded.
    pub primary: Address,
    /// The owner's name.
    pub display_name: Option<String>,
    /// Whether mail is taken; mail of an inactive account is kept and 5.2.1 answered. Its owner can
    /// read it all the same.
    pub active: bool,
    /// Most octets that it may hold.
    pub quota_octets: Option<u64>,
    /// Most emails that it may hold.
    pub quota_emails: Option<u64>,
    /// IANA time zone of the owner.
    pub zone: Option<String>,
    /// Whether `user+Mailbox@` may file into that mailbox.
    pub detail_files: bool,
    /// The Unix user who may manage it.
    pub unix_user: Option<String>,
    /// When it was made.
    pub created: UtcMillis,
    /// Passwords: name and PHC string.
    pub passwords: Vec<(String, String)>,
    /// Tokens that log in to it.
    pub tokens: Vec<AccessToken>,
    /// The keys of table `addresses` that lead to it beside its primary address: aliases, and
    /// catch-alls as `@domain`. They are written with the rows of those addresses, so that one that
    /// is lost is missed. `None` where an earlier version wrote the row: then they are not known.
    pub addresses: Option<BTreeSet<String>>,
}

/// A token that logs in to an account (RFC 6750); what is secret of it is not kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessToken {
    /// What its owner calls it.
    pub name: String,
    /// Hash of its text.
    pub hash: [u8; 32],
    /// When it was made.
    pub created: UtcMillis,
    /// When it ends.
    pub expires: Option<UtcMillis>,
}

impl AccountRow {
    /// An account that takes mail, of which nothing else is set.
    #[must_use]
    pub fn new(name: impl Into<String>, primary: Address, created: UtcMillis) -> Self {
        Self {
            name: name.into(),
            primary,
            display_name: None,
            active: true,
            quota_octets: None,
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

    /// Whether its removal has begun (`account::local`): it has no primary address any more.
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
    /// Everything in a domain that nothing else claims.
    CatchAll(AccountId),
    /// A domain that stands for another.
    AliasDomain(String),
}

impl AddressRow {
    /// The account that it leads to; none for a domain that stands for another.
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
