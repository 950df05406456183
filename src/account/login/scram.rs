//! Logins with SCRAM-SHA-256 (RFC 5802, RFC 7677): the client proves that it has the password, and
//! does not send it.
//!
//! - The keys are stored beside the Argon2 hash when a password is set. A password that an earlier
//!   version stored has none, so SCRAM refuses it until it is set again.
//! - Only the name of an account is accepted, in any case of its ASCII letters. Its id, and each
//!   address that is not its name, are answered like names that nobody has: the salt that the
//!   server sends would tell that they lead to the same account.
//! - The salt is a hash of the name with a secret of the store, whether or not an account has the
//!   name, and it stays the same, so salts do not tell which names exist.
//! - The salt is stored with the keys, and both stay valid when the account gets another name. From
//!   then on the new name has the salt of the earlier one, which shows that they belong together.
//!   It gets its own salt when a password is set while no other password of the account has keys.

use std::num::NonZeroU32;

use super::{Login, Logins, password_credential};
use crate::account::Directory;
use crate::model::{AccountId, AccountRow, DerivedScramKeys, ScramKeys};
use crate::store::Error;
use crate::wire::sasl::{AccountKeys, derive_keys};

/// The rounds of PBKDF2 of new passwords. A client computes them at each login.
const ITERATIONS: NonZeroU32 = NonZeroU32::new(100_000).unwrap();
const SALT_CONTEXT: &str = "restante 2026 salt for SCRAM";

impl Directory {
    /// Derives the keys of a new password of an account, for `AccountRow::set_password` with the
    /// same name of the password. This takes long. (`Logins::scram_keys` returns the stored keys.)
    ///
    /// # Errors
    /// `NotFound` if there is no such account; others if the directory cannot be read.
    pub fn scram_keys(
        &self,
        account: AccountId,
        password_name: &str,
        password: &str,
    ) -> Result<DerivedScramKeys, Error> {
        let found = self.find_account(&account.to_string())?;
        let (_, row) = found.ok_or(Error::NotFound("account"))?;
        // The keys of the other passwords have a salt and rounds already.
        let others = row.scram.filter(|scram| scram.keys.iter().any(|(it, _)| it != password_name));
        let (salt, iterations) = others.map_or_else(
            || (self.scram_salt(&row.name), ITERATIONS),
            |others| (others.salt, NonZeroU32::new(others.iterations).unwrap_or(ITERATIONS)),
        );
        let keys = derive_keys(password, &salt, iterations);
        Ok(DerivedScramKeys { salt, iterations: iterations.get(), keys })
    }

    /// Returns the salt of a name, which an account may have or not.
    fn scram_salt(&self, name: &str) -> [u8; 16] {
        let key = blake3::derive_key(SALT_CONTEXT, &self.0.store.secrets().told);
        let hash = blake3::keyed_hash(&key, name.to_ascii_lowercase().as_bytes());
        hash.as_bytes().first_chunk().copied().unwrap_or_default()
    }

    /// Finds the account that a client may log in to with SCRAM as `name`.
    fn scram_account(&self, name: &str) -> Result<Option<(AccountId, AccountRow)>, Error> {
        let found = self.find_account(name)?;
        Ok(found.filter(|(_, row)| row.name.eq_ignore_ascii_case(name)))
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
    /// Returns the stored keys of the account with this name, for a login. If nobody has the name,
    /// returns what an account without keys has.
    ///
    /// # Errors
    /// Those of `Directory::find_account`.
    pub fn scram_keys(&self, name: &str) -> Result<AccountKeys, Error> {
        let directory = &self.0.directory;
        let row = directory.scram_account(name)?.map(|(_, row)| row);
        let keys = row.iter().flat_map(keys_of).map(|(keys, _)| keys.clone()).collect();
        let (salt, iterations) = row.and_then(|row| row.scram).map_or_else(
            || (directory.scram_salt(name), ITERATIONS.get()),
            |scram| (scram.salt, scram.iterations),
        );
        Ok(AccountKeys { salt: salt.to_vec(), iterations, keys })
    }

    /// Logs in with the password of the keys `proven`, which the client has proven to have. `None`
    /// if the account does not have the password any more, or if nobody has the name.
    ///
    /// # Errors
    /// Those of `Directory::find_account`.
    pub fn log_in_with_scram(
        &self,
        name: &str,
        proven: &ScramKeys,
    ) -> Result<Option<Login>, Error> {
        let Some((account, row)) = self.0.directory.scram_account(name)? else { return Ok(None) };
        let password = keys_of(&row).find(|(keys, _)| *keys == proven);
        Ok(password.map(|(_, phc)| Login { account, credential: password_credential(phc) }))
    }

    /// Whether a login may act as the account that `name` names: only if it is the login's own.
    ///
    /// # Errors
    /// Those of `Directory::find_account`.
    pub fn may_act_as(&self, login: &Login, name: &str) -> Result<bool, Error> {
        let account = self.0.directory.find_account(name)?;
        Ok(account.is_some_and(|(account, _)| account == login.account))
    }
}
