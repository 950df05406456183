//! Runs, on a thread of its own, work that would hold up the async runtime.

use tokio::task::{JoinError, spawn_blocking};

/// Returns the result of `work` with `held`, such as a permit, which is not dropped before the work
/// has ended, even if the future is dropped.
///
/// # Errors
/// The work panicked.
pub(super) async fn blocking<H, T, W>(held: H, work: W) -> Result<(T, H), JoinError>
where
    H: Send + 'static,
    T: Send + 'static,
    W: FnOnce() -> T + Send + 'static,
{
    spawn_blocking(move || {
        let result = work();
        (result, held)
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;
    use crate::net::concurrency::ConcurrencyLimit;

    #[tokio::test]
    async fn permit_is_held_until_the_work_ends_even_if_the_future_is_dropped() {
        let limit = ConcurrencyLimit::new(1);
        let (end, may_end) = channel::<()>();
        let (begun, has_begun) = tokio::sync::oneshot::channel();
        let permit = limit.enter("ann".into()).unwrap();
        let work = blocking(permit, move || {
            begun.send(()).unwrap();
            may_end.recv().ok();
        });
        let task = tokio::spawn(work);
        has_begun.await.unwrap();
        task.abort();
        assert!(task.await.unwrap_err().is_cancelled());
        assert!(limit.enter("ann".into()).is_none(), "the work goes on");
        end.send(()).unwrap();
        while limit.enter("ann".into()).is_none() {
            tokio::task::yield_now().await;
        }
    }
}
