//! The least pace at which the body of a request must come, so that nobody holds room by sending
//! next to nothing.

use std::time::Duration;

use axum::body::{Body, Bytes};
use http_body_util::BodyExt as _;
use tokio::time::{Instant, timeout_at};

use crate::model::limits;

/// How fast a body must come.
#[derive(Debug, Clone, Copy)]
pub(super) struct BodyPace {
    /// In each time of this length
    pub(super) window: Duration,
    /// the client must send at least this number of bytes.
    pub(super) least: usize,
    /// The longest that all of it may take.
    pub(super) whole: Duration,
}

impl BodyPace {
    /// The pace of a body that may take so long in all.
    pub(super) fn within(whole: Duration) -> Self {
        Self { window: limits::BODY_PACE_WINDOW, least: limits::MIN_BODY_PACE_BYTES, whole }
    }
}

/// A body that is read at a pace.
#[derive(Debug)]
pub(super) struct PacedBody {
    body: Body,
    pace: BodyPace,
    window_end: Instant,
    /// Bytes that came in this window.
    came: usize,
    end: Instant,
}

/// Why no more comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BodyError {
    /// It came too slowly.
    Slow,
    /// The client went away, or what it sent is no body.
    Off,
}

impl PacedBody {
    pub(super) fn new(body: Body, pace: BodyPace) -> Self {
        let now = Instant::now();
        Self { body, pace, window_end: now + pace.window, came: 0, end: now + pace.whole }
    }

    /// The next bytes. `None` at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, BodyError> {
        loop {
            match timeout_at(self.window_end.min(self.end), self.body.frame()).await {
                Ok(None) => return Ok(None),
                Ok(Some(Err(_))) => return Err(BodyError::Off),
                // Trailers say nothing here.
                Ok(Some(Ok(frame))) => {
                    if let Ok(bytes) = frame.into_data() {
                        self.came += bytes.len();
                        return Ok(Some(bytes));
                    }
                }
                Err(_) => {
                    let now = Instant::now();
                    if self.came < self.pace.least || now >= self.end {
                        return Err(BodyError::Slow);
                    }
                    (self.window_end, self.came) = (now + self.pace.window, 0);
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

    /// A body of pieces, each of which comes after a number of milliseconds.
    fn body(pieces: Vec<(u64, usize)>) -> Body {
        let (sender, mut receiver) = mpsc::channel(1);
        tokio::spawn(async move {
            for (wait, size) in pieces {
                tokio::time::sleep(Duration::from_millis(wait)).await;
                drop(sender.send(Ok::<_, io::Error>(Bytes::from(vec![0; size]))).await);
            }
        });
        Body::from_stream(futures_util::stream::poll_fn(move |cx| receiver.poll_recv(cx)))
    }

    async fn read(pieces: Vec<(u64, usize)>, whole: u64) -> Result<usize, BodyError> {
        let pace = BodyPace {
            window: Duration::from_millis(200),
            least: 10,
            whole: Duration::from_millis(whole),
        };
        let (mut paced, mut bytes) = (PacedBody::new(body(pieces), pace), 0);
        while let Some(piece) = paced.next().await? {
            bytes += piece.len();
        }
        Ok(bytes)
    }

    #[tokio::test]
    async fn a_body_that_comes_too_slowly_is_given_up() {
        assert_eq!(read(vec![(0, 5), (0, 5)], 60_000).await, Ok(10));
        // Fast enough in each window; and one that sent much at once may not rest on it.
        assert_eq!(read(vec![(50, 20); 12], 60_000).await, Ok(240));
        assert_eq!(
            read(vec![(0, 1_000_000), (50, 1), (60_000, 1)], 600_000).await,
            Err(BodyError::Slow)
        );
        assert_eq!(read(vec![(30, 1); 1000], 60_000).await, Err(BodyError::Slow));
        assert_eq!(read(vec![(50, 20); 1000], 500).await, Err(BodyError::Slow));
    }
}
