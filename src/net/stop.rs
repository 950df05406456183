//! Stops the service in an orderly way.
//!
//! A session that is receiving a message may finish it. The owner of the `Switch` waits until all
//! sessions have ended, but not longer than a bound.

use tokio::sync::watch;
use tokio::time::Instant;

/// Tells a task that the service stops. Each task keeps its signal until it has ended: the service
/// is drained when all signals are dropped.
#[derive(Debug, Clone)]
pub struct StopSignal(watch::Receiver<bool>);

/// Stops the service. `StopSignal::wait` also returns when the switch is dropped.
#[derive(Debug)]
pub struct Switch {
    sender: watch::Sender<bool>,
}

/// Makes a switch and its first signal. Clones of the signal are signals of the same switch.
#[must_use]
pub fn switch() -> (Switch, StopSignal) {
    let (sender, receiver) = watch::channel(false);
    (Switch { sender }, StopSignal(receiver))
}

impl Switch {
    /// Tells all signals that the service stops. Does not wait for them.
    pub fn stop(&self) {
        self.sender.send_replace(true);
    }

    /// Waits until all signals are dropped, but not after `until`. Returns whether they are.
    pub async fn wait_until_drained(&self, until: Instant) -> bool {
        tokio::time::timeout_at(until, self.sender.closed()).await.is_ok()
    }
}

impl StopSignal {
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        *self.0.borrow()
    }

    /// Returns once the service stops.
    pub async fn wait(&mut self) {
        // An error means that the switch was dropped, which stops the service, too.
        drop(self.0.wait_for(|is_stopping| *is_stopping).await);
    }
}
