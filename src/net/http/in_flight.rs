//! Bytes that requests may hold at once: in all, and of each account a share, so that nobody takes
//! what the others need.
//!
//! Room is taken as bytes arrive, never for what was only announced. Nobody waits for room: who
//! finds none is refused, so that those who hold some come to an end. The first bytes of each
//! request are free: an ordinary one always finds room.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::problem::Problem;

/// What is held now.
#[derive(Debug, Clone, Default)]
pub(super) struct InFlight(Arc<Mutex<InFlightTotals>>);

#[derive(Debug, Default)]
struct InFlightTotals {
    all: u64,
    by: HashMap<String, u64>,
}

/// What may be held.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    pub(super) all: u64,
    /// By one account.
    pub(super) each: u64,
    /// By each request without being counted.
    pub(super) free: u64,
}

/// What one request holds, until it is dropped.
#[derive(Debug)]
pub(super) struct Reservation {
    of: InFlight,
    whose: String,
    bounds: Bounds,
    free: u64,
    held: u64,
}

/// Why there is no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum CapacityError {
    /// The account's other requests have taken its share.
    #[error("too much of this account is under way at once: try again later")]
    Share,
    /// All accounts together have taken all.
    #[error("too much is under way at once: try again later")]
    All,
}

impl CapacityError {
    /// The refusal; `which` is the limit of RFC 8620 §2 that bounds an account's share.
    pub(super) fn problem(self, which: &'static str) -> Problem {
        match self {
            Self::Share => Problem::limit(which),
            Self::All => Problem::busy(&self.to_string()),
        }
    }
}

impl From<CapacityError> for Problem {
    fn from(full: CapacityError) -> Self {
        full.problem("maxConcurrentRequests")
    }
}

impl InFlight {
    /// An empty room of `whose`.
    pub(super) fn room(&self, whose: String, bounds: Bounds) -> Reservation {
        Reservation { of: self.clone(), whose, bounds, free: bounds.free, held: 0 }
    }
}

impl Reservation {
    /// Takes room for `bytes` more, if there is room.
    ///
    /// # Errors
    /// There is none; what was held stays held.
    pub(super) fn grow(&mut self, by: usize) -> Result<(), CapacityError> {
        let by = by as u64;
        let counted = by.saturating_sub(self.free);
        if counted > 0 {
            let mut held = self.of.0.lock();
            let own = held.by.get(&self.whose).copied().unwrap_or_default().saturating_add(counted);
            let all = held.all.saturating_add(counted);
            if own > self.bounds.each {
                return Err(CapacityError::Share);
            }
            if all > self.bounds.all {
                return Err(CapacityError::All);
            }
            held.all = all;
            held.by.insert(self.whose.clone(), own);
        }
        self.held += counted;
        self.free = self.free.saturating_sub(by);
        Ok(())
    }

    /// Hands what is held on, and is empty.
    pub(super) fn take(&mut self) -> Self {
        let empty = self.of.room(self.whose.clone(), self.bounds);
        std::mem::replace(self, empty)
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.held == 0 {
            return;
        }
        let mut held = self.of.0.lock();
        held.all = held.all.saturating_sub(self.held);
        if let Some(own) = held.by.get_mut(&self.whose) {
            *own = own.saturating_sub(self.held);
            if *own == 0 {
                held.by.remove(&self.whose);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An upload is bounded by another limit than a request.
    #[test]
    fn refusal_names_the_limit_that_bounds_the_share() {
        assert_eq!(
            CapacityError::Share.problem("maxConcurrentUpload").body()["limit"],
            "maxConcurrentUpload"
        );
        assert_eq!(Problem::from(CapacityError::Share).body()["limit"], "maxConcurrentRequests");
        assert_eq!(CapacityError::All.problem("maxConcurrentUpload").status(), 503);
    }

    #[test]
    fn each_has_a_share_and_what_is_dropped_is_given_back() {
        let in_flight = InFlight::default();
        let bounds = Bounds { all: 100, each: 60, free: 10 };
        let room = |whose: &str| in_flight.room(whose.into(), bounds);
        let (mut one, mut other) = (room("ann"), room("ann"));
        assert_eq!((one.grow(70), other.grow(11)), (Ok(()), Err(CapacityError::Share)));
        // What is free needs no room, and can be taken piece by piece.
        assert_eq!(
            (other.grow(7), other.grow(3), other.grow(1)),
            (Ok(()), Ok(()), Err(CapacityError::Share))
        );
        let mut bob = room("bob");
        assert_eq!(
            (bob.grow(51), bob.grow(0), bob.grow(9)),
            (Err(CapacityError::All), Ok(()), Ok(()))
        );
        assert_eq!((bob.grow(41), bob.grow(1)), (Ok(()), Err(CapacityError::All)));
        // What was handed on is still held.
        let taken = one.take();
        assert_eq!((one.grow(10), one.grow(1)), (Ok(()), Err(CapacityError::Share)));
        drop(taken);
        assert_eq!(one.grow(60), Ok(()));
        drop((one, other, bob));
        let held = in_flight.0.lock();
        assert!(held.all == 0 && held.by.is_empty());
    }
}
