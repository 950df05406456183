//! Bounds how many JMAP requests are worked on at a time.
//!
//! - With more threads than cores, each request would share the processor with all others, and all
//!   would be answered late, at nearly the same time. With turns, requests begin in the order in
//!   which they come, and most are answered in that order.
//! - A request that has not ended after `MAX_TURN` returns its turn and goes on, so neither a
//!   search through a large account nor a wait for the disk keeps others waiting.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::JoinError;
use tokio::time::timeout;

use super::blocking::blocking;

/// Most requests take less than a fifth of this.
const MAX_TURN: Duration = Duration::from_millis(10);

#[derive(Debug)]
pub(super) struct Turns(Arc<Semaphore>);

impl Turns {
    /// At most `count` requests have a turn at a time. Those that have returned their turns are not
    /// counted.
    pub(super) fn new(count: usize) -> Self {
        Self(Arc::new(Semaphore::new(count)))
    }

    /// Runs `work` as `blocking` does, when it is its turn.
    ///
    /// # Errors
    /// The work panicked.
    pub(super) async fn run<H, T, W>(&self, held: H, work: W) -> Result<(T, H), JoinError>
    where
        H: Send + 'static,
        T: Send + 'static,
        W: FnOnce() -> T + Send + 'static,
    {
        let turn = self.0.acquire().await.ok();
        let mut work = std::pin::pin!(blocking(held, work));
        match timeout(MAX_TURN, &mut work).await {
            Ok(done) => done,
            Err(_) => {
                drop(turn);
                work.await
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[tokio::test]
    async fn request_waits_for_its_turn_until_a_long_one_has_returned_its_own() {
        let turns = Arc::new(Turns::new(1));
        let (end, may_end) = channel::<()>();
        let (begun, has_begun) = tokio::sync::oneshot::channel();
        let long = tokio::spawn({
            let turns = Arc::clone(&turns);
            let work = move || {
                begun.send(()).unwrap();
                may_end.recv().unwrap();
                "long"
            };
            async move { turns.run((), work).await.unwrap().0 }
        });
        has_begun.await.unwrap();
        assert_eq!(turns.0.available_permits(), 0);
        assert_eq!(turns.run((), || "short").await.unwrap().0, "short");
        assert!(!long.is_finished());
        end.send(()).unwrap();
        assert_eq!(long.await.unwrap(), "long");
        assert_eq!(turns.0.available_permits(), 1);
    }

    #[tokio::test]
    async fn turn_is_returned_if_the_work_panics() {
        let turns = Turns::new(1);
        assert!(turns.run((), || panic!("a fault")).await.unwrap_err().is_panic());
        assert_eq!(turns.0.available_permits(), 1);
    }
}
