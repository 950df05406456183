//! Messages lead to their threads: each live email whose message was read is asked by which ids its
//! thread is found.
//!
//! A reference is not there where it was not seen for long, or where it named a thread that died:
//! both are forgotten by a sweep, which notes up to which time and which thread it did so
//! (`sweeps`). When an email was filed is not kept: it was no earlier than the last note of history
//! that does not cover its change, and (but for an import dated in the future) no earlier than it
//! was received.
//!
//! An email joins the oldest live thread that its ids name; those that name none name this one from
//! then on. So an id of it names its thread, or a younger one, and what a guest files adds threads
//! to those that an id names and takes none away (`row::thread_ref`). Hence:
//!
//! - A reference that is not there surely was, if no thread younger than the email's was ever
//!   forgotten. What a younger dead thread was named by, and an older one is from then on, counts
//!   as forgotten, too (`email::threads`).
//! - If the email began its thread, all its ids named it, and do so while the thread lives. Earlier
//!   versions let a guest's thread take its place: such a row is named and put right, too.
//!
//! Other ones that are missing may have gone with a thread that died: they are named and written
//! only where one is missing that surely was there. Where several threads were named by one id,
//! each repair's round adds one.

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

/// `lastSeen` is true to a day, and a clock may be set.
const LAST_SEEN_TOLERANCE: Duration = Duration::from_secs(2 * 24 * 3600);

/// What tells whether a reference must be there.
#[derive(Debug, Default)]
pub(in crate::store) struct Refs {
    swept: SweepRow,
    /// When, and how far changes had come; ascending.
    notes: Vec<(UtcMillis, ModSeq)>,
    /// Whether one is missing that surely was there.
    is_hurt: bool,
    /// Emails of which one is missing that may have gone with a thread: positions in the census.
    open: Vec<u32>,
}

impl Refs {
    /// An email was filed no earlier than this.
    fn filed(&self, email: &EmailMetadata) -> UtcMillis {
        let covers = |(_, modseq): &&(UtcMillis, ModSeq)| *modseq >= email.created;
        let before = self.notes.iter().rev().find(|note| !covers(note)).map(|(at, _)| *at);
        let until = self.notes.iter().find(covers).map(|(at, _)| *at);
        let received = until.map_or(email.received_at, |until| email.received_at.min(until));
        before.map_or(received, |before| before.max(received))
    }

    /// Whether its references may have been forgotten for their age.
    fn is_over(&self, email: &EmailMetadata) -> bool {
        self.swept.upto > UtcMillis(0)
            && self.filed(email).before(LAST_SEEN_TOLERANCE) <= self.swept.upto
    }
}

impl Checker<'_> {
    pub(in crate::store) fn read_history(&mut self) -> Result<(), Error> {
        let sweep = SweepKey { account: self.account, round: THREAD_REFS };
        self.refs.swept = self.readable::<Sweeps>(&sweep)?.unwrap_or_default();
        let mut notes = self.rows::<History>();
        while let Some(found) = notes.next()? {
            if let (Some(key), Ok(HistoryRow(modseq))) = (found.id(), found.row()) {
                self.refs.notes.push((key.at.into(), modseq));
            }
        }
        Ok(())
    }

    /// The references of the next live email of the census.
    pub(in crate::store) fn references(
        &mut self,
        email: &EmailMetadata,
        keys: &[ThreadKey],
    ) -> Result<(), Error> {
        if self.refs.is_over(email) {
            return Ok(());
        }
        match self.missing_reference(email, keys)? {
            Lack::Nothing => return Ok(()),
            Lack::Thread => {
                return if self.is_first(email)? {
                    self.write_references(email, keys)
                } else {
                    Ok(())
                };
            }
            Lack::Row if self.is_sure(email)? => {
                self.refs.is_hurt = true;
                return self.write_references(email, keys);
            }
            Lack::Row => {}
        }
        self.refs.open.push(u32::try_from(self.census.mails.len()).unwrap_or(u32::MAX));
        Ok(())
    }

    /// Those that are missing and may have gone with a thread.
    pub(in crate::store) fn check_uncertain_references(&mut self) -> Result<(), Error> {
        let open = std::mem::take(&mut self.refs.open);
        let Some(remake) = self.depth.remake.filter(|_| self.refs.is_hurt) else { return Ok(()) };
        for mail in open.into_iter().filter_map(|at| self.census.mail(at)) {
            let key = EmailKey { account: self.account, email: mail.id };
            // One that is lost comes back first.
            let Some(email) = self.readable::<table::EmailMetadata>(&key)? else { continue };
            if let Some(raw) = self.whole_message(mail.id, &email)? {
                self.write_references(&email, &EncodedMessage::new(&remake(&raw)).thread_keys)?;
            }
        }
        Ok(())
    }

    fn reference(&self, key: &ThreadKey) -> ThreadRefKey {
        ThreadRefKey { account: self.account, key: *key }
    }

    fn missing_reference(&self, email: &EmailMetadata, keys: &[ThreadKey]) -> Result<Lack, Error> {
        let mut lack = Lack::Nothing;
        for thread_key in keys {
            match self.read.row_if_any::<table::ThreadRefs>(&self.reference(thread_key))? {
                None => return Ok(Lack::Row),
                Some(row) if is_named(&row, email.thread) => {}
                Some(_) => lack = Lack::Thread,
            }
        }
        Ok(lack)
    }

    /// Whether all its references must be there.
    fn is_sure(&self, email: &EmailMetadata) -> Result<bool, Error> {
        Ok(email.thread >= self.refs.swept.thread || self.is_first(email)?)
    }

    /// Whether the email surely began its thread.
    fn is_first(&self, email: &EmailMetadata) -> Result<bool, Error> {
        // A thread's row that was mended may name another email as its first: of what was there by
        // then nothing is sure.
        let purged =
            self.found.as_ref().map_or(ModSeq(u64::MAX), |state| state.low_mark(DataType::Thread));
        let row =
            self.readable::<Threads>(&ThreadIdKey { account: self.account, thread: email.thread })?;
        Ok(email.created > purged && row.is_some_and(|row| row.created == email.created))
    }

    fn write_references(&self, email: &EmailMetadata, keys: &[ThreadKey]) -> Result<(), Error> {
        let put = self.read.row_with::<Blobs, _>(&BlobKey { blob: email.blob }, |key, row| {
            Ok(BlobRow::decode(key, row).ok().map(|blob| blob.at))
        })?;
        let seen = self.refs.filed(email).max(put.flatten().unwrap_or_default());
        let (ThreadId(number), lost) = (email.thread, ThreadRef { thread: email.thread, seen });
        let is_first = self.is_first(email)?;
        for thread_key in keys {
            let key = self.reference(thread_key);
            let (wrong, mut refs) = match self.read.row_if_any::<table::ThreadRefs>(&key)? {
                None => ("the row is missing", ThreadRefRow::default()),
                Some(row) if !is_first || is_named(&row, email.thread) => continue,
                Some(row) => ("the row names other threads", row.unwrap_or_default()),
            };
            refs.restore(lost);
            let what =
                format!("{wrong}: an answer to a message of thread {number} begins one of its own");
            self.report(Table::ThreadRefs, &key.encode(), what, RowFix::Put(refs.to_bytes()))?;
        }
        Ok(())
    }
}

/// What an email's references lack.
enum Lack {
    Nothing,
    /// A row that does not name its thread.
    Thread,
    /// A whole row.
    Row,
}

/// Whether a row may name a thread; one that cannot be read is named elsewhere, and deleted.
fn is_named(row: &Result<ThreadRefRow, Error>, thread: ThreadId) -> bool {
    row.as_ref().map_or(true, |refs| refs.may_name(thread))
}
