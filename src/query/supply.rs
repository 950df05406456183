//! Where a walk takes its emails: newest or oldest first, each once, and every match among them (or, of a collapsed
//! listing, every match that is shown). Who walks decides each by the whole filter, so a supply may hold more than what matches.

use std::collections::VecDeque;

use super::sort::Direction;
use crate::model::{AccountId, EmailId, EmailMetadata, Listing, ThreadId, UtcMillis};
use crate::store::{Error, View};

/// Emails read at once: a first page is short.
const FIRST: usize = 64;
const STEP: usize = 256;

/// Ids between two times of receipt, both ends included; empty where the first is behind the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) first: EmailId,
    pub(super) last: EmailId,
}

impl Range {
    pub(super) const ALL: Self = Self { first: EmailId(0), last: EmailId(u64::MAX) };
    const NONE: Self = Self { first: EmailId(u64::MAX), last: EmailId(0) };

    /// Those received before this.
    pub(super) fn before(self, at: UtcMillis) -> Self {
        // Nothing is received before 1970: an earlier time counts as that.
        match at.0.checked_sub(1) {
            Some(last) if last >= 0 => Self { first: self.first.max(EmailId::new(UtcMillis(last), 0)), ..self },
            _ => Self::NONE,
        }
    }

    /// Those received at this time or after.
    pub(super) fn after(self, at: UtcMillis) -> Self {
        let last = EmailId::new(at, u16::MAX);
        // Later than any id can say.
        if last.received_at() < at { Self::NONE } else { Self { last: self.last.min(last), ..self } }
    }

    pub(super) fn holds(self, id: EmailId) -> bool {
        self.first <= id && id <= self.last
    }
}

/// A walk.
#[derive(Debug)]
pub(super) struct Supply<'v> {
    view: &'v View<'v>,
    account: AccountId,
    /// Of all mail where there is none.
    listing: Option<Listing>,
    range: Range,
    direction: Direction,
    read: VecDeque<(EmailId, EmailMetadata)>,
    /// Where to read on: behind this email in the direction, or from the beginning; nothing where all is read.
    upto: Option<Option<EmailId>>,
    step: usize,
}

impl<'v> Supply<'v> {
    /// Over all mail, or over a listing that is whole.
    pub(super) fn new(
        view: &'v View<'v>,
        account: AccountId,
        listing: Option<Listing>,
        range: Range,
        direction: Direction,
    ) -> Self {
        let before = match direction {
            Direction::NewestFirst => range.first.0.checked_sub(1),
            Direction::OldestFirst => range.last.0.checked_add(1),
        };
        let upto = (range.first <= range.last).then(|| before.map(EmailId));
        Self { view, account, listing, range, direction, read: VecDeque::new(), upto, step: FIRST }
    }

    /// The direction of the walk.
    pub(super) fn direction(&self) -> Direction {
        self.direction
    }

    /// The next email.
    ///
    /// # Errors
    /// Those of reading.
    pub(super) fn next_email(&mut self) -> Result<Option<(EmailId, EmailMetadata)>, Error> {
        loop {
            match self.read.pop_front() {
                Some((id, _)) if !self.range.holds(id) => {
                    self.read.clear();
                    self.upto = None;
                }
                Some(email) => return Ok(Some(email)),
                None if self.upto.is_none() => return Ok(None),
                None => self.read_on()?,
            }
        }
    }

    fn read_on(&mut self) -> Result<(), Error> {
        let Some(upto) = self.upto.take() else { return Ok(()) };
        let last = match self.listing {
            Some(listing) => {
                let ids = page(self.view, self.account, listing, self.direction, upto, self.step)?;
                let ids: Vec<EmailId> = ids.into_iter().map(|(id, _)| id).collect();
                let emails = self.view.emails_at(self.account, &ids)?;
                self.read = ids.iter().zip(emails).filter_map(|(id, email)| email.map(|email| (*id, email))).collect();
                ids.get(self.step.saturating_sub(1)).copied()
            }
            None => {
                let emails = match self.direction {
                    Direction::NewestFirst => self.view.emails(self.account, upto, self.step)?,
                    Direction::OldestFirst => self.view.emails_from_end(self.account, upto, self.step)?,
                };
                self.read = emails.into();
                self.read.get(self.step.saturating_sub(1)).map(|(id, _)| *id)
            }
        };
        self.upto = last.map(Some);
        self.step = self.step.saturating_mul(4).min(STEP);
        Ok(())
    }
}

/// The next emails of a listing behind one of them, in a direction.
pub(super) fn page(
    view: &View<'_>,
    account: AccountId,
    listing: Listing,
    direction: Direction,
    behind: Option<EmailId>,
    limit: usize,
) -> Result<Vec<(EmailId, ThreadId)>, Error> {
    Ok(match direction {
        Direction::NewestFirst => view.listing(account, listing, behind, limit)?,
        Direction::OldestFirst => view.listing_from_end(account, listing, behind, limit)?,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_range_holds_what_the_times_say(
            at in -3i64..4, low in proptest::option::of(-3i64..4), high in proptest::option::of(-3i64..4), unique: u16,
            shift in proptest::sample::select(vec![0i64, 1 << 47, (1 << 48) - 2]),
        ) {
            let id = EmailId::new(UtcMillis(at + shift), unique);
            let mut range = Range::ALL;
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
    fn the_ends_of_time() {
        for at in [i64::MIN, i64::MIN + 1, -1, 0] {
            assert!(!Range::ALL.before(UtcMillis(at)).holds(EmailId::new(UtcMillis(0), 0)));
            assert!(Range::ALL.after(UtcMillis(at)).holds(EmailId::new(UtcMillis(0), u16::MAX)));
        }
        assert!(Range::ALL.before(UtcMillis(i64::MAX)).holds(EmailId(0)));
        assert!(!Range::ALL.after(UtcMillis(i64::MAX)).holds(EmailId(0)));
    }
}
