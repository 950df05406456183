//! Connections that wait for their next message.

use std::time::Duration;

use parking_lot::Mutex;

use super::relay::Relay;
use super::send::RelayConnection;
use crate::model::clock::Stopwatch;

/// The idle connections to one relay.
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
    /// One that is open, the last used first; or a new one.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) async fn take(&self, relay: &Relay) -> Result<RelayConnection, String> {
        let idle = self.0.lock().pop();
        match idle.filter(|idle| idle.since.elapsed() < relay.idle) {
            Some(idle) => Ok(idle.connection),
            None => RelayConnection::open(relay).await,
        }
    }

    /// Takes one back, unless it has carried its share.
    pub(super) async fn give(&self, relay: &Relay, connection: RelayConnection) {
        if connection.carried >= relay.messages || relay.idle.is_zero() {
            return connection.quit().await;
        }
        self.0.lock().push(IdleConnection { connection, since: Stopwatch::start() });
    }

    /// Whether any waits.
    pub(super) fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }

    /// Ends those that nobody used for so long.
    pub(super) async fn expire(&self, idle: Duration) {
        let old: Vec<IdleConnection> =
            self.0.lock().extract_if(.., |one| one.since.elapsed() >= idle).collect();
        for one in old {
            one.connection.quit().await;
        }
    }
}
