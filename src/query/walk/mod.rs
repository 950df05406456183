//! Where a query takes its emails, each once and in one order, as its plan says.

mod merge;
pub(super) mod scan;
pub(super) mod search;

pub(super) use merge::Merge;

use super::QuerySpec;
use super::plan::{AccessPath, QueryPlan};
use super::sort::Direction;
use crate::model::{Listing, ListingFilter, MailboxUid, Shape};
use crate::store::Snapshot;
use scan::EmailScan;
use search::SearchWalk;

/// Where the emails come from.
#[derive(Debug)]
pub(super) enum EmailWalk<'v> {
    /// Every email is decided.
    Scan(EmailScan<'v>),
    /// Only what the search index leaves.
    Search(SearchWalk<'v>),
    /// Every email matches, and no other; the order asked for is that of the walk.
    Exact(Merge<'v>),
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
        let listings: Vec<Listing> = match plan.path {
            AccessPath::Search(at) => {
                return Self::Search(SearchWalk::new(snapshot, results, at, range));
            }
            AccessPath::Merged { decides: false } => {
                return Self::Exact(Merge::new(snapshot, account, &merged(), range, direction));
            }
            AccessPath::Merged { decides: true } => merged(),
            path => path.listing().into_iter().collect(),
        };
        Self::Scan(match listings.as_slice() {
            [] => EmailScan::all_mail(snapshot, account, range, direction),
            listings => {
                EmailScan::of_listings(Merge::new(snapshot, account, listings, range, direction))
            }
        })
    }

    /// The order in which it meets the emails.
    pub(super) fn direction(&self) -> Direction {
        match self {
            Self::Scan(scan) => scan.direction(),
            Self::Search(_) => Direction::NewestFirst,
            Self::Exact(merge) => merge.direction(),
        }
    }
}
