//! Reading: every question is a get or one short range scan on one consistent state.

pub(super) mod blob;
mod changes;
mod directory;
mod email;
mod folding;
mod guard;
mod history;
#[cfg(any(test, feature = "internals"))]
mod inspect;
mod list;
mod many;
mod merging;
mod naming;
mod objects;
mod outbox;
mod postings;
pub(super) mod references;
mod rest;
mod shares;
mod tokens;

pub use changes::{Changes, ClientState};
pub use directory::DirectoryRows;
pub use folding::{FoldPiece, FoldSizes};
pub(super) use guard::Guard;
pub(super) use list::FANOUT_BITS;
pub use list::{ListingMoves, RANK_COST};
pub use outbox::{QueueAudit, Wakeup};
pub use postings::Postings;
pub use rest::CountedListing;
pub use tokens::Ordinals;

use super::engine::RowReader;

/// One consistent state of the store.
pub struct Snapshot<'a> {
    read: Box<dyn RowReader + 'a>,
}

impl std::fmt::Debug for Snapshot<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("View(..)")
    }
}

impl<'a> Snapshot<'a> {
    pub(super) fn of(read: Box<dyn RowReader + 'a>) -> Self {
        Self { read }
    }

    /// The rows beneath; for the checker.
    pub(super) fn reader(&self) -> &dyn RowReader {
        &*self.read
    }
}
