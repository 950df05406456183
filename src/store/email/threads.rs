//! Finds the thread of a message, and maintains the counters of threads.
//!
//! - A thread is found by the Message-IDs that a message names, each with the message's base
//!   subject (`ThreadKey`).
//! - Threads are never merged. A dead thread, whose emails are all destroyed, never lives again.

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

/// How exact `ThreadRef::seen` is: a time that is not older than this is left as it is, so that a
/// busy thread does not rewrite its references with every email.
const LAST_SEEN_RESOLUTION: Duration = Duration::from_secs(24 * 3600);

/// The threads that a key names, as one user sees them.
struct ThreadsOfKey {
    key: ThreadRefKey,
    refs: ThreadRefRow,
    /// The position in `refs` of the first live thread that the user may see; `None` if there is
    /// none.
    found: Option<usize>,
    /// The dead threads before `found`, or all dead ones if `found` is `None`.
    dead: Vec<ThreadId>,
}

impl ThreadsOfKey {
    /// The thread at `found`.
    fn thread(&self) -> Option<ThreadId> {
        self.found.and_then(|at| self.refs.0.get(at)).map(|named| named.thread)
    }
}

impl Txn<'_> {
    /// Returns the thread for a message with these keys: the oldest of the first live threads that
    /// the keys name, or else a new thread. A key that named no live thread then names the returned
    /// thread. A key that named a live thread still names it, even if another thread is returned.
    ///
    /// `open` are the mailboxes that a filing guest may read (`None`: all). Threads without an
    /// email in these mailboxes are ignored, so that the guest cannot find out about them. If a key
    /// names only ignored threads, the returned thread is added behind them, and the next delivered
    /// message with the key still joins the first ignored thread.
    pub(in crate::store) fn thread_for(
        &mut self,
        keys: &[ThreadKey],
        open: Option<&BTreeSet<MailboxUid>>,
    ) -> Result<ThreadId, Error> {
        let mut found_by_key = Vec::with_capacity(keys.len());
        for thread_key in keys {
            found_by_key.push(self.threads_of_key(thread_key, open)?);
        }
        let thread = match found_by_key.iter().filter_map(ThreadsOfKey::thread).min() {
            Some(oldest) => oldest,
            None => {
                self.state.last_thread += 1;
                let new = ThreadId(self.state.last_thread);
                // Only the state says that the number is new.
                if self.state_before.is_some() {
                    self.note_absent::<Threads>(&self.thread_key(new));
                }
                new
            }
        };
        let now = self.now;
        // The newest dead thread whose reference was dropped.
        let mut forgotten: Option<ThreadId> = None;
        for ThreadsOfKey { key, mut refs, found, dead } in found_by_key {
            match found.and_then(|at| refs.0.get_mut(at)) {
                Some(named)
                    if named.seen <= now && now.since(named.seen) < LAST_SEEN_RESOLUTION =>
                {
                    continue;
                }
                Some(named) => named.seen = now,
                None => forgotten = forgotten.max(refs.add(ThreadRef { thread, seen: now }, &dead)),
            }
            self.put::<ThreadRefs>(&key, &refs);
        }
        forgotten.map_or(Ok(()), |forgotten| self.note_forgotten(forgotten))?;
        Ok(thread)
    }

    /// Returns the threads that a key names, for a user who may read the mailboxes `open`.
    fn threads_of_key(
        &self,
        thread_key: &ThreadKey,
        open: Option<&BTreeSet<MailboxUid>>,
    ) -> Result<ThreadsOfKey, Error> {
        let key = ThreadRefKey { account: self.account, key: *thread_key };
        let refs = match self.row::<ThreadRefs>(&key) {
            // A damaged row names no thread, and is replaced.
            Err(Error::Corrupt { .. }) => ThreadRefRow::default(),
            read => read?.unwrap_or_default(),
        };
        let (mut found, mut dead) = (None, Vec::new());
        for (at, named) in refs.0.iter().enumerate() {
            let row = self.row::<Threads>(&self.thread_key(named.thread))?;
            let Some(row) = row.filter(|row| !row.destroyed) else {
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

    /// Notes for the check (`thread_refs_check`) that a reference to this dead thread was dropped,
    /// in the row where the sweep over references notes it.
    fn note_forgotten(&mut self, thread: ThreadId) -> Result<(), Error> {
        let key = SweepKey { account: self.account, number: THREAD_REFS };
        match self.row::<Sweeps>(&key) {
            Ok(row) => {
                let row = row.unwrap_or_default();
                self.put::<Sweeps>(&key, &SweepRow { thread: row.thread.max(thread), ..row });
                Ok(())
            }
            // A damaged row must not prevent a delivery.
            Err(Error::Corrupt { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Updates a thread after a change of one email from `old` (`None`: it is created) to `new`
    /// (`None`: it is destroyed). Returns the thread before the change (one without emails if the
    /// thread is new) and after it. The thread's modseq moves only if it gains or loses an email
    /// (RFC 8621 §3). The caller has updated `email_by_thread`.
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
            now.destroyed = now.emails == 0;
            // The newer of two emails has the smaller id.
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

    /// Returns the newest email of a thread by `email_by_thread`.
    fn latest_of(&self, thread: ThreadId) -> Result<Option<EmailId>, Error> {
        let range = KeyRange::<EmailByThread>::under(&(self.account, thread));
        Ok(self.first_key(&range)?.map(|key| key.email))
    }
}
