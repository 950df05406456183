//! Views that are kept on demand: made in pieces, newest first, and dropped in pieces when nobody asks any more.
//!
//! While a view is made, changes of emails up to its frontier are followed as in any other; what lies beyond is taken up
//! when the frontier passes it. Making goes through the emails newest first, so the first email of a thread that matches is
//! its exemplar. What is found is shown since the change that made the email, a number that no other email has; the
//! history begins when the view is whole.

use crate::model::{
    DataType, EmailId, EmailMetadata, Listing, ListingFilter, ListingStage, Mailbox, MailboxUid, MaintainedListing,
    ModSeq, Shape, ThreadId, UtcMillis,
};
use crate::store::engine::typed::{KeyRange, TypedRead as _};
use crate::store::error::Error;
use crate::store::listing::write::matches_filter;
use crate::store::table::codec::Prefix;
use crate::store::table::keys::{IndexKey, ListKey, RankKey, ThreadIndexKey};
use crate::store::table::{
    self, MailboxEmailIndex, MailboxEmailList, MailboxRank, MailboxThreadIndex, Mailboxes, Present, Threads,
};
use crate::store::txn::Txn;

impl Txn<'_> {
    /// One step of making a view, of `most` emails at most; begins it where it is not kept. Says whether it is whole.
    ///
    /// # Errors
    /// `NotFound` where there is no such mailbox; those of reading.
    pub fn extend_listing(&mut self, uid: MailboxUid, view: ListingFilter, most: usize) -> Result<bool, Error> {
        let mut kept = self.maintained_listings(uid)?;
        let mut begun = false;
        if !kept.iter().any(|entry| entry.view == view) {
            let mut entry = MaintainedListing::standard(view, ModSeq(0));
            entry.stage = ListingStage::Making(EmailId(0));
            entry.asked = self.now;
            kept.push(entry);
            begun = true;
        }
        let Some(at) = kept.iter().position(|entry| entry.view == view) else { return Ok(false) };
        let Some(mut entry) = kept.get(at).copied() else { return Ok(false) };
        let whole = match entry.stage {
            ListingStage::Whole => return Ok(true),
            ListingStage::Dropping => return Ok(false),
            ListingStage::Making(upto) => self.pass_frontier(uid, &mut entry, upto, most)?,
        };
        if whole {
            entry.stage = ListingStage::Whole;
            // Whoever holds the newest state of emails holds what the view shows.
            entry.restart_history(self.state.state(DataType::Email));
        }
        if let Some(slot) = kept.get_mut(at) {
            *slot = entry;
        }
        self.set_maintained_listings(uid, kept)?;
        self.begun |= begun && !whole;
        Ok(whole)
    }

    /// Notes that a view was asked for today, so that it stays.
    ///
    /// # Errors
    /// As for `extend_listing`.
    pub fn mark_listing_used(&mut self, uid: MailboxUid, view: ListingFilter) -> Result<(), Error> {
        let mut kept = self.maintained_listings(uid)?;
        let now = self.now;
        let Some(entry) = kept.iter_mut().find(|entry| entry.view == view) else { return Ok(()) };
        if view.is_permanent(uid) || !entry.needs_use_mark(now) {
            return Ok(());
        }
        entry.asked = now;
        self.set_maintained_listings(uid, kept)
    }

    /// One step of dropping what was made on demand, of `most` rows at most. Says whether anything is left of it.
    ///
    /// # Errors
    /// As for `extend_listing`; `Conflict` for a view that is always kept.
    pub fn drop_listing(&mut self, uid: MailboxUid, view: ListingFilter, most: usize) -> Result<bool, Error> {
        if view.is_permanent(uid) {
            return Err(Error::Conflict("this view is always kept".into()));
        }
        let mut kept = self.maintained_listings(uid)?;
        let Some(entry) = kept.iter_mut().find(|entry| entry.view == view) else { return Ok(false) };
        entry.stage = ListingStage::Dropping;
        let left = self.delete_listing_rows(uid, view, most)?;
        if !left {
            kept.retain(|entry| entry.view != view);
        }
        self.set_maintained_listings(uid, kept)?;
        Ok(left)
    }

    /// Deletes up to `most` rows of a view that is followed no more; says whether any is left.
    pub(in crate::store) fn delete_listing_rows(
        &mut self,
        uid: MailboxUid,
        view: ListingFilter,
        most: usize,
    ) -> Result<bool, Error> {
        Ok(self.delete_listings(&(self.account, uid, view), most)? >= most)
    }

    /// Deletes up to `most` rows of the listings of a mailbox or of a view; returns how many.
    pub(in crate::store) fn delete_listings<P>(&mut self, of: &P, most: usize) -> Result<usize, Error>
    where
        P: Prefix<IndexKey> + Prefix<ListKey> + Prefix<RankKey> + Prefix<ThreadIndexKey>,
    {
        let mut rows = self.delete_range::<MailboxEmailIndex>(&KeyRange::under(of), most)?;
        rows += self.delete_range::<MailboxEmailList>(&KeyRange::under(of), most.saturating_sub(rows))?;
        rows += self.delete_range::<MailboxRank>(&KeyRange::under(of), most.saturating_sub(rows))?;
        rows += self.delete_range::<MailboxThreadIndex>(&KeyRange::under(of), most.saturating_sub(rows))?;
        Ok(rows)
    }

    fn maintained_listings(&self, uid: MailboxUid) -> Result<Vec<MaintainedListing>, Error> {
        if uid == MailboxUid::ALL { Ok(self.state.kept.clone()) } else { Ok(self.live_mailbox(uid)?.kept) }
    }

    pub(in crate::store) fn set_maintained_listings(
        &mut self,
        uid: MailboxUid,
        kept: Vec<MaintainedListing>,
    ) -> Result<(), Error> {
        if uid == MailboxUid::ALL {
            self.state.kept = kept;
            self.stage_state();
        } else {
            let mailbox = Mailbox { kept, ..self.live_mailbox(uid)? };
            self.put::<Mailboxes>(&self.mailbox_key(uid), &mailbox);
        }
        Ok(())
    }

    /// Takes up what lies next beyond the frontier; says whether that was all.
    fn pass_frontier(
        &mut self,
        uid: MailboxUid,
        entry: &mut MaintainedListing,
        upto: EmailId,
        most: usize,
    ) -> Result<bool, Error> {
        let found = self.emails_beyond_frontier(uid, entry.view, upto, most)?;
        let whole = found.len() < most;
        let frontier = found.last().map_or(EmailId(u64::MAX), |(id, _)| *id);
        entry.stage = ListingStage::Making(if whole { EmailId(u64::MAX) } else { frontier });
        for (id, thread) in found {
            let Some(email) = self.email_row(id)?.filter(|email| email.deleted.is_none()) else { continue };
            if entry.view.is_of_emails() {
                if matches_filter(&email, uid, entry.view) {
                    self.add_email_beyond_frontier(uid, entry, id, &email)?;
                }
                continue;
            }
            let row = self.row::<Threads>(&self.thread_key(thread))?.unwrap_or_default();
            let head = if uid == MailboxUid::ALL {
                row.newest()
            } else {
                self.newest_of_thread(uid, ListingFilter::Every, thread)?
            };
            if row.shows(entry.view) && head == Some(id) {
                let listing = Listing { uid, view: entry.view, shape: Shape::Threads };
                self.enter_listing(listing, entry, id, thread, email.created)?;
            }
        }
        Ok(whole)
    }

    fn add_email_beyond_frontier(
        &mut self,
        uid: MailboxUid,
        entry: &mut MaintainedListing,
        id: EmailId,
        email: &EmailMetadata,
    ) -> Result<(), Error> {
        let listing = |shape| Listing { uid, view: entry.view, shape };
        let (emails, threads) = (listing(Shape::Emails), listing(Shape::Threads));
        let head = if uid == MailboxUid::ALL && entry.view == ListingFilter::Every {
            self.row::<Threads>(&self.thread_key(email.thread))?.and_then(|row| row.newest())
        } else {
            let member = self.thread_index_key((uid, entry.view), email.thread, id);
            self.put::<MailboxThreadIndex>(&member, &Present);
            self.newest_of_thread(uid, entry.view, email.thread)?
        };
        self.enter_listing(emails, entry, id, email.thread, email.created)?;
        if head == Some(id) {
            self.enter_listing(threads, entry, id, email.thread, email.created)?;
        }
        Ok(())
    }

    /// Emails that may be in a view, newest first, after one: of a mailbox those in it, of all mail all.
    fn emails_beyond_frontier(
        &self,
        uid: MailboxUid,
        view: ListingFilter,
        upto: EmailId,
        most: usize,
    ) -> Result<Vec<(EmailId, ThreadId)>, Error> {
        let (mut out, next) = (Vec::new(), EmailId(upto.0.saturating_add(1)));
        if uid == MailboxUid::ALL {
            let range = KeyRange::from(&(self.account,), &self.email_key(next));
            self.rows::<table::EmailMetadata>(&range, |key, email| {
                if email.deleted.is_none() {
                    out.push((key.email, email.thread));
                }
                Ok(out.len() < most)
            })?;
            return Ok(out);
        }
        let shape = if view.is_of_emails() { Shape::Emails } else { Shape::Threads };
        let base = Listing { uid, view: ListingFilter::Every, shape };
        let from = IndexKey { account: self.account, listing: base, email: next };
        self.rows::<MailboxEmailIndex>(&KeyRange::from(&(self.account, base), &from), |key, (_, thread)| {
            out.push((key.email, thread));
            Ok(out.len() < most)
        })?;
        Ok(out)
    }

    /// The views of the account that were begun and are not whole.
    ///
    /// # Errors
    /// Those of reading.
    pub fn unfinished_listings(&self) -> Result<Vec<(MailboxUid, ListingFilter)>, Error> {
        self.listings_where(|_, entry| matches!(entry.stage, ListingStage::Making(_)))
    }

    /// The views of the account that nobody asked for since then, or that are being dropped.
    ///
    /// # Errors
    /// Those of reading.
    pub fn stale_listings(&self, before: UtcMillis) -> Result<Vec<(MailboxUid, ListingFilter)>, Error> {
        self.listings_where(|uid, entry| {
            !entry.view.is_permanent(uid) && (entry.stage == ListingStage::Dropping || entry.asked < before)
        })
    }

    fn listings_where(
        &self,
        is: impl Fn(MailboxUid, &MaintainedListing) -> bool,
    ) -> Result<Vec<(MailboxUid, ListingFilter)>, Error> {
        let boxes = self.snapshot().mailboxes(self.account)?;
        let all = boxes.iter().map(|(uid, mailbox)| (*uid, mailbox.kept.as_slice()));
        let all = all.chain([(MailboxUid::ALL, self.state.kept.as_slice())]);
        Ok(all
            .flat_map(|(uid, kept)| kept.iter().map(move |entry| (uid, entry)))
            .filter(|(uid, entry)| is(*uid, entry))
            .map(|(uid, entry)| (uid, entry.view))
            .collect())
    }
}
