//! Threads: found by message id and stripped subject, counted, and dead for good after their last email.

use std::collections::BTreeSet;
use std::time::Duration;

use super::Txn;
use crate::model::{DataType, EmailId, EmailMetadata, MailboxUid, ThreadId, ThreadKey, UtcMillis};
use crate::store::engine::{Read, Table, after};
use crate::store::error::Error;
use crate::store::key::{self, Parts};
use crate::store::row::Thread;

/// `lastSeen` of a reference is true to a day: a busy thread does not rewrite all its references with every email.
const SEEN_AGAIN: Duration = Duration::from_secs(24 * 3600);

impl Txn<'_> {
    /// The thread for a message with these keys: the oldest live one that any of them names, else a new one. Keys that
    /// name no live thread name this one from now on; those that name another are left (threads are never merged).
    ///
    /// `open` are the mailboxes that whoever files the message may read, where these are not all: a thread without an email
    /// in any of them is as if it were not there. Its keys name the new thread from now on, or the next message with the
    /// same keys would tell that they named another.
    pub(super) fn thread_for(
        &mut self,
        keys: &[ThreadKey],
        open: Option<&BTreeSet<MailboxUid>>,
    ) -> Result<ThreadId, Error> {
        let is_there = |row: &Thread| {
            let is_open = |open: &BTreeSet<MailboxUid>| row.members.keys().any(|uid| open.contains(uid));
            !row.deleted && open.is_none_or(is_open)
        };
        let mut known = Vec::with_capacity(keys.len());
        for thread_key in keys {
            let key = key::thread_ref(self.account, thread_key);
            let mut found = self.get_raw(Table::ThreadRefs, &key)?.as_deref().and_then(decode);
            if let Some((thread, _)) = found {
                let row = self.row::<Thread>(&key::thread(self.account, thread))?;
                found = found.filter(|_| row.is_some_and(|row| is_there(&row)));
            }
            known.push((key, found));
        }
        let thread = match known.iter().filter_map(|(_, found)| found.map(|(thread, _)| thread)).min() {
            Some(oldest) => oldest,
            None => {
                self.state.last_thread += 1;
                ThreadId(self.state.last_thread)
            }
        };
        let now = self.now;
        for (key, found) in known {
            let current = found.is_some_and(|(_, seen)| seen <= now && now.since(seen) < SEEN_AGAIN);
            if !current {
                let named = found.map_or(thread, |(named, _)| named);
                self.put(Table::ThreadRefs, key, reference(named, now));
            }
        }
        Ok(thread)
    }

    /// The thread's counters before and after; its own change number moves only with its set of emails (RFC 8621 §3).
    pub(super) fn write_thread(
        &mut self,
        id: ThreadId,
        email: EmailId,
        old: Option<&EmailMetadata>,
        new: Option<&EmailMetadata>,
    ) -> Result<(Thread, Thread), Error> {
        let (account, modseq, trash) = (self.account, self.state.modseq, self.state.trash);
        let stored = self.row::<Thread>(&key::thread(account, id))?;
        let was = stored.clone().unwrap_or_default();
        let mut now =
            stored.clone().unwrap_or(Thread { created: modseq, updated: modseq, latest: email, ..was.clone() });
        if let Some(old) = old {
            now.count(old, trash, false);
        }
        if let Some(new) = new {
            now.count(new, trash, true);
        }
        if old.is_none() || new.is_none() {
            if stored.is_some() {
                self.delete(Table::ThreadByModseq, key::by_modseq(account, was.updated));
            }
            self.put(Table::ThreadByModseq, key::by_modseq(account, modseq), id.0.to_be_bytes().to_vec());
            now.updated = modseq;
            now.deleted = now.emails == 0;
            now.latest = match new {
                Some(_) => now.latest.min(email),
                None => self.latest_of(id)?.unwrap_or_default(),
            };
            self.touch(DataType::Thread);
        }
        if stored.as_ref() != Some(&now) {
            self.put_row(key::thread(account, id), &now);
        }
        Ok((was, now))
    }

    fn latest_of(&self, thread: ThreadId) -> Result<Option<EmailId>, Error> {
        let prefix = key::thread(self.account, thread);
        let mut latest = None;
        self.scan(Table::EmailByThread, &prefix, &after(&prefix), false, &mut |key, _| {
            latest = Some(EmailId(Parts::of(Table::EmailByThread, key).u64()?));
            Ok(false)
        })?;
        Ok(latest)
    }

    pub(super) fn get_raw(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        Read::get(self, table, key)
    }
}

/// Whether a row of `thread_refs` can be read.
pub(in crate::store) fn is_reference(value: &[u8]) -> bool {
    value.len() == 17 && decode(value).is_some()
}

/// A row of `thread_refs`.
pub(in crate::store) fn reference(thread: ThreadId, seen: UtcMillis) -> Vec<u8> {
    let mut value = vec![1];
    value.extend_from_slice(&thread.0.to_be_bytes());
    value.extend_from_slice(&seen.0.to_be_bytes());
    value
}

/// The thread that a reference names, and when it was last seen.
pub(super) fn decode(value: &[u8]) -> Option<(ThreadId, UtcMillis)> {
    let (thread, rest) = value.strip_prefix(&[1])?.split_first_chunk::<8>()?;
    let seen = rest.first_chunk::<8>()?;
    Some((ThreadId(u64::from_be_bytes(*thread)), UtcMillis(i64::from_be_bytes(*seen))))
}
