//! Which way serves a query: the cheapest of those that apply, and why the others were not taken.
//!
//! - A *listing* is the query, where the filter is AND(inMailbox, what one view answers, a span of
//!   receipt) and the order is newest or oldest first: any page, position, total and change by
//!   index rows and ranks.
//! - *Pinned*: where the emails with or without a keyword come first, and then the newest or the
//!   oldest, two listings are the query: every email of the mailbox, and the view of those on one
//!   side (`listing::parts`).
//! - *All mail* newest or oldest first without a filter is the order of the emails themselves; its
//!   total is known.
//! - Several listings *merged*: where every match is in one of several mailboxes, as for a guest
//!   who may read several, their listings are walked side by side. No email is read where nothing
//!   else is asked and the order is newest or oldest first.
//! - A listing *filtered*: further conditions decide each email of a listing that holds every
//!   match.
//! - *Search*: the search index names the emails that may have the texts of the filter; each is
//!   decided. Where a listing holds every match, only what is in both is looked at.
//! - The *generic* way reads all emails.
//!
//! Every way gives the same answer. A plan reads the account's row and those of the mailboxes that
//! the filter names, never an email.
//!
//! Collapsed, an email view shows of each thread the newest email that matches it. That is the
//! query's own exemplar only if all that is asked beside it is the same for every email of a
//! thread, or says "not before": so a further condition on emails walks the uncollapsed listing.
//! Oldest first it is the oldest email of the thread, and pinned by a keyword of the email the
//! newest that has it: the first is found by a walk over the uncollapsed listing from its end, the
//! second is what the collapsed listing of the view shows.

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

/// A listing of fewer emails than this is not worth maintaining: they are read as fast as its rows
/// are written.
pub(super) const MIN_MAINTAINED_EMAILS: u64 = 256;

/// A way to answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessPath {
    /// The listing is the answer.
    Listing(Listing),
    /// The listing is the answer, but for the emails that a view of them shows: those come first,
    /// or last.
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
            Self::Listing(listing) | Self::Pinned(listing, _) | Self::Filtered(listing) => {
                Some(listing)
            }
            Self::Search(listing) => listing,
            Self::AllMail | Self::Merged { .. } | Self::Generic => None,
        }
    }
}

/// How a query is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryPlan {
    /// The way taken.
    pub path: AccessPath,
    /// Emails of the listing that is read, or of the account.
    pub length: u64,
    /// Whether positions in it are counted by ranks.
    pub ranked: bool,
    /// A view that is not kept, or not whole yet, and would make this a listing.
    pub wanted_listing: Option<(MailboxUid, ListingFilter)>,
    /// Views that were made on demand and served.
    pub used_listings: Vec<(MailboxUid, ListingFilter)>,
    /// The ways not taken, by name, and why.
    pub rejected: Vec<(&'static str, String)>,
    pub(super) range: IdRange,
    pub(super) direction: Direction,
    pub(super) listing: Option<MaintainedListing>,
    /// How the view is kept that says which emails are pinned.
    pub(super) pin_listing: Option<MaintainedListing>,
    /// The mailboxes whose listings are merged.
    pub(super) among: Vec<MailboxUid>,
}

impl QueryPlan {
    /// This plan by a listing that is kept.
    fn with_listing(
        &self,
        listing: Listing,
        kept: &MaintainedListing,
        path: fn(Listing) -> AccessPath,
    ) -> Self {
        let stats = kept.stats(listing.shape);
        Self {
            path: path(listing),
            length: stats.total,
            ranked: stats.is_ranked(),
            used_listings: on_demand(listing.uid, listing.filter).into_iter().collect(),
            listing: Some(*kept),
            ..self.clone()
        }
    }

    /// Returns what upkeep is to do after the query: extend the listing that would have served it,
    /// and note the use of those that were made on demand and served, once a day.
    #[must_use]
    pub fn listing_requests(&self, now: UtcMillis) -> Vec<ListingRequest> {
        let kept = |filter: ListingFilter| {
            self.listing.iter().chain(&self.pin_listing).find(|kept| kept.filter == filter)
        };
        let is_due =
            |filter: ListingFilter| kept(filter).is_some_and(|kept| kept.needs_use_mark(now));
        let request = |action, (mailbox, filter)| ListingRequest { action, mailbox, filter };
        let used = self.used_listings.iter().filter(|(_, filter)| is_due(*filter));
        let used = used.map(|listing| request(ListingAction::MarkUsed, *listing));
        used.chain(self.wanted_listing.map(|listing| request(ListingAction::Extend, listing)))
            .collect()
    }

    /// The same query with each email decided.
    pub(super) fn with_each_email_decided(mut self, why: &str) -> Self {
        self.rejected.insert(0, (self.path.name(), why.to_owned()));
        let path = match self.path {
            // Another email of a thread may be the first in this order than the one that the
            // collapsed listing shows.
            AccessPath::Pinned(listing, _) => {
                AccessPath::Filtered(Listing { shape: Shape::Emails, ..listing })
            }
            path => path.listing().map_or(AccessPath::Generic, AccessPath::Filtered),
        };
        Self { path, ..self }
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
        match self.path {
            AccessPath::Listing(listing) => {
                write!(
                    out,
                    "listing: {}, {first}; {emails} emails, {counted}",
                    describe_listing(listing)
                )?;
            }
            AccessPath::Pinned(listing, pin) => {
                let (filter, listing) = (pin.filter.name(), describe_listing(listing));
                let (one, other) =
                    if pin.first { (filter, "the rest") } else { ("the rest", filter) };
                write!(
                    out,
                    "pinned: {listing}: {one} before {other}, {first}; {emails} emails, {counted}"
                )?;
            }
            AccessPath::AllMail => write!(out, "all mail: {emails} emails, {first}")?,
            AccessPath::Search(Some(listing)) => {
                write!(
                    out,
                    "search: {}; what the index leaves of {emails} emails is decided",
                    describe_listing(listing)
                )?;
            }
            AccessPath::Search(None) => {
                write!(out, "search: what the index leaves of {emails} emails is decided")?
            }
            AccessPath::Filtered(listing) => {
                write!(
                    out,
                    "filtered listing: {}; each of {emails} emails is decided",
                    describe_listing(listing)
                )?;
            }
            AccessPath::Merged { decides } => {
                let uids: Vec<String> = self.among.iter().map(ToString::to_string).collect();
                let how = if decides { "each is decided" } else { first };
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

/// A listing in words: `mailbox m00001 unseen, collapsed`.
fn describe_listing(listing: Listing) -> String {
    let mailbox = if listing.uid == MailboxUid::ALL {
        "all mail".to_owned()
    } else {
        format!("mailbox {}", listing.uid)
    };
    let collapsed = if listing.shape == Shape::Threads { ", collapsed" } else { "" };
    format!("{mailbox}, {}{collapsed}", listing.filter.name())
}

/// The listing, where it is made on demand.
fn on_demand(uid: MailboxUid, filter: ListingFilter) -> Option<(MailboxUid, ListingFilter)> {
    (!filter.is_permanent(uid)).then_some((uid, filter))
}
