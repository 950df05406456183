//! Counts `unreadThreads` of the mailboxes that a guest may see (RFC 8621 §2).

use std::collections::BTreeMap;

use super::id_range::IdRange;
use super::plan::MIN_MAINTAINED_EMAILS;
use super::sort::Direction;
use super::walk::Merge;
use super::walk::scan::EmailScan;
use super::{Allowance, Scope};
use crate::model::{
    AccountId, Listing, ListingFilter, ListingStage, MailboxUid, MaintainedListing, Shape,
    ThreadId, UtcMillis,
};
use crate::store::{Error, ListingAction, ListingRequest, Snapshot};

/// Numbers of unread threads in a scope, and the listings of unseen emails that they came from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UnreadThreads {
    /// Has every mailbox of the scope, also those without unread threads.
    pub counts: BTreeMap<MailboxUid, u64>,
    /// A mailbox whose listing of unseen emails is worth making or completing, because at least
    /// `MIN_MAINTAINED_EMAILS` emails that are not unread were skipped. The last such mailbox, if
    /// there are several.
    pub wanted_listing: Option<MailboxUid>,
    /// The listings of unseen emails that were complete, and so were used, with their mailboxes.
    pub used_listings: Vec<(MailboxUid, MaintainedListing)>,
}

impl UnreadThreads {
    /// Returns what upkeep is to do with the listings of unseen emails.
    #[must_use]
    pub fn listing_requests(&self, now: UtcMillis) -> Vec<ListingRequest> {
        let request =
            |action, mailbox| ListingRequest { action, mailbox, filter: ListingFilter::Unseen };
        let used = self.used_listings.iter().filter(|(_, listing)| listing.needs_use_mark(now));
        let used = used.map(|(uid, _)| request(ListingAction::MarkUsed, *uid));
        used.chain(self.wanted_listing.map(|uid| request(ListingAction::Extend, uid))).collect()
    }
}

impl Scope {
    /// Counts `unreadThreads` of each mailbox of the scope (RFC 8621 §2) from the emails that may
    /// be seen. In the Trash only unread emails in the Trash count, elsewhere only those that are
    /// also outside the Trash.
    ///
    /// The rows read are counted in `reads`. The caller must call `Allowance::begin_walk` before.
    pub fn unread_threads(
        &self,
        snapshot: &Snapshot<'_>,
        account: AccountId,
        reads: &Allowance,
    ) -> Result<UnreadThreads, Error> {
        let mut out = UnreadThreads {
            counts: self.mailboxes().iter().map(|uid| (*uid, 0)).collect(),
            ..UnreadThreads::default()
        };
        let trash = snapshot.account_state(account)?.trash;
        // For each thread: whether it has an unread email outside the Trash, and one in the Trash.
        let mut threads: BTreeMap<ThreadId, (bool, bool)> = BTreeMap::new();
        for uid in self.mailboxes() {
            let Some(mailbox) = snapshot.mailbox(account, *uid)? else { continue };
            let unseen = mailbox
                .listings
                .iter()
                .find(|listing| listing.filter == ListingFilter::Unseen)
                .copied();
            let complete = unseen.filter(MaintainedListing::is_complete);
            out.used_listings.extend(complete.map(|listing| (*uid, listing)));
            let filter =
                if complete.is_some() { ListingFilter::Unseen } else { ListingFilter::Every };
            let listing = Listing { uid: *uid, filter, shape: Shape::Emails };
            let merge =
                Merge::new(snapshot, account, &[listing], IdRange::ALL, Direction::NewestFirst);
            let mut scan = EmailScan::of_listings(merge).counting(reads.clone());
            let (mut remaining, mut skipped) = (mailbox.counts.unread_emails, 0);
            while remaining > 0
                && let Some((_, email)) = scan.next_email()?
            {
                if !email.is_unread() {
                    skipped += 1;
                    continue;
                }
                remaining -= 1;
                let unread = threads.entry(email.thread).or_default();
                unread.0 |= email
                    .mailboxes
                    .iter()
                    .any(|uid| *uid != trash && self.mailboxes().contains(uid));
                unread.1 |= *uid == trash;
            }
            if skipped >= MIN_MAINTAINED_EMAILS
                && unseen.is_none_or(|listing| matches!(listing.stage, ListingStage::Filling(_)))
            {
                out.wanted_listing = Some(*uid);
            }
        }
        reads.count_rows(threads.len());
        for (thread, (outside_trash, in_trash)) in threads {
            let Some(row) = snapshot.thread(account, thread)? else { continue };
            for uid in row.members.keys() {
                let is_unread = if *uid == trash { in_trash } else { outside_trash };
                if let Some(count) = out.counts.get_mut(uid) {
                    *count += u64::from(is_unread);
                }
            }
        }
        Ok(out)
    }
}
