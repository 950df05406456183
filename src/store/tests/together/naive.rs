//! A naive account, to which the recorded commits of all stores are applied.

use std::collections::{BTreeMap, BTreeSet};

use super::{CommitRecord, Facts, count_of};
use crate::model::{AccountId, ActionId, EmailId, MailboxUid, UtcMillis};
use crate::store::Store;

/// The result of applying recorded commits one after another.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Naive {
    emails: BTreeMap<EmailId, Facts>,
    /// When each action is due.
    actions: BTreeMap<ActionId, UtcMillis>,
    /// The number of `count_of`.
    count: u64,
}

impl Naive {
    /// Applies a commit. Panics if the commit was not built on this state.
    pub(super) fn apply(&mut self, record: &CommitRecord) {
        match record.clone() {
            CommitRecord::Delivered { id, emails } => {
                assert_eq!(emails, self.emails.len() as u64, "{record:?}");
                let new =
                    self.emails.insert(id, (BTreeSet::from([MailboxUid(1)]), BTreeSet::new()));
                assert_eq!(new, None, "{record:?}");
            }
            CommitRecord::Changed { id, before, after } => {
                assert_eq!(self.emails.insert(id, after), Some(before), "{record:?}");
            }
            CommitRecord::Destroyed { id, before } => {
                assert_eq!(self.emails.remove(&id), Some(before), "{record:?}");
            }
            CommitRecord::Queued { id, due } => {
                assert_eq!(self.actions.insert(id, due), None, "{record:?}");
            }
            CommitRecord::Deferred { id, before, after } => {
                assert_eq!(self.actions.insert(id, after), Some(before), "{record:?}");
            }
            CommitRecord::Removed { id, due } => {
                assert_eq!(self.actions.remove(&id), Some(due), "{record:?}");
            }
            CommitRecord::Counted { before } => {
                assert_eq!(self.count, before, "{record:?}");
                self.count += 1;
            }
        }
    }

    /// Reads an account from a store.
    pub(super) fn of(store: &Store, account: AccountId) -> Self {
        let snapshot = store.snapshot();
        let emails = snapshot.emails(account, None, 10_000).unwrap().into_iter();
        Self {
            emails: emails.map(|(id, email)| (id, (email.mailboxes, email.keywords))).collect(),
            actions: snapshot
                .outbox(account)
                .unwrap()
                .into_iter()
                .map(|action| (action.id, action.due))
                .collect(),
            count: count_of(&snapshot.account(account).unwrap().unwrap()),
        }
    }
}
