//! The minimum rate at which a client must send the body of a request, so that a slow client does
//! not hold memory for long.

use std::time::Duration;

use axum::body::{Body, Bytes};
use http_body_util::BodyExt as _;
use tokio::time::{Instant, timeout_at};

use crate::model::limits;

/// At least `min_bytes` in each `window`, and the whole body within `total`.
#[derive(Debug, Clone, Copy)]
pub(super) struct BodyPace {
    pub(super) window: Duration,
    pub(super) min_bytes: usize,
    pub(super) total: Duration,
}

impl BodyPace {
    /// The usual rate, for a body that may take `total`.
    pub(super) fn within(total: Duration) -> Self {
        Self { window: limits::BODY_PACE_WINDOW, min_bytes: limits::MIN_BODY_PACE_BYTES, total }
    }
}

/// A body that is read with `next`, and ends with an error if it is slow.
#[derive(Debug)]
pub(super) struct PacedBody {
    body: Body,
    pace: BodyPace,
    /// When the current window ends.
    window_end: Instant,
    /// Bytes in the current window.
    received: usize,
    /// When the whole body must have arrived.
    deadline: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BodyError {
    /// The client sent less than `BodyPace` asks for.
    Slow,
    /// The client disconnected or sent a malformed body.
    Broken,
}

impl PacedBody {
    /// The first window and the total time begin now.
    pub(super) fn new(body: Body, pace: BodyPace) -> Self {
        let now = Instant::now();
        Self { body, pace, window_end: now + pace.window, received: 0, deadline: now + pace.total }
    }

    /// Returns the next bytes of the body, or `None` at its end. The pace is checked only while
    /// this waits for bytes, so bytes that have arrived are never too late.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, BodyError> {
        loop {
            match timeout_at(self.window_end.min(self.deadline), self.body.frame()).await {
                Ok(None) => return Ok(None),
                Ok(Some(Err(_))) => return Err(BodyError::Broken),
                // Trailers are ignored.
                Ok(Some(Ok(frame))) => {
                    if let Ok(bytes) = frame.into_data() {
                        self.received += bytes.len();
                        return Ok(Some(bytes));
                    }
                }
                Err(_) => {
                    let now = Instant::now();
                    if self.received < self.pace.min_bytes || now >= self.deadline {
                        return Err(BodyError::Slow);
                    }
                    (self.window_end, self.received) = (now + self.pace.window, 0);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use tokio::sync::mpsc;

    use super::*;

    /// Returns a body of chunks, each given by its delay in milliseconds and its size.
    fn body(chunks: Vec<(u64, usize)>) -> Body {
        let (sender, mut receiver) = mpsc::channel(1);
        tokio::spawn(async move {
            for (delay, size) in chunks {
                tokio::time::sleep(Duration::from_millis(delay)).await;
                drop(sender.send(Ok::<_, io::Error>(Bytes::from(vec![0; size]))).await);
            }
        });
        Body::from_stream(futures_util::stream::poll_fn(move |cx| receiver.poll_recv(cx)))
    }

    /// Reads a body that must bring 10 bytes in each 200 ms, and end within `total` milliseconds.
    async fn read(chunks: Vec<(u64, usize)>, total: u64) -> Result<usize, BodyError> {
        let pace = BodyPace {
            window: Duration::from_millis(200),
            min_bytes: 10,
            total: Duration::from_millis(total),
        };
        let (mut paced, mut bytes) = (PacedBody::new(body(chunks), pace), 0);
        while let Some(chunk) = paced.next().await? {
            bytes += chunk.len();
        }
        Ok(bytes)
    }

    #[tokio::test]
    async fn reading_a_slow_body_fails() {
        assert_eq!(read(vec![(0, 5), (0, 5)], 60_000).await, Ok(10));
        assert_eq!(read(vec![(50, 20); 12], 60_000).await, Ok(240));
        assert_eq!(
            read(vec![(0, 1_000_000), (50, 1), (60_000, 1)], 600_000).await,
            Err(BodyError::Slow)
        );
        assert_eq!(read(vec![(30, 1); 1000], 60_000).await, Err(BodyError::Slow));
        assert_eq!(read(vec![(50, 20); 1000], 500).await, Err(BodyError::Slow));
    }
}
