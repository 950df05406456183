//! Recounts threads and the counts of mailboxes.

use std::collections::BTreeMap;

use crate::model::{DataType, EmailId, MailboxCounts, MailboxUid, ModSeq, ThreadId};
use crate::store::engine::Table;
use crate::store::error::Error;
use crate::store::listing::check::THREAD_FILTERS;
use crate::store::repair::check::{Checker, RowFix};
use crate::store::row::{RowFormat as _, Thread};
use crate::store::table::codec::Prefix as _;
use crate::store::table::keys::{ModSeqKey, ThreadIdKey};
use crate::store::table::{Table as _, ThreadByModseq, Threads};

/// What the emails and tombstones of a thread say of it.
#[derive(Default)]
struct ThreadRecount {
    /// The counters and the newest email; its other fields are not set.
    thread: Thread,
    /// The lowest modseq of a change that created one of its emails.
    created: u64,
    /// The highest modseq of a change that created or destroyed one of its emails.
    moved: u64,
    /// The modseqs of the changes that destroyed its emails.
    destroyed: Vec<u64>,
}

impl Checker<'_> {
    /// Checks `threads` and `thread_by_modseq`. Needs `Census::by_thread`, and fills
    /// `Census::threads`, `Census::thread_of` and the counts of the census's mailboxes.
    pub(in crate::store) fn check_threads(&mut self) -> Result<(), Error> {
        let mut rows = self.rows::<Threads>();
        let order = std::mem::take(&mut self.census.by_thread);
        let mut thread_of = vec![0u32; self.census.mails.len()];
        let mut counts: BTreeMap<MailboxUid, MailboxCounts> = BTreeMap::new();
        // For each thread: its modseq, whether it is live, and its id.
        let mut numbers: Vec<(u64, bool, u64)> = Vec::new();
        let mut rest = order.as_slice();
        while let Some(id) = rest.first().and_then(|at| self.thread(*at)) {
            let size = rest.iter().take_while(|at| self.thread(**at) == Some(id)).count();
            let (group, following) = rest.split_at(size);
            rest = following;
            let key = ThreadIdKey { account: self.account, thread: id }.encode();
            while let Some(below) = rows.below(&key)? {
                self.report_extra(Table::Threads, &below.key)?;
            }
            let row = rows.raw.at(&key)?;
            let recount = self.recount(group, &mut thread_of);
            let wanted = self.check_thread(&key, row.as_deref(), recount)?;
            let Some(wanted) = wanted else {
                // A purged thread keeps its place in `Census::threads`, and no filter shows it.
                self.census.threads.push(0);
                continue;
            };
            numbers.push((wanted.updated.0, !wanted.destroyed, id.0));
            // One bit for each filter on threads that shows the thread.
            let bits =
                THREAD_FILTERS.iter().enumerate().filter(|(_, filter)| wanted.shows(**filter));
            self.census.threads.push(bits.fold(0, |bits, (at, _)| bits | 1 << at));
            for uid in wanted.members.keys() {
                let counts = counts.entry(*uid).or_default();
                counts.total_threads = counts.total_threads.saturating_add(1);
                let unread = u64::from(wanted.unread_in(*uid, self.census.trash));
                counts.unread_threads = counts.unread_threads.saturating_add(unread);
            }
        }
        while let Some(extra) = rows.next()? {
            self.report_extra(Table::Threads, &extra.key)?;
        }
        self.census.by_thread = order;
        self.census.thread_of = thread_of;
        self.check_thread_modseqs(numbers)?;
        self.recount_mailboxes(counts);
        Ok(())
    }

    /// The thread of the email at this position in `Census::mails`.
    fn thread(&self, at: u32) -> Option<ThreadId> {
        self.census.mail(at).map(|mail| mail.thread)
    }

    /// Recounts the thread that `Census::threads` gets next. `group` are the positions of its
    /// emails and tombstones in `Census::mails`, newest first. Notes in `thread_of` that they
    /// belong to it.
    fn recount(&self, group: &[u32], thread_of: &mut [u32]) -> ThreadRecount {
        let mut recount = ThreadRecount { created: u64::MAX, ..ThreadRecount::default() };
        let own = u32::try_from(self.census.threads.len()).unwrap_or(u32::MAX);
        for at in group {
            let Some(mail) = self.census.mail(*at) else { continue };
            if let Some(slot) = usize::try_from(*at).ok().and_then(|at| thread_of.get_mut(at)) {
                *slot = own;
            }
            recount.created = recount.created.min(mail.created);
            recount.moved =
                recount.moved.max(if mail.is_live() { mail.created } else { mail.updated });
            if !mail.is_live() {
                recount.destroyed.push(mail.updated);
            } else {
                if recount.thread.emails == 0 {
                    recount.thread.latest = mail.id;
                }
                self.census.count(mail, &mut recount.thread);
            }
        }
        recount
    }

    /// Checks the row of a thread with emails or tombstones. Returns the row that it should have.
    /// `None` if the thread was purged although tombstones of its emails are left, which happens if
    /// the clock went back. Then the low mark of threads is not below the thread's last change.
    ///
    /// The modseqs of a thread, and the newest email of a destroyed one, cannot be recounted. They
    /// are taken from the stored row if it is plausible.
    fn check_thread(
        &mut self,
        key: &[u8],
        row: Option<&[u8]>,
        recount: ThreadRecount,
    ) -> Result<Option<Thread>, Error> {
        let destroyed = recount.thread.emails == 0;
        let state = self.found_state.as_ref();
        let limit = state.map_or(u64::MAX, |state| state.modseq.0);
        let purged = state.map_or(0, |state| state.low_mark(DataType::Thread).0);
        let found = row.map(|row| Thread::from_bytes(Threads::ID, key, row));
        let is_plausible = |row: &Thread| {
            row.created <= row.updated
                && row.updated.0 <= limit
                && (!destroyed || recount.destroyed.contains(&row.updated.0))
        };
        let (created, updated, latest) = match &found {
            None if destroyed && recount.moved <= purged => return Ok(None),
            Some(Ok(row)) if is_plausible(row) => (row.created, row.updated, row.latest),
            _ => (ModSeq(recount.created), ModSeq(recount.moved), EmailId::default()),
        };
        let latest = if destroyed { latest } else { recount.thread.latest };
        let wanted = Thread { created, updated, destroyed, latest, ..recount.thread };
        match found {
            Some(Ok(row)) if row == wanted => {}
            Some(Ok(row)) => {
                let what = format!("reads {row:?}, should read {wanted:?}");
                self.report(Table::Threads, key, what, RowFix::Put(wanted.to_bytes()))?;
            }
            Some(Err(error)) => {
                self.report(
                    Table::Threads,
                    key,
                    error.to_string(),
                    RowFix::Put(wanted.to_bytes()),
                )?;
            }
            None => self.report(
                Table::Threads,
                key,
                "the row is missing",
                RowFix::Put(wanted.to_bytes()),
            )?,
        }
        self.note_thread_change(&wanted);
        Ok(Some(wanted))
    }

    /// Notes the modseq of a thread as in use.
    fn note_thread_change(&mut self, thread: &Thread) {
        let census = &mut self.census;
        census.newest_thread = census.newest_thread.max(thread.updated);
        census.high = census.high.max(thread.updated.0);
    }

    /// Checks that no two threads have the same modseq, and compares `thread_by_modseq`. Of a
    /// destroyed and a live thread with the same modseq, the live one gets a new modseq; of two
    /// live or two destroyed threads, the younger one.
    fn check_thread_modseqs(&mut self, mut numbers: Vec<(u64, bool, u64)>) -> Result<(), Error> {
        numbers.sort_unstable();
        let duplicates: Vec<usize> = (1..numbers.len())
            .filter(|at| numbers.get(at - 1).map(|one| one.0) == numbers.get(*at).map(|one| one.0))
            .collect();
        for at in duplicates {
            let fresh = self.fresh_modseq();
            let Some((number, _, id)) = numbers.get_mut(at) else { continue };
            let key = ThreadIdKey { account: self.account, thread: ThreadId(*id) };
            let Some(row) = self.readable::<Threads>(&key)? else {
                continue; // The next round of the repair sees the missing row.
            };
            *number = fresh.0;
            let row = Thread { updated: fresh, ..row };
            let what = "another thread has the same change number";
            self.report(Table::Threads, &key.encode(), what, RowFix::Put(row.to_bytes()))?;
            self.note_thread_change(&row);
        }
        numbers.sort_unstable();
        numbers.dedup_by_key(|one| one.0);
        let account = self.account;
        let rows = numbers
            .into_iter()
            .map(|(number, _, id)| (ModSeqKey { account, modseq: ModSeq(number) }, ThreadId(id)));
        self.expect_rows::<ThreadByModseq>(rows)
    }

    /// Writes the recounted counts into the mailboxes of the census. `counts` has those of threads.
    fn recount_mailboxes(&mut self, mut counts: BTreeMap<MailboxUid, MailboxCounts>) {
        for (uid, members) in &self.census.members {
            let counts = counts.entry(*uid).or_default();
            counts.total_emails = members.len() as u64;
            let unread = members
                .iter()
                .filter_map(|at| self.census.mail(*at))
                .filter(|mail| mail.is_unread());
            counts.unread_emails = unread.count() as u64;
        }
        for (uid, mailbox) in &mut self.census.mailboxes {
            mailbox.counts = counts.remove(uid).unwrap_or_default();
        }
    }
}
