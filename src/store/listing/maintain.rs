//! Listings that are maintained on demand: filled in steps, newest email first, and dropped in
//! steps once they are unused.
//!
//! - While a listing is being filled, commits keep the part up to its frontier current. Emails
//!   beyond the frontier are added when it passes them, as if listed since the change that created
//!   them.
//! - The newer of two emails has the smaller id, so a frontier rises from 0.
//! - The listing's history begins when the listing is whole.

use crate::model::{
    DataType, EmailId, EmailMetadata, Listing, ListingFilter, ListingStage, Mailbox, MailboxUid,
    MaintainedListing, ModSeq, Shape, ThreadId, UtcMillis,
};
use crate::store::engine::typed::{KeyRange, TypedRead as _};
use crate::store::error::Error;
use crate::store::listing::write::matches_filter;
use crate::store::table::codec::Prefix;
use crate::store::table::keys::{ListingEmailKey, ListingHistoryKey, RankKey, ThreadIndexKey};
use crate::store::table::{
    self, MailboxEmailIndex, MailboxEmailList, MailboxRank, MailboxThreadIndex, Mailboxes, Present,
    Threads,
};
use crate::store::txn::Txn;

impl Txn<'_> {
    /// Fills a listing by one step of at most `limit` emails, beginning it if it is not maintained.
    /// Returns whether it is whole. Does nothing to a listing that is being dropped, and returns
    /// `false`.
    ///
    /// # Errors
    /// `NotFound` if there is no such mailbox.
    pub fn extend_listing(
        &mut self,
        uid: MailboxUid,
        filter: ListingFilter,
        limit: usize,
    ) -> Result<bool, Error> {
        let mut listings = self.maintained_listings(uid)?;
        if !listings.iter().any(|entry| entry.filter == filter) {
            let mut entry = MaintainedListing::empty(filter, ModSeq(0));
            entry.stage = ListingStage::Filling(EmailId(0));
            entry.last_used = self.now;
            listings.push(entry);
        }
        let Some(at) = listings.iter().position(|entry| entry.filter == filter) else {
            return Ok(false);
        };
        let Some(mut entry) = listings.get(at).copied() else { return Ok(false) };
        let whole = match entry.stage {
            ListingStage::Complete => return Ok(true),
            ListingStage::Dropping => return Ok(false),
            ListingStage::Filling(upto) => self.pass_frontier(uid, &mut entry, upto, limit)?,
        };
        if whole {
            entry.stage = ListingStage::Complete;
            // A client with the newest state of emails knows everything that the listing shows.
            entry.restart_history(self.state.high_mark(DataType::Email));
        }
        if let Some(slot) = listings.get_mut(at) {
            *slot = entry;
        }
        self.set_maintained_listings(uid, listings)?;
        Ok(whole)
    }

    /// Notes that a listing was used today, so that it is not dropped. Does nothing for a listing
    /// that is not maintained, or is maintained always.
    ///
    /// # Errors
    /// As for `extend_listing`.
    pub fn mark_listing_used(
        &mut self,
        uid: MailboxUid,
        filter: ListingFilter,
    ) -> Result<(), Error> {
        let mut listings = self.maintained_listings(uid)?;
        let now = self.now;
        let Some(entry) = listings.iter_mut().find(|entry| entry.filter == filter) else {
            return Ok(());
        };
        if filter.is_permanent(uid) || !entry.needs_use_mark(now) {
            return Ok(());
        }
        entry.last_used = now;
        self.set_maintained_listings(uid, listings)
    }

    /// Runs a step of dropping a listing that was made on demand: deletes at most `limit` rows.
    /// Returns whether any row may be left; `false` if the listing is not maintained.
    ///
    /// # Errors
    /// As for `extend_listing`; `Conflict` for a listing that is always maintained.
    pub fn drop_listing(
        &mut self,
        uid: MailboxUid,
        filter: ListingFilter,
        limit: usize,
    ) -> Result<bool, Error> {
        if filter.is_permanent(uid) {
            return Err(Error::Conflict("this listing is always maintained".into()));
        }
        let mut listings = self.maintained_listings(uid)?;
        let Some(entry) = listings.iter_mut().find(|entry| entry.filter == filter) else {
            return Ok(false);
        };
        entry.stage = ListingStage::Dropping;
        let left = self.delete_listing_rows(uid, filter, limit)?;
        if !left {
            listings.retain(|entry| entry.filter != filter);
        }
        self.set_maintained_listings(uid, listings)?;
        Ok(left)
    }

    /// Deletes up to `limit` rows of a listing that commits no longer maintain. Returns whether any
    /// may be left.
    pub(in crate::store) fn delete_listing_rows(
        &mut self,
        uid: MailboxUid,
        filter: ListingFilter,
        limit: usize,
    ) -> Result<bool, Error> {
        Ok(self.delete_listings(&(self.account, uid, filter), limit)? >= limit)
    }

    /// Deletes up to `limit` rows of all listings under a prefix: a mailbox, or one filter of it.
    /// Returns how many.
    pub(in crate::store) fn delete_listings<P>(
        &mut self,
        prefix: &P,
        limit: usize,
    ) -> Result<usize, Error>
    where
        P: Prefix<ListingEmailKey>
            + Prefix<ListingHistoryKey>
            + Prefix<RankKey>
            + Prefix<ThreadIndexKey>,
    {
        let mut rows = self.delete_range::<MailboxEmailIndex>(&KeyRange::under(prefix), limit)?;
        rows += self.delete_range::<MailboxEmailList>(
            &KeyRange::under(prefix),
            limit.saturating_sub(rows),
        )?;
        rows +=
            self.delete_range::<MailboxRank>(&KeyRange::under(prefix), limit.saturating_sub(rows))?;
        rows += self.delete_range::<MailboxThreadIndex>(
            &KeyRange::under(prefix),
            limit.saturating_sub(rows),
        )?;
        Ok(rows)
    }

    pub(in crate::store) fn is_listing_whole(
        &self,
        uid: MailboxUid,
        filter: ListingFilter,
    ) -> Result<bool, Error> {
        Ok(self
            .maintained_listings(uid)?
            .iter()
            .any(|entry| entry.filter == filter && entry.is_complete()))
    }

    fn maintained_listings(&self, uid: MailboxUid) -> Result<Vec<MaintainedListing>, Error> {
        if uid == MailboxUid::ALL {
            Ok(self.state.listings.clone())
        } else {
            Ok(self.live_mailbox(uid)?.listings)
        }
    }

    pub(in crate::store) fn set_maintained_listings(
        &mut self,
        uid: MailboxUid,
        listings: Vec<MaintainedListing>,
    ) -> Result<(), Error> {
        if uid == MailboxUid::ALL {
            self.state.listings = listings;
            self.stage_state();
        } else {
            let mailbox = Mailbox { listings, ..self.live_mailbox(uid)? };
            self.put::<Mailboxes>(&self.mailbox_key(uid), &mailbox);
        }
        Ok(())
    }

    /// Moves the frontier from `upto` over the next `limit` emails, and lists those that match.
    /// Returns whether there were fewer than `limit`, so that none is left.
    fn pass_frontier(
        &mut self,
        uid: MailboxUid,
        entry: &mut MaintainedListing,
        upto: EmailId,
        limit: usize,
    ) -> Result<bool, Error> {
        let found = self.emails_beyond_frontier(uid, entry.filter, upto, limit)?;
        let whole = found.len() < limit;
        let frontier = found.last().map_or(EmailId(u64::MAX), |(id, _)| *id);
        entry.stage = ListingStage::Filling(if whole { EmailId(u64::MAX) } else { frontier });
        for (id, thread) in found {
            let Some(email) = self.email_row(id)?.filter(|email| email.destroyed.is_none()) else {
                continue;
            };
            if entry.filter.is_email_filter() {
                if matches_filter(&email, uid, entry.filter) {
                    self.add_email_beyond_frontier(uid, entry, id, &email)?;
                }
                continue;
            }
            let row = self.row::<Threads>(&self.thread_key(thread))?.unwrap_or_default();
            let exemplar = if uid == MailboxUid::ALL {
                row.newest()
            } else {
                self.newest_of_thread(uid, ListingFilter::Every, thread)?
            };
            if row.shows(entry.filter) && exemplar == Some(id) {
                let listing = Listing { uid, filter: entry.filter, shape: Shape::Threads };
                self.enter_listing(listing, entry, id, thread, email.created)?;
            }
        }
        Ok(whole)
    }

    /// Lists an email that matches and that the frontier passes. Adds it to the shape `Threads` if
    /// it is the exemplar of its thread.
    fn add_email_beyond_frontier(
        &mut self,
        uid: MailboxUid,
        entry: &mut MaintainedListing,
        id: EmailId,
        email: &EmailMetadata,
    ) -> Result<(), Error> {
        let listing = |shape| Listing { uid, filter: entry.filter, shape };
        let (emails, threads) = (listing(Shape::Emails), listing(Shape::Threads));
        let exemplar = if uid == MailboxUid::ALL && entry.filter == ListingFilter::Every {
            self.row::<Threads>(&self.thread_key(email.thread))?.and_then(|row| row.newest())
        } else {
            let member = self.thread_index_key((uid, entry.filter), email.thread, id);
            self.put::<MailboxThreadIndex>(&member, &Present);
            self.newest_of_thread(uid, entry.filter, email.thread)?
        };
        self.enter_listing(emails, entry, id, email.thread, email.created)?;
        if exemplar == Some(id) {
            self.enter_listing(threads, entry, id, email.thread, email.created)?;
        }
        Ok(())
    }

    /// Returns the next `limit` emails beyond a frontier that the filter may match, newest first.
    /// For a filter on threads in a mailbox, only the newest email of each thread.
    fn emails_beyond_frontier(
        &self,
        uid: MailboxUid,
        filter: ListingFilter,
        upto: EmailId,
        limit: usize,
    ) -> Result<Vec<(EmailId, ThreadId)>, Error> {
        let (mut out, next) = (Vec::new(), EmailId(upto.0.saturating_add(1)));
        if uid == MailboxUid::ALL {
            let range = KeyRange::from(&(self.account,), &self.email_key(next));
            self.rows::<table::EmailMetadata>(&range, |key, email| {
                if email.destroyed.is_none() {
                    out.push((key.email, email.thread));
                }
                Ok(out.len() < limit)
            })?;
            return Ok(out);
        }
        let shape = if filter.is_email_filter() { Shape::Emails } else { Shape::Threads };
        let base = Listing { uid, filter: ListingFilter::Every, shape };
        let from = ListingEmailKey { account: self.account, listing: base, email: next };
        self.rows::<MailboxEmailIndex>(
            &KeyRange::from(&(self.account, base), &from),
            |key, (_, thread)| {
                out.push((key.email, thread));
                Ok(out.len() < limit)
            },
        )?;
        Ok(out)
    }

    /// Returns the listings that are being filled.
    pub fn unfinished_listings(&self) -> Result<Vec<(MailboxUid, ListingFilter)>, Error> {
        self.listings_where(|_, entry| matches!(entry.stage, ListingStage::Filling(_)))
    }

    /// Returns the listings made on demand that were last used before `before`, and those that are
    /// being dropped.
    pub fn stale_listings(
        &self,
        before: UtcMillis,
    ) -> Result<Vec<(MailboxUid, ListingFilter)>, Error> {
        self.listings_where(|uid, entry| {
            !entry.filter.is_permanent(uid)
                && (entry.stage == ListingStage::Dropping || entry.last_used < before)
        })
    }

    fn listings_where(
        &self,
        matches: impl Fn(MailboxUid, &MaintainedListing) -> bool,
    ) -> Result<Vec<(MailboxUid, ListingFilter)>, Error> {
        let mailboxes = self.snapshot().mailboxes(self.account)?;
        let all = mailboxes.iter().map(|(uid, mailbox)| (*uid, mailbox.listings.as_slice()));
        let all = all.chain([(MailboxUid::ALL, self.state.listings.as_slice())]);
        Ok(all
            .flat_map(|(uid, listings)| listings.iter().map(move |entry| (uid, entry)))
            .filter(|(uid, entry)| matches(*uid, entry))
            .map(|(uid, entry)| (uid, entry.filter))
            .collect())
    }
}
