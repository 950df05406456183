//! The least pace at which a client must read an answer, so that nobody holds one by taking next to
//! nothing of it.
//!
//! - Only the time counts in which the client is waited for. While the service makes the next
//!   piece, none passes.
//! - In so much of that time it must take `limits::MIN_RESPONSE_PACE_BYTES`, or the rest of the
//!   answer.
//! - It holds for every version of HTTP: of HTTP/2 a client may read the connection, and not the
//!   answer.

use std::time::Duration;

use tokio::time::Instant;

use crate::model::limits;

/// How a client reads one answer.
#[derive(Debug)]
pub(super) struct ResponsePace {
    /// Since when the client is waited for.
    since: Option<Instant>,
    /// How long it was waited for before, and what it took meanwhile.
    waited: Duration,
    taken: usize,
    /// Bytes that were handed over last.
    piece: usize,
}

impl ResponsePace {
    /// Begins with the answer, of which nothing was asked for yet.
    pub(super) fn begin(now: Instant) -> Self {
        Self { since: Some(now), waited: Duration::ZERO, taken: 0, piece: 0 }
    }

    /// There is room for the next piece: what was handed over before is on its way.
    pub(super) fn piece_wanted(&mut self, now: Instant) {
        if let Some(since) = self.since.take() {
            self.waited += now.duration_since(since);
            self.taken += std::mem::take(&mut self.piece);
        }
        if self.taken >= limits::MIN_RESPONSE_PACE_BYTES {
            self.restart();
        }
    }

    /// All that there is was handed over, and more is asked for.
    pub(super) fn restart(&mut self) {
        (self.waited, self.taken) = (Duration::ZERO, 0);
    }

    /// A piece is handed over.
    pub(super) fn piece_sent(&mut self, bytes: usize, now: Instant) {
        (self.piece, self.since) = (bytes, Some(now));
    }

    /// Whether the client takes too little.
    pub(super) fn is_slow(&self, now: Instant, window: Duration) -> bool {
        self.since.is_some_and(|since| self.waited + now.duration_since(since) >= window)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Duration = Duration::from_secs(60);

    #[test]
    fn a_client_that_takes_too_little_is_slow_and_one_that_waits_for_us_is_not() {
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        let mut reading = ResponsePace::begin(begun);
        assert!(
            !reading.is_slow(at(59), WINDOW) && reading.is_slow(at(60), WINDOW),
            "nothing was asked for"
        );
        // A little now and then is not enough; much is, and the next of it begins anew.
        let each = limits::MIN_RESPONSE_PACE_BYTES.div_ceil(5);
        for n in 0..4 {
            reading.piece_wanted(at(10 * n));
            reading.piece_sent(each, at(10 * n));
        }
        assert!(!reading.is_slow(at(59), WINDOW) && reading.is_slow(at(60), WINDOW));
        reading.piece_wanted(at(59));
        reading.piece_sent(each, at(59));
        reading.piece_wanted(at(59));
        reading.piece_sent(each, at(59));
        assert!(!reading.is_slow(at(118), WINDOW) && reading.is_slow(at(119), WINDOW));
        // While the next piece is made, the client is not waited for.
        reading.piece_wanted(at(118));
        assert!(!reading.is_slow(at(1000), WINDOW));
        reading.piece_sent(each, at(1000));
        assert!(!reading.is_slow(at(1000), WINDOW) && reading.is_slow(at(1001), WINDOW));
        // Who has all that there is starts again.
        reading.piece_wanted(at(1000));
        reading.restart();
        reading.piece_sent(each, at(2000));
        assert!(!reading.is_slow(at(2059), WINDOW) && reading.is_slow(at(2060), WINDOW));
    }
}
