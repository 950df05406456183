//! Checks passwords on threads that may block. At most half as many checks as the machine has cores
//! (rounded up) run at a time, over all listeners.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::account::{Login, Logins};
use crate::store::Error;

/// The longest wait until the hashing of a password begins.
const HASHING_TIMEOUT: Duration = Duration::from_secs(10);

/// Clones share the bound.
#[derive(Debug, Clone)]
pub struct PasswordChecks {
    logins: Logins,
    /// Bounds the passwords that are hashed at a time.
    hashing: Arc<Semaphore>,
}

/// Why a password was not checked.
#[derive(Debug)]
pub enum NotChecked {
    /// Too many other passwords were hashed for the whole wait.
    Busy,
    /// The check panicked.
    Panicked,
    Store(Error),
}

impl PasswordChecks {
    #[must_use]
    pub fn new(logins: Logins) -> Self {
        let cores = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
        Self { logins, hashing: Arc::new(Semaphore::new(cores.div_ceil(2))) }
    }

    #[must_use]
    pub fn logins(&self) -> &Logins {
        &self.logins
    }

    /// Checks a password with `Logins::verify`, which hashes it. Does not count failures. Returns
    /// `None` if the password is wrong or nobody has the name.
    ///
    /// # Errors
    /// The password was not checked.
    pub async fn check(&self, name: String, password: String) -> Result<Option<Login>, NotChecked> {
        let permit = timeout(HASHING_TIMEOUT, Arc::clone(&self.hashing).acquire_owned()).await;
        let Ok(Ok(permit)) = permit else { return Err(NotChecked::Busy) };
        let logins = self.logins.clone();
        let verify = move || {
            let login = logins.verify(&name, &password);
            drop(permit);
            login
        };
        let verified = spawn_blocking(verify).await.map_err(|_| NotChecked::Panicked)?;
        verified.map_err(NotChecked::Store)
    }

    /// Lets no password be checked any more: `check` returns `Busy`.
    #[cfg(test)]
    pub fn close(&self) {
        self.hashing.close();
    }
}
