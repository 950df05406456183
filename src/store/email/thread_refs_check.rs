//! Checks, in a deep check, that the keys (`ThreadKey`) of each live email's message lead to its
//! thread: a row of `thread_refs` for each key names the thread.
//!
//! A reference may be missing without a fault: a sweep drops references that were not seen for long
//! and references to dead threads, and notes in `sweeps` what it may have dropped. So an email
//! whose references may be too old is not checked. Of the others:
//!
//! - An email joins the oldest live thread that its keys name. From then on each of its keys names
//!   this thread, which lives, or a younger one. So a missing row is surely a fault if no reference
//!   to a younger thread was ever dropped. Replacing a reference to a dead thread counts as
//!   dropping it.
//! - If the email began its thread, all its keys name the thread while the thread lives.
//!
//! Other missing rows are reported only if some row of the account is surely lost.

use std::time::Duration;

use crate::model::{DataType, EmailMetadata, ModSeq, ThreadId, ThreadKey, UtcMillis};
use crate::store::engine::Table;
use crate::store::engine::typed::TypedRead as _;
use crate::store::error::Error;
use crate::store::repair::check::{Checker, RowFix};
use crate::store::row::{
    BlobRow, EncodedMessage, HistoryRow, RowFormat as _, SweepRow, ThreadRef, ThreadRefRow,
};
use crate::store::table::codec::Prefix as _;
use crate::store::table::keys::{BlobKey, EmailKey, SweepKey, ThreadIdKey, ThreadRefKey};
use crate::store::table::{self, Blobs, History, Sweeps, Threads};
use crate::store::txn::THREAD_REFS;

/// By how much the time of a reference may be off: `ThreadRef::seen` is exact to a day, and another
/// day is allowed for a clock that was set.
const LAST_SEEN_TOLERANCE: Duration = Duration::from_secs(2 * 24 * 3600);

/// What the check of an account's references has learned.
#[derive(Debug, Default)]
pub(in crate::store) struct Refs {
    /// What the sweep over references, and `thread_for`, noted of those that were dropped.
    swept: SweepRow,
    /// The notes of history, ascending: a time, and the newest modseq at that time. A note covers
    /// the changes up to this modseq.
    notes: Vec<(UtcMillis, ModSeq)>,
    /// Whether a row of the account is surely lost.
    is_damaged: bool,
    /// Positions in the census of emails with a missing row that may have gone with a dead thread.
    uncertain: Vec<u32>,
}

impl Refs {
    /// Returns the earliest time at which an email may have been filed: the time of the last note
    /// of history that does not cover its creation, or `receivedAt` if this is later. An import may
    /// set a `receivedAt` after the filing, so the time of the first note that covers the creation
    /// counts in place of a later `receivedAt`.
    fn earliest_filing(&self, email: &EmailMetadata) -> UtcMillis {
        let covers = |(_, modseq): &&(UtcMillis, ModSeq)| *modseq >= email.created;
        let before = self.notes.iter().rev().find(|note| !covers(note)).map(|(at, _)| *at);
        let until = self.notes.iter().find(covers).map(|(at, _)| *at);
        let received = until.map_or(email.received_at, |until| email.received_at.min(until));
        before.map_or(received, |before| before.max(received))
    }

    /// Whether the sweep may have dropped the references of an email because of their age.
    fn may_be_expired(&self, email: &EmailMetadata) -> bool {
        self.swept.upto > UtcMillis(0)
            && self.earliest_filing(email).before(LAST_SEEN_TOLERANCE) <= self.swept.upto
    }
}

impl Checker<'_> {
    /// Reads what the other functions need of `sweeps` and `history`. Must be called before them.
    pub(in crate::store) fn read_history(&mut self) -> Result<(), Error> {
        let sweep = SweepKey { account: self.account, number: THREAD_REFS };
        self.refs.swept = self.readable::<Sweeps>(&sweep)?.unwrap_or_default();
        let mut notes = self.rows::<History>();
        while let Some(found) = notes.next()? {
            if let (Some(key), Ok(HistoryRow(modseq))) = (found.id(), found.row()) {
                self.refs.notes.push((key.at.into(), modseq));
            }
        }
        Ok(())
    }

    /// Checks the references of a live email, which is about to be added to the census. `keys` are
    /// those of its message.
    pub(in crate::store) fn check_references(
        &mut self,
        email: &EmailMetadata,
        keys: &[ThreadKey],
    ) -> Result<(), Error> {
        if self.refs.may_be_expired(email) {
            return Ok(());
        }
        match self.missing_reference(email, keys)? {
            MissingReference::None => return Ok(()),
            MissingReference::Thread => {
                return if self.is_first(email)? {
                    self.write_references(email, keys)
                } else {
                    Ok(())
                };
            }
            MissingReference::Row if self.is_surely_lost(email)? => {
                self.refs.is_damaged = true;
                return self.write_references(email, keys);
            }
            MissingReference::Row => {}
        }
        self.refs.uncertain.push(u32::try_from(self.census.mails.len()).unwrap_or(u32::MAX));
        Ok(())
    }

    /// Reports the missing rows that may have gone with a dead thread, if others are surely lost.
    pub(in crate::store) fn check_uncertain_references(&mut self) -> Result<(), Error> {
        let uncertain = std::mem::take(&mut self.refs.uncertain);
        let Some(make_rows) = self.options.make_rows.filter(|_| self.refs.is_damaged) else {
            return Ok(());
        };
        for mail in uncertain.into_iter().filter_map(|at| self.census.mail(at)) {
            let key = EmailKey { account: self.account, email: mail.id };
            // A lost email is recovered first, and checked in the next round.
            let Some(email) = self.readable::<table::EmailMetadata>(&key)? else { continue };
            if let Some(raw) = self.whole_message(mail.id, &email)? {
                self.write_references(&email, &EncodedMessage::new(&make_rows(&raw)).thread_keys)?;
            }
        }
        Ok(())
    }

    fn reference(&self, key: &ThreadKey) -> ThreadRefKey {
        ThreadRefKey { account: self.account, key: *key }
    }

    /// Returns what is missing of an email's references.
    fn missing_reference(
        &self,
        email: &EmailMetadata,
        keys: &[ThreadKey],
    ) -> Result<MissingReference, Error> {
        let mut missing = MissingReference::None;
        for thread_key in keys {
            match self.read.row_if_any::<table::ThreadRefs>(&self.reference(thread_key))? {
                None => return Ok(MissingReference::Row),
                Some(row) if is_named(&row, email.thread) => {}
                Some(_) => missing = MissingReference::Thread,
            }
        }
        Ok(missing)
    }

    /// Whether a missing row of one of the email's keys is surely a fault: no reference to a
    /// younger thread was dropped, or the email began its thread.
    fn is_surely_lost(&self, email: &EmailMetadata) -> Result<bool, Error> {
        Ok(email.thread >= self.refs.swept.thread || self.is_first(email)?)
    }

    /// Whether the email surely began its thread.
    fn is_first(&self, email: &EmailMetadata) -> Result<bool, Error> {
        // The row of a repaired thread may name a later email as its first. A repair raises the low
        // mark, so earlier emails are not certain.
        let purged = self
            .found_state
            .as_ref()
            .map_or(ModSeq(u64::MAX), |state| state.low_mark(DataType::Thread));
        let row =
            self.readable::<Threads>(&ThreadIdKey { account: self.account, thread: email.thread })?;
        Ok(email.created > purged && row.is_some_and(|row| row.created == email.created))
    }

    /// Reports the references by these keys that are missing, each with its fix. A row that does
    /// not name the thread lacks the reference only if the email began its thread.
    fn write_references(&self, email: &EmailMetadata, keys: &[ThreadKey]) -> Result<(), Error> {
        let put = self.read.row_with::<Blobs, _>(&BlobKey { blob: email.blob }, |key, row| {
            Ok(BlobRow::decode(key, row).ok().map(|blob| blob.at))
        })?;
        let seen = self.refs.earliest_filing(email).max(put.flatten().unwrap_or_default());
        let (ThreadId(number), reference) =
            (email.thread, ThreadRef { thread: email.thread, seen });
        let is_first = self.is_first(email)?;
        for thread_key in keys {
            let key = self.reference(thread_key);
            let (problem, mut refs) = match self.read.row_if_any::<table::ThreadRefs>(&key)? {
                None => ("the row is missing", ThreadRefRow::default()),
                Some(row) if !is_first || is_named(&row, email.thread) => continue,
                Some(row) => ("the row names other threads", row.unwrap_or_default()),
            };
            refs.restore(reference);
            let what = format!(
                "{problem}: an answer to a message of thread {number} would begin a new thread"
            );
            self.report(Table::ThreadRefs, &key.encode(), what, RowFix::Put(refs.to_bytes()))?;
        }
        Ok(())
    }
}

/// What is missing of an email's references.
enum MissingReference {
    None,
    /// Every key has a row, but one or more do not name the email's thread.
    Thread,
    /// At least one key has no row.
    Row,
}

/// Whether a row may name a thread; a damaged one may.
fn is_named(row: &Result<ThreadRefRow, Error>, thread: ThreadId) -> bool {
    row.as_ref().map_or(true, |refs| refs.may_name(thread))
}
