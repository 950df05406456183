//! Logs users in by a password, stored as an Argon2id PHC string, or by a token, stored as a hash.
//!
//! - Hashing a password is slow, so [`Logins::verify`] must run on a thread that may block. A
//!   password that was right is remembered for some minutes under a keyed hash ([`cache`]).
//! - Failures are counted by source and by account ([`failures`]).
//! - A wrong password, an unknown name and an account without passwords cost the same number of
//!   hashes, so time does not tell them apart.
//! - A password can also be proven with SCRAM ([`scram`]).
//! - The owner of an inactive account can still log in.
//! - A login name is what [`Directory::find_account`] finds: the name of the account, one of its
//!   addresses, or its id. The id is no secret and no right: the password is still needed.
//!
//! A front end (`net::http::auth`, `net::managesieve`) does the following for each password:
//!
//! 1. [`Logins::log_in_from_cache`]. If it finds a login, nothing is counted.
//! 2. [`Logins::attempt`], which charges a failure, or says how long the client must wait.
//! 3. [`Logins::verify`], on a thread that may block.
//! 4. If the password was right, `LoginAttempt::cancel_charge`. If it was wrong, nothing: the
//!    charge stays. If an error kept it from being checked, `LoginAttempt::withdraw`.

mod cache;
mod failures;
mod scram;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use argon2::Argon2;
use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher, PasswordVerifier};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use unicode_normalization::{IsNormalized, UnicodeNormalization as _, is_nfc_quick};

pub use failures::{Failures, LoginAttempt, LoginSource, TooManyFailures};

use super::Directory;
use crate::model::hex::hex;
use crate::model::{AccountId, Clock, UtcMillis, limits};
use crate::store::Error;
use cache::LoginCache;

/// Why a password has no hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadPassword {
    #[error("a password has 1 to 1024 bytes")]
    Length,
    /// A fault of the machine, and not of the password.
    #[error("the password cannot be hashed: no randomness, or not enough memory")]
    Hash,
}

const MAX_PASSWORD_BYTES: usize = 1024;
const TOKEN_CONTEXT: &str = "restante 2026 access token";
const CREDENTIAL_CONTEXT: &str = "restante 2026 name of a credential";
/// The beginning of a token's text, by which people recognise a leaked token.
const TOKEN_PREFIX: &str = "restante_";
/// The PHC string against which a password is checked if the account lacks one. It is a constant,
/// so that it cannot be missing, and takes the same work as that of a new password. Nobody can log
/// in by it.
const NOBODY: &str = concat!(
    "$argon2id$v=19$m=19456,t=2,p=1$",
    "kBmVC4vbZARTIHjW/M571w$OGRTyUw210wcfTDuLWZi6MWC5CtL/kUY+TJ55WZ1cic",
);

/// Returns the PHC string of a password, with a random salt.
///
/// # Errors
/// `BadPassword::Length` if the password is empty or too long, `BadPassword::Hash` if it cannot be
/// hashed: the machine has no randomness for a salt or too little memory.
pub fn hash_password(password: &str) -> Result<String, BadPassword> {
    if password.is_empty() || password.len() > MAX_PASSWORD_BYTES {
        return Err(BadPassword::Length);
    }
    let hash = Argon2::default().hash_password(normalize(password).as_bytes());
    hash.map(|hash| hash.to_string()).map_err(|_| BadPassword::Hash)
}

/// Whether a password matches a PHC string. An invalid string matches no password.
#[must_use]
pub fn verify_password(password: &str, phc: &str) -> bool {
    password.len() <= MAX_PASSWORD_BYTES
        && PasswordHash::new(phc).is_ok_and(|hash| {
            Argon2::default().verify_password(normalize(password).as_bytes(), &hash).is_ok()
        })
}

/// Converts a password to NFC (RFC 8265 §4.2.2).
fn normalize(password: &str) -> std::borrow::Cow<'_, str> {
    if is_nfc_quick(password.chars()) == IsNormalized::Yes {
        password.into()
    } else {
        password.nfc().collect()
    }
}

/// Makes a token. Returns its text and the hash to be stored.
///
/// # Errors
/// If the machine has no randomness.
pub fn new_token() -> Result<(String, [u8; 32]), Error> {
    let mut secret = [0; 32];
    getrandom::fill(&mut secret)
        .map_err(|error| Error::Io(format!("no randomness for a token: {error}")))?;
    let text = format!("{TOKEN_PREFIX}{}", URL_SAFE_NO_PAD.encode(secret));
    let hash = token_hash(&text);
    Ok((text, hash))
}

#[must_use]
pub fn token_hash(text: &str) -> [u8; 32] {
    blake3::derive_key(TOKEN_CONTEXT, text.as_bytes())
}

/// Returns the name of a password as a credential (`Login::credential`).
fn password_credential(phc: &str) -> String {
    credential_name("password", &blake3::derive_key(CREDENTIAL_CONTEXT, phc.as_bytes()))
}

/// Returns the name of a token as a credential (`Login::credential`).
fn token_credential(hash: &[u8; 32]) -> String {
    credential_name("token", &blake3::derive_key(CREDENTIAL_CONTEXT, hash))
}

fn credential_name(kind: &str, digest: &[u8; 32]) -> String {
    let (first, _) = digest.split_at(16);
    format!("{kind} {}", hex(first))
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Login {
    pub account: AccountId,
    /// Names the password or token that was used. It is not secret.
    pub credential: String,
}

impl Directory {
    /// Returns when the token with this credential name expires; `None` if it never does, or if the
    /// account has no such token, or there is no such account.
    ///
    /// # Errors
    /// `Corrupt` if the account's row is damaged or lost; others if the store cannot be read.
    pub fn expires(
        &self,
        account: AccountId,
        credential: &str,
    ) -> Result<Option<UtcMillis>, Error> {
        let Some((_, row)) = self.find_account(&account.to_string())? else { return Ok(None) };
        let token = row.tokens.iter().find(|token| token_credential(&token.hash) == credential);
        Ok(token.and_then(|token| token.expires))
    }

    /// Whether an account has a password or an unexpired token with this credential name.
    ///
    /// # Errors
    /// `Corrupt` if the account's row is damaged or lost; others if the store cannot be read.
    pub fn is_valid(
        &self,
        account: AccountId,
        credential: &str,
        now: UtcMillis,
    ) -> Result<bool, Error> {
        let Some((_, row)) = self.find_account(&account.to_string())? else { return Ok(false) };
        let valid_tokens =
            row.tokens.iter().filter(|token| token.expires.is_none_or(|expires| now < expires));
        let tokens = valid_tokens.map(|token| token_credential(&token.hash));
        let passwords = row.passwords.iter().map(|(_, phc)| password_credential(phc));
        Ok(passwords.chain(tokens).any(|name| name == credential))
    }
}

#[derive(Debug, Clone)]
pub struct Logins(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    directory: Directory,
    clock: Arc<dyn Clock>,
    cache: LoginCache,
    failures: Failures,
    /// How many hashes `verify` has computed, for tests.
    hashes: AtomicU64,
}

impl Logins {
    /// Creates an empty cache and empty counts of failures.
    ///
    /// # Errors
    /// If the machine has no randomness.
    pub fn new(directory: Directory, clock: Arc<dyn Clock>) -> Result<Self, Error> {
        let cache = LoginCache::new()?;
        Ok(Self(Arc::new(Inner {
            directory,
            clock,
            cache,
            failures: Failures::default(),
            hashes: AtomicU64::new(0),
        })))
    }

    /// Logs in with a cached password. `None` if it is not in the cache, right or wrong: the caller
    /// then calls `attempt`. `name` is the name, an address or the id of the account.
    ///
    /// # Errors
    /// Those of `Directory::find_account`.
    pub fn log_in_from_cache(&self, name: &str, password: &str) -> Result<Option<Login>, Error> {
        let now = self.0.clock.steady();
        let Some((account, row)) = self.0.directory.find_account(name)? else { return Ok(None) };
        let cached =
            row.passwords.iter().find(|(_, phc)| self.0.cache.contains(phc, password, now));
        Ok(cached.map(|(_, phc)| Login { account, credential: password_credential(phc) }))
    }

    /// Logs in with a password. `None` if there is no such account or the password is wrong. Blocks
    /// for long. Does not count failures: `attempt` does.
    ///
    /// # Errors
    /// Those of `Directory::find_account`.
    pub fn verify(&self, name: &str, password: &str) -> Result<Option<Login>, Error> {
        let account = self.0.directory.find_account(name)?;
        let passwords = account.as_ref().map_or(&[][..], |(_, row)| &row.passwords);
        let rounds = self.0.directory.max_passwords()?.clamp(1, limits::MAX_PASSWORDS);
        let existing = passwords.iter().take(limits::MAX_PASSWORDS).map(|(_, phc)| Some(phc));
        let missing = std::iter::repeat_n(None, rounds.saturating_sub(passwords.len()));
        let matching = existing.chain(missing).find(|phc| self.password_matches(password, *phc));
        let Some((phc, (account, _))) = matching.flatten().zip(account.as_ref()) else {
            return Ok(None);
        };
        self.0.cache.put(phc, password, self.0.clock.steady());
        Ok(Some(Login { account: *account, credential: password_credential(phc) }))
    }

    /// Hashes a password even without a PHC string, which then matches nothing.
    fn password_matches(&self, password: &str, phc: Option<&String>) -> bool {
        self.0.hashes.fetch_add(1, Ordering::Relaxed);
        verify_password(password, phc.map_or(NOBODY, String::as_str)) && phc.is_some()
    }

    #[cfg(test)]
    #[must_use]
    pub fn hashes(&self) -> u64 {
        self.0.hashes.load(Ordering::Relaxed)
    }

    /// Logs in with a token. `None` if the token is unknown or has expired.
    ///
    /// # Errors
    /// Those of `Directory::account_of_token`.
    pub fn log_in_with_token(&self, text: &str) -> Result<Option<Login>, Error> {
        let hash = token_hash(text);
        let account = self.0.directory.account_of_token(&hash, self.0.clock.now())?;
        Ok(account.map(|account| Login { account, credential: token_credential(&hash) }))
    }

    /// Whether the password or token of a login is still valid: `Directory::is_valid` for the time
    /// now. `false` also if the directory cannot be read.
    #[must_use]
    pub fn is_valid(&self, account: AccountId, credential: &str) -> bool {
        self.0.directory.is_valid(account, credential, self.0.clock.now()).unwrap_or(false)
    }

    /// Begins an attempt to log in by a password, before `verify`. It counts as a failure, until
    /// the caller calls `LoginAttempt::cancel_charge` because the password was right, or
    /// `LoginAttempt::withdraw` because an error kept it from being checked. If the directory
    /// cannot be read, the name counts as one that nobody has.
    ///
    /// # Errors
    /// `TooManyFailures` says how long the client must wait first.
    pub fn attempt(
        &self,
        source: LoginSource,
        name: &str,
    ) -> Result<LoginAttempt<'_>, TooManyFailures> {
        let account = self.0.directory.find_account(name).ok().flatten().map(|(id, _)| id);
        self.0.failures.attempt(source, account, name, self.0.clock.steady())
    }

    /// Counts an unknown or expired token as a failure of its source.
    ///
    /// # Errors
    /// `TooManyFailures` says how long the client must wait first.
    pub fn count_invalid_token(&self, source: LoginSource) -> Result<(), TooManyFailures> {
        self.0.failures.charge_source(source, self.0.clock.steady())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns what the work of a check depends on.
    fn work(phc: &str) -> (String, Option<u32>, String, usize, usize) {
        let hash = PasswordHash::new(phc).unwrap();
        (
            hash.algorithm.to_string(),
            hash.version,
            hash.params.to_string(),
            hash.salt.unwrap().len(),
            hash.hash.unwrap().len(),
        )
    }

    #[test]
    fn check_of_a_missing_password_takes_the_work_of_a_check() {
        assert_eq!(work(NOBODY), work(&hash_password("s3cret").unwrap()));
        assert!(verify_password("nobody's", NOBODY) && !verify_password("s3cret", NOBODY));
    }
}
