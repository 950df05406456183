//! Logins with SCRAM-SHA-256 (RFC 5802, RFC 7677): the client proves that it has the password, and
//! does not send it.
//!
//! - The keys are stored beside the Argon2 hash when a password is set. A password that an earlier
//!   version stored has none, so SCRAM refuses it until it is set again.
//! - The salt is a hash of the account with a secret of the store. A name that nobody has gets a
//!   salt in the same way, and it stays the same, so salts do not tell which accounts exist.

use std::num::NonZeroU32;

use super::{Login, Logins, password_credential};
use crate::account::Directory;
use crate::model::{AccountId, AccountRow, ScramKeys};
use crate::store::Error;
use crate::wire::sasl::{AccountKeys, derive_keys};

/// The rounds of PBKDF2 of new passwords. A client computes them at each login.
const ITERATIONS: NonZeroU32 = NonZeroU32::new(100_000).unwrap();
const SALT_CONTEXT: &str = "restante 2026 salt for SCRAM";

impl Directory {
    /// Derives the keys of a new password of an account, for `AccountRow::set_password`. This takes
    /// long.
    #[must_use]
    pub fn scram_keys(&self, account: AccountId, password: &str) -> (u32, ScramKeys) {
        let salt = self.scram_salt(&account.to_string());
        (ITERATIONS.get(), derive_keys(password, &salt, ITERATIONS))
    }

    /// Returns the salt of an account (by its id as text) or of a name that nobody has. The key is
    /// made from the secret for told keys, which `SALT_CONTEXT` sets apart.
    fn scram_salt(&self, owner: &str) -> Vec<u8> {
        let key = blake3::derive_key(SALT_CONTEXT, &self.0.store.secrets().told);
        let hash = blake3::keyed_hash(&key, owner.as_bytes());
        let (salt, _) = hash.as_bytes().split_at(16);
        salt.to_vec()
    }
}

/// Returns the keys of the passwords that the account has now, with their PHC strings.
fn keys_of(row: &AccountRow) -> impl Iterator<Item = (&ScramKeys, &String)> {
    let passwords = row.scram.iter().flat_map(|passwords| &passwords.keys);
    passwords.filter_map(|(name, keys)| {
        let (_, phc) = row.passwords.iter().find(|(other, _)| other == name)?;
        Some((keys, phc))
    })
}

impl Logins {
    /// Returns the keys of an account, which `name` is the name or an address of. If nobody has the
    /// name, returns what an account without keys has.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn scram_keys(&self, name: &str) -> Result<AccountKeys, Error> {
        let directory = &self.0.directory;
        let account = directory.find_account(name)?;
        let owner = account.as_ref().map_or_else(|| name.to_lowercase(), |(id, _)| id.to_string());
        let row = account.as_ref().map(|(_, row)| row);
        let keys: Vec<ScramKeys> =
            row.into_iter().flat_map(keys_of).map(|(keys, _)| keys.clone()).collect();
        let iterations = row.and_then(|row| row.scram.as_ref()).map(|scram| scram.iterations);
        Ok(AccountKeys {
            salt: directory.scram_salt(&owner),
            iterations: iterations.unwrap_or(ITERATIONS.get()),
            keys,
        })
    }

    /// Logs in with a password that the client has proven by these keys of it. `None` if the
    /// account does not have the password any more.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn log_in_with_scram(
        &self,
        name: &str,
        proven: &ScramKeys,
    ) -> Result<Option<Login>, Error> {
        let Some((account, row)) = self.0.directory.find_account(name)? else { return Ok(None) };
        let password = keys_of(&row).find(|(keys, _)| *keys == proven);
        Ok(password.map(|(_, phc)| Login { account, credential: password_credential(phc) }))
    }

    /// Whether a login may act as the account with this name: only as its own.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn may_act_as(&self, login: &Login, name: &str) -> Result<bool, Error> {
        let account = self.0.directory.find_account(name)?;
        Ok(account.is_some_and(|(account, _)| account == login.account))
    }
}
