//! Logs users in by a password, stored as an Argon2id PHC string, or by a token, stored as a hash
//! of its 32 random bytes.
//!
//! - Hashing a password takes tens of milliseconds and 19 MiB on purpose. So [`Logins::verify`]
//!   must run on a thread that may wait, and a few at once. A password that was right is remembered
//!   for some minutes under a keyed hash ([`cache`]).
//! - Failures are counted by source and by account ([`failures`]).
//! - Every failed login computes the same number of hashes: as many as the account with the most
//!   passwords has. So an unknown name, an account without passwords and one with many cannot be
//!   told apart by time.
//! - A password or token that is removed is refused from the next check on.
//! - An inactive account refuses mail, but its owner can still log in. To lock a user out, all
//!   passwords and tokens are removed.

mod cache;
mod failures;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

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

/// A password that is empty or too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a password has 1 to 1024 bytes")]
pub struct BadPassword;

const MAX_PASSWORD_BYTES: usize = 1024;
/// The context of the hash of a token.
const TOKEN_CONTEXT: &str = "restante 2026 access token";
/// The context of the hash that names a password or a token.
const CREDENTIAL_CONTEXT: &str = "restante 2026 name of a credential";
/// The beginning of a token's text, by which a leaked token can be recognised.
const TOKEN_PREFIX: &str = "restante_";
/// A PHC string that is hashed in place of a missing one, and that logs nobody in.
static NOBODY: LazyLock<String> = LazyLock::new(|| hash_password("nobody's").unwrap_or_default());

/// Returns the PHC string of a password, with a random salt.
///
/// # Errors
/// `BadPassword` if the password is empty or too long.
pub fn hash_password(password: &str) -> Result<String, BadPassword> {
    if password.is_empty() || password.len() > MAX_PASSWORD_BYTES {
        return Err(BadPassword);
    }
    let hash = Argon2::default().hash_password(normalize(password).as_bytes());
    hash.map(|hash| hash.to_string()).map_err(|_| BadPassword)
}

/// Whether a password is the one of a PHC string. An invalid string matches no password.
#[must_use]
pub fn verify_password(password: &str, phc: &str) -> bool {
    password.len() <= MAX_PASSWORD_BYTES
        && PasswordHash::new(phc).is_ok_and(|hash| {
            Argon2::default().verify_password(normalize(password).as_bytes(), &hash).is_ok()
        })
}

/// Converts a password to NFC (RFC 8265 §4.2.2), because some clients send `é` as one character and
/// others as two.
fn normalize(password: &str) -> std::borrow::Cow<'_, str> {
    if is_nfc_quick(password.chars()) == IsNormalized::Yes {
        password.into()
    } else {
        password.nfc().collect()
    }
}

/// Makes a token. Returns its text, which is shown once, and its hash, which is stored.
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

/// Returns the hash of a token's text that is stored.
#[must_use]
pub fn token_hash(text: &str) -> [u8; 32] {
    blake3::derive_key(TOKEN_CONTEXT, text.as_bytes())
}

/// Returns the credential name of a password with this PHC string.
fn password_credential(phc: &str) -> String {
    credential_name("password", &blake3::derive_key(CREDENTIAL_CONTEXT, phc.as_bytes()))
}

/// Returns the credential name of a token with this hash.
fn token_credential(hash: &[u8; 32]) -> String {
    credential_name("token", &blake3::derive_key(CREDENTIAL_CONTEXT, hash))
}

fn credential_name(kind: &str, digest: &[u8; 32]) -> String {
    let (first, _) = digest.split_at(16);
    format!("{kind} {}", hex(first))
}

/// A successful login.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Login {
    pub account: AccountId,
    /// The name of the password or token that was used. It reveals nothing secret.
    pub credential: String,
}

impl Directory {
    /// Returns when the token with this credential name expires. `None` if it never does, if it is
    /// a password, or if there is none.
    ///
    /// # Errors
    /// If the store cannot be read.
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
    /// If the store cannot be read.
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

/// Checks logins. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Logins(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    directory: Directory,
    clock: Arc<dyn Clock>,
    cache: LoginCache,
    failures: Failures,
    /// How many hashes of passwords were computed.
    hashes: AtomicU64,
}

impl Logins {
    /// Checks logins to the accounts of a directory.
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

    /// Logs in with a password that was verified within the last minutes. `name` is the name or an
    /// address of the account. `None` if the password is not in the cache, right or wrong: the
    /// caller then tries `verify`. Costs no password hash.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn log_in_from_cache(&self, name: &str, password: &str) -> Result<Option<Login>, Error> {
        let now = self.0.clock.steady();
        let Some((account, row)) = self.0.directory.find_account(name)? else { return Ok(None) };
        let cached =
            row.passwords.iter().find(|(_, phc)| self.0.cache.contains(phc, password, now));
        Ok(cached.map(|(_, phc)| Login { account, credential: password_credential(phc) }))
    }

    /// Logs in with a password. `name` is the name or an address of the account. `None` if there is
    /// no such account or the password is wrong. Takes long, so it must run on a thread that may
    /// wait. The caller counts failures (`attempt`).
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn verify(&self, name: &str, password: &str) -> Result<Option<Login>, Error> {
        let account = self.0.directory.find_account(name)?;
        let passwords = account.as_ref().map_or(&[][..], |(_, row)| &row.passwords);
        let rounds = self.0.directory.max_passwords()?.clamp(1, limits::MAX_PASSWORDS);
        // Missing passwords cost a hash, too, and match nothing.
        let existing = passwords.iter().take(limits::MAX_PASSWORDS).map(|(_, phc)| Some(phc));
        let missing = std::iter::repeat_n(None, rounds.saturating_sub(passwords.len()));
        let matching = existing.chain(missing).find(|phc| self.password_matches(password, *phc));
        let Some((phc, (account, _))) = matching.flatten().zip(account.as_ref()) else {
            return Ok(None);
        };
        self.0.cache.put(phc, password, self.0.clock.steady());
        Ok(Some(Login { account: *account, credential: password_credential(phc) }))
    }

    /// Hashes a password, and returns whether it is the one of a PHC string. Without a string it is
    /// hashed all the same, and matches nothing.
    fn password_matches(&self, password: &str, phc: Option<&String>) -> bool {
        self.0.hashes.fetch_add(1, Ordering::Relaxed);
        verify_password(password, phc.unwrap_or(&NOBODY)) && phc.is_some()
    }

    /// Returns how many password hashes were computed.
    #[cfg(test)]
    #[must_use]
    pub fn hashes(&self) -> u64 {
        self.0.hashes.load(Ordering::Relaxed)
    }

    /// Logs in with a token that has not expired. `None` if there is none with this text.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn log_in_with_token(&self, text: &str) -> Result<Option<Login>, Error> {
        let hash = token_hash(text);
        let account = self.0.directory.account_of_token(&hash, self.0.clock.now())?;
        Ok(account.map(|account| Login { account, credential: token_credential(&hash) }))
    }

    /// Whether a connected user may stay: the password or token of the login still exists and
    /// has not expired. `false` also if the directory cannot be read.
    #[must_use]
    pub fn is_valid(&self, account: AccountId, credential: &str) -> bool {
        self.0.directory.is_valid(account, credential, self.0.clock.now()).unwrap_or(false)
    }

    /// Begins an attempt to log in to an account from a source. The attempt counts as a failure
    /// until `LoginAttempt::cancel_charge` or `LoginAttempt::withdraw`.
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

    /// Counts a login with a token that nobody has as a failure of its source. No account is
    /// charged, because none is known.
    ///
    /// # Errors
    /// `TooManyFailures` says how long the client must wait first.
    pub fn count_invalid_token(&self, source: LoginSource) -> Result<(), TooManyFailures> {
        self.0.failures.charge_source(source, self.0.clock.steady())
    }
}
