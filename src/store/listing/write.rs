//! Updates the listings after every change of an email (`docs/storage.md`, "Listings").
//!
//! - An email enters or leaves the shape `Emails` of a listing when it begins or stops matching the
//!   filter.
//! - The shape `Threads` shows the exemplar of each thread, the newest email that matches. If a
//!   change moves the exemplar, the old one leaves and the new one enters.
//! - The history of a listing has one row for each interval in which an email was shown. The row of
//!   an interval that has ended is never written again.

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

/// A change of one email: the email and its thread before and after.
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
    /// Updates all maintained listings of a mailbox after a change of one email.
    pub(in crate::store) fn write_listings(
        &mut self,
        uid: MailboxUid,
        listings: &mut [MaintainedListing],
        step: &EmailChange<'_>,
    ) -> Result<(), Error> {
        // The exemplars of the filter `Every` before and after, if they are known: the filters on
        // threads show the same email.
        let mut exemplars = None;
        for entry in listings.iter_mut().filter(|entry| entry.filter.is_email_filter()) {
            let Some(frontier) = entry.frontier() else { continue };
            let was = step.old.is_some_and(|email| matches_filter(email, uid, entry.filter));
            let now = step.new.is_some_and(|email| matches_filter(email, uid, entry.filter));
            if was == now {
                continue;
            }
            let is_within_frontier = step.id <= frontier;
            let (before, after) = if uid == MailboxUid::ALL && entry.filter == ListingFilter::Every
            {
                self.move_email(uid, entry, step, now, is_within_frontier)?;
                (step.was.newest(), step.now.newest())
            } else {
                let was_member = uid == MailboxUid::ALL || step.was.members.contains_key(&uid);
                let before = if was_member {
                    self.newest_of_thread(uid, entry.filter, step.thread)?
                } else {
                    None
                };
                self.move_email(uid, entry, step, now, is_within_frontier)?;
                // The newer of two emails has the smaller id.
                let newest = before.map_or(step.id, |before| before.min(step.id));
                (
                    before,
                    if now {
                        Some(newest)
                    } else {
                        self.newest_of_thread(uid, entry.filter, step.thread)?
                    },
                )
            };
            self.replace_exemplar(uid, entry, step.thread, before, after)?;
            if entry.filter == ListingFilter::Every {
                exemplars = Some((before, after));
            }
        }
        for entry in listings.iter_mut().filter(|entry| !entry.filter.is_email_filter()) {
            let (was, now) = (step.was.shows(entry.filter), step.now.shows(entry.filter));
            if entry.frontier().is_none() || !(was || now) {
                continue;
            }
            let (before, after) = match exemplars {
                Some(exemplars) => exemplars,
                None if uid == MailboxUid::ALL => (step.was.newest(), step.now.newest()),
                None if was == now => continue,
                None => {
                    let head = self.newest_of_thread(uid, ListingFilter::Every, step.thread)?;
                    (head, head)
                }
            };
            self.replace_exemplar(
                uid,
                entry,
                step.thread,
                before.filter(|_| was),
                after.filter(|_| now),
            )?;
        }
        Ok(())
    }

    /// Adds an email to the shape `Emails` of a listing (`now`), or removes it.
    fn move_email(
        &mut self,
        uid: MailboxUid,
        entry: &mut MaintainedListing,
        step: &EmailChange<'_>,
        now: bool,
        is_within_frontier: bool,
    ) -> Result<(), Error> {
        if !is_within_frontier {
            return Ok(());
        }
        let listing = Listing { uid, filter: entry.filter, shape: Shape::Emails };
        // For every email of all mail, `email_by_thread` serves as the thread index.
        let member = (uid != MailboxUid::ALL || entry.filter != ListingFilter::Every)
            .then(|| self.thread_index_key((uid, entry.filter), step.thread, step.id));
        if now {
            if let Some(member) = member {
                self.put::<MailboxThreadIndex>(&member, &Present);
            }
            self.enter_listing(listing, entry, step.id, step.thread, self.state.modseq)
        } else {
            if let Some(member) = member {
                self.delete::<MailboxThreadIndex>(&member);
            }
            self.leave_listing(listing, entry, step.id, step.thread)
        }
    }

    /// Replaces the exemplar of a thread in the shape `Threads` of a listing. Emails beyond the
    /// frontier are not in the listing yet.
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

    /// Returns the newest email of a thread that the thread index has for a filter on emails: the
    /// exemplar.
    pub(in crate::store) fn newest_of_thread(
        &self,
        uid: MailboxUid,
        filter: ListingFilter,
        thread: ThreadId,
    ) -> Result<Option<EmailId>, Error> {
        let range = KeyRange::<MailboxThreadIndex>::under(&(self.account, uid, filter, thread));
        Ok(self.first_key(&range)?.map(|key| key.email))
    }

    /// Returns the key of an email in the thread index.
    pub(in crate::store) fn thread_index_key(
        &self,
        (mailbox, filter): (MailboxUid, ListingFilter),
        thread: ThreadId,
        email: EmailId,
    ) -> ThreadIndexKey {
        ThreadIndexKey { account: self.account, mailbox, filter, thread, email }
    }

    /// Adds an email to a listing, shown since the change `added`.
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
        // not whole has no history.
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

/// Returns the error for a row that another row names and that does not exist.
pub(in crate::store) fn missing_row<T: Table>(account: AccountId, key: &T::Key) -> Error {
    Error::Corrupt {
        table: T::ID.name(),
        key: hex(&key.encode()),
        what: format!(
            "a row of account {account} that another row names is missing: run `restante check`"
        ),
    }
}
