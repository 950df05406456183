//! Threads: found by message id and stripped subject, counted, and dead for good after their last
//! email.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::model::{DataType, EmailId, EmailMetadata, MailboxUid, ThreadId, ThreadKey};
use crate::store::engine::typed::{KeyRange, TypedRead as _};
use crate::store::error::Error;
use crate::store::row::{SweepRow, Thread, ThreadRef, ThreadRefRow};
use crate::store::table::keys::{ModSeqKey, SweepKey, ThreadRefKey};
use crate::store::table::{EmailByThread, Sweeps, ThreadByModseq, ThreadRefs, Threads};
use crate::store::txn::Txn;
use crate::store::txn::sweep::THREAD_REFS;

/// `lastSeen` of a reference is true to a day: a busy thread does not rewrite all its references
/// with every email.
const LAST_SEEN_RESOLUTION: Duration = Duration::from_secs(24 * 3600);

/// A thread key of a message, and the threads it leads to.
struct ThreadsOfKey {
    key: ThreadRefKey,
    refs: ThreadRefRow,
    /// Which of the threads is joined.
    found: Option<usize>,
    /// Dead threads before that one.
    dead: Vec<ThreadId>,
}

impl ThreadsOfKey {
    fn thread(&self) -> Option<ThreadId> {
        self.found.and_then(|at| self.refs.0.get(at)).map(|named| named.thread)
    }
}

impl Txn<'_> {
    /// The thread for a message with these keys: the oldest live one that any of them names, else a
    /// new one. A key that names no live thread names this one from now on; one that names another
    /// is left (threads are never merged).
    ///
    /// `open` are the mailboxes that the filing user may read, where these are not all: a thread
    /// without an email in any of them is as if it were not there. A key that names only such
    /// threads names this one, too, behind them: otherwise the next message of this guest with the
    /// same key would tell that it names another, and if this thread took their place, the next
    /// message that is delivered would join this one.
    pub(in crate::store) fn thread_for(
        &mut self,
        keys: &[ThreadKey],
        open: Option<&BTreeSet<MailboxUid>>,
    ) -> Result<ThreadId, Error> {
        let mut known = Vec::with_capacity(keys.len());
        for thread_key in keys {
            known.push(self.threads_of_key(thread_key, open)?);
        }
        let thread = match known.iter().filter_map(ThreadsOfKey::thread).min() {
            Some(oldest) => oldest,
            None => {
                self.state.last_thread += 1;
                ThreadId(self.state.last_thread)
            }
        };
        let now = self.now;
        let mut gone: Option<ThreadId> = None;
        for ThreadsOfKey { key, mut refs, found, dead } in known {
            match found.and_then(|at| refs.0.get_mut(at)) {
                Some(named)
                    if named.seen <= now && now.since(named.seen) < LAST_SEEN_RESOLUTION =>
                {
                    continue;
                }
                Some(named) => named.seen = now,
                None => gone = gone.max(refs.add(ThreadRef { thread, seen: now }, &dead)),
            }
            self.put::<ThreadRefs>(&key, &refs);
        }
        gone.map_or(Ok(()), |gone| self.note_forgotten(gone))?;
        Ok(thread)
    }

    /// The threads that a key leads to, for a user who may read the mailboxes `open` (`None`: all).
    fn threads_of_key(
        &self,
        thread_key: &ThreadKey,
        open: Option<&BTreeSet<MailboxUid>>,
    ) -> Result<ThreadsOfKey, Error> {
        let key = ThreadRefKey { account: self.account, key: *thread_key };
        let refs = match self.row::<ThreadRefs>(&key) {
            // What cannot be read finds no thread, and is written anew.
            Err(Error::Corrupt { .. }) => ThreadRefRow::default(),
            read => read?.unwrap_or_default(),
        };
        let (mut found, mut dead) = (None, Vec::new());
        for (at, named) in refs.0.iter().enumerate() {
            let row = self.row::<Threads>(&self.thread_key(named.thread))?;
            let Some(row) = row.filter(|row| !row.deleted) else {
                dead.push(named.thread);
                continue;
            };
            if open.is_none_or(|open| row.members.keys().any(|uid| open.contains(uid))) {
                found = Some(at);
                break;
            }
        }
        Ok(ThreadsOfKey { key, refs, found, dead })
    }

    /// Notes for the check that a key names a dead thread no more, and no younger one: as if a
    /// sweep had forgotten it.
    fn note_forgotten(&mut self, thread: ThreadId) -> Result<(), Error> {
        let key = SweepKey { account: self.account, round: THREAD_REFS };
        match self.row::<Sweeps>(&key) {
            Ok(known) => {
                let known = known.unwrap_or_default();
                self.put::<Sweeps>(&key, &SweepRow { thread: known.thread.max(thread), ..known });
                Ok(())
            }
            // A damaged row is the check's to name, and keeps no mail out.
            Err(Error::Corrupt { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The thread's counters before and after; its own change number moves only with its set of
    /// emails (RFC 8621 §3).
    pub(in crate::store) fn write_thread(
        &mut self,
        id: ThreadId,
        email: EmailId,
        old: Option<&EmailMetadata>,
        new: Option<&EmailMetadata>,
    ) -> Result<(Thread, Thread), Error> {
        let (account, modseq, trash) = (self.account, self.state.modseq, self.state.trash);
        let key = self.thread_key(id);
        let stored = self.row::<Threads>(&key)?;
        let was = stored.clone().unwrap_or_default();
        let mut now = stored.clone().unwrap_or(Thread {
            created: modseq,
            updated: modseq,
            latest: email,
            ..was.clone()
        });
        if let Some(old) = old {
            now.count(old, trash, false);
        }
        if let Some(new) = new {
            now.count(new, trash, true);
        }
        if old.is_none() || new.is_none() {
            if stored.is_some() {
                self.delete::<ThreadByModseq>(&ModSeqKey { account, modseq: was.updated });
            }
            self.put::<ThreadByModseq>(&ModSeqKey { account, modseq }, &id);
            now.updated = modseq;
            now.deleted = now.emails == 0;
            now.latest = match new {
                Some(_) => now.latest.min(email),
                None => self.latest_of(id)?.unwrap_or_default(),
            };
            self.touch(DataType::Thread);
        }
        if stored.as_ref() != Some(&now) {
            self.put::<Threads>(&key, &now);
        }
        Ok((was, now))
    }

    fn latest_of(&self, thread: ThreadId) -> Result<Option<EmailId>, Error> {
        let range = KeyRange::<EmailByThread>::under(&(self.account, thread));
        Ok(self.first_key(&range)?.map(|key| key.email))
    }
}
