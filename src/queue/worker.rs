//! The worker: woken by commits that queue something and by due times; ends in order.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use tokio::sync::Notify;

use super::round::Scheduler;
use super::settings::Settings;
use super::start::audit;
use crate::account::Directory;
use crate::model::{DataType, LiveValue, RelayTrouble};
use crate::store::Store;

/// The queue's worker.
#[derive(Debug)]
pub struct QueueWorker {
    store: Store,
    directory: Directory,
    settings: LiveValue<Settings>,
    wake: Arc<Notify>,
    held: Arc<AtomicUsize>,
    trouble: LiveValue<Option<RelayTrouble>>,
}

/// Wakes the worker, as after its settings were changed.
#[derive(Debug, Clone)]
pub struct QueueWaker(Arc<Notify>);

impl QueueWaker {
    pub fn ring(&self) {
        self.0.notify_one();
    }
}

impl QueueWorker {
    /// A worker over a store, whose directory says who may send as whom; it is woken by the store's
    /// commits. An attempt keeps the settings that it began with.
    #[must_use]
    pub fn new(store: Store, directory: Directory, settings: LiveValue<Settings>) -> Self {
        let wake = Arc::new(Notify::new());
        let bell = Arc::clone(&wake);
        store.on_change(move |change| {
            if change.types.iter().any(|(data, _)| *data == DataType::Outbox) {
                bell.notify_one();
            }
        });
        Self {
            store,
            directory,
            settings,
            wake,
            held: Arc::default(),
            trouble: LiveValue::default(),
        }
    }

    /// What wakes it.
    #[must_use]
    pub fn bell(&self) -> QueueWaker {
        QueueWaker(Arc::clone(&self.wake))
    }

    /// Why nothing is sent, while the relay is out of order.
    #[must_use]
    pub fn trouble(&self) -> LiveValue<Option<RelayTrouble>> {
        self.trouble.clone()
    }

    /// The most actions that it has held in memory at once, whatever waited in the store: for tests
    /// and figures.
    #[cfg(test)]
    #[must_use]
    pub fn held_at_most(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.held)
    }

    /// Works until `stop`; what is under way then is finished, within its own time-outs.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let mut stop = pin!(stop);
        let mut wait = Duration::from_millis(100);
        loop {
            match audit(&self.store).await {
                Ok(()) => break,
                Err(error) => {
                    tracing::error!(%error, "whether the queue is whole cannot be seen: nothing is sent yet")
                }
            }
            tokio::select! {
                () = &mut stop => return,
                () = tokio::time::sleep(wait) => wait = (wait * 2).min(Duration::from_secs(60)),
            }
        }
        let mut round =
            Scheduler::new((self.store, self.directory), self.settings, self.trouble, self.held);
        round.recover();
        loop {
            let wait = round.begin().await;
            tokio::select! {
                () = &mut stop => break,
                () = self.wake.notified() => round.note_work(),
                () = tokio::time::sleep(wait.max(Duration::from_millis(5))) => {}
                () = round.wait_for_attempt() => {}
            }
        }
        round.finish().await;
    }
}
