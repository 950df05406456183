//! Keeps idle connections to the relay for the next message.

use std::time::Duration;

use parking_lot::Mutex;

use super::relay::Relay;
use super::send::RelayConnection;
use crate::model::clock::Stopwatch;

/// The idle connections to one relay, the one that was used last at the end.
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
    /// Returns the idle connection that was used last, or opens one if there is none or that one is
    /// too old. The relay may have closed an idle connection: see `SendResult::Stale`.
    ///
    /// # Errors
    /// If no connection can be opened.
    pub(super) async fn take(&self, relay: &Relay) -> Result<RelayConnection, String> {
        let idle = self.0.lock().pop();
        match idle.filter(|idle| idle.since.elapsed() < relay.idle_timeout) {
            Some(idle) => Ok(idle.connection),
            None => RelayConnection::open(relay).await,
        }
    }

    /// Takes a connection back, or closes it if it may carry no more messages or none are kept.
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
            self.0.lock().extract_if(.., |waiting| waiting.since.elapsed() >= idle).collect();
        for expired in expired {
            expired.connection.quit().await;
        }
    }
}
