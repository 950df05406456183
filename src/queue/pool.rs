//! Keeps idle connections to the relay for the next message.

use std::time::Duration;

use parking_lot::Mutex;

use super::relay::Relay;
use super::send::RelayConnection;
use crate::model::clock::Stopwatch;

/// The idle connections to one relay, the one that was used last at the end. The scheduler makes a
/// new pool if the configuration of the relay changes.
#[derive(Default)]
pub(super) struct RelayPool(Mutex<Vec<IdleConnection>>);

struct IdleConnection {
    connection: RelayConnection,
    since: Stopwatch,
}

impl std::fmt::Debug for RelayPool {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("RelayPool").field("idle", &self.0.lock().len()).finish()
    }
}

impl RelayPool {
    /// Returns the idle connection that was used last, or opens one if there is none. If that one
    /// has been idle for `Relay::idle_timeout` or longer, it is dropped, and a new one opened. The
    /// relay may have closed an idle connection: see `SendResult::Stale`.
    ///
    /// # Errors
    /// If no connection can be opened: the reason, which begins with the address of the relay.
    pub(super) async fn take(&self, relay: &Relay) -> Result<RelayConnection, String> {
        let idle = self.0.lock().pop();
        match idle.filter(|idle| idle.since.elapsed() < relay.idle_timeout) {
            Some(idle) => Ok(idle.connection),
            None => RelayConnection::open(relay).await,
        }
    }

    /// Takes a connection back. Closes it instead if it has carried `Relay::max_messages`, or if
    /// `Relay::idle_timeout` is 0.
    pub(super) async fn give_back(&self, relay: &Relay, connection: RelayConnection) {
        if connection.carried >= relay.max_messages || relay.idle_timeout.is_zero() {
            return connection.quit().await;
        }
        self.0.lock().push(IdleConnection { connection, since: Stopwatch::start() });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }

    /// Closes the connections that have been idle for `idle` or longer.
    pub(super) async fn expire(&self, idle: Duration) {
        let expired: Vec<IdleConnection> =
            self.0.lock().extract_if(.., |entry| entry.since.elapsed() >= idle).collect();
        for expired in expired {
            expired.connection.quit().await;
        }
    }
}
