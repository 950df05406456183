//! The query plan: the cheapest access path of a query, and why the others were not taken.
//!
//! - *Listing*: the listing is the answer. The filter is AND(inMailbox, a listing filter, a span of
//!   received times), each of which may be missing, and the order is newest or oldest first.
//! - *Pinned*: the sort is by a keyword first, then by receipt. The answer is made of two listings
//!   (`listing::parts`).
//! - *All mail*: there is no filter, threads are not collapsed, and the order is newest or oldest
//!   first.
//! - *Merged*: every match is in one of several mailboxes, as for a guest who may read several.
//!   Their listings are walked together. No email is read if there are no other conditions and the
//!   order is newest or oldest first.
//! - *Filtered listing*: a listing contains every match, and the filter decides each of its emails.
//! - *Search*: the filter decides the emails that the search index names. If a short listing has
//!   every match, only those in it are decided.
//! - *Generic*: the filter decides every email of the account.
//!
//! All paths give the same answer. Planning reads no email.
//!
//! With `collapseThreads`, a query by a condition on emails shows:
//!
//! - Newest first, the newest match of each thread. A collapsed listing has it if each other
//!   condition is `after`, or holds for all emails of a thread or for none. Otherwise the
//!   uncollapsed listing is walked.
//! - Oldest first, the oldest match, which a walk over the uncollapsed listing from its end finds.
//! - Pinned by a keyword of the email, the newest email with the keyword, if the thread has one.
//!   The collapsed listing of the keyword's filter has it.

mod choose;
mod conjuncts;
mod listings;

use std::fmt;

#[cfg(test)]
pub(super) use choose::access_paths;
pub(super) use choose::plan;

use super::id_range::IdRange;
use super::sort::{Direction, SortPin};
use crate::model::{Listing, ListingFilter, MailboxUid, MaintainedListing, Shape, UtcMillis};
use crate::store::{ListingAction, ListingRequest};

/// A listing of a mailbox with fewer emails is not worth maintaining: reading the emails is as fast
/// as writing the rows of the listing.
pub(super) const MIN_MAINTAINED_EMAILS: u64 = 256;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessPath {
    Listing(Listing),
    /// With the emails of the pin's filter first or last.
    Pinned(Listing, SortPin),
    AllMail,
    /// The filter decides the hits of the search index, in the listing or in all emails.
    Search(Option<Listing>),
    Filtered(Listing),
    /// The emails of several mailboxes. If not `filter_decides`, all of them match.
    Merged {
        filter_decides: bool,
    },
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
            Self::Listing(listing) | Self::Pinned(listing, _) | Self::Filtered(listing) => {
                Some(listing)
            }
            Self::Search(listing) => listing,
            Self::AllMail | Self::Merged { .. } | Self::Generic => None,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryPlan {
    pub path: AccessPath,
    /// The number of emails in the listing that is read, or else in the account; of merged listings
    /// the sum. If a listing is the answer to a query with `collapseThreads`, the number of its
    /// threads.
    pub length: u64,
    /// Whether the listing that is read has ranks; if the listing is the answer, whether they count
    /// positions in the results.
    pub ranked: bool,
    /// A listing that would answer the query, is not maintained or not complete, and is worth
    /// maintaining. With a pin, one of the two listings.
    pub wanted_listing: Option<(MailboxUid, ListingFilter)>,
    /// The listings that the path reads and that are made on demand.
    pub used_listings: Vec<(MailboxUid, ListingFilter)>,
    /// Other access paths by name, each with the reason against it.
    pub rejected: Vec<(&'static str, String)>,
    /// The times that the filter allows.
    pub(super) range: IdRange,
    /// The order in which the path walks emails: that of the results if a walk can give it
    /// (`sort::direction`), and newest first otherwise; of `Pinned`, the order within each part.
    pub(super) direction: Direction,
    /// The maintained listing that the path reads, of `Pinned` the one of every email. `None` if
    /// the path reads no listing, or is `Merged`.
    pub(super) listing: Option<MaintainedListing>,
    /// The listing of the pin's filter; `None` unless the path is `Pinned`, or was before
    /// `with_each_email_decided`.
    pub(super) pin_listing: Option<MaintainedListing>,
    /// The mailboxes of `Merged`; empty for other paths.
    pub(super) among: Vec<MailboxUid>,
}

impl QueryPlan {
    fn with_listing(
        &self,
        listing: Listing,
        maintained: &MaintainedListing,
        path: fn(Listing) -> AccessPath,
    ) -> Self {
        let stats = maintained.stats(listing.shape);
        Self {
            path: path(listing),
            length: stats.total,
            ranked: stats.is_ranked(),
            used_listings: on_demand(listing.uid, listing.filter).into_iter().collect(),
            listing: Some(*maintained),
            ..self.clone()
        }
    }

    /// Returns what upkeep is to do after the query: record the use of listings made on demand, if
    /// that is due, and extend the wanted listing.
    #[must_use]
    pub fn listing_requests(&self, now: UtcMillis) -> Vec<ListingRequest> {
        let find = |filter: ListingFilter| {
            self.listing.iter().chain(&self.pin_listing).find(|listing| listing.filter == filter)
        };
        let is_due =
            |filter: ListingFilter| find(filter).is_some_and(|listing| listing.needs_use_mark(now));
        let request = |action, (mailbox, filter)| ListingRequest { action, mailbox, filter };
        let used = self.used_listings.iter().filter(|(_, filter)| is_due(*filter));
        let used = used.map(|listing| request(ListingAction::MarkUsed, *listing));
        used.chain(self.wanted_listing.map(|listing| request(ListingAction::Extend, listing)))
            .collect()
    }

    /// Returns a plan for the same query in which the filter decides each email. The former path is
    /// added to `rejected` with the reason `why`. The other fields stay, so that the use of the
    /// listings of the former path is recorded.
    pub(super) fn with_each_email_decided(mut self, why: &str) -> Self {
        self.rejected.insert(0, (self.path.name(), why.to_owned()));
        let path = match self.path {
            // The collapsed listing may lack the email that is first of its thread in the pinned
            // order.
            AccessPath::Pinned(listing, _) => {
                AccessPath::Filtered(Listing { shape: Shape::Emails, ..listing })
            }
            path => path.listing().map_or(AccessPath::Generic, AccessPath::Filtered),
        };
        Self { path, ..self }
    }
}

impl fmt::Display for QueryPlan {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let emails = self.length;
        let counted = if self.ranked { "positions by rank" } else { "positions by a walk" };
        let order = match self.direction {
            Direction::NewestFirst => "newest first",
            Direction::OldestFirst => "oldest first",
        };
        match self.path {
            AccessPath::Listing(listing) => {
                write!(
                    out,
                    "listing: {}, {order}; {emails} emails, {counted}",
                    describe_listing(listing)
                )?;
            }
            AccessPath::Pinned(listing, pin) => {
                let (filter, listing) = (pin.filter.name(), describe_listing(listing));
                let (one, other) =
                    if pin.first { (filter, "the rest") } else { ("the rest", filter) };
                write!(
                    out,
                    "pinned: {listing}: {one} before {other}, {order}; {emails} emails, {counted}"
                )?;
            }
            AccessPath::AllMail => write!(out, "all mail: {emails} emails, {order}")?,
            AccessPath::Search(Some(listing)) => {
                write!(
                    out,
                    "search: {}; the filter decides the index hits among {emails} emails",
                    describe_listing(listing)
                )?;
            }
            AccessPath::Search(None) => {
                write!(out, "search: the filter decides the index hits among {emails} emails")?;
            }
            AccessPath::Filtered(listing) => {
                write!(
                    out,
                    "filtered listing: {}; each of {emails} emails is decided",
                    describe_listing(listing)
                )?;
            }
            AccessPath::Merged { filter_decides } => {
                let uids: Vec<String> = self.among.iter().map(ToString::to_string).collect();
                let how = if filter_decides { "each is decided" } else { order };
                write!(out, "merged: mailboxes {}, every; {emails} emails, {how}", uids.join(" "))?;
            }
            AccessPath::Generic => write!(out, "generic: each of {emails} emails is decided")?,
        }
        if let Some((uid, filter)) = self.wanted_listing {
            write!(
                out,
                "\nwanted: {}",
                describe_listing(Listing { uid, filter, shape: Shape::Emails })
            )?;
        }
        self.rejected.iter().try_for_each(|(name, why)| write!(out, "\nnot {name}: {why}"))
    }
}

/// Describes a listing, such as `mailbox m00001, unseen, collapsed`.
fn describe_listing(listing: Listing) -> String {
    let mailbox = if listing.uid == MailboxUid::ALL {
        "all mail".to_owned()
    } else {
        format!("mailbox {}", listing.uid)
    };
    let collapsed = if listing.shape == Shape::Threads { ", collapsed" } else { "" };
    format!("{mailbox}, {}{collapsed}", listing.filter.name())
}

/// Returns the listing if it is made on demand.
fn on_demand(uid: MailboxUid, filter: ListingFilter) -> Option<(MailboxUid, ListingFilter)> {
    (!filter.is_permanent(uid)).then_some((uid, filter))
}
