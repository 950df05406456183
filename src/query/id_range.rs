//! The range of ids of the emails received between two times.

use super::sort::Direction;
use crate::model::{EmailId, UtcMillis};

/// A range of email ids, both ends included; empty if `first` is greater than `last`. Ids ascend
/// from the newest email to the oldest. Those of one millisecond are `EmailId::new(at, 0)` to
/// `EmailId::new(at, u16::MAX)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::query) struct IdRange {
    pub(in crate::query) first: EmailId,
    pub(in crate::query) last: EmailId,
}

impl IdRange {
    pub(in crate::query) const ALL: Self = Self { first: EmailId(0), last: EmailId(u64::MAX) };
    const NONE: Self = Self { first: EmailId(u64::MAX), last: EmailId(0) };

    /// Restricts the range to emails received before `at`.
    pub(in crate::query) fn before(self, at: UtcMillis) -> Self {
        // Email ids cannot express times before 1970.
        match at.0.checked_sub(1) {
            Some(last) if last >= 0 => {
                Self { first: self.first.max(EmailId::new(UtcMillis(last), 0)), ..self }
            }
            _ => Self::NONE,
        }
    }

    /// Restricts the range to emails received at `at` or later.
    pub(in crate::query) fn after(self, at: UtcMillis) -> Self {
        let last = EmailId::new(at, u16::MAX);
        // No id can express a time this late.
        if last.received_at() < at {
            Self::NONE
        } else {
            Self { last: self.last.min(last), ..self }
        }
    }

    pub(in crate::query) fn holds(self, id: EmailId) -> bool {
        self.first <= id && id <= self.last
    }

    /// Returns the id after which a walk over the range begins in a direction. No email need have
    /// this id. `Some(None)` if the walk begins with the first of all emails, and `None` if the
    /// range is empty.
    pub(in crate::query) fn begin(self, direction: Direction) -> Option<Option<EmailId>> {
        let before = match direction {
            Direction::NewestFirst => self.first.0.checked_sub(1),
            Direction::OldestFirst => self.last.0.checked_add(1),
        };
        (self.first <= self.last).then(|| before.map(EmailId))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn range_holds_exactly_the_emails_between_its_times(
            at in -3i64..4,
            low in proptest::option::of(-3i64..4),
            high in proptest::option::of(-3i64..4),
            unique: u16,
            // Times about 1970, far later ones, and those about the last that an id can express.
            shift in proptest::sample::select(vec![0i64, 1 << 47, (1 << 48) - 2]),
        ) {
            let id = EmailId::new(UtcMillis(at + shift), unique);
            let mut range = IdRange::ALL;
            let mut wanted = true;
            if let Some(low) = low {
                range = range.after(UtcMillis(low + shift));
                wanted &= id.received_at().0 >= low + shift;
            }
            if let Some(high) = high {
                range = range.before(UtcMillis(high + shift));
                wanted &= id.received_at().0 < high + shift;
            }
            prop_assert_eq!(range.holds(id), wanted);
        }
    }

    #[test]
    fn extreme_times_give_empty_or_full_ranges() {
        for at in [i64::MIN, i64::MIN + 1, -1, 0] {
            assert!(!IdRange::ALL.before(UtcMillis(at)).holds(EmailId::new(UtcMillis(0), 0)));
            assert!(IdRange::ALL.after(UtcMillis(at)).holds(EmailId::new(UtcMillis(0), u16::MAX)));
        }
        assert!(IdRange::ALL.before(UtcMillis(i64::MAX)).holds(EmailId(0)));
        assert!(!IdRange::ALL.after(UtcMillis(i64::MAX)).holds(EmailId(0)));
    }
}
