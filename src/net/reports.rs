//! Files absence reports: messages that list what came while the owner was away, once a vacation
//! response that asks for such a report has ended.
//!
//! A pass over all accounts files the reports that are due. It is made at the start, when a
//! response changes, when the next response ends, and after `MAX_PASS_INTERVAL` at the latest, so
//! that a report that could not be filed is tried again.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use super::stop::StopSignal;
use crate::deliver::Deliverer;
use crate::model::DataType;
use crate::store::Store;

const MAX_PASS_INTERVAL: Duration = Duration::from_secs(600);
/// The shortest wait before the next pass, unless a response changes.
const MIN_PASS_INTERVAL: Duration = Duration::from_millis(200);

/// Files reports until the service stops.
pub async fn run(store: Store, deliver: Arc<Deliverer>, mut stop: StopSignal) {
    let changed = Arc::new(Notify::new());
    let on_change = Arc::clone(&changed);
    store.on_change(move |change| {
        if change.types.iter().any(|(data, _)| *data == DataType::VacationResponse) {
            on_change.notify_one();
        }
    });
    while !stop.is_stopping() {
        let deliverer = Arc::clone(&deliver);
        let next = match tokio::task::spawn_blocking(move || deliverer.file_reports()).await {
            Ok(Ok(next)) => next,
            Ok(Err(error)) => {
                tracing::warn!(%error, "cannot read which reports are due; will try again");
                None
            }
            Err(error) => {
                tracing::error!(%error, "filing a report failed");
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
