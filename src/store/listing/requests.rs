//! What queries ask upkeep to do with listings.
//!
//! Requests are bounded (`limits::MAX_LISTING_REQUESTS`) and kept in memory alone. One that is lost
//! is made again by the next query that the listing would serve.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use parking_lot::{Mutex, RwLock};

use crate::model::{AccountId, ListingFilter, MailboxUid, limits};
use crate::store::Store;
use crate::store::error::Error;
use crate::store::txn::Txn;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ListingAction {
    /// Note that the listing was used, so that it is not dropped.
    MarkUsed,
    /// Begin the listing, or take up more emails.
    Extend,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListingRequest {
    pub action: ListingAction,
    pub mailbox: MailboxUid,
    pub filter: ListingFilter,
}

type RequestListener = Box<dyn Fn(AccountId) + Send + Sync>;

#[derive(Default)]
pub(in crate::store) struct ListingRequests {
    waiting: Mutex<WaitingRequests>,
    listeners: RwLock<Vec<RequestListener>>,
}

/// The requests that nobody has taken yet.
#[derive(Debug, Default)]
struct WaitingRequests {
    by_account: BTreeMap<AccountId, BTreeSet<ListingRequest>>,
    /// The number of requests of all accounts.
    count: usize,
}

impl WaitingRequests {
    /// Returns whether the request was added: not if it waits already, or if too many do.
    fn add(&mut self, account: AccountId, request: ListingRequest) -> bool {
        if self.count >= limits::MAX_LISTING_REQUESTS {
            return false;
        }
        let of_account = self.by_account.entry(account).or_default();
        let is_added = of_account.len() < limits::MAX_LISTING_REQUESTS_PER_ACCOUNT
            && of_account.insert(request);
        self.count += usize::from(is_added);
        is_added
    }

    fn has(&self, account: AccountId) -> bool {
        self.by_account.get(&account).is_some_and(|waiting| !waiting.is_empty())
    }

    fn take(&mut self, account: AccountId) -> Option<ListingRequest> {
        let of_account = self.by_account.get_mut(&account)?;
        let first = of_account.pop_first();
        if of_account.is_empty() {
            self.by_account.remove(&account);
        }
        self.count -= usize::from(first.is_some());
        first
    }
}

impl fmt::Debug for ListingRequests {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("ListingRequests").field("waiting", &self.waiting).finish_non_exhaustive()
    }
}

impl Store {
    /// Asks upkeep to extend listings of an account, or to note that they were used.
    pub fn request_listings(
        &self,
        account: AccountId,
        requests: impl IntoIterator<Item = ListingRequest>,
    ) {
        let all = self.listing_requests();
        let is_wakeup_due = {
            let mut waiting = all.waiting.lock();
            let mut is_asked = false;
            for request in requests {
                is_asked = true;
                waiting.add(account, request);
            }
            // Upkeep is also woken for requests that wait already: it may have failed before it
            // took them, on a full disk for example.
            is_asked && waiting.has(account)
        };
        if is_wakeup_due {
            all.listeners.read().iter().for_each(|listener| listener(account));
        }
    }

    /// Takes the next request that waits for an account; `MarkUsed` comes before `Extend`. `None`
    /// if none waits.
    #[must_use]
    pub fn take_listing_request(&self, account: AccountId) -> Option<ListingRequest> {
        self.listing_requests().waiting.lock().take(account)
    }

    /// Calls `listener` with the account whenever a query asks for something and requests of the
    /// account wait. It runs on the thread of the query, so it must be quick.
    pub fn on_listing_request(&self, listener: impl Fn(AccountId) + Send + Sync + 'static) {
        self.listing_requests().listeners.write().push(Box::new(listener));
    }
}

impl Txn<'_> {
    /// Does what a request asks for, in one step of at most `limit` emails. Returns whether this
    /// step made the listing whole. `false` for `MarkUsed`, and if the listing was whole before.
    ///
    /// # Errors
    /// `NotFound` if the mailbox is gone.
    pub fn serve_listing_request(
        &mut self,
        request: ListingRequest,
        limit: usize,
    ) -> Result<bool, Error> {
        let ListingRequest { action, mailbox, filter } = request;
        match action {
            ListingAction::MarkUsed => self.mark_listing_used(mailbox, filter).map(|()| false),
            ListingAction::Extend if self.is_listing_whole(mailbox, filter)? => Ok(false),
            ListingAction::Extend => self.extend_listing(mailbox, filter, limit),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::model::UtcMillis;
    use crate::model::clock::FixedClock;
    use crate::store::Options;
    use crate::store::engine::memory::MemoryEngine;

    fn request(mailbox: usize, action: ListingAction) -> ListingRequest {
        let mailbox = MailboxUid(u32::try_from(mailbox).unwrap());
        ListingRequest { action, mailbox, filter: ListingFilter::Unseen }
    }

    #[test]
    fn requests_wait_once_and_are_taken_by_account() {
        let mut waiting = WaitingRequests::default();
        let (first, second) =
            (request(1, ListingAction::MarkUsed), request(1, ListingAction::Extend));
        let other = request(2, ListingAction::Extend);
        for (account, request, is_added) in [
            (1, second, true),
            (1, second, false),
            (1, first, true),
            (2, second, true),
            (1, other, true),
        ] {
            assert_eq!(waiting.add(AccountId(account), request), is_added);
        }
        let taken: Vec<_> = std::iter::from_fn(|| waiting.take(AccountId(1))).collect();
        assert_eq!(taken, [first, second, other]);
        assert_eq!((waiting.count, waiting.take(AccountId(3))), (1, None));
        assert_eq!(waiting.take(AccountId(2)), Some(second));
        assert_eq!((waiting.count, waiting.by_account.len()), (0, 0));
        assert!(waiting.add(AccountId(1), second), "what was taken may be asked for again");
    }

    #[test]
    fn upkeep_is_woken_again_for_waiting_requests() {
        let clock = Arc::new(FixedClock::at(UtcMillis(0)));
        let store =
            Store::open_engine(Arc::new(MemoryEngine::new()), &Options::small(), clock).unwrap();
        let woken = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&woken);
        store.on_listing_request(move |account| {
            assert_eq!(account, AccountId(1));
            count.fetch_add(1, Ordering::Relaxed);
        });
        let request = request(1, ListingAction::Extend);
        store.request_listings(AccountId(1), [request]);
        store.request_listings(AccountId(1), [request]);
        assert_eq!(
            woken.load(Ordering::Relaxed),
            2,
            "upkeep may have failed since the first request"
        );
        store.request_listings(AccountId(1), []);
        assert_eq!(woken.load(Ordering::Relaxed), 2, "nothing was asked");
        assert_eq!(store.take_listing_request(AccountId(1)), Some(request));
        assert_eq!(store.take_listing_request(AccountId(1)), None, "it waits once");
    }

    #[test]
    fn requests_are_bounded_for_one_account_and_for_all() {
        let mut waiting = WaitingRequests::default();
        let added = |waiting: &mut WaitingRequests, account| {
            let all = (0..limits::MAX_LISTING_REQUESTS_PER_ACCOUNT + 1)
                .map(|mailbox| request(mailbox, ListingAction::Extend));
            all.filter(|one| waiting.add(AccountId(account), *one)).count()
        };
        assert_eq!(added(&mut waiting, 1), limits::MAX_LISTING_REQUESTS_PER_ACCOUNT);
        assert_eq!(
            added(&mut waiting, 2),
            limits::MAX_LISTING_REQUESTS_PER_ACCOUNT,
            "one account keeps out no other"
        );
        for account in 3..10_000 {
            added(&mut waiting, account);
        }
        assert_eq!(waiting.count, limits::MAX_LISTING_REQUESTS);
        assert!(waiting.take(AccountId(1)).is_some());
        assert_eq!(added(&mut waiting, 1), 1);
    }
}
