//! The task of the queue: runs the scheduler when a commit queues something or an action is due.
//!
//! Nothing is sent before `start::audit` has checked the queue.

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

#[derive(Debug)]
pub struct QueueWorker {
    store: Store,
    directory: Directory,
    settings: LiveValue<Settings>,
    wake: Arc<Notify>,
    max_in_window: Arc<AtomicUsize>,
    trouble: LiveValue<Option<RelayTrouble>>,
}

/// Has the worker look at the queue at once, also if no commit queued anything.
#[derive(Debug, Clone)]
pub struct QueueWaker(Arc<Notify>);

impl QueueWaker {
    pub fn wake(&self) {
        self.0.notify_one();
    }
}

impl QueueWorker {
    /// Makes a worker, and has the store's commits wake it. A change of the settings applies from
    /// the next attempt on.
    #[must_use]
    pub fn new(store: Store, directory: Directory, settings: LiveValue<Settings>) -> Self {
        let wake = Arc::new(Notify::new());
        let notify = Arc::clone(&wake);
        store.on_change(move |change| {
            if change.types.iter().any(|(data, _)| *data == DataType::Outbox) {
                notify.notify_one();
            }
        });
        Self {
            store,
            directory,
            settings,
            wake,
            max_in_window: Arc::default(),
            trouble: LiveValue::default(),
        }
    }

    #[must_use]
    pub fn waker(&self) -> QueueWaker {
        QueueWaker(Arc::clone(&self.wake))
    }

    /// The error of the relay while it is down, and `None` while it is not.
    #[must_use]
    pub fn trouble(&self) -> LiveValue<Option<RelayTrouble>> {
        self.trouble.clone()
    }

    #[cfg(test)]
    #[must_use]
    pub fn max_in_window(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.max_in_window)
    }

    /// Works until `stop`. Attempts that are under way then may finish, for as long as the relay
    /// may take for one answer (`Relay::timeout`). After that they are broken off, and the next
    /// start recovers them.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let mut stop = pin!(stop);
        let mut retry_delay = Duration::from_millis(100);
        loop {
            match audit(&self.store).await {
                Ok(()) => break,
                Err(error) => {
                    tracing::error!(
                        %error,
                        "the queue cannot be checked: nothing is sent before it has been"
                    );
                }
            }
            tokio::select! {
                () = &mut stop => return,
                () = tokio::time::sleep(retry_delay) => {
                    retry_delay = (retry_delay * 2).min(Duration::from_secs(60));
                }
            }
        }
        let mut scheduler = Scheduler::new(
            (self.store, self.directory),
            self.settings,
            self.trouble,
            self.max_in_window,
        );
        scheduler.recover();
        loop {
            let max_sleep = scheduler.start_attempts().await;
            tokio::select! {
                () = &mut stop => break,
                () = self.wake.notified() => scheduler.note_work(),
                // At least 5 ms, so that a scheduler that always has work does not spin.
                () = tokio::time::sleep(max_sleep.max(Duration::from_millis(5))) => {}
                () = scheduler.wait_for_attempt() => {}
            }
        }
        scheduler.finish().await;
    }
}
