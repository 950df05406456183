//! Work that waits for the disk, on a thread of its own.

use tokio::task::{JoinError, spawn_blocking};

/// Runs `work`. `held` is held until the work has ended, even where the client has gone and nothing
/// awaits the result any more: a thread at work cannot be stopped, so that what bounds such work
/// must not be given back before. Both come back.
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
        let done = work();
        (done, held)
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::super::concurrency::ConcurrencyLimit;
    use super::*;

    #[tokio::test]
    async fn what_bounds_the_work_is_held_until_it_ends_though_nobody_waits() {
        let tally = ConcurrencyLimit::new(1);
        let (go, may_end) = channel::<()>();
        let (begun, has_begun) = tokio::sync::oneshot::channel();
        let counted = tally.enter("ann".into()).unwrap();
        let work = blocking(counted, move || {
            begun.send(()).unwrap();
            may_end.recv().ok();
        });
        let waits = tokio::spawn(work);
        has_begun.await.unwrap();
        waits.abort();
        assert!(waits.await.unwrap_err().is_cancelled());
        assert!(tally.enter("ann".into()).is_none(), "the work goes on");
        go.send(()).unwrap();
        while tally.enter("ann".into()).is_none() {
            tokio::task::yield_now().await;
        }
    }
}
