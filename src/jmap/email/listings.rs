//! Views that are kept on demand: what an answer asks for is begun, and what served is noted, so that it stays.
//!
//! The answer is given whatever becomes of this: it waits for no disk, and what fails is only said in the log. A view that
//! is begun is made further by each question that wants it, and by the upkeep.

use crate::model::{AccountId, ListingFilter, MailboxUid};
use crate::query::{QueryPlan, UnreadThreads};
use crate::store::Store;

/// Emails taken up at once.
const EMAILS_PER_COMMIT: usize = 1000;

/// Does for the views of an account what a plan says.
pub(in crate::jmap) fn follow(store: &Store, account: AccountId, plan: &QueryPlan) {
    keep(store, account, plan.wants, &plan.listings_to_mark_used(store.clock().now()));
}

/// Does for the views of unread emails what a guest's count of unread threads says.
pub(in crate::jmap) fn follow_unread(store: &Store, account: AccountId, unread: &UnreadThreads) {
    let now = store.clock().now();
    let noted = unread.served.iter().filter(|(_, kept)| kept.needs_use_mark(now));
    let noted: Vec<_> = noted.map(|(uid, _)| (*uid, ListingFilter::Unseen)).collect();
    keep(store, account, unread.wants.map(|uid| (uid, ListingFilter::Unseen)), &noted);
}

fn keep(
    store: &Store,
    account: AccountId,
    wants: Option<(MailboxUid, ListingFilter)>,
    noted: &[(MailboxUid, ListingFilter)],
) {
    if wants.is_none() && noted.is_empty() {
        return;
    }
    let done = store.commit(account, |txn| {
        if let Some((uid, view)) = wants {
            txn.extend_listing(uid, view, EMAILS_PER_COMMIT)?;
        }
        noted.iter().try_for_each(|(uid, view)| txn.mark_listing_used(*uid, *view))
    });
    if let Err(error) = done {
        tracing::warn!(%account, %error, "a list that is often asked for is not kept");
    }
}
