//! Passwords: kept as PHC strings of Argon2id, never as they are. Hashing takes tens of milliseconds on purpose.

use argon2::Argon2;
use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher, PasswordVerifier};

/// A password that cannot be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a password has 1 to 1024 octets")]
pub struct BadPassword;

const MOST: usize = 1024;

/// The PHC string of a password, with a salt of its own.
///
/// # Errors
/// `BadPassword` where it is empty or too long.
pub fn hash_password(password: &str) -> Result<String, BadPassword> {
    if password.is_empty() || password.len() > MOST {
        return Err(BadPassword);
    }
    let hash = Argon2::default().hash_password(password.as_bytes());
    hash.map(|hash| hash.to_string()).map_err(|_| BadPassword)
}

/// Whether a password is the one of a PHC string; a string that is none fits nothing.
#[must_use]
pub fn verify_password(password: &str, phc: &str) -> bool {
    password.len() <= MOST
        && PasswordHash::new(phc)
            .is_ok_and(|hash| Argon2::default().verify_password(password.as_bytes(), &hash).is_ok())
}
