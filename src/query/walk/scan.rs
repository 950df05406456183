//! A walk over all emails or over the emails of listings, newest or oldest first, without
//! duplicates.
//!
//! For a query the walk contains every match (of a collapsed listing, every match that is shown),
//! and other emails too.

use std::collections::VecDeque;

use crate::model::{AccountId, EmailId, EmailMetadata, Listing, ThreadId};
use crate::query::Allowance;
use crate::query::id_range::IdRange;
use crate::query::sort::Direction;
use crate::query::walk::merge::Merge;
use crate::store::{Error, Snapshot};

/// The number of emails that is read at once at first, since a first page needs few. It grows with
/// each reading, up to `MAX_READ_BATCH`.
pub(super) const MIN_READ_BATCH: usize = 64;
pub(super) const MAX_READ_BATCH: usize = 256;

#[derive(Debug)]
pub(in crate::query) struct EmailScan<'v> {
    snapshot: &'v Snapshot<'v>,
    account: AccountId,
    from: ScanSource<'v>,
    range: IdRange,
    direction: Direction,
    /// The emails that were read and not returned yet.
    read: VecDeque<(EmailId, EmailMetadata)>,
    /// How many emails are read next.
    batch_size: usize,
    reads: Allowance,
}

#[derive(Debug)]
enum ScanSource<'v> {
    /// All mail. Reading continues after this email, or with the first email of the direction if
    /// `Some(None)`. `None` if all is read.
    All(Option<Option<EmailId>>),
    Listings(Merge<'v>),
}

impl<'v> EmailScan<'v> {
    pub(in crate::query) fn all_mail(
        snapshot: &'v Snapshot<'v>,
        account: AccountId,
        range: IdRange,
        direction: Direction,
    ) -> Self {
        Self::new(snapshot, account, ScanSource::All(range.begin(direction)), range, direction)
    }

    pub(in crate::query) fn of_listings(merge: Merge<'v>) -> Self {
        let (snapshot, account, range, direction) =
            (merge.snapshot, merge.account, merge.range, merge.direction);
        Self::new(snapshot, account, ScanSource::Listings(merge), range, direction)
    }

    fn new(
        snapshot: &'v Snapshot<'v>,
        account: AccountId,
        from: ScanSource<'v>,
        range: IdRange,
        direction: Direction,
    ) -> Self {
        Self {
            snapshot,
            account,
            from,
            range,
            direction,
            read: VecDeque::new(),
            batch_size: MIN_READ_BATCH,
            reads: Allowance::default(),
        }
    }

    /// Counts the emails that are read in `reads`. Without this they are not counted.
    pub(in crate::query) fn counting(self, reads: Allowance) -> Self {
        Self { reads, ..self }
    }

    pub(in crate::query) fn direction(&self) -> Direction {
        self.direction
    }

    pub(in crate::query) fn next_email(
        &mut self,
    ) -> Result<Option<(EmailId, EmailMetadata)>, Error> {
        loop {
            match self.read.pop_front() {
                // The walk began at the range, so this email is beyond its end: the walk ends.
                Some((id, _)) if !self.range.holds(id) => {
                    self.read.clear();
                    self.from = ScanSource::All(None);
                }
                Some(email) => return Ok(Some(email)),
                None if !self.read_more()? => return Ok(None),
                None => {}
            }
        }
    }

    /// Reads the next emails, perhaps none. Returns `false` if there are no more.
    fn read_more(&mut self) -> Result<bool, Error> {
        let is_more = match &mut self.from {
            ScanSource::Listings(merge) => {
                let mut ids = Vec::with_capacity(self.batch_size);
                while ids.len() < self.batch_size
                    && let Some((id, _)) = merge.next()?
                {
                    ids.push(id);
                }
                let emails = self.snapshot.emails_at(self.account, &ids)?;
                self.read = ids
                    .iter()
                    .zip(emails)
                    .filter_map(|(id, email)| email.map(|email| (*id, email)))
                    .collect();
                !ids.is_empty()
            }
            ScanSource::All(upto) => {
                let Some(behind) = upto.take() else { return Ok(false) };
                let emails = match self.direction {
                    Direction::NewestFirst => {
                        self.snapshot.emails(self.account, behind, self.batch_size)?
                    }
                    Direction::OldestFirst => {
                        self.snapshot.emails_from_end(self.account, behind, self.batch_size)?
                    }
                };
                self.read = emails.into();
                *upto = self.read.get(self.batch_size.saturating_sub(1)).map(|(id, _)| Some(*id));
                true
            }
        };
        self.reads.count_rows(self.read.len());
        self.batch_size = self.batch_size.saturating_mul(4).min(MAX_READ_BATCH);
        Ok(is_more)
    }
}

/// Reads the next emails of a listing after the email `behind` in a direction, or from the
/// beginning for `None`. If fewer than `limit` are returned, they are the last.
pub(in crate::query) fn read_page(
    snapshot: &Snapshot<'_>,
    account: AccountId,
    listing: Listing,
    direction: Direction,
    behind: Option<EmailId>,
    limit: usize,
) -> Result<Vec<(EmailId, ThreadId)>, Error> {
    Ok(match direction {
        Direction::NewestFirst => snapshot.listing(account, listing, behind, limit)?,
        Direction::OldestFirst => snapshot.listing_from_end(account, listing, behind, limit)?,
    })
}
