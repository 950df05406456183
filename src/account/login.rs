//! Who logs in: by a password, kept as a PHC string of Argon2id, or by a token, kept as a hash of
//! its 32 random octets. Neither is ever kept as it is.
//!
//! Hashing a password takes tens of milliseconds and 19 MiB on purpose, so [`Logins::verify`] is
//! for a thread that may wait, and few at once; a password that was right is remembered for some
//! minutes under a keyed hash ([`cache`]). Failures are counted by source and by account
//! ([`failures`]). What must hold:
//! - a login that fails computes as many hashes whatever the name is: as many as the account with
//!   most passwords has. An unknown name, an account without passwords, and one with many of them
//!   cannot be told apart by time;
//! - a password or token that is taken away opens nothing from the next look on.
//!
//! An account that takes no mail (`active` is false) can still log in: to refuse mail is one thing,
//! to be kept from one's own mail another. A user who must be kept out loses all passwords and
//! tokens.

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

/// A password that cannot be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a password has 1 to 1024 octets")]
pub struct BadPassword;

const MAX_PASSWORD_BYTES: usize = 1024;
/// What the hash of a token is of.
const TOKEN_CONTEXT: &str = "restante 2026 access token";
/// What the name of a password or a token is a hash of.
const CREDENTIAL_CONTEXT: &str = "restante 2026 name of a credential";
/// What a token's text begins with, so that who finds one knows what it is.
const TOKEN_PREFIX: &str = "restante_";
/// What a password for an unknown name is compared with.
static NOBODY: LazyLock<String> = LazyLock::new(|| hash_password("nobody's").unwrap_or_default());

/// The PHC string of a password, with a salt of its own.
///
/// # Errors
/// `BadPassword` where it is empty or too long.
pub fn hash_password(password: &str) -> Result<String, BadPassword> {
    if password.is_empty() || password.len() > MAX_PASSWORD_BYTES {
        return Err(BadPassword);
    }
    let hash = Argon2::default().hash_password(normal(password).as_bytes());
    hash.map(|hash| hash.to_string()).map_err(|_| BadPassword)
}

/// Whether a password is the one of a PHC string; a string that is none fits nothing.
#[must_use]
pub fn verify_password(password: &str, phc: &str) -> bool {
    password.len() <= MAX_PASSWORD_BYTES
        && PasswordHash::new(phc).is_ok_and(|hash| {
            Argon2::default().verify_password(normal(password).as_bytes(), &hash).is_ok()
        })
}

/// NFC, as RFC 8265 §4.2.2 has it: one client sends `é` as one character, another as two.
fn normal(password: &str) -> std::borrow::Cow<'_, str> {
    if is_nfc_quick(password.chars()) == IsNormalized::Yes {
        password.into()
    } else {
        password.nfc().collect()
    }
}

/// A new token: its text, which is shown once, and its hash, which is kept.
///
/// # Errors
/// The machine has no randomness.
pub fn new_token() -> Result<(String, [u8; 32]), Error> {
    let mut secret = [0; 32];
    getrandom::fill(&mut secret)
        .map_err(|error| Error::Io(format!("no randomness for a token: {error}")))?;
    let text = format!("{TOKEN_PREFIX}{}", URL_SAFE_NO_PAD.encode(secret));
    let hash = token_hash(&text);
    Ok((text, hash))
}

/// What is kept of a token.
#[must_use]
pub fn token_hash(text: &str) -> [u8; 32] {
    blake3::derive_key(TOKEN_CONTEXT, text.as_bytes())
}

/// The name of a password that is kept so.
fn password_credential(phc: &str) -> String {
    credential_name("password", &blake3::derive_key(CREDENTIAL_CONTEXT, phc.as_bytes()))
}

/// The name of a token of that hash.
fn token_credential(hash: &[u8; 32]) -> String {
    credential_name("token", &blake3::derive_key(CREDENTIAL_CONTEXT, hash))
}

fn credential_name(kind: &str, digest: &[u8; 32]) -> String {
    let (first, _) = digest.split_at(16);
    format!("{kind} {}", hex(first))
}

/// Somebody who logged in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Login {
    /// To this account.
    pub account: AccountId,
    /// By which of its passwords or tokens: a name of it, of which nothing secret can be told.
    pub credential: String,
}

impl Directory {
    /// When the time of a password or token of that name is over; `None` where it never is, or
    /// there is no such.
    ///
    /// # Errors
    /// Those of reading the store.
    pub fn expires(
        &self,
        account: AccountId,
        credential: &str,
    ) -> Result<Option<UtcMillis>, Error> {
        let Some((_, row)) = self.find_account(&account.to_string())? else { return Ok(None) };
        let token = row.tokens.iter().find(|token| token_credential(&token.hash) == credential);
        Ok(token.and_then(|token| token.expires))
    }

    /// Whether an account has a password or token of that name now.
    ///
    /// # Errors
    /// Those of reading the store.
    pub fn is_valid(
        &self,
        account: AccountId,
        credential: &str,
        now: UtcMillis,
    ) -> Result<bool, Error> {
        let Some((_, row)) = self.find_account(&account.to_string())? else { return Ok(false) };
        let valid =
            row.tokens.iter().filter(|token| token.expires.is_none_or(|expires| now < expires));
        let mut names = row.passwords.iter().map(|(_, phc)| password_credential(phc));
        Ok(names.any(|name| name == credential)
            || valid.map(|token| token_credential(&token.hash)).any(|name| name == credential))
    }
}

/// The logins of a site. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Logins(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    directory: Directory,
    clock: Arc<dyn Clock>,
    cached: LoginCache,
    failures: Failures,
    /// Hashes of passwords that were computed.
    hashes: AtomicU64,
}

impl Logins {
    /// Logins to the accounts of a directory.
    ///
    /// # Errors
    /// The machine has no randomness.
    pub fn new(directory: Directory, clock: Arc<dyn Clock>) -> Result<Self, Error> {
        let cached = LoginCache::new()?;
        Ok(Self(Arc::new(Inner {
            directory,
            clock,
            cached,
            failures: Failures::default(),
            hashes: AtomicU64::new(0),
        })))
    }

    /// The account of a name (or one of its addresses) whose password this was within the last
    /// minutes. Costs little.
    ///
    /// # Errors
    /// Those of reading the directory.
    pub fn log_in_from_cache(&self, name: &str, password: &str) -> Result<Option<Login>, Error> {
        let now = self.0.clock.steady();
        let Some((account, row)) = self.0.directory.find_account(name)? else { return Ok(None) };
        let known = row.passwords.iter().find(|(_, phc)| self.0.cached.knows(phc, password, now));
        Ok(known.map(|(_, phc)| Login { account, credential: password_credential(phc) }))
    }

    /// The account of a name (or one of its addresses) that has this password. Takes long: for a
    /// thread that may wait.
    ///
    /// # Errors
    /// Those of reading the directory.
    pub fn verify(&self, name: &str, password: &str) -> Result<Option<Login>, Error> {
        let found = self.0.directory.find_account(name)?;
        let passwords = found.as_ref().map_or(&[][..], |(_, row)| &row.passwords);
        let rounds = self.0.directory.max_passwords()?.clamp(1, limits::MAX_PASSWORDS);
        // Those that the account lacks are hashed all the same, and fit nobody.
        let known = passwords.iter().take(limits::MAX_PASSWORDS).map(|(_, phc)| Some(phc));
        let lacking = std::iter::repeat_n(None, rounds.saturating_sub(passwords.len()));
        let right = known.chain(lacking).find(|phc| self.password_matches(password, *phc));
        let Some((phc, (account, _))) = right.flatten().zip(found.as_ref()) else {
            return Ok(None);
        };
        self.0.cached.put(phc, password, self.0.clock.steady());
        Ok(Some(Login { account: *account, credential: password_credential(phc) }))
    }

    /// Hashes a password as that of a PHC string is; whether it is the one. It is none where there
    /// is no such string.
    fn password_matches(&self, password: &str, phc: Option<&String>) -> bool {
        self.0.hashes.fetch_add(1, Ordering::Relaxed);
        verify_password(password, phc.unwrap_or(&NOBODY)) && phc.is_some()
    }

    /// How many hashes of passwords were computed since the start.
    #[cfg(test)]
    #[must_use]
    pub fn hashes(&self) -> u64 {
        self.0.hashes.load(Ordering::Relaxed)
    }

    /// The account that a token of this text logs in to, unless its time is over.
    ///
    /// # Errors
    /// Those of reading the directory.
    pub fn log_in_with_token(&self, text: &str) -> Result<Option<Login>, Error> {
        let hash = token_hash(text);
        let found = self.0.directory.account_of_token(&hash, self.0.clock.now())?;
        Ok(found.map(|account| Login { account, credential: token_credential(&hash) }))
    }

    /// Whether a connected user may stay: the password or token of the login is neither changed nor
    /// taken away, and has not expired.
    #[must_use]
    pub fn is_valid(&self, account: AccountId, credential: &str) -> bool {
        self.0.directory.is_valid(account, credential, self.0.clock.now()).unwrap_or(false)
    }

    /// Lets somebody try a password: of the account of that name, from that source. It counts as a
    /// failure until it is said that it was none.
    ///
    /// # Errors
    /// How long the client must wait first.
    pub fn attempt(
        &self,
        source: LoginSource,
        name: &str,
    ) -> Result<LoginAttempt<'_>, TooManyFailures> {
        let account = self.0.directory.find_account(name).ok().flatten().map(|(id, _)| id);
        self.0.failures.attempt(source, account, name, self.0.clock.steady())
    }
}
