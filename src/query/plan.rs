//! Which way serves a query: the cheapest of those that apply, and why the others were not taken.
//!
//! - A *listing* is the query, where the filter is AND(inMailbox, what one view answers, a span of receipt) and the order
//!   is newest or oldest first: any page, position, total and change by index rows and ranks.
//! - *Pinned*: where the emails with or without a keyword come first, and then the newest or the oldest, two listings are
//!   the query: every email of the mailbox, and the view of those on one side (`listing::parts`).
//! - *All mail* newest or oldest first without a filter is the order of the emails themselves; its total is known.
//! - Several listings *merged*: where every match is in one of several mailboxes, as for a guest who may read several, their
//!   listings are walked side by side. No email is read where nothing else is asked and the order is newest or oldest first.
//! - A listing *filtered*: further conditions decide each email of a listing that holds every match.
//! - *Search*: the search index names the emails that may have the texts of the filter; each is decided. Where a listing
//!   holds every match, only what is in both is looked at.
//! - The *generic* way reads all emails.
//!
//! Every way gives the same answer. A plan reads the account's row and those of the mailboxes that the filter names, never
//! an email.
//!
//! Collapsed, an email view shows of each thread the newest email that matches it. That is the query's own exemplar only
//! if all that is asked beside it is the same for every email of a thread, or says "not before": so a further condition
//! on emails walks the uncollapsed listing. Oldest first it is the oldest email of the thread, and pinned by a keyword of
//! the email the newest that has it: the first is found by a walk over the uncollapsed listing from its end, the second is
//! what the collapsed listing of the view shows.

use std::fmt;

use super::{Error, QuerySpec};
use crate::model::{AccountId, Listing, ListingFilter, ListingStage, MailboxUid, MaintainedListing, Shape, UtcMillis};
use crate::query::conjuncts::{Conjuncts, conjuncts};
use crate::query::generic::EmailWalk;
use crate::query::listing::MIN_MAINTAINED_EMAILS;
use crate::query::listing::merge::{self, Merge};
use crate::query::listing::supply::{IdRange, Supply};
use crate::query::matching::evaluate::Matcher;
use crate::query::search_walk::SearchWalk;
use crate::query::sort::{self, Direction, ListingOrder, SortPin};
use crate::store::Snapshot;

/// What it costs to find one email by its id, against reading the next of all.
const LOOKUP_COST: u64 = 4;

/// A way to answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessPath {
    /// The listing is the answer.
    Listing(Listing),
    /// The listing is the answer, but for the emails that a view of them shows: those come first, or last.
    Pinned(Listing, SortPin),
    /// All mail, newest first, is the answer.
    AllMail,
    /// What the search index leaves, of the listing or of all emails, each decided by the filter.
    Search(Option<Listing>),
    /// A listing, each of its emails decided by the filter.
    Filtered(Listing),
    /// The emails of several mailboxes, each of them decided by the filter, or all of them.
    Merged { decides: bool },
    /// All emails, each decided by the filter.
    Generic,
}

impl AccessPath {
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Listing(_) => "listing",
            Self::Pinned(..) => "pinned",
            Self::AllMail => "all mail",
            Self::Search(_) => "search",
            Self::Filtered(_) => "filtered listing",
            Self::Merged { .. } => "merged",
            Self::Generic => "generic",
        }
    }

    #[must_use]
    pub fn listing(self) -> Option<Listing> {
        match self {
            Self::Listing(listing) | Self::Pinned(listing, _) | Self::Filtered(listing) => Some(listing),
            Self::Search(listing) => listing,
            Self::AllMail | Self::Merged { .. } | Self::Generic => None,
        }
    }
}

/// How a query is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryPlan {
    /// The way taken.
    pub way: AccessPath,
    /// Emails of the listing that is read, or of the account.
    pub length: u64,
    /// Whether positions in it are counted by ranks.
    pub ranked: bool,
    /// A view that is not kept, or not whole yet, and would make this a listing: `store::Txn::extend_listing` makes it.
    pub wants: Option<(MailboxUid, ListingFilter)>,
    /// Views that were made on demand and served: `store::Txn::mark_listing_used` keeps them from being dropped.
    pub served: Vec<(MailboxUid, ListingFilter)>,
    /// The ways not taken, by name, and why.
    pub others: Vec<(&'static str, String)>,
    pub(super) range: IdRange,
    pub(super) direction: Direction,
    pub(super) kept: Option<MaintainedListing>,
    /// How the view is kept that says which emails are pinned.
    pub(super) pin_kept: Option<MaintainedListing>,
    /// The mailboxes whose listings are merged.
    pub(super) among: Vec<MailboxUid>,
}

impl QueryPlan {
    /// Where to take the emails for a walk.
    pub(super) fn walk<'v>(&self, snapshot: &'v Snapshot<'v>, account: AccountId) -> EmailWalk<'v> {
        let (range, direction) = (self.range, self.direction);
        let every = |uid: &MailboxUid| Listing { uid: *uid, view: ListingFilter::Every, shape: Shape::Emails };
        let merged = || self.among.iter().map(every).collect::<Vec<Listing>>();
        let listings: Vec<Listing> = match self.way {
            AccessPath::Search(at) => return EmailWalk::Sought(SearchWalk::new(snapshot, account, at, range)),
            AccessPath::Merged { decides: false } => {
                return EmailWalk::Sure(Merge::new(snapshot, account, &merged(), range, direction));
            }
            AccessPath::Merged { decides: true } => merged(),
            way => way.listing().into_iter().collect(),
        };
        EmailWalk::Each(match listings.as_slice() {
            [] => Supply::all_mail(snapshot, account, range, direction),
            listings => Supply::of_listings(Merge::new(snapshot, account, listings, range, direction)),
        })
    }

    /// This plan by a listing that is kept.
    fn with_listing(&self, listing: Listing, kept: &MaintainedListing, way: fn(Listing) -> AccessPath) -> Self {
        let tally = kept.tally(listing.shape);
        Self {
            way: way(listing),
            length: tally.total,
            ranked: tally.is_ranked(),
            served: on_demand(listing.uid, listing.view).into_iter().collect(),
            kept: Some(*kept),
            ..self.clone()
        }
    }

    /// The views made on demand that served, where it is time to note that.
    #[must_use]
    pub fn listings_to_mark_used(&self, now: UtcMillis) -> Vec<(MailboxUid, ListingFilter)> {
        let kept = |view: ListingFilter| self.kept.iter().chain(&self.pin_kept).find(|kept| kept.view == view);
        let is_due = |view: ListingFilter| kept(view).is_some_and(|kept| kept.needs_use_mark(now));
        self.served.iter().copied().filter(|(_, view)| is_due(*view)).collect()
    }

    /// The same query with each email decided.
    pub(super) fn with_each_email_decided(mut self, why: &str) -> Self {
        self.others.insert(0, (self.way.name(), why.to_owned()));
        let way = match self.way {
            // Another email of a thread may be the first in this order than the one that the collapsed listing shows.
            AccessPath::Pinned(listing, _) => AccessPath::Filtered(Listing { shape: Shape::Emails, ..listing }),
            way => way.listing().map_or(AccessPath::Generic, AccessPath::Filtered),
        };
        Self { way, ..self }
    }
}

impl fmt::Display for QueryPlan {
    /// A line on the way taken, and one on each that was not.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let emails = self.length;
        let counted = if self.ranked { "positions by rank" } else { "positions by a walk" };
        let first = match self.direction {
            Direction::NewestFirst => "newest first",
            Direction::OldestFirst => "oldest first",
        };
        match self.way {
            AccessPath::Listing(listing) => {
                write!(out, "listing: {}, {first}; {emails} emails, {counted}", words(listing))?;
            }
            AccessPath::Pinned(listing, pin) => {
                let (view, listing) = (pin.view.name(), words(listing));
                let (one, other) = if pin.first { (view, "the rest") } else { ("the rest", view) };
                write!(out, "pinned: {listing}: {one} before {other}, {first}; {emails} emails, {counted}")?;
            }
            AccessPath::AllMail => write!(out, "all mail: {emails} emails, {first}")?,
            AccessPath::Search(Some(listing)) => {
                write!(out, "search: {}; what the index leaves of {emails} emails is decided", words(listing))?;
            }
            AccessPath::Search(None) => write!(out, "search: what the index leaves of {emails} emails is decided")?,
            AccessPath::Filtered(listing) => {
                write!(out, "filtered listing: {}; each of {emails} emails is decided", words(listing))?;
            }
            AccessPath::Merged { decides } => {
                let uids: Vec<String> = self.among.iter().map(ToString::to_string).collect();
                let how = if decides { "each is decided" } else { first };
                write!(out, "merged: mailboxes {}, every; {emails} emails, {how}", uids.join(" "))?;
            }
            AccessPath::Generic => write!(out, "generic: each of {emails} emails is decided")?,
        }
        if let Some((uid, view)) = self.wants {
            write!(out, "\nwanted: {}", words(Listing { uid, view, shape: Shape::Emails }))?;
        }
        self.others.iter().try_for_each(|(name, why)| write!(out, "\nnot {name}: {why}"))
    }
}

/// A listing in words: `mailbox m00001 unseen, collapsed`.
fn words(listing: Listing) -> String {
    let mailbox =
        if listing.uid == MailboxUid::ALL { "all mail".to_owned() } else { format!("mailbox {}", listing.uid) };
    let collapsed = if listing.shape == Shape::Threads { ", collapsed" } else { "" };
    format!("{mailbox}, {}{collapsed}", listing.view.name())
}

/// Returns the cheapest way to answer a query whose filter is limited to its scope.
pub(super) fn plan(snapshot: &Snapshot<'_>, results: &QuerySpec, matcher: &Matcher) -> Result<QueryPlan, Error> {
    let mut ways = access_paths(snapshot, results, matcher)?;
    // The generic way is the last, and never dear.
    let first = ways.candidates.iter().position(|plan| !ways.is_expensive(plan)).unwrap_or_default();
    let mut plan = ways.candidates.remove(first);
    plan.wants = ways.wants;
    plan.others = std::mem::take(&mut ways.others);
    for other in &ways.candidates {
        let name = other.way.name();
        if name == plan.way.name() || plan.others.iter().any(|(known, _)| *known == name) {
            continue;
        }
        let dear = format!("to find {} emails one by one costs more than to read {}", other.length, ways.emails);
        plan.others.push((name, if ways.is_expensive(other) { dear } else { "another way is cheaper".to_owned() }));
    }
    Ok(plan)
}

/// The ways that apply, best first, the generic one last.
pub(super) struct AccessPaths {
    pub(super) candidates: Vec<QueryPlan>,
    wants: Option<(MailboxUid, ListingFilter)>,
    others: Vec<(&'static str, String)>,
    emails: u64,
}

impl AccessPaths {
    fn is_expensive(&self, plan: &QueryPlan) -> bool {
        let each = match plan.way {
            AccessPath::Filtered(_) | AccessPath::Merged { decides: true } => LOOKUP_COST,
            AccessPath::Merged { decides: false } => 1,
            _ => 0,
        };
        plan.length.saturating_mul(each) > self.emails
    }

    /// Adds the ways to answer a query that is all mail: by its listing, where that is kept, else by a walk over all emails.
    fn add_all_mail(&mut self, shelf: &MaintainedListings, listing: Listing, order: ListingOrder, base: &QueryPlan) {
        let kept = shelf.entry(listing.uid, listing.view).filter(|kept| kept.is_whole());
        if let Some(kept) = kept {
            let plan = base.with_listing(listing, kept, AccessPath::Listing);
            self.candidates.push(QueryPlan { direction: order.direction, ..plan });
        } else {
            let all_mail = QueryPlan { way: AccessPath::AllMail, direction: order.direction, ..base.clone() };
            self.candidates.extend((base.range == IdRange::ALL).then_some(all_mail));
            self.others.push(("listing", "all mail needs none".to_owned()));
        }
    }

    /// Adds the listing that is the query, or notes that it is not kept.
    fn add_listing(&mut self, shelf: &MaintainedListings, exact: &ExactListing, base: &QueryPlan) {
        let ExactListing { listing, order, counted } = *exact;
        let needed = std::iter::once(listing.view).chain(order.pin.map(|pin| pin.view));
        let missing =
            needed.clone().find(|view| !shelf.entry(listing.uid, *view).is_some_and(MaintainedListing::is_whole));
        match (missing, shelf.entry(listing.uid, listing.view)) {
            (Some(view), _) => self.note_missing(shelf, Listing { view, ..listing }),
            (None, Some(kept)) => {
                let pin_kept = order.pin.and_then(|pin| shelf.entry(listing.uid, pin.view)).copied();
                let plan = base.with_listing(listing, kept, AccessPath::Listing);
                let ranked = plan.ranked && counted;
                let length = if counted { plan.length } else { kept.threads.total };
                self.candidates.push(QueryPlan {
                    way: order.pin.map_or(plan.way, |pin| AccessPath::Pinned(listing, pin)),
                    length,
                    ranked,
                    served: needed.filter_map(|view| on_demand(listing.uid, view)).collect(),
                    direction: order.direction,
                    pin_kept,
                    ..plan
                });
            }
            (None, None) => {}
        }
    }

    /// Adds the search index, and the narrowest listing within which it is asked.
    fn add_search(&mut self, filtered: &[QueryPlan], base: &QueryPlan) {
        // A listing of most of the mail leaves nothing out that is worth the reading of it.
        let first = filtered.iter().find(|plan| plan.way.listing().is_some());
        let narrow = first.filter(|plan| plan.length.saturating_mul(2) <= self.emails);
        let within = narrow.map(|plan| QueryPlan { way: AccessPath::Search(plan.way.listing()), ..plan.clone() });
        self.candidates.extend(within);
        self.candidates.push(QueryPlan { way: AccessPath::Search(None), ..base.clone() });
    }

    /// Notes that a listing would serve that is not whole, and wants it where it is worth that.
    fn note_missing(&mut self, shelf: &MaintainedListings, listing: Listing) {
        let size = if listing.uid == MailboxUid::ALL {
            self.emails
        } else {
            shelf.entry(listing.uid, ListingFilter::Every).map_or(0, |every| every.emails.total)
        };
        let stage = shelf.entry(listing.uid, listing.view).map(|entry| entry.stage);
        let is_there = shelf.0.iter().any(|(uid, _)| *uid == listing.uid);
        let worth = size >= MIN_MAINTAINED_EMAILS && is_there && stage != Some(ListingStage::Dropping);
        self.wants = worth.then_some((listing.uid, listing.view));
        let why = match stage {
            Some(ListingStage::Making(_)) => "being made",
            Some(ListingStage::Dropping) => "being dropped",
            _ if !is_there => "there is no such mailbox",
            _ if !worth => "not kept, nor worth it for so few emails",
            _ => "not kept",
        };
        self.others.push(("listing", format!("{}: {why}", words(listing))));
    }
}

/// What is kept of the mailboxes that a filter names.
struct MaintainedListings(Vec<(MailboxUid, Vec<MaintainedListing>)>);

impl MaintainedListings {
    fn read(snapshot: &Snapshot<'_>, account: AccountId, asked: &Conjuncts) -> Result<Self, Error> {
        let all = [MailboxUid::ALL];
        let uids = if asked.mailboxes.is_empty() { &all[..] } else { &asked.mailboxes };
        let mut out = Vec::new();
        for uid in uids {
            out.extend(snapshot.maintained_listings(account, *uid)?.map(|kept| (*uid, kept)));
        }
        Ok(Self(out))
    }

    fn entry(&self, uid: MailboxUid, view: ListingFilter) -> Option<&MaintainedListing> {
        let (_, kept) = self.0.iter().find(|(known, _)| *known == uid)?;
        kept.iter().find(|entry| entry.view == view)
    }
}

/// The ways in which a query can be answered, best first.
pub(super) fn access_paths(
    snapshot: &Snapshot<'_>,
    results: &QuerySpec,
    matcher: &Matcher,
) -> Result<AccessPaths, Error> {
    let account = results.account;
    let asked = conjuncts(&results.filter);
    // What is kept of threads counts all of their emails.
    let asked = if results.scope.is_some() { asked.without_thread_views() } else { asked };
    let emails = snapshot.account_state(account)?.emails;
    let shelf = MaintainedListings::read(snapshot, account, &asked)?;
    let base = QueryPlan {
        way: AccessPath::Generic,
        length: emails,
        ranked: false,
        wants: None,
        served: Vec::new(),
        others: Vec::new(),
        range: asked.range,
        direction: sort::direction(&results.sort).unwrap_or_default(),
        kept: None,
        pin_kept: None,
        among: Vec::new(),
    };
    let mut paths = AccessPaths { candidates: Vec::new(), wants: None, others: Vec::new(), emails };
    match exact(results, &asked) {
        Err(why) => paths.others.push(("listing", why.to_owned())),
        Ok(ExactListing { listing, order, .. }) if is_all_mail(listing, results) && order.pin.is_none() => {
            paths.add_all_mail(&shelf, listing, order, &base);
        }
        Ok(exact) => paths.add_listing(&shelf, &exact, &base),
    }
    let mut filtered: Vec<QueryPlan> = filtered(results, &asked)
        .into_iter()
        .filter_map(|listing| shelf.entry(listing.uid, listing.view).map(|kept| (listing, kept)))
        .filter(|(_, kept)| kept.is_whole())
        .map(|(listing, kept)| base.with_listing(listing, kept, AccessPath::Filtered))
        .collect();
    filtered.extend(merge::plan(snapshot, results, &asked, &base)?);
    let is_decided = |plan: &QueryPlan| plan.way != AccessPath::Merged { decides: false };
    filtered.sort_by_key(|plan| (is_decided(plan), plan.length));
    if filtered.is_empty() {
        paths.others.push(("filtered listing", "no kept listing holds every match".to_owned()));
    }
    if matcher.needs_index_hit() {
        paths.add_search(&filtered, &base);
    } else {
        paths.others.push(("search", "the filter has no text that every match must have".to_owned()));
    }
    paths.candidates.extend(filtered);
    paths.candidates.push(base);
    Ok(paths)
}

/// The listing, where it is made on demand.
fn on_demand(uid: MailboxUid, view: ListingFilter) -> Option<(MailboxUid, ListingFilter)> {
    (!view.is_permanent(uid)).then_some((uid, view))
}

fn is_all_mail(listing: Listing, results: &QuerySpec) -> bool {
    let all = Listing { uid: MailboxUid::ALL, view: ListingFilter::Every, shape: Shape::Emails };
    listing == all && !results.collapse
}

/// The listing that is the query, kept or not, and the order in which it is.
struct ExactListing {
    listing: Listing,
    order: ListingOrder,
    /// Whether its ranks count positions in the results.
    counted: bool,
}

/// The listing that is the query; or why there is none.
fn exact(results: &QuerySpec, asked: &Conjuncts) -> Result<ExactListing, &'static str> {
    let order = sort::order(&results.sort, &asked.views).ok_or("the order is one that no listing has")?;
    if asked.others > 0 || asked.thread_wide > 0 {
        return Err("the filter has a condition that no view answers");
    }
    let (uid, view) = match (asked.mailboxes.as_slice(), asked.views.as_slice()) {
        ([_, _, ..], _) => return Err("the filter names several mailboxes"),
        (_, [_, _, ..]) => return Err("the filter names several views"),
        (uids, views) => {
            (uids.first().copied().unwrap_or(MailboxUid::ALL), views.first().copied().unwrap_or(ListingFilter::Every))
        }
    };
    if !view.is_of_emails() && !results.collapse {
        return Err("views of threads are kept collapsed only");
    }
    if results.collapse && asked.range.first > IdRange::ALL.first {
        return Err("collapsed, `before` shows other emails of the threads");
    }
    let is_backwards = order.direction == Direction::OldestFirst;
    if let Some(pin) = order.pin {
        if view != ListingFilter::Every {
            return Err("the filter names a view, and the order another one");
        }
        if !pin.view.is_of_emails() && !results.collapse {
            return Err("views of threads are kept collapsed only");
        }
        if !pin.view.is_of_emails() && results.scope.is_some() {
            return Err("views of threads count emails that may not be seen");
        }
        if results.collapse && is_backwards {
            return Err("collapsed, the oldest of each thread is not kept");
        }
        let by_thread = results.collapse && pin.view.is_of_emails();
        if by_thread && !pin.first {
            return Err("collapsed, the newest email of each thread that is not in the view is not kept");
        }
        if by_thread && asked.range != IdRange::ALL {
            return Err("collapsed, a span shows other emails of the threads");
        }
        let shape = if results.collapse { Shape::Threads } else { Shape::Emails };
        return Ok(ExactListing { listing: Listing { uid, view, shape }, order, counted: !by_thread });
    }
    if results.collapse && is_backwards {
        if !view.is_of_emails() {
            return Err("collapsed, the oldest of each thread is not kept");
        }
        if asked.range != IdRange::ALL {
            return Err("collapsed, a span shows other emails of the threads");
        }
        return Ok(ExactListing { listing: Listing { uid, view, shape: Shape::Emails }, order, counted: false });
    }
    let shape = if results.collapse { Shape::Threads } else { Shape::Emails };
    Ok(ExactListing { listing: Listing { uid, view, shape }, order, counted: true })
}

/// The listings that hold every match, or, where only threads are left to decide, every one that is shown.
fn filtered(results: &QuerySpec, asked: &Conjuncts) -> Vec<Listing> {
    let (of_emails, of_threads): (Vec<ListingFilter>, Vec<ListingFilter>) =
        asked.views.iter().partition(|view| view.is_of_emails());
    let is_natural = sort::direction(&results.sort) == Some(Direction::NewestFirst);
    let newest = results.collapse && is_natural && asked.range.first == IdRange::ALL.first;
    let alone = newest && asked.others == 0 && asked.mailboxes.len() <= 1;
    let all = [MailboxUid::ALL];
    let uids = if asked.mailboxes.is_empty() { &all[..] } else { &asked.mailboxes };
    let mut out = Vec::new();
    for uid in uids {
        let mut add = |view, shape| out.push(Listing { uid: *uid, view, shape });
        // Every email of all mail is what the generic way reads, and faster.
        if *uid != MailboxUid::ALL {
            add(ListingFilter::Every, Shape::Emails);
        }
        for view in &of_emails {
            add(*view, Shape::Emails);
        }
        match of_emails.as_slice() {
            [] if alone => {
                add(ListingFilter::Every, Shape::Threads);
                of_threads.iter().for_each(|view| add(*view, Shape::Threads));
            }
            [view] if alone => add(*view, Shape::Threads),
            _ => {}
        }
    }
    out
}
