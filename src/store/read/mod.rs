//! Reading: every question is a get or one short range scan on one consistent state.

pub(super) mod blob;
mod changes;
mod directory;
mod email;
mod folding;
mod guard;
mod history;
mod list;
mod many;
mod merging;
mod naming;
mod objects;
mod outbox;
mod postings;
mod rest;
mod shares;
mod tokens;

pub use changes::{Changes, MailboxChanges, Since};
pub use directory::DirectoryRows;
pub use folding::{FoldPiece, FoldSizes};
pub(super) use guard::Guard;
pub use history::Destroyed;
pub(super) use list::FANOUT_BITS;
pub use list::{Moves, RANK_COST};
pub use outbox::{QueueAudit, Wakeup};
pub use postings::Postings;
pub use rest::Counted;
pub use tokens::Ordinals;

use super::engine::Read;

/// One consistent state of the store.
pub struct View<'a> {
    read: Box<dyn Read + 'a>,
}

impl std::fmt::Debug for View<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("View(..)")
    }
}

impl<'a> View<'a> {
    pub(super) fn of(read: Box<dyn Read + 'a>) -> Self {
        Self { read }
    }

    /// The rows beneath; for the checker.
    pub(super) fn reader(&self) -> &dyn Read {
        &*self.read
    }
}
