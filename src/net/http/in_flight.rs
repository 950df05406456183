//! Bounds the bytes of requests that are being received or answered: in all, and for each account
//! or, on the control socket, each Unix user, so that none keeps the others out.
//!
//! - JMAP requests, those of administrators, and uploads have an `InFlight` each, and so bounds of
//!   their own: requests are in memory, and larger uploads in files.
//! - Bytes are reserved as they arrive, and not for an announced length.
//! - A request beyond a bound is refused. It does not wait, so that requests that have reserved
//!   bytes can complete.
//! - The first bytes of each JMAP request are not counted (`Bounds::free`).

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::problem::Problem;
use super::request_context::RequestContext;
use crate::model::limits;

/// The totals of one kind of requests. Clones share them.
#[derive(Debug, Clone, Default)]
pub(super) struct InFlight(Arc<Mutex<InFlightTotals>>);

#[derive(Debug, Default)]
struct InFlightTotals {
    all: u64,
    /// By the key of the caller (`RequestContext::key`). An account without bytes has no entry.
    accounts: HashMap<String, u64>,
}

/// The bytes of JMAP requests that are being read and answered. Those of administrators are counted
/// by themselves, so that neither they nor the other callers keep the others out.
#[derive(Debug, Default)]
pub(super) struct RequestBytes {
    administrators: InFlight,
    others: InFlight,
}

impl RequestBytes {
    /// Returns a reservation of no bytes yet, for requests of this caller.
    pub(super) fn reservation(&self, context: &RequestContext) -> Reservation {
        let all = limits::MAX_REQUEST_BYTES_IN_FLIGHT;
        let (in_flight, per_account) = match context.caller.admin {
            true => (&self.administrators, all),
            false => (&self.others, limits::MAX_REQUEST_BYTES_IN_FLIGHT_PER_ACCOUNT),
        };
        let bounds = Bounds { all, per_account, free: limits::FREE_REQUEST_BYTES };
        in_flight.reservation(context.key(), bounds)
    }
}

/// Bounds of reserved bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    pub(super) all: u64,
    pub(super) per_account: u64,
    /// The bytes of each request that are not counted.
    pub(super) free: u64,
}

/// The bytes that one request has reserved until dropped.
#[derive(Debug)]
pub(super) struct Reservation {
    in_flight: InFlight,
    account: String,
    bounds: Bounds,
    /// What is left of `Bounds::free`.
    free: u64,
    /// The reserved bytes beyond `Bounds::free`.
    counted: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum CapacityError {
    #[error("this account has too many bytes in flight: try again later")]
    Account,
    #[error("too many bytes are in flight: try again later")]
    All,
}

impl CapacityError {
    /// `account_limit` is the name of the limit in RFC 8620 §2 that bounds an account.
    pub(super) fn problem(self, account_limit: &'static str) -> Problem {
        match self {
            Self::Account => Problem::limit(account_limit),
            Self::All => Problem::busy(&self.to_string()),
        }
    }
}

impl From<CapacityError> for Problem {
    fn from(error: CapacityError) -> Self {
        error.problem("maxConcurrentRequests")
    }
}

impl InFlight {
    /// Returns a reservation of no bytes yet.
    pub(super) fn reservation(&self, account: String, bounds: Bounds) -> Reservation {
        Reservation { in_flight: self.clone(), account, bounds, free: bounds.free, counted: 0 }
    }
}

impl Reservation {
    /// Reserves `by` more bytes.
    ///
    /// # Errors
    /// `CapacityError` if a bound would be exceeded; then the reservation is unchanged.
    pub(super) fn grow(&mut self, by: usize) -> Result<(), CapacityError> {
        let by = by as u64;
        let counted = by.saturating_sub(self.free);
        if counted > 0 {
            let mut totals = self.in_flight.0.lock();
            let of_account = totals.accounts.get(&self.account).copied().unwrap_or_default();
            let of_account = of_account.saturating_add(counted);
            let all = totals.all.saturating_add(counted);
            if of_account > self.bounds.per_account {
                return Err(CapacityError::Account);
            }
            if all > self.bounds.all {
                return Err(CapacityError::All);
            }
            totals.all = all;
            totals.accounts.insert(self.account.clone(), of_account);
        }
        self.counted += counted;
        self.free = self.free.saturating_sub(by);
        Ok(())
    }

    /// Returns the reserved bytes as a reservation of their own, and leaves this one empty, with
    /// all of `Bounds::free`.
    pub(super) fn take(&mut self) -> Self {
        let empty = self.in_flight.reservation(self.account.clone(), self.bounds);
        std::mem::replace(self, empty)
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.counted == 0 {
            return;
        }
        let mut totals = self.in_flight.0.lock();
        totals.all = totals.all.saturating_sub(self.counted);
        if let Some(of_account) = totals.accounts.get_mut(&self.account) {
            *of_account = of_account.saturating_sub(self.counted);
            if *of_account == 0 {
                totals.accounts.remove(&self.account);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jmap::Caller;

    #[test]
    fn refusal_names_the_limit_that_bounds_the_account() {
        assert_eq!(
            CapacityError::Account.problem("maxConcurrentUpload").body()["limit"],
            "maxConcurrentUpload"
        );
        assert_eq!(Problem::from(CapacityError::Account).body()["limit"], "maxConcurrentRequests");
        assert_eq!(CapacityError::All.problem("maxConcurrentUpload").status(), 503);
    }

    #[test]
    fn administrators_and_others_do_not_keep_each_other_out() {
        let bytes = RequestBytes::default();
        let reservation = |user: &str, admin| {
            let caller = Caller { user: Some(user.into()), admin, ..Caller::default() };
            bytes.reservation(&RequestContext { caller, base: "".into() })
        };
        let free = usize::try_from(limits::FREE_REQUEST_BYTES).unwrap();
        let all = usize::try_from(limits::MAX_REQUEST_BYTES_IN_FLIGHT).unwrap();
        let of_user = usize::try_from(limits::MAX_REQUEST_BYTES_IN_FLIGHT_PER_ACCOUNT).unwrap();
        for of_administrators in [true, false] {
            let each = if of_administrators { all } else { of_user };
            let mut full: Vec<_> =
                (0..all / each).map(|n| reservation(&n.to_string(), of_administrators)).collect();
            assert!(full.iter_mut().all(|one| one.grow(free + each).is_ok()));
            let mut same = reservation("ann", of_administrators);
            assert_eq!(same.grow(free + 1), Err(CapacityError::All));
            assert_eq!(reservation("ann", !of_administrators).grow(free + of_user), Ok(()));
        }
    }

    #[test]
    fn each_account_has_a_bound_and_dropped_bytes_can_be_reserved_again() {
        let in_flight = InFlight::default();
        let bounds = Bounds { all: 100, per_account: 60, free: 10 };
        let reservation = |account: &str| in_flight.reservation(account.into(), bounds);
        // The first 10 bytes of each reservation do not count.
        let (mut one, mut other) = (reservation("ann"), reservation("ann"));
        assert_eq!((one.grow(70), other.grow(11)), (Ok(()), Err(CapacityError::Account)));
        assert_eq!(
            (other.grow(7), other.grow(3), other.grow(1)),
            (Ok(()), Ok(()), Err(CapacityError::Account))
        );
        let mut bob = reservation("bob");
        assert_eq!(
            (bob.grow(51), bob.grow(0), bob.grow(9)),
            (Err(CapacityError::All), Ok(()), Ok(()))
        );
        assert_eq!((bob.grow(41), bob.grow(1)), (Ok(()), Err(CapacityError::All)));
        let taken = one.take();
        assert_eq!((one.grow(10), one.grow(1)), (Ok(()), Err(CapacityError::Account)));
        drop(taken);
        assert_eq!(one.grow(60), Ok(()));
        drop((one, other, bob));
        let totals = in_flight.0.lock();
        assert!(totals.all == 0 && totals.accounts.is_empty());
    }
}
