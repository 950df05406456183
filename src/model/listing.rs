//! Listings: the lists that are kept newest first, so that a page costs the page and a change costs
//! the change.
//!
//! A listing is a mailbox, a view and a shape. A view is kept as a whole: the email views in both
//! shapes, the thread views collapsed only (uncollapsed, one flag would write a whole thread). A
//! view that is made on demand is made in pieces, newest first, up to a frontier: what lies beyond
//! it is not kept yet, and nobody reads it before it is whole.

use std::time::Duration;

use super::clock::UtcMillis;
use super::id::{EmailId, MailboxUid, ModSeq};

/// `MaintainedListing::last_used` is true to a day.
const USE_MARK_INTERVAL: Duration = Duration::from_secs(24 * 3600);

/// A filter that a listing answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ListingFilter {
    /// Every email of the mailbox.
    Every = 0,
    /// Those without `$seen`.
    Unseen = 1,
    /// Those with `$flagged`.
    Flagged = 2,
    /// Those in a thread with an email without `$seen`.
    ThreadUnseen = 3,
    /// Those in a thread with an email with `$flagged`.
    ThreadFlagged = 4,
    /// Those in a thread without any `$seen`.
    ThreadUntouched = 5,
}

/// Uncollapsed or collapsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Shape {
    /// Every match.
    Emails = 0,
    /// The newest match of each thread: what `collapseThreads` shows (RFC 8621 §4.4.3).
    Threads = 1,
}

/// One list kept newest first: of which mailbox, by which filter, collapsed or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Listing {
    /// The mailbox; 0 is all mail.
    pub uid: MailboxUid,
    pub filter: ListingFilter,
    pub shape: Shape,
}

impl ListingFilter {
    /// All of them, in stored order.
    pub const ALL: [Self; 6] = [
        Self::Every,
        Self::Unseen,
        Self::Flagged,
        Self::ThreadUnseen,
        Self::ThreadFlagged,
        Self::ThreadUntouched,
    ];

    /// What people call it.
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

    /// The view with that stored number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// Whether it is kept from the start and never dropped: of a mailbox "every", of all mail
    /// "flagged".
    #[must_use]
    pub fn is_permanent(self, uid: MailboxUid) -> bool {
        self == if uid == MailboxUid::ALL { Self::Flagged } else { Self::Every }
    }
}

/// How long a listing is, whether its positions are counted, and how far back its history reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ListingStats {
    pub total: u64,
    /// Where its ranks begin, if it has any: no rank row counts what stands before this email, and
    /// none is of one.
    pub front: Option<EmailId>,
    /// The earliest state from which its changes can be told.
    pub low: ModSeq,
}

impl ListingStats {
    /// Whether it has rank rows.
    #[must_use]
    pub fn is_ranked(&self) -> bool {
        self.front.is_some()
    }
}

/// How far a kept view has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListingStage {
    /// It is being made: emails up to this id are in it.
    Filling(EmailId),
    /// It can be read.
    Complete,
    /// Its rows are being deleted; it is followed no more.
    Dropping,
}

/// A view of a mailbox that is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MaintainedListing {
    pub filter: ListingFilter,
    /// How far it has come.
    pub stage: ListingStage,
    /// When somebody last asked for it, true to a day.
    pub last_used: UtcMillis,
    /// Its shape `Emails`.
    pub emails: ListingStats,
    /// Its shape `Threads`.
    pub threads: ListingStats,
}

impl MaintainedListing {
    /// A view that is kept from the start.
    #[must_use]
    pub fn standard(filter: ListingFilter, low: ModSeq) -> Self {
        let stats = ListingStats { low, ..ListingStats::default() };
        Self {
            filter,
            stage: ListingStage::Complete,
            last_used: UtcMillis(0),
            emails: stats,
            threads: stats,
        }
    }

    /// Says that the history of all its shapes begins here.
    pub fn restart_history(&mut self, low: ModSeq) {
        (self.emails.low, self.threads.low) = (low, low);
    }

    /// The last email that it would hold if it matched.
    #[must_use]
    pub fn frontier(&self) -> Option<EmailId> {
        match self.stage {
            ListingStage::Filling(upto) => Some(upto),
            ListingStage::Complete => Some(EmailId(u64::MAX)),
            ListingStage::Dropping => None,
        }
    }

    /// Whether it can be read.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.stage == ListingStage::Complete
    }

    /// Whether it must be noted that somebody asks for it now; once a day is enough.
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

    /// One shape, to be moved.
    pub fn stats_mut(&mut self, shape: Shape) -> &mut ListingStats {
        match shape {
            Shape::Emails => &mut self.emails,
            Shape::Threads => &mut self.threads,
        }
    }

    /// The shapes in which it is kept.
    #[must_use]
    pub fn shapes(&self) -> &'static [Shape] {
        if self.filter.is_email_filter() {
            &[Shape::Emails, Shape::Threads]
        } else {
            &[Shape::Threads]
        }
    }
}
