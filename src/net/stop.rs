//! Stops the service in an orderly way.
//!
//! - Once stopped, no new session begins, and idle sessions end.
//! - A session within a message may finish it; the caller waits for it with a bound.

use tokio::sync::watch;
use tokio::time::Instant;

/// Tells a task that the service stops. The service counts as drained when all signals are dropped.
#[derive(Debug, Clone)]
pub struct StopSignal(watch::Receiver<bool>);

/// Stops the service. Its signals wake when it is used or dropped.
#[derive(Debug)]
pub struct Switch {
    sender: watch::Sender<bool>,
}

/// Creates a switch and its signal.
#[must_use]
pub fn switch() -> (Switch, StopSignal) {
    let (sender, receiver) = watch::channel(false);
    (Switch { sender }, StopSignal(receiver))
}

impl Switch {
    /// Wakes all signals.
    pub fn stop(&self) {
        self.sender.send_replace(true);
    }

    /// Waits until all signals are dropped, at most until `until`. Returns whether they are.
    pub async fn wait_until_drained(&self, until: Instant) -> bool {
        tokio::time::timeout_at(until, self.sender.closed()).await.is_ok()
    }
}

impl StopSignal {
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until the service stops.
    pub async fn wait(&mut self) {
        // An error means that the switch was dropped, which stops the service, too.
        drop(self.0.wait_for(|is_stopping| *is_stopping).await);
    }
}
