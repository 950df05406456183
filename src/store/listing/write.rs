//! Updates the listings after every change of an email (`docs/storage.md`, "Listings").
//!
//! - The shape `Threads` shows the exemplar of each thread, the newest email that matches. If a
//!   change moves the exemplar, the old one leaves and the new one enters.
//! - A row of a listing's history is an interval in which an email was shown. The row of an
//!   interval that has ended is not written again.

use crate::model::{
    AccountId, EmailId, EmailMetadata, Listing, ListingFilter, MailboxUid, MaintainedListing,
    ModSeq, Shape, ThreadId, keyword,
};
use crate::store::engine::typed::{KeyRange, TypedRead as _};
use crate::store::error::{Error, hex};
use crate::store::listing::rank;
use crate::store::row::Thread;
use crate::store::table::codec::Prefix as _;
use crate::store::table::keys::{ListingEmailKey, ListingHistoryKey, ThreadIndexKey};
use crate::store::table::{
    MailboxEmailIndex, MailboxEmailList, MailboxThreadIndex, Present, Table,
};
use crate::store::txn::Txn;

/// A change of one email from `old` (`None`: it is created) to `new` (`None`: it is destroyed), and
/// of its thread from `was` to `now`.
#[derive(Clone, Copy)]
pub(in crate::store) struct EmailChange<'a> {
    pub(in crate::store) id: EmailId,
    pub(in crate::store) thread: ThreadId,
    pub(in crate::store) old: Option<&'a EmailMetadata>,
    pub(in crate::store) new: Option<&'a EmailMetadata>,
    pub(in crate::store) was: &'a Thread,
    pub(in crate::store) now: &'a Thread,
}

/// Whether an email is in a mailbox and matches a filter on emails. False for filters on threads.
pub(in crate::store) fn matches_filter(
    email: &EmailMetadata,
    uid: MailboxUid,
    filter: ListingFilter,
) -> bool {
    (uid == MailboxUid::ALL || email.mailboxes.contains(&uid))
        && match filter {
            ListingFilter::Every => true,
            ListingFilter::Unseen => !email.has(keyword::SEEN),
            ListingFilter::Flagged => email.has(keyword::FLAGGED),
            ListingFilter::ThreadUnseen
            | ListingFilter::ThreadFlagged
            | ListingFilter::ThreadUntouched => false,
        }
}

impl Txn<'_> {
    /// Updates all maintained listings of a mailbox, or of all mail, after a change of one email.
    /// The caller stores `listings` afterwards.
    pub(in crate::store) fn write_listings(
        &mut self,
        uid: MailboxUid,
        listings: &mut [MaintainedListing],
        change: &EmailChange<'_>,
    ) -> Result<(), Error> {
        // The exemplars of the filter `Every` before and after the change, if they were looked up.
        // A listing of a filter on threads shows the same ones, if it shows the thread.
        let mut exemplars = None;
        for entry in listings.iter_mut().filter(|entry| entry.filter.is_email_filter()) {
            let Some(frontier) = entry.frontier() else { continue };
            let matched = change.old.is_some_and(|email| matches_filter(email, uid, entry.filter));
            let matches = change.new.is_some_and(|email| matches_filter(email, uid, entry.filter));
            if matched == matches {
                continue;
            }
            let is_within_frontier = change.id <= frontier;
            let (before, after) = if uid == MailboxUid::ALL && entry.filter == ListingFilter::Every
            {
                self.move_email(uid, entry, change, matches, is_within_frontier)?;
                (change.was.newest(), change.now.newest())
            } else {
                let thread_was_in_mailbox =
                    uid == MailboxUid::ALL || change.was.members.contains_key(&uid);
                let before = if thread_was_in_mailbox {
                    self.newest_of_thread(uid, entry.filter, change.thread)?
                } else {
                    None
                };
                self.move_email(uid, entry, change, matches, is_within_frontier)?;
                // The newer of two emails has the smaller id.
                let newest = before.map_or(change.id, |before| before.min(change.id));
                (
                    before,
                    if matches {
                        Some(newest)
                    } else {
                        self.newest_of_thread(uid, entry.filter, change.thread)?
                    },
                )
            };
            self.replace_exemplar(uid, entry, change.thread, before, after)?;
            if entry.filter == ListingFilter::Every {
                exemplars = Some((before, after));
            }
        }
        for entry in listings.iter_mut().filter(|entry| !entry.filter.is_email_filter()) {
            let (matched, matches) =
                (change.was.shows(entry.filter), change.now.shows(entry.filter));
            if entry.frontier().is_none() || !(matched || matches) {
                continue;
            }
            let (before, after) = match exemplars {
                Some(exemplars) => exemplars,
                None if uid == MailboxUid::ALL => (change.was.newest(), change.now.newest()),
                // A mailbox always has the listing `Every`. It did not change, so the exemplar is
                // the same.
                None if matched == matches => continue,
                None => {
                    let exemplar =
                        self.newest_of_thread(uid, ListingFilter::Every, change.thread)?;
                    (exemplar, exemplar)
                }
            };
            self.replace_exemplar(
                uid,
                entry,
                change.thread,
                before.filter(|_| matched),
                after.filter(|_| matches),
            )?;
        }
        Ok(())
    }

    /// Adds an email to the shape `Emails` of a listing if it matches now, or else removes it. Does
    /// nothing beyond the frontier.
    fn move_email(
        &mut self,
        uid: MailboxUid,
        entry: &mut MaintainedListing,
        change: &EmailChange<'_>,
        matches_now: bool,
        is_within_frontier: bool,
    ) -> Result<(), Error> {
        if !is_within_frontier {
            return Ok(());
        }
        let listing = Listing { uid, filter: entry.filter, shape: Shape::Emails };
        // `email_by_thread` serves the listing of every email of all mail.
        let index_key = (uid != MailboxUid::ALL || entry.filter != ListingFilter::Every)
            .then(|| self.thread_index_key((uid, entry.filter), change.thread, change.id));
        if matches_now {
            if let Some(index_key) = index_key {
                self.put::<MailboxThreadIndex>(&index_key, &Present);
            }
            self.enter_listing(listing, entry, change.id, change.thread, self.state.modseq)
        } else {
            if let Some(index_key) = index_key {
                self.delete::<MailboxThreadIndex>(&index_key);
            }
            self.leave_listing(listing, entry, change.id, change.thread)
        }
    }

    /// Replaces the exemplar of a thread in the shape `Threads` of a listing. `None`, or an email
    /// beyond the frontier: the listing did not show the thread, or will not.
    pub(in crate::store) fn replace_exemplar(
        &mut self,
        uid: MailboxUid,
        entry: &mut MaintainedListing,
        thread: ThreadId,
        before: Option<EmailId>,
        after: Option<EmailId>,
    ) -> Result<(), Error> {
        let Some(frontier) = entry.frontier() else { return Ok(()) };
        let (before, after) =
            (before.filter(|id| *id <= frontier), after.filter(|id| *id <= frontier));
        if before == after {
            return Ok(());
        }
        let listing = Listing { uid, filter: entry.filter, shape: Shape::Threads };
        if let Some(before) = before {
            self.leave_listing(listing, entry, before, thread)?;
        }
        if let Some(after) = after {
            self.enter_listing(listing, entry, after, thread, self.state.modseq)?;
        }
        Ok(())
    }

    /// Returns the exemplar of a thread for a filter on emails, by `MailboxThreadIndex`; `None` if
    /// no email of the thread matches.
    pub(in crate::store) fn newest_of_thread(
        &self,
        uid: MailboxUid,
        filter: ListingFilter,
        thread: ThreadId,
    ) -> Result<Option<EmailId>, Error> {
        let range = KeyRange::<MailboxThreadIndex>::under(&(self.account, uid, filter, thread));
        Ok(self.first_key(&range)?.map(|key| key.email))
    }

    pub(in crate::store) fn thread_index_key(
        &self,
        (mailbox, filter): (MailboxUid, ListingFilter),
        thread: ThreadId,
        email: EmailId,
    ) -> ThreadIndexKey {
        ThreadIndexKey { account: self.account, mailbox, filter, thread, email }
    }

    /// Adds an email to a listing, in which it must not be yet. It is shown since the change
    /// `added`. No other email that the listing shows may have entered by the same change: both
    /// would have the same row of the history.
    pub(in crate::store) fn enter_listing(
        &mut self,
        listing: Listing,
        entry: &mut MaintainedListing,
        id: EmailId,
        thread: ThreadId,
        added: ModSeq,
    ) -> Result<(), Error> {
        let account = self.account;
        self.put::<MailboxEmailList>(
            &ListingHistoryKey { account, listing, removed: ModSeq(0), added },
            &(id, thread),
        );
        self.put::<MailboxEmailIndex>(
            &ListingEmailKey { account, listing, email: id },
            &(added, thread),
        );
        let stats = entry.stats_mut(listing.shape);
        stats.total += 1;
        rank::add_email(self, listing, stats, id)
    }

    /// Removes an email from a listing, in which it must be.
    fn leave_listing(
        &mut self,
        listing: Listing,
        entry: &mut MaintainedListing,
        id: EmailId,
        thread: ThreadId,
    ) -> Result<(), Error> {
        let (account, modseq) = (self.account, self.state.modseq);
        let index = ListingEmailKey { account, listing, email: id };
        let row = self.row::<MailboxEmailIndex>(&index)?;
        let (added, _) = row.ok_or_else(|| missing_row::<MailboxEmailIndex>(account, &index))?;
        self.delete::<MailboxEmailIndex>(&index);
        self.delete::<MailboxEmailList>(&ListingHistoryKey {
            account,
            listing,
            removed: ModSeq(0),
            added,
        });
        // An email that entered and left by the same change was never shown, and a listing that is
        // still being made has no history.
        if added != modseq && entry.is_complete() {
            self.put::<MailboxEmailList>(
                &ListingHistoryKey { account, listing, removed: modseq, added },
                &(id, thread),
            );
        }
        let stats = entry.stats_mut(listing.shape);
        stats.total = stats.total.saturating_sub(1);
        rank::remove_email(self, listing, stats, id)
    }
}

/// The error for a row that another row names and that does not exist.
pub(in crate::store) fn missing_row<T: Table>(account: AccountId, key: &T::Key) -> Error {
    Error::Corrupt {
        table: T::ID.name(),
        key: hex(&key.encode()),
        what: format!(
            "a row of account {account} that another row names is missing: run `restante check`"
        ),
    }
}
