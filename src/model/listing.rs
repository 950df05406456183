//! Listings: the stored answers to frequent queries, sorted newest first.
//!
//! - A listing is a mailbox, a filter and a shape (`docs/storage.md`, "Listings").
//! - A filter is maintained in all its shapes together: filters of emails in both shapes, filters
//!   of threads in the shape `Threads` only. In the shape `Emails`, one flag would write a row for
//!   each email of the thread.
//! - A listing that is made on demand is filled from the newest email to the oldest, up to its
//!   frontier. It is not read before it is complete.

use std::time::Duration;

use super::clock::UtcMillis;
use super::id::{EmailId, MailboxUid, ModSeq};

/// `MaintainedListing::last_used` is exact to a day.
const USE_MARK_INTERVAL: Duration = Duration::from_secs(24 * 3600);

/// The condition of a listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ListingFilter {
    Every = 0,
    /// Emails without `$seen`.
    Unseen = 1,
    /// Emails with `$flagged`.
    Flagged = 2,
    /// Emails in a thread that has an email without `$seen`.
    ThreadUnseen = 3,
    /// Emails in a thread that has an email with `$flagged`.
    ThreadFlagged = 4,
    /// Emails in a thread in which no email has `$seen`.
    ThreadUntouched = 5,
}

/// Whether a listing has every match, or one for each thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Shape {
    Emails = 0,
    /// The newest match of each thread, as with `collapseThreads` (RFC 8621 §4.4.3).
    Threads = 1,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Listing {
    pub uid: MailboxUid,
    pub filter: ListingFilter,
    pub shape: Shape,
}

impl ListingFilter {
    /// All filters, in the order of their stored numbers.
    pub const ALL: [Self; 6] = [
        Self::Every,
        Self::Unseen,
        Self::Flagged,
        Self::ThreadUnseen,
        Self::ThreadFlagged,
        Self::ThreadUntouched,
    ];

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Every => "every email",
            Self::Unseen => "unseen",
            Self::Flagged => "flagged",
            Self::ThreadUnseen => "threads with unseen",
            Self::ThreadFlagged => "threads with flagged",
            Self::ThreadUntouched => "threads without seen",
        }
    }

    /// Whether the email alone decides, and not its thread.
    #[must_use]
    pub fn is_email_filter(self) -> bool {
        matches!(self, Self::Every | Self::Unseen | Self::Flagged)
    }

    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// Whether this filter is always maintained in a mailbox: `Flagged` in all mail, and `Every` in
    /// each other mailbox.
    #[must_use]
    pub fn is_permanent(self, uid: MailboxUid) -> bool {
        self == if uid == MailboxUid::ALL { Self::Flagged } else { Self::Every }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ListingStats {
    /// The number of emails in the listing.
    pub total: u64,
    /// The first email that the rank rows count; the largest id if they count none. `None` if the
    /// listing is too short for ranks.
    pub front: Option<EmailId>,
    /// The earliest state from which changes of the listing can be reported.
    pub low: ModSeq,
}

impl ListingStats {
    #[must_use]
    pub fn is_ranked(&self) -> bool {
        self.front.is_some()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListingStage {
    /// Filled up to this email, its frontier.
    Filling(EmailId),
    Complete,
    /// The rows are being deleted, and commits no longer update the listing.
    Dropping,
}

/// The listings of one filter in one mailbox, in all shapes of the filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MaintainedListing {
    pub filter: ListingFilter,
    pub stage: ListingStage,
    /// Exact to a day. Without meaning for a listing that is always maintained.
    pub last_used: UtcMillis,
    /// Without meaning if the filter is not maintained in this shape (`shapes`).
    pub emails: ListingStats,
    pub threads: ListingStats,
}

impl MaintainedListing {
    /// Returns a complete listing without emails whose history begins at `low`.
    #[must_use]
    pub fn empty(filter: ListingFilter, low: ModSeq) -> Self {
        let stats = ListingStats { low, ..ListingStats::default() };
        Self {
            filter,
            stage: ListingStage::Complete,
            last_used: UtcMillis(0),
            emails: stats,
            threads: stats,
        }
    }

    /// Lets the history of both shapes begin at `low`.
    pub fn restart_history(&mut self, low: ModSeq) {
        (self.emails.low, self.threads.low) = (low, low);
    }

    /// Returns the email up to which the listing is maintained; `None` if it is being dropped. Ids
    /// ascend from the newest email to the oldest: a complete listing has the largest id here.
    #[must_use]
    pub fn frontier(&self) -> Option<EmailId> {
        match self.stage {
            ListingStage::Filling(upto) => Some(upto),
            ListingStage::Complete => Some(EmailId(u64::MAX)),
            ListingStage::Dropping => None,
        }
    }

    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.stage == ListingStage::Complete
    }

    /// Whether a use of the listing at `now` must be stored: a day after the last one, or if the
    /// clock went back.
    #[must_use]
    pub fn needs_use_mark(&self, now: UtcMillis) -> bool {
        now < self.last_used || now.since(self.last_used) >= USE_MARK_INTERVAL
    }

    #[must_use]
    pub fn stats(&self, shape: Shape) -> ListingStats {
        match shape {
            Shape::Emails => self.emails,
            Shape::Threads => self.threads,
        }
    }

    pub fn stats_mut(&mut self, shape: Shape) -> &mut ListingStats {
        match shape {
            Shape::Emails => &mut self.emails,
            Shape::Threads => &mut self.threads,
        }
    }

    #[must_use]
    pub fn shapes(&self) -> &'static [Shape] {
        if self.filter.is_email_filter() {
            &[Shape::Emails, Shape::Threads]
        } else {
            &[Shape::Threads]
        }
    }
}
