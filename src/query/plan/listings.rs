//! Finds the listings that contain every match of a query, and the listing that is the answer.

use super::conjuncts::Conjuncts;
use super::{AccessPath, QueryPlan};
use crate::model::{Listing, ListingFilter, MailboxUid, Shape};
use crate::query::QuerySpec;
use crate::query::id_range::IdRange;
use crate::query::sort::{self, Direction, ListingOrder};
use crate::store::{self, Snapshot};

/// The most mailboxes whose listings are merged.
const MAX_MERGED: usize = 64;

pub(super) fn is_all_mail(listing: Listing, spec: &QuerySpec) -> bool {
    let all = Listing { uid: MailboxUid::ALL, filter: ListingFilter::Every, shape: Shape::Emails };
    listing == all && !spec.collapse
}

/// The listing that is the answer to a query, maintained or not.
pub(super) struct ExactListing {
    pub(super) listing: Listing,
    pub(super) order: ListingOrder,
    /// Whether the ranks of the listing count positions in the results.
    pub(super) ranks_apply: bool,
}

/// Returns the listing that is the answer to a query.
///
/// # Errors
/// The reason why there is none.
pub(super) fn exact_listing(
    spec: &QuerySpec,
    conjuncts: &Conjuncts,
) -> Result<ExactListing, &'static str> {
    let order = sort::order(&spec.sort, &conjuncts.listing_filters)
        .ok_or("the order is one that no listing has")?;
    if conjuncts.other_conditions > 0 || conjuncts.thread_conditions > 0 {
        return Err("the filter has a condition that is no listing filter");
    }
    let (uid, filter) = match (conjuncts.mailboxes.as_slice(), conjuncts.listing_filters.as_slice())
    {
        ([_, _, ..], _) => return Err("the filter names several mailboxes"),
        (_, [_, _, ..]) => return Err("the filter has several listing filters"),
        (uids, listing_filters) => (
            uids.first().copied().unwrap_or(MailboxUid::ALL),
            listing_filters.first().copied().unwrap_or(ListingFilter::Every),
        ),
    };
    if !filter.is_email_filter() && !spec.collapse {
        return Err("listings of thread filters are collapsed");
    }
    if spec.collapse && conjuncts.range.first > IdRange::ALL.first {
        return Err("with collapseThreads, `before` selects other emails of the threads");
    }
    let is_backwards = order.direction == Direction::OldestFirst;
    if let Some(pin) = order.pin {
        if filter != ListingFilter::Every {
            return Err("the filter and the order have different listing filters");
        }
        if !pin.filter.is_email_filter() && !spec.collapse {
            return Err("listings of thread filters are collapsed");
        }
        if !pin.filter.is_email_filter() && spec.scope.is_some() {
            return Err("thread filters count emails that the guest may not see");
        }
        if spec.collapse && is_backwards {
            return Err("no listing has the oldest email of each thread");
        }
        let by_thread = spec.collapse && pin.filter.is_email_filter();
        if by_thread && !pin.first {
            return Err(
                "no listing has the newest email of each thread that does not match a filter",
            );
        }
        if by_thread && conjuncts.range != IdRange::ALL {
            return Err(
                "with collapseThreads, `before` and `after` select other emails of the threads",
            );
        }
        let shape = if spec.collapse { Shape::Threads } else { Shape::Emails };
        return Ok(ExactListing {
            listing: Listing { uid, filter, shape },
            order,
            ranks_apply: !by_thread,
        });
    }
    if spec.collapse && is_backwards {
        if !filter.is_email_filter() {
            return Err("no listing has the oldest email of each thread");
        }
        if conjuncts.range != IdRange::ALL {
            return Err(
                "with collapseThreads, `before` and `after` select other emails of the threads",
            );
        }
        return Ok(ExactListing {
            listing: Listing { uid, filter, shape: Shape::Emails },
            order,
            ranks_apply: false,
        });
    }
    let shape = if spec.collapse { Shape::Threads } else { Shape::Emails };
    Ok(ExactListing { listing: Listing { uid, filter, shape }, order, ranks_apply: true })
}

/// Returns the listings that contain every match. If the query is collapsed and newest first, names
/// at most one mailbox, has no `before`, and leaves only conditions on threads to decide, adds the
/// collapsed listings that contain every match that the query shows.
pub(super) fn containing_listings(spec: &QuerySpec, conjuncts: &Conjuncts) -> Vec<Listing> {
    let (of_emails, of_threads): (Vec<ListingFilter>, Vec<ListingFilter>) =
        conjuncts.listing_filters.iter().partition(|filter| filter.is_email_filter());
    let is_natural = sort::direction(&spec.sort) == Some(Direction::NewestFirst);
    let newest = spec.collapse && is_natural && conjuncts.range.first == IdRange::ALL.first;
    let alone = newest && conjuncts.other_conditions == 0 && conjuncts.mailboxes.len() <= 1;
    let all = [MailboxUid::ALL];
    let uids = if conjuncts.mailboxes.is_empty() { &all[..] } else { &conjuncts.mailboxes };
    let mut out = Vec::new();
    for uid in uids {
        let mut add = |filter, shape| out.push(Listing { uid: *uid, filter, shape });
        // Reading all mail is faster than through a listing.
        if *uid != MailboxUid::ALL {
            add(ListingFilter::Every, Shape::Emails);
        }
        for filter in &of_emails {
            add(*filter, Shape::Emails);
        }
        match of_emails.as_slice() {
            [] if alone => {
                add(ListingFilter::Every, Shape::Threads);
                of_threads.iter().for_each(|filter| add(*filter, Shape::Threads));
            }
            [filter] if alone => add(*filter, Shape::Threads),
            _ => {}
        }
    }
    out
}

/// Returns the plan that merges the listings of several mailboxes, if every match is in one of
/// them. If several sets of mailboxes will do, it is the one with the fewest emails.
pub(super) fn merge_plan(
    snapshot: &Snapshot<'_>,
    spec: &QuerySpec,
    conjuncts: &Conjuncts,
    base: &QueryPlan,
) -> Result<Option<QueryPlan>, store::Error> {
    let mut best: Option<QueryPlan> = None;
    for uids in conjuncts.among.iter().filter(|uids| (2..=MAX_MERGED).contains(&uids.len())) {
        let (mut length, mut are_whole) = (0u64, true);
        for uid in uids {
            let listing = snapshot.maintained_listing(spec.account, *uid, ListingFilter::Every)?;
            are_whole &= listing.is_some();
            length = length.saturating_add(listing.map_or(0, |listing| listing.emails.total));
        }
        if are_whole && best.as_ref().is_none_or(|best| length < best.length) {
            // The only other condition is the set of mailboxes itself.
            let is_all = conjuncts.other_conditions == 1 && conjuncts.thread_conditions == 0;
            let is_all =
                is_all && conjuncts.listing_filters.is_empty() && conjuncts.mailboxes.is_empty();
            let filter_decides = !is_all || sort::direction(&spec.sort).is_none();
            best = Some(QueryPlan {
                path: AccessPath::Merged { filter_decides },
                length,
                among: uids.clone(),
                ..base.clone()
            });
        }
    }
    Ok(best)
}
