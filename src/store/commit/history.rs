//! The history of listings, and how old a change is.
//!
//! Rows of history bear change numbers and no time. So an account that changed is noted once a day: how far its changes had
//! come at that time. What a note covers happened before the note was made: what is purged by a note is at least as old as
//! the note, and never younger. A time in every row would cost every change; a note costs one row a day of an account that
//! changes.

use std::time::Duration;

use super::Txn;
use crate::model::{Kept, Listing, MailboxUid, ModSeq, UtcMillis};
use crate::store::engine::{Read, Table, after};
use crate::store::error::Error;
use crate::store::key::{self, Parts};
use crate::store::row::{Noted, Row};

impl Txn<'_> {
    /// Notes how far the account's changes have come, where it changed and `every` went by since the last note. Says
    /// whether it did.
    ///
    /// # Errors
    /// Those of reading.
    pub fn note_history(&mut self, every: Duration) -> Result<bool, Error> {
        let last = self.noted(UtcMillis(i64::MAX - 1))?;
        let current = last.is_some_and(|(at, modseq)| modseq == self.state.modseq || self.now < at.after(every));
        if !current {
            self.put_row(key::history(self.account, self.now), &Noted(self.state.modseq));
        }
        Ok(!current)
    }

    /// Deletes up to `most` rows of history that were over at `upto` or before: of listings what left them, with the
    /// listing's low mark moved to the last that went; then tombstones of mailboxes and of small objects. Says whether more may be left.
    ///
    /// # Errors
    /// Those of reading.
    pub fn purge_history(&mut self, upto: UtcMillis, most: usize) -> Result<bool, Error> {
        let Some((at, bound)) = self.noted(upto)? else { return Ok(false) };
        let mut rows = self.purge_listings(bound, most)?;
        if rows < most {
            rows += self.purge_mailboxes(bound, most.saturating_sub(rows))?;
        }
        if rows < most {
            rows += self.purge_objects(bound, most.saturating_sub(rows))?;
        }
        if rows < most {
            // All that this note covers is gone: it and those before it are of no use any more.
            let (from, to) = (key::account(self.account), after(&key::history(self.account, at)));
            let mut notes = Vec::new();
            self.scan(Table::History, &from, &to, false, &mut |key, _| {
                notes.push(key.to_vec());
                Ok(true)
            })?;
            notes.into_iter().for_each(|key| self.delete(Table::History, key));
        }
        Ok(rows >= most)
    }

    /// The newest note made at `upto` or before: when, and how far changes had come.
    fn noted(&self, upto: UtcMillis) -> Result<Option<(UtcMillis, ModSeq)>, Error> {
        let (from, to) = (key::account(self.account), after(&key::history(self.account, upto)));
        let mut found = None;
        self.scan(Table::History, &from, &to, true, &mut |key, value| {
            let at = i64::try_from(Parts::of(Table::History, key).u64()?).unwrap_or(i64::MAX);
            found = Some((UtcMillis(at), Noted::decode(key, value)?.0));
            Ok(false)
        })?;
        Ok(found)
    }

    /// Gives how many rows it deleted.
    fn purge_listings(&mut self, bound: ModSeq, most: usize) -> Result<usize, Error> {
        let mailboxes = self.view().mailboxes(self.account)?;
        let all = mailboxes.into_iter().map(|(uid, mailbox)| (uid, mailbox.kept));
        let all: Vec<(MailboxUid, Vec<Kept>)> = all.chain([(MailboxUid::ALL, self.state.kept.clone())]).collect();
        let mut rows = 0;
        for (uid, mut kept) in all {
            let before = rows;
            for entry in kept.iter_mut().filter(|entry| entry.is_whole()) {
                for shape in entry.shapes() {
                    let listing = Listing { uid, view: entry.view, shape: *shape };
                    let (gone, last) = self.purge_listing(listing, bound, most.saturating_sub(rows))?;
                    rows += gone;
                    let low = &mut entry.tally_mut(*shape).low;
                    *low = last.max(*low);
                }
            }
            if rows > before {
                self.set_kept(uid, kept)?;
            }
        }
        Ok(rows)
    }

    /// Gives how many rows it deleted, and the last change among them.
    fn purge_listing(&mut self, listing: Listing, bound: ModSeq, most: usize) -> Result<(usize, ModSeq), Error> {
        let row = |removed| key::list(self.account, listing, removed, ModSeq(0));
        let (mut gone, mut last) = (Vec::new(), ModSeq(0));
        if most > 0 {
            self.scan(Table::MailboxEmailList, &row(ModSeq(1)), &row(bound.next()), false, &mut |key, _| {
                let mut parts = Parts::of(Table::MailboxEmailList, key);
                parts.u64()?;
                last = ModSeq(parts.u64()?);
                gone.push(key.to_vec());
                Ok(gone.len() < most)
            })?;
        }
        let rows = gone.len();
        gone.into_iter().for_each(|key| self.delete(Table::MailboxEmailList, key));
        Ok((rows, last))
    }
}
