//! Listings, thread indexes and counts equal those made from scratch.

use std::collections::BTreeMap;

use super::Checker;
use crate::model::{Counts, EmailId, Kept, Listing, MailboxUid, ModSeq, Shape, ThreadId, View};
use crate::store::commit::{rank, shows};
use crate::store::engine::Table;
use crate::store::error::Error;
use crate::store::key::{self, Parts};
use crate::store::row::{Row, Thread, decode_index, index_value, list_value, rank_value};

/// The rows that the listings of an account should have.
#[derive(Default)]
struct Wanted {
    index: BTreeMap<Vec<u8>, Vec<u8>>,
    list: BTreeMap<Vec<u8>, Vec<u8>>,
    members: BTreeMap<Vec<u8>, Vec<u8>>,
    ranks: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Prefixes under which anything may be left.
    loose: Vec<Vec<u8>>,
}

impl Wanted {
    fn is_loose(&self, key: &[u8]) -> bool {
        self.loose.iter().any(|prefix| key.starts_with(prefix))
    }
}

impl Checker<'_> {
    pub(super) fn listings(&mut self) -> Result<(), Error> {
        let index = self.rows(Table::MailboxEmailIndex)?;
        let list = self.rows(Table::MailboxEmailList)?;
        let mut wanted = Wanted::default();
        let boxes: Vec<(MailboxUid, Vec<Kept>)> =
            self.mailboxes.iter().map(|(uid, mailbox)| (*uid, mailbox.kept.clone())).collect();
        for (uid, kept) in boxes.into_iter().chain([(MailboxUid::ALL, self.state.kept.clone())]) {
            let usual = View::ALL.into_iter().find(|view| view.is_usual(uid));
            let deleted = self.mailboxes.get(&uid).is_some_and(|mailbox| mailbox.deleted);
            if deleted {
                wanted.loose.push(key::mailbox(self.account, uid));
            }
            if !deleted && !kept.iter().any(|entry| Some(entry.view) == usual && entry.is_whole()) {
                self.say(Table::Mailboxes, &key::mailbox(self.account, uid), "the usual listing is not kept");
            }
            for entry in &kept {
                self.view(uid, entry, &index, &mut wanted)?;
            }
        }
        let live_list = list.iter().filter(|(key, _)| removed(key) == Some(0) && !wanted.is_loose(key));
        let live_list = live_list.map(|(key, value)| (key.clone(), value.clone())).collect();
        let strict = |rows: BTreeMap<Vec<u8>, Vec<u8>>| -> BTreeMap<Vec<u8>, Vec<u8>> {
            rows.into_iter().filter(|(key, _)| !wanted.is_loose(key)).collect()
        };
        let (index, members, ranks) =
            (strict(index), strict(self.rows(Table::MailboxThreadIndex)?), strict(self.rows(Table::MailboxRank)?));
        self.differences(Table::MailboxEmailIndex, &index, &wanted.index);
        self.differences(Table::MailboxEmailList, &live_list, &wanted.list);
        self.differences(Table::MailboxThreadIndex, &members, &wanted.members);
        self.differences(Table::MailboxRank, &ranks, &wanted.ranks);
        self.history(&list);
        self.counts()
    }

    /// What one kept view should hold; of one that is being dropped any rows may be left.
    fn view(
        &mut self,
        uid: MailboxUid,
        entry: &Kept,
        index: &BTreeMap<Vec<u8>, Vec<u8>>,
        wanted: &mut Wanted,
    ) -> Result<(), Error> {
        let account = self.account;
        let Some(frontier) = entry.frontier() else {
            wanted.loose.push(key::view_index(account, uid, entry.view));
            return Ok(());
        };
        let threads = self.thread_rows()?;
        let base = if entry.view.is_of_emails() { entry.view } else { View::Every };
        let shown: Vec<(EmailId, ThreadId)> =
            self.live().filter(|(_, email)| shows(email, uid, base)).map(|(id, email)| (*id, email.thread)).collect();
        let mut newest: BTreeMap<ThreadId, EmailId> = BTreeMap::new();
        for (id, thread) in &shown {
            newest.entry(*thread).or_insert(*id);
        }
        let mut collapsed: Vec<(EmailId, ThreadId)> = newest.into_iter().map(|(thread, id)| (id, thread)).collect();
        if !entry.view.is_of_emails() {
            collapsed.retain(|(_, thread)| threads.get(thread).is_some_and(|row| row.shows(entry.view)));
        } else if uid != MailboxUid::ALL || entry.view != View::Every {
            for (id, thread) in shown.iter().filter(|(id, _)| *id <= frontier) {
                wanted.members.insert(key::thread_index(account, uid, entry.view, *thread, *id), vec![1]);
            }
        }
        for shape in entry.shapes() {
            let listing = Listing { uid, view: entry.view, shape: *shape };
            let shown = if *shape == Shape::Emails { &shown } else { &collapsed };
            let mut total = 0;
            for (id, thread) in shown.iter().filter(|(id, _)| *id <= frontier) {
                // Since when an email is shown is history: it is believed if both rows agree on it.
                let key = key::index(account, listing, *id);
                let added = index.get(&key).and_then(|row| decode_index(&key, row).ok());
                let added = added.map_or(ModSeq(0), |(added, _)| added);
                wanted.list.insert(key::list(account, listing, ModSeq(0), added), list_value(*id, *thread));
                wanted.index.insert(key, index_value(added, *thread));
                total += 1;
            }
            let tally = entry.tally(*shape);
            if tally.total != total {
                let what = format!("{listing:?} holds {total} emails, says {}", tally.total);
                self.say(Table::Mailboxes, &key::mailbox(account, uid), what);
            }
            if tally.ranked {
                let rows = rank::rows(self.read, self.ranking, account, listing)?;
                wanted.ranks.extend(rows.into_iter().map(|(key, count)| (key, rank_value(count))));
            }
        }
        Ok(())
    }

    fn thread_rows(&self) -> Result<BTreeMap<ThreadId, Thread>, Error> {
        let rows = self.rows(Table::Threads)?;
        let rows = rows.iter().filter_map(|(key, value)| {
            let id = ThreadId(Parts::of(Table::Threads, key).u64().ok()?);
            Some((id, Thread::decode(key, value).ok()?))
        });
        Ok(rows.collect())
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
