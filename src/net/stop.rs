//! The orderly end: no new sessions, idle ones are told to go, those in a message finish within a
//! bound.

use tokio::sync::watch;
use tokio::time::Instant;

/// Says that the end has come. Cheap to clone.
#[derive(Debug, Clone)]
pub struct StopSignal(watch::Receiver<bool>);

/// The hand on the switch. `StopSignal`s wake when it is pulled or dropped.
#[derive(Debug)]
pub struct Switch {
    sender: watch::Sender<bool>,
}

/// A switch and its signal.
#[must_use]
pub fn switch() -> (Switch, StopSignal) {
    let (sender, receiver) = watch::channel(false);
    (Switch { sender }, StopSignal(receiver))
}

impl Switch {
    /// Says that the end has come.
    pub fn stop(&self) {
        self.sender.send_replace(true);
    }

    /// Waits until nobody holds a `StopSignal` any more, or that instant has come; says which.
    pub async fn wait_until_drained(&self, until: Instant) -> bool {
        tokio::time::timeout_at(until, self.sender.closed()).await.is_ok()
    }
}

impl StopSignal {
    /// Whether the end has come.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits for the end.
    pub async fn wait(&mut self) {
        // An error means that the switch is gone: that is the end, too.
        drop(self.0.wait_for(|pulled| *pulled).await);
    }
}
