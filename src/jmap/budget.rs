//! Bounds the work and the memory of one request, over all its calls.
//!
//! - What adds up over the calls is counted: bytes read, bytes stored, bytes searched, rows walked,
//!   and bytes of the answers in memory, as `json::weight` estimates them.
//! - Reads are charged before they are done, so a refusal costs nothing. `email::message_head`,
//!   which does not know the size before, charges afterwards.
//! - The answer under construction is counted while it grows. `dispatch` resets that count before
//!   each call and charges the finished answer.
//! - Clones of a `Budget` are the same budget.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use serde_json::Value;

use crate::model::limits;
use crate::query::Allowance;
use crate::wire::jmap::json::weight;
use crate::wire::jmap::{MethodError, SetError};

const READS_TOO_LARGE: &str =
    "the messages that the request reads are too large together: ask for fewer at a time";
const ANSWERS_TOO_LARGE: &str =
    "the answers to the request are too large together: ask for less at a time";

pub(super) const TOO_MANY_EMAILS: &str =
    "the request reads too many emails: ask for less at a time";

#[derive(Debug, Clone)]
pub struct Budget(Arc<RemainingBudget>);

#[derive(Debug)]
struct RemainingBudget {
    /// Bytes of messages and uploads that may be read.
    readable: AtomicU64,
    /// Bytes of messages and uploads that may be stored.
    storable: AtomicU64,
    /// Bytes that further answers may take.
    answer: AtomicUsize,
    /// Bytes of the answer under construction.
    answer_so_far: AtomicUsize,
    /// Bytes that may be searched, and rows over which walks may go.
    searches: Allowance,
}

impl Default for Budget {
    fn default() -> Self {
        Self::with(
            limits::MAX_READ_BYTES_PER_REQUEST,
            limits::MAX_FILED_BYTES_PER_REQUEST,
            limits::MAX_ANSWER_BYTES,
        )
    }
}

impl Budget {
    /// Returns the budget of an administrator's request. Reading and storing messages is not
    /// bounded, because the command line restores thousands by one call.
    pub(super) fn for_administrator() -> Self {
        Self::with(u64::MAX, u64::MAX, limits::MAX_ADMINISTRATOR_ANSWER_BYTES)
    }

    /// All numbers are bytes.
    pub(super) fn with(readable: u64, storable: u64, answer: usize) -> Self {
        Self(Arc::new(RemainingBudget {
            readable: readable.into(),
            storable: storable.into(),
            answer: answer.into(),
            answer_so_far: 0.into(),
            searches: Allowance::new(
                limits::MAX_SEARCHED_BYTES_PER_REQUEST,
                limits::MAX_WALKED_ROWS_PER_REQUEST,
            ),
        }))
    }

    #[cfg(test)]
    pub(super) fn with_searches(bytes: u64, rows: u64) -> Self {
        Self(Arc::new(RemainingBudget {
            readable: limits::MAX_READ_BYTES_PER_REQUEST.into(),
            storable: limits::MAX_FILED_BYTES_PER_REQUEST.into(),
            answer: limits::MAX_ANSWER_BYTES.into(),
            answer_so_far: 0.into(),
            searches: Allowance::new(bytes, rows),
        }))
    }

    /// Charges bytes that are about to be read.
    ///
    /// # Errors
    /// `RequestTooLarge` if the request would read more than it may.
    pub(super) fn charge_read(&self, bytes: u64) -> Result<(), MethodError> {
        let left = self
            .0
            .readable
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes));
        left.map(drop).map_err(|_| MethodError::RequestTooLarge(READS_TOO_LARGE))
    }

    /// Charges bytes that are about to be stored. Once a charge was refused or nothing is left,
    /// every further charge is refused, even one of 0 bytes, with which a method asks before it
    /// builds a message.
    ///
    /// # Errors
    /// `RateLimit` if the request would store more than it may.
    pub(super) fn charge_stored(&self, bytes: u64) -> Result<(), SetError> {
        let before = self.0.storable.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
            // A refused charge takes all that is left, so that the next one is refused, too.
            Some(left.saturating_sub(bytes))
        });
        let left = before.unwrap_or_else(|left| left);
        if left > 0 && bytes <= left {
            return Ok(());
        }
        Err(SetError::RateLimit(format!(
            "one request may store {} bytes at most",
            limits::MAX_FILED_BYTES_PER_REQUEST
        )))
    }

    /// Checks that the answer under construction may grow by `bytes`. Counts nothing.
    ///
    /// # Errors
    /// `RequestTooLarge` if it may not.
    pub(super) fn check_answer_room(&self, bytes: usize) -> Result<(), MethodError> {
        let grown = self.0.answer_so_far.load(Ordering::Relaxed).saturating_add(bytes);
        if grown <= self.0.answer.load(Ordering::Relaxed) {
            Ok(())
        } else {
            Err(MethodError::RequestTooLarge(ANSWERS_TOO_LARGE))
        }
    }

    /// Counts an object that becomes part of the answer under construction.
    ///
    /// # Errors
    /// `RequestTooLarge` if the answer may not grow so much.
    pub(super) fn add_to_answer(&self, object: &Value) -> Result<(), MethodError> {
        self.add_bytes_to_answer(weight(object))
    }

    /// Does what `add_to_answer` does for an object of which only the weight is known, such as one
    /// that is not made yet.
    ///
    /// # Errors
    /// `RequestTooLarge` if the answer may not grow so much.
    pub(super) fn add_bytes_to_answer(&self, bytes: usize) -> Result<(), MethodError> {
        self.check_answer_room(bytes)?;
        self.0.answer_so_far.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }

    /// Begins a new answer, which has no bytes so far.
    pub(super) fn begin_answer(&self) {
        self.0.answer_so_far.store(0, Ordering::Relaxed);
    }

    /// Charges a finished answer of this weight. If it must not be refused and is larger than what
    /// is left, it takes all that is left.
    ///
    /// # Errors
    /// `RequestTooLarge` if the answer is too large and may be refused.
    pub(super) fn end_answer(&self, bytes: usize, may_be_refused: bool) -> Result<(), MethodError> {
        let left = self.0.answer.load(Ordering::Relaxed);
        if bytes > left && may_be_refused {
            return Err(MethodError::RequestTooLarge(ANSWERS_TOO_LARGE));
        }
        self.0.answer.store(left.saturating_sub(bytes), Ordering::Relaxed);
        Ok(())
    }

    /// Checks that another walk over emails may begin. The walk counts its rows in
    /// [`Self::search_allowance`].
    ///
    /// # Errors
    /// `RequestTooLarge` if the request has already walked over too many rows.
    pub(super) fn begin_walk(&self) -> Result<(), MethodError> {
        self.0.searches.begin_walk().map_err(|_| MethodError::RequestTooLarge(TOO_MANY_EMAILS))
    }

    pub(super) fn search_allowance(&self) -> Allowance {
        self.0.searches.clone()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn refused_read_costs_nothing_and_refused_store_refuses_all_further_ones() {
        let budget = Budget::with(10, 10, 10);
        assert_eq!(budget.charge_read(8), Ok(()));
        assert!(matches!(budget.clone().charge_read(3), Err(MethodError::RequestTooLarge(_))));
        assert_eq!(budget.charge_read(2), Ok(()));
        assert_eq!(budget.charge_stored(8), Ok(()));
        assert_eq!(budget.charge_stored(0), Ok(()));
        assert!(matches!(budget.charge_stored(3), Err(SetError::RateLimit(_))));
        assert!(matches!(budget.charge_stored(0), Err(SetError::RateLimit(_))));
        let whole = Budget::with(0, 10, 0);
        assert_eq!(whole.charge_stored(10), Ok(()));
        assert!(matches!(whole.charge_stored(0), Err(SetError::RateLimit(_))));
    }

    #[test]
    fn all_answers_of_a_request_share_one_limit() {
        let text = json!("x".repeat(1000));
        let budget = Budget::with(0, 0, 3 * weight(&text));
        budget.begin_answer();
        assert_eq!((budget.add_to_answer(&text), budget.add_to_answer(&text)), (Ok(()), Ok(())));
        assert!(budget.add_to_answer(&json!([text, text])).is_err());
        assert_eq!(budget.end_answer(weight(&json!([text])), true), Ok(()));
        // A refused answer costs nothing. One that may not be refused takes all that is left.
        budget.begin_answer();
        assert_eq!(budget.add_to_answer(&text), Ok(()));
        assert!(budget.end_answer(weight(&json!([text, text])), true).is_err());
        assert_eq!(budget.end_answer(weight(&json!([text, text])), false), Ok(()));
        assert!(budget.check_answer_room(1).is_err());
    }
}
