//! The minimum rate at which a client must send the body of a request, so that a slow client does
//! not hold memory for long.

use std::time::Duration;

use axum::body::{Body, Bytes};
use http_body_util::BodyExt as _;
use tokio::time::{Instant, timeout_at};

use crate::model::limits;
use crate::net::stop::StopSignal;

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

    /// The rate for the rest of a body that nobody needs, and for any body once the service stops.
    pub(super) fn hurried() -> Self {
        Self {
            window: limits::DRAIN_PACE_WINDOW,
            min_bytes: limits::MIN_DRAIN_PACE_BYTES,
            total: limits::DRAIN_TIMEOUT,
        }
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
    /// The pace from the stop on. `None` after the stop, and if the pace stays as it is.
    after_stop: Option<(StopSignal, BodyPace)>,
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
        let (window_end, deadline) = (now + pace.window, now + pace.total);
        Self { body, pace, window_end, received: 0, deadline, after_stop: None }
    }

    /// The body of a request, which may take `total`, and must hurry once the service stops.
    pub(super) fn of_request(body: Body, total: Duration, stop: &StopSignal) -> Self {
        let after_stop = Some((stop.clone(), BodyPace::hurried()));
        Self { after_stop, ..Self::new(body, BodyPace::within(total)) }
    }

    /// Returns the next bytes of the body, or `None` at its end. The pace is checked only while
    /// this waits for bytes, so bytes that have arrived are never too late.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, BodyError> {
        loop {
            let next = timeout_at(self.window_end.min(self.deadline), self.body.frame());
            let next = tokio::select! {
                biased;
                next = next => next,
                pace = wait_for_stop(self.after_stop.as_mut()) => {
                    let stopped = Instant::now();
                    (self.after_stop, self.pace, self.received) = (None, pace, 0);
                    self.window_end = stopped + pace.window;
                    self.deadline = self.deadline.min(stopped + pace.total);
                    continue;
                }
            };
            match next {
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

/// Returns the pace after the stop once the service stops. Waits forever if there is none.
async fn wait_for_stop(after_stop: Option<&mut (StopSignal, BodyPace)>) -> BodyPace {
    match after_stop {
        Some((stop, pace)) => {
            stop.wait().await;
            *pace
        }
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use tokio::sync::mpsc;

    use super::*;
    use crate::net::stop::switch;

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

    #[tokio::test]
    async fn a_pause_before_the_stop_is_allowed_and_after_it_is_not() {
        let (switch, stop) = switch();
        let read = async |chunks| {
            let mut paced = PacedBody::new(body(chunks), BodyPace::within(limits::UPLOAD_TIMEOUT));
            let window = Duration::from_secs(1);
            let pace = BodyPace { window, min_bytes: 10, total: limits::DRAIN_TIMEOUT };
            paced.after_stop = Some((stop.clone(), pace));
            let mut bytes = 0;
            while let Some(chunk) = paced.next().await? {
                bytes += chunk.len();
            }
            Ok(bytes)
        };
        assert_eq!(read(vec![(0, 5), (1500, 5)]).await, Ok(10));
        let stopping = async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            switch.stop();
        };
        let (silent, ()) = tokio::join!(read(vec![(0, 5), (60_000, 5)]), stopping);
        assert_eq!(silent, Err(BodyError::Slow));
        // A client that goes on sending may finish.
        assert_eq!(read(vec![(100, 20); 15]).await, Ok(300));
    }
}
