//! Listings, thread indexes and counts equal those made from scratch.

use std::collections::BTreeMap;

use super::Checker;
use crate::model::{Counts, EmailId, Listing, MailboxUid, ModSeq, Shape, ThreadId};
use crate::store::commit::{index_value, kept, list_value, shows};
use crate::store::engine::Table;
use crate::store::error::Error;
use crate::store::key::{self, Parts};
use crate::store::row::{Row, Thread};

impl Checker<'_> {
    pub(super) fn listings(&mut self) -> Result<(), Error> {
        let account = self.account;
        let index = self.rows(Table::MailboxEmailIndex)?;
        let list = self.rows(Table::MailboxEmailList)?;
        let mut members = BTreeMap::new();
        let (mut want_index, mut want_list) = (BTreeMap::new(), BTreeMap::new());
        let uids: Vec<MailboxUid> = self.mailboxes.keys().copied().chain([MailboxUid::ALL]).collect();
        for uid in uids {
            for view in kept(uid) {
                let shown: Vec<(EmailId, ThreadId)> = self
                    .live()
                    .filter(|(_, email)| shows(email, uid, *view))
                    .map(|(id, email)| (*id, email.thread))
                    .collect();
                let mut newest: BTreeMap<ThreadId, EmailId> = BTreeMap::new();
                for (id, thread) in &shown {
                    members.insert(key::thread_index(account, uid, *view, *thread, *id), vec![1]);
                    newest.entry(*thread).or_insert(*id);
                }
                let collapsed = newest.into_iter().map(|(thread, id)| (id, thread)).collect();
                for (shape, shown) in [(Shape::Emails, shown), (Shape::Threads, collapsed)] {
                    let listing = Listing { uid, view: *view, shape };
                    for (id, thread) in shown {
                        // Since when an email is shown is history: it is believed if both rows agree on it.
                        let key = key::index(account, listing, id);
                        let added = index.get(&key).and_then(|row| row.get(1..9)).and_then(|row| row.try_into().ok());
                        let added = ModSeq(added.map_or(0, u64::from_be_bytes));
                        want_list.insert(key::list(account, listing, ModSeq(0), added), list_value(id, thread));
                        want_index.insert(key, index_value(added, thread));
                    }
                }
            }
        }
        let live_list = list.iter().filter(|(key, _)| removed(key) == Some(0));
        let live_list = live_list.map(|(key, value)| (key.clone(), value.clone())).collect();
        self.differences(Table::MailboxEmailIndex, &index, &want_index);
        self.differences(Table::MailboxEmailList, &live_list, &want_list);
        self.compare(Table::MailboxThreadIndex, &members)?;
        self.history(&list);
        self.counts()
    }

    /// What was shown ended after it began, and no later than the newest change.
    fn history(&mut self, list: &BTreeMap<Vec<u8>, Vec<u8>>) {
        let newest = self.state.modseq.0;
        for key in list.keys() {
            let (removed, added) =
                (removed(key).unwrap_or(0), Parts::of(Table::MailboxEmailList, key).u64().unwrap_or(0));
            if added > newest || removed > newest || (removed != 0 && removed <= added) {
                self.say(Table::MailboxEmailList, key, "an interval that ends before it begins, or in the future");
            }
        }
    }

    fn counts(&mut self) -> Result<(), Error> {
        let trash = self.state.trash;
        let mut wanted: BTreeMap<MailboxUid, Counts> =
            self.mailboxes.keys().map(|uid| (*uid, Counts::default())).collect();
        let live: Vec<_> = self.live().map(|(_, email)| (email.mailboxes.clone(), email.is_unread())).collect();
        for (uids, unread) in live {
            for uid in uids {
                if let Some(counts) = wanted.get_mut(&uid) {
                    counts.total_emails += 1;
                    counts.unread_emails += u64::from(unread);
                }
            }
        }
        for (key, value) in self.rows(Table::Threads)? {
            let Ok(thread) = Thread::decode(&key, &value) else { continue };
            for uid in thread.members.keys() {
                if let Some(counts) = wanted.get_mut(uid) {
                    counts.total_threads += 1;
                    counts.unread_threads += u64::from(thread.unread_in(*uid, trash));
                }
            }
        }
        let found: Vec<_> = self.mailboxes.iter().map(|(uid, mailbox)| (*uid, mailbox.counts)).collect();
        for (uid, counts) in found {
            if wanted.get(&uid) != Some(&counts) {
                let what = format!("reads {counts:?}, should read {:?}", wanted.get(&uid));
                self.say(Table::Mailboxes, &key::mailbox(self.account, uid), what);
            }
        }
        Ok(())
    }
}

fn removed(key: &[u8]) -> Option<u64> {
    let mut parts = Parts::of(Table::MailboxEmailList, key);
    parts.u64().ok()?;
    parts.u64().ok()
}
