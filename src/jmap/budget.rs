//! Bounds the work and the memory of one request, over all its calls.
//!
//! - Each call is bounded by itself (objects, ids, texts), but a small request can hold
//!   `limits::MAX_REQUEST_CALLS` of them. What multiplies is therefore counted here: bytes read,
//!   bytes stored, rows walked, and the size of the answers.
//! - Reading is charged before it is done, so a refusal costs nothing.
//! - The answer under construction is counted while it grows. `dispatch` sets that count back
//!   before each call and charges the finished answer.
//! - The methods share one `Budget`; clones are the same budget.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use serde_json::Value;

use crate::model::limits;
use crate::query::Allowance;
use crate::wire::jmap::json::weight;
use crate::wire::jmap::{MethodError, SetError};

const TOO_MUCH_READ: &str =
    "the messages that the request reads are too large together: ask for fewer at a time";
const TOO_MUCH_TOLD: &str =
    "the answers to the request are too large together: ask for less at a time";

/// Why no further walk over emails begins.
pub(super) const TOO_MUCH_WALKED: &str =
    "the request looks through too many emails: ask less at a time";

/// What a request may still do.
#[derive(Debug, Clone)]
pub struct Budget(Arc<RemainingBudget>);

#[derive(Debug)]
struct RemainingBudget {
    /// Bytes of messages and uploads that may be read.
    read: AtomicU64,
    /// Bytes of messages and uploads that may be stored.
    filed: AtomicU64,
    /// Bytes that further answers may take.
    answer: AtomicUsize,
    /// Bytes of the answer under construction.
    growing: AtomicUsize,
    /// Bytes of messages and rows of emails that searches may read.
    searched: Allowance,
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
    /// The budget of an administrator's request, by the control socket. The command line restores
    /// thousands of messages by one call, and reads one at a time: only the answers are bounded.
    pub(super) fn of_administrator() -> Self {
        Self::with(u64::MAX, u64::MAX, limits::MAX_ADMINISTRATOR_ANSWER_BYTES)
    }

    /// A budget of so many bytes to be read, to be stored, and of answers.
    pub(super) fn with(read: u64, filed: u64, answer: usize) -> Self {
        Self(Arc::new(RemainingBudget {
            read: read.into(),
            filed: filed.into(),
            answer: answer.into(),
            growing: 0.into(),
            searched: Allowance::of(
                limits::MAX_SEARCHED_BYTES_PER_REQUEST,
                limits::MAX_WALKED_ROWS_PER_REQUEST,
            ),
        }))
    }

    /// The usual budget, but for what searches may read.
    #[cfg(test)]
    pub(super) fn of_searches(bytes: u64, rows: u64) -> Self {
        Self(Arc::new(RemainingBudget {
            read: limits::MAX_READ_BYTES_PER_REQUEST.into(),
            filed: limits::MAX_FILED_BYTES_PER_REQUEST.into(),
            answer: limits::MAX_ANSWER_BYTES.into(),
            growing: 0.into(),
            searched: Allowance::of(bytes, rows),
        }))
    }

    /// Charges bytes that are about to be read.
    ///
    /// # Errors
    /// `requestTooLarge` where the request would read more than it may.
    pub(super) fn charge_read(&self, bytes: u64) -> Result<(), MethodError> {
        let left = self
            .0
            .read
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes));
        left.map(drop).map_err(|_| MethodError::RequestTooLarge(TOO_MUCH_READ))
    }

    /// Charges bytes that are about to be stored. After one refusal everything is refused: a
    /// message that is built in order to be refused costs as much as one that is stored.
    ///
    /// # Errors
    /// `rateLimit` where the request would store more than it may.
    pub(super) fn charge_stored(&self, bytes: u64) -> Result<(), SetError> {
        let all = self.0.filed.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
            Some(if left == 0 { 0 } else { left.saturating_sub(bytes) })
        });
        let left = all.unwrap_or_else(|left| left);
        if left > 0 && bytes <= left {
            return Ok(());
        }
        Err(SetError::RateLimit(format!(
            "one request stores {} bytes at most",
            limits::MAX_FILED_BYTES_PER_REQUEST
        )))
    }

    /// Whether the answer under construction may grow by so many bytes.
    ///
    /// # Errors
    /// `requestTooLarge` where it may not.
    pub(super) fn check_answer_room(&self, bytes: usize) -> Result<(), MethodError> {
        let grown = self.0.growing.load(Ordering::Relaxed).saturating_add(bytes);
        if grown <= self.0.answer.load(Ordering::Relaxed) {
            Ok(())
        } else {
            Err(MethodError::RequestTooLarge(TOO_MUCH_TOLD))
        }
    }

    /// Counts an object that becomes part of the answer under construction.
    ///
    /// # Errors
    /// `requestTooLarge` where the answer may not grow so much.
    pub(super) fn add_to_answer(&self, object: &Value) -> Result<(), MethodError> {
        self.add_bytes_to_answer(weight(object))
    }

    /// The same of so many bytes, before the object is made.
    ///
    /// # Errors
    /// `requestTooLarge` where the answer may not grow so much.
    pub(super) fn add_bytes_to_answer(&self, bytes: usize) -> Result<(), MethodError> {
        self.check_answer_room(bytes)?;
        self.0.growing.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }

    /// Begins an answer.
    pub(super) fn begin_answer(&self) {
        self.0.growing.store(0, Ordering::Relaxed);
    }

    /// Charges a finished answer. One that tells what was changed must be given whatever its size:
    /// it takes what is left.
    ///
    /// # Errors
    /// `requestTooLarge` where it is too large and may be left out.
    pub(super) fn end_answer(
        &self,
        answer: &Value,
        may_be_refused: bool,
    ) -> Result<(), MethodError> {
        let bytes = weight(answer);
        let left = self.0.answer.load(Ordering::Relaxed);
        if bytes > left && may_be_refused {
            return Err(MethodError::RequestTooLarge(TOO_MUCH_TOLD));
        }
        self.0.answer.store(left.saturating_sub(bytes), Ordering::Relaxed);
        Ok(())
    }

    /// Whether a walk over emails may begin, whose rows are counted by `searched`.
    ///
    /// # Errors
    /// `requestTooLarge` where the request walked over too many.
    pub(super) fn begin_walk(&self) -> Result<(), MethodError> {
        self.0.searched.begin_walk().map_err(|_| MethodError::RequestTooLarge(TOO_MUCH_WALKED))
    }

    /// What the searches of the request may read.
    pub(super) fn search_allowance(&self) -> Allowance {
        self.0.searched.clone()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn refused_read_costs_nothing_and_refused_storing_ends_it() {
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
    fn answers_share_one_bound() {
        let text = json!("x".repeat(1000));
        let budget = Budget::with(0, 0, 3 * weight(&text));
        budget.begin_answer();
        assert_eq!((budget.add_to_answer(&text), budget.add_to_answer(&text)), (Ok(()), Ok(())));
        assert!(budget.add_to_answer(&json!([text, text])).is_err());
        assert_eq!(budget.end_answer(&json!([text]), true), Ok(()));
        // A refused answer takes nothing; one that must be given takes all that is left.
        budget.begin_answer();
        assert_eq!(budget.add_to_answer(&text), Ok(()));
        assert!(budget.end_answer(&json!([text, text]), true).is_err());
        assert_eq!(budget.end_answer(&json!([text, text]), false), Ok(()));
        assert!(budget.check_answer_room(1).is_err());
    }
}
