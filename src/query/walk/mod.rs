//! Where a query takes its emails, each once and in one order, as its plan says.

mod merge;
pub(super) mod search;
pub(super) mod supply;

pub(super) use merge::Merge;

use super::QuerySpec;
use super::plan::{AccessPath, QueryPlan};
use super::sort::Direction;
use crate::model::{Listing, ListingFilter, MailboxUid, Shape};
use crate::store::Snapshot;
use search::SearchWalk;
use supply::Supply;

/// Where the emails come from.
#[derive(Debug)]
pub(super) enum EmailWalk<'v> {
    /// Every email is decided.
    Each(Supply<'v>),
    /// Only what the search index leaves.
    Sought(SearchWalk<'v>),
    /// Every email matches, and no other; the order asked for is that of the walk.
    Sure(Merge<'v>),
}

impl<'v> EmailWalk<'v> {
    /// Where to take the emails for a walk.
    pub(super) fn of(plan: &QueryPlan, snapshot: &'v Snapshot<'v>, results: &QuerySpec) -> Self {
        let account = results.account;
        let (range, direction) = (plan.range, plan.direction);
        let every = |uid: &MailboxUid| Listing {
            uid: *uid,
            filter: ListingFilter::Every,
            shape: Shape::Emails,
        };
        let merged = || plan.among.iter().map(every).collect::<Vec<Listing>>();
        let listings: Vec<Listing> = match plan.way {
            AccessPath::Search(at) => {
                return Self::Sought(SearchWalk::new(snapshot, results, at, range));
            }
            AccessPath::Merged { decides: false } => {
                return Self::Sure(Merge::new(snapshot, account, &merged(), range, direction));
            }
            AccessPath::Merged { decides: true } => merged(),
            way => way.listing().into_iter().collect(),
        };
        Self::Each(match listings.as_slice() {
            [] => Supply::all_mail(snapshot, account, range, direction),
            listings => {
                Supply::of_listings(Merge::new(snapshot, account, listings, range, direction))
            }
        })
    }

    /// The order in which it meets the emails.
    pub(super) fn direction(&self) -> Direction {
        match self {
            Self::Each(supply) => supply.direction(),
            Self::Sought(_) => Direction::NewestFirst,
            Self::Sure(merge) => merge.direction(),
        }
    }
}
