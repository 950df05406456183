//! The walk over the emails from which a query takes its results. Each email comes once, newest or
//! oldest first.

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

#[derive(Debug)]
pub(super) enum EmailWalk<'v> {
    /// Emails that the filter must decide.
    Scan(EmailScan<'v>),
    /// Hits of the search index, newest first, that the filter must decide unless they are certain.
    Search(SearchWalk<'v>),
    /// Exactly the matches, in the order of the query.
    Exact(Merge<'v>),
}

impl<'v> EmailWalk<'v> {
    pub(super) fn of(plan: &QueryPlan, snapshot: &'v Snapshot<'v>, spec: &QuerySpec) -> Self {
        let account = spec.account;
        let (range, direction) = (plan.range, plan.direction);
        let every = |uid: &MailboxUid| Listing {
            uid: *uid,
            filter: ListingFilter::Every,
            shape: Shape::Emails,
        };
        let merged_listings = || plan.among.iter().map(every).collect::<Vec<Listing>>();
        let listings: Vec<Listing> = match plan.path {
            AccessPath::Search(listing) => {
                return Self::Search(SearchWalk::new(snapshot, spec, listing, range));
            }
            AccessPath::Merged { filter_decides: false } => {
                return Self::Exact(Merge::new(
                    snapshot,
                    account,
                    &merged_listings(),
                    range,
                    direction,
                ));
            }
            AccessPath::Merged { filter_decides: true } => merged_listings(),
            path => path.listing().into_iter().collect(),
        };
        Self::Scan(match listings.as_slice() {
            [] => EmailScan::all_mail(snapshot, account, range, direction),
            listings => {
                EmailScan::of_listings(Merge::new(snapshot, account, listings, range, direction))
            }
        })
    }

    pub(super) fn direction(&self) -> Direction {
        match self {
            Self::Scan(scan) => scan.direction(),
            Self::Search(_) => Direction::NewestFirst,
            Self::Exact(merge) => merge.direction(),
        }
    }
}
