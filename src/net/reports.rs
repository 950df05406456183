//! The driver of reports on return: files them when a response ends, by its time or by its owner's
//! hand, and looks again from time to time.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use super::stop::StopSignal;
use crate::deliver::Deliverer;
use crate::model::DataType;
use crate::store::Store;

/// It looks at least so often: what could not be filed is tried again then.
const MAX_PASS_INTERVAL: Duration = Duration::from_secs(600);
/// And waits at least so long between two looks.
const MIN_PASS_INTERVAL: Duration = Duration::from_millis(200);

/// Files reports until the end has come.
pub async fn run(store: Store, deliver: Arc<Deliverer>, mut stop: StopSignal) {
    let changed = Arc::new(Notify::new());
    let bell = Arc::clone(&changed);
    store.on_change(move |change| {
        if change.types.iter().any(|(data, _)| *data == DataType::VacationResponse) {
            bell.notify_one();
        }
    });
    while !stop.is_stopping() {
        let own = Arc::clone(&deliver);
        let next = match tokio::task::spawn_blocking(move || own.file_reports()).await {
            Ok(Ok(next)) => next,
            Ok(Err(error)) => {
                tracing::warn!(%error, "which reports are owed cannot be read; tried again");
                None
            }
            Err(error) => {
                tracing::error!(%error, "a report failed");
                None
            }
        };
        let wait = next
            .map_or(MAX_PASS_INTERVAL, |at| at.since(store.clock().now()).min(MAX_PASS_INTERVAL))
            .max(MIN_PASS_INTERVAL);
        tokio::select! {
            () = stop.wait() => return,
            () = changed.notified() => {}
            () = tokio::time::sleep(wait) => {}
        }
    }
}
