//! Lists the access paths of a query and chooses the cheapest.

use super::conjuncts::{Conjuncts, conjuncts};
use super::listings::{ExactListing, containing_listings, exact_listing, is_all_mail, merge_plan};
use super::{AccessPath, MIN_MAINTAINED_EMAILS, QueryPlan, describe_listing, on_demand};
use crate::model::{
    AccountId, Listing, ListingFilter, ListingStage, MailboxUid, MaintainedListing,
};
use crate::query::id_range::IdRange;
use crate::query::matching::evaluate::Matcher;
use crate::query::sort::{self, ListingOrder};
use crate::query::{Error, QuerySpec};
use crate::store::Snapshot;

/// The cost of looking up an email by its id, if reading the next of all emails costs 1.
const LOOKUP_COST: u64 = 4;

/// Returns the cheapest plan for a query whose filter is limited to its scope.
pub(in crate::query) fn plan(
    snapshot: &Snapshot<'_>,
    spec: &QuerySpec,
    matcher: &Matcher,
) -> Result<QueryPlan, Error> {
    let mut paths = access_paths(snapshot, spec, matcher)?;
    // The best candidates come first, and the last, the generic path, is never expensive.
    let first =
        paths.candidates.iter().position(|plan| !paths.is_expensive(plan)).unwrap_or_default();
    let mut plan = paths.candidates.remove(first);
    plan.wanted_listing = paths.wanted_listing;
    plan.rejected = std::mem::take(&mut paths.rejected);
    for other in &paths.candidates {
        let name = other.path.name();
        if name == plan.path.name() || plan.rejected.iter().any(|(rejected, _)| *rejected == name) {
            continue;
        }
        let expensive = format!(
            "to find {} emails one by one costs more than to read {}",
            other.length, paths.emails
        );
        plan.rejected.push((
            name,
            if paths.is_expensive(other) {
                expensive
            } else {
                "another access path is cheaper".to_owned()
            },
        ));
    }
    Ok(plan)
}

/// The access paths that apply to a query.
pub(in crate::query) struct AccessPaths {
    /// Best first. The last is the generic path.
    pub(in crate::query) candidates: Vec<QueryPlan>,
    wanted_listing: Option<(MailboxUid, ListingFilter)>,
    /// The paths that do not apply, with the reasons.
    rejected: Vec<(&'static str, String)>,
    /// The number of emails in the account.
    emails: u64,
}

impl AccessPaths {
    /// Whether it costs more to look up the emails of the plan one by one, or to read its rows of
    /// merged listings, than to read all emails.
    fn is_expensive(&self, plan: &QueryPlan) -> bool {
        let each = match plan.path {
            AccessPath::Filtered(_) | AccessPath::Merged { filter_decides: true } => LOOKUP_COST,
            AccessPath::Merged { filter_decides: false } => 1,
            _ => 0,
        };
        plan.length.saturating_mul(each) > self.emails
    }

    /// Adds the path for a query of all mail: its listing if that is complete, or else a walk over
    /// all mail, if the filter has no times.
    fn add_all_mail(
        &mut self,
        maintained: &MaintainedListings,
        listing: Listing,
        order: ListingOrder,
        base: &QueryPlan,
    ) {
        let entry =
            maintained.entry(listing.uid, listing.filter).filter(|entry| entry.is_complete());
        if let Some(entry) = entry {
            let plan = base.with_listing(listing, entry, AccessPath::Listing);
            self.candidates.push(QueryPlan { direction: order.direction, ..plan });
        } else {
            let all_mail =
                QueryPlan { path: AccessPath::AllMail, direction: order.direction, ..base.clone() };
            self.candidates.extend((base.range == IdRange::ALL).then_some(all_mail));
            self.rejected.push(("listing", "a query of all mail needs no listing".to_owned()));
        }
    }

    /// Adds the listing that is the answer, or notes that it is not complete. With a pin, the
    /// listing of the pin's filter must be complete, too.
    fn add_listing(
        &mut self,
        maintained: &MaintainedListings,
        exact: &ExactListing,
        base: &QueryPlan,
    ) {
        let ExactListing { listing, order, ranks_apply } = *exact;
        let needed = std::iter::once(listing.filter).chain(order.pin.map(|pin| pin.filter));
        let missing = needed.clone().find(|filter| {
            !maintained.entry(listing.uid, *filter).is_some_and(MaintainedListing::is_complete)
        });
        match (missing, maintained.entry(listing.uid, listing.filter)) {
            (Some(filter), _) => self.note_missing(maintained, Listing { filter, ..listing }),
            (None, Some(entry)) => {
                let pin_listing =
                    order.pin.and_then(|pin| maintained.entry(listing.uid, pin.filter)).copied();
                let plan = base.with_listing(listing, entry, AccessPath::Listing);
                let ranked = plan.ranked && ranks_apply;
                let length = if ranks_apply { plan.length } else { entry.threads.total };
                self.candidates.push(QueryPlan {
                    path: order.pin.map_or(plan.path, |pin| AccessPath::Pinned(listing, pin)),
                    length,
                    ranked,
                    used_listings: needed
                        .filter_map(|filter| on_demand(listing.uid, filter))
                        .collect(),
                    direction: order.direction,
                    pin_listing,
                    ..plan
                });
            }
            (None, None) => {}
        }
    }

    /// Adds the search in the shortest of the `filtered` listings, if it is short, and in all mail.
    fn add_search(&mut self, filtered: &[QueryPlan], base: &QueryPlan) {
        // A listing of more than half of the mail excludes too little to be worth reading.
        let shortest = filtered.iter().find(|plan| plan.path.listing().is_some());
        let narrow = shortest.filter(|plan| plan.length.saturating_mul(2) <= self.emails);
        let within = narrow.map(|plan| QueryPlan {
            path: AccessPath::Search(plan.path.listing()),
            ..plan.clone()
        });
        self.candidates.extend(within);
        self.candidates.push(QueryPlan { path: AccessPath::Search(None), ..base.clone() });
    }

    /// Notes that a listing is not complete, and requests it if it is worth maintaining: the
    /// mailbox exists and has enough emails, and the listing is not being dropped.
    fn note_missing(&mut self, maintained: &MaintainedListings, listing: Listing) {
        let size = if listing.uid == MailboxUid::ALL {
            self.emails
        } else {
            maintained
                .entry(listing.uid, ListingFilter::Every)
                .map_or(0, |every| every.emails.total)
        };
        let stage = maintained.entry(listing.uid, listing.filter).map(|entry| entry.stage);
        let is_there = maintained.0.iter().any(|(uid, _)| *uid == listing.uid);
        let is_worthwhile =
            size >= MIN_MAINTAINED_EMAILS && is_there && stage != Some(ListingStage::Dropping);
        self.wanted_listing = is_worthwhile.then_some((listing.uid, listing.filter));
        let why = match stage {
            Some(ListingStage::Filling(_)) => "being made",
            Some(ListingStage::Dropping) => "being dropped",
            _ if !is_there => "there is no such mailbox",
            _ if !is_worthwhile => "not maintained, because the mailbox has too few emails",
            _ => "not maintained",
        };
        self.rejected.push(("listing", format!("{}: {why}", describe_listing(listing))));
    }
}

/// The maintained listings of the mailboxes that a filter names, or of all mail if it names none. A
/// mailbox that does not exist has no entry.
struct MaintainedListings(Vec<(MailboxUid, Vec<MaintainedListing>)>);

impl MaintainedListings {
    fn read(
        snapshot: &Snapshot<'_>,
        account: AccountId,
        conjuncts: &Conjuncts,
    ) -> Result<Self, Error> {
        let all = [MailboxUid::ALL];
        let uids = if conjuncts.mailboxes.is_empty() { &all[..] } else { &conjuncts.mailboxes };
        let mut out = Vec::new();
        for uid in uids {
            out.extend(snapshot.maintained_listings(account, *uid)?.map(|entries| (*uid, entries)));
        }
        Ok(Self(out))
    }

    fn entry(&self, uid: MailboxUid, filter: ListingFilter) -> Option<&MaintainedListing> {
        let (_, entries) = self.0.iter().find(|(mailbox, _)| *mailbox == uid)?;
        entries.iter().find(|entry| entry.filter == filter)
    }
}

/// Returns the access paths of a query whose filter is limited to its scope.
pub(in crate::query) fn access_paths(
    snapshot: &Snapshot<'_>,
    spec: &QuerySpec,
    matcher: &Matcher,
) -> Result<AccessPaths, Error> {
    let account = spec.account;
    let conjuncts = conjuncts(&spec.filter);
    // Listings of thread filters count emails outside the scope, too.
    let conjuncts =
        if spec.scope.is_some() { conjuncts.without_thread_filters() } else { conjuncts };
    let emails = snapshot.account_state(account)?.emails;
    let maintained = MaintainedListings::read(snapshot, account, &conjuncts)?;
    let base = QueryPlan {
        path: AccessPath::Generic,
        length: emails,
        ranked: false,
        wanted_listing: None,
        used_listings: Vec::new(),
        rejected: Vec::new(),
        range: conjuncts.range,
        direction: sort::direction(&spec.sort).unwrap_or_default(),
        listing: None,
        pin_listing: None,
        among: Vec::new(),
    };
    let mut paths =
        AccessPaths { candidates: Vec::new(), wanted_listing: None, rejected: Vec::new(), emails };
    match exact_listing(spec, &conjuncts) {
        Err(why) => paths.rejected.push(("listing", why.to_owned())),
        Ok(ExactListing { listing, order, .. })
            if is_all_mail(listing, spec) && order.pin.is_none() =>
        {
            paths.add_all_mail(&maintained, listing, order, &base);
        }
        Ok(exact) => paths.add_listing(&maintained, &exact, &base),
    }
    let mut filtered: Vec<QueryPlan> = containing_listings(spec, &conjuncts)
        .into_iter()
        .filter_map(|listing| {
            maintained.entry(listing.uid, listing.filter).map(|entry| (listing, entry))
        })
        .filter(|(_, entry)| entry.is_complete())
        .map(|(listing, entry)| base.with_listing(listing, entry, AccessPath::Filtered))
        .collect();
    filtered.extend(merge_plan(snapshot, spec, &conjuncts, &base)?);
    // First a merge of listings in which every email matches, because it reads no emails.
    let reads_emails = |plan: &QueryPlan| plan.path != AccessPath::Merged { filter_decides: false };
    filtered.sort_by_key(|plan| (reads_emails(plan), plan.length));
    if filtered.is_empty() {
        paths.rejected.push(("filtered listing", "no complete listing has every match".to_owned()));
    }
    if matcher.needs_index_hit() {
        paths.add_search(&filtered, &base);
    } else {
        paths
            .rejected
            .push(("search", "the filter has no text that every match must have".to_owned()));
    }
    paths.candidates.extend(filtered);
    paths.candidates.push(base);
    Ok(paths)
}
