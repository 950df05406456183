//! The minimum rate at which a client must read a response, so that a slow client does not keep it
//! in memory for long.
//!
//! - Only the time counts in which the service waits for the client, not the time in which the
//!   service produces the next chunk.
//! - In each window of that time the client must read `limits::MIN_RESPONSE_PACE_BYTES`, or the
//!   rest of the response.
//! - The rate is measured for each response: an HTTP/2 client can read the connection without
//!   reading a response.

use std::time::Duration;

use tokio::time::Instant;

use crate::model::limits;

#[derive(Debug)]
pub(super) struct ResponsePace {
    /// `None` while the service produces a chunk.
    waiting_since: Option<Instant>,
    /// The wait in this window, before `waiting_since`.
    waited: Duration,
    /// Bytes that the client took in this window.
    taken: usize,
    /// The size of the last chunk, which the client has not taken yet.
    last_chunk: usize,
}

impl ResponsePace {
    /// Begins when the response is ready.
    pub(super) fn begin(now: Instant) -> Self {
        Self { waiting_since: Some(now), waited: Duration::ZERO, taken: 0, last_chunk: 0 }
    }

    /// Records that hyper asks for a chunk. So the last chunk is on its way to the client.
    pub(super) fn chunk_requested(&mut self, now: Instant) {
        if let Some(since) = self.waiting_since.take() {
            self.waited += now.duration_since(since);
            self.taken += std::mem::take(&mut self.last_chunk);
        }
        if self.taken >= limits::MIN_RESPONSE_PACE_BYTES {
            self.restart();
        }
    }

    /// Begins a new window. The client has read enough, or everything that was produced.
    pub(super) fn restart(&mut self) {
        (self.waited, self.taken) = (Duration::ZERO, 0);
    }

    /// Records that hyper got a chunk, so that the service waits for the client again.
    pub(super) fn chunk_sent(&mut self, bytes: usize, now: Instant) {
        (self.last_chunk, self.waiting_since) = (bytes, Some(now));
    }

    /// Whether the service waited as long as `window` for the client, which has not read enough in
    /// that time.
    pub(super) fn is_slow(&self, now: Instant, window: Duration) -> bool {
        self.waiting_since.is_some_and(|since| self.waited + now.duration_since(since) >= window)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Duration = Duration::from_secs(60);

    #[test]
    fn client_is_slow_if_it_reads_too_little_but_not_while_it_waits() {
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        let mut pace = ResponsePace::begin(begun);
        assert!(
            !pace.is_slow(at(59), WINDOW) && pace.is_slow(at(60), WINDOW),
            "a client that requests no chunk is slow"
        );
        // Each chunk is a fifth of the minimum: four are too little, and the fifth begins a new
        // window.
        let each = limits::MIN_RESPONSE_PACE_BYTES.div_ceil(5);
        for n in 0..4 {
            pace.chunk_requested(at(10 * n));
            pace.chunk_sent(each, at(10 * n));
        }
        assert!(!pace.is_slow(at(59), WINDOW) && pace.is_slow(at(60), WINDOW));
        pace.chunk_requested(at(59));
        pace.chunk_sent(each, at(59));
        pace.chunk_requested(at(59));
        pace.chunk_sent(each, at(59));
        assert!(!pace.is_slow(at(118), WINDOW) && pace.is_slow(at(119), WINDOW));
        pace.chunk_requested(at(118));
        assert!(!pace.is_slow(at(1000), WINDOW));
        pace.chunk_sent(each, at(1000));
        assert!(!pace.is_slow(at(1000), WINDOW) && pace.is_slow(at(1001), WINDOW));
        pace.chunk_requested(at(1000));
        pace.restart();
        pace.chunk_sent(each, at(2000));
        assert!(!pace.is_slow(at(2059), WINDOW) && pace.is_slow(at(2060), WINDOW));
    }
}
