//! The history of listings, and how old a change is.
//!
//! Rows of history bear change numbers and no time. So an account that changed is noted once a day:
//! how far its changes had come at that time. What a note covers happened before the note was made:
//! what is purged by a note is at least as old as the note, and never younger. A time in every row
//! would cost every change; a note costs one row a day of an account that changes.

use std::time::Duration;

use crate::model::{Listing, MailboxUid, MaintainedListing, ModSeq, UtcMillis};
use crate::store::engine::typed::{KeyRange, TypedRead as _};
use crate::store::error::Error;
use crate::store::row::HistoryRow;
use crate::store::table::keys::HistoryKey;
use crate::store::table::{History, MailboxEmailList};
use crate::store::txn::Txn;

impl Txn<'_> {
    /// Notes how far the account's changes have come, where it changed and `every` went by since
    /// the last note. Says whether it did.
    ///
    /// # Errors
    /// Those of reading.
    pub fn note_history(&mut self, every: Duration) -> Result<bool, Error> {
        let last = self.noted(UtcMillis(i64::MAX - 1))?;
        let current = last
            .is_some_and(|(at, modseq)| modseq == self.state.modseq || self.now < at.after(every));
        if !current {
            let key = HistoryKey { account: self.account, at: self.now.into() };
            self.put::<History>(&key, &HistoryRow(self.state.modseq));
        }
        Ok(!current)
    }

    /// Deletes up to `most` rows of history that were over at `upto` or before: of listings what
    /// left them, with the listing's low mark moved to the last that went; then tombstones of
    /// mailboxes and of small objects. Says whether more may be left.
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
            self.delete_range(&self.notes_upto(at), usize::MAX)?;
        }
        Ok(rows >= most)
    }

    /// The newest note made at `upto` or before: when, and how far changes had come.
    fn noted(&self, upto: UtcMillis) -> Result<Option<(UtcMillis, ModSeq)>, Error> {
        let found = self.first(&self.notes_upto(upto).reversed())?;
        Ok(found.map(|(key, HistoryRow(modseq))| (key.at.into(), modseq)))
    }

    /// The notes made at `upto` or before.
    fn notes_upto(&self, upto: UtcMillis) -> KeyRange<History> {
        let account = self.account;
        KeyRange::through(&(account,), &HistoryKey { account, at: upto.into() })
    }

    /// Gives how many rows it deleted.
    fn purge_listings(&mut self, bound: ModSeq, most: usize) -> Result<usize, Error> {
        let mailboxes = self.snapshot().mailboxes(self.account)?;
        let all = mailboxes.into_iter().map(|(uid, mailbox)| (uid, mailbox.listings));
        let all: Vec<(MailboxUid, Vec<MaintainedListing>)> =
            all.chain([(MailboxUid::ALL, self.state.listings.clone())]).collect();
        let mut rows = 0;
        for (uid, mut listings) in all {
            let before = rows;
            for entry in listings.iter_mut().filter(|entry| entry.is_complete()) {
                for shape in entry.shapes() {
                    let listing = Listing { uid, filter: entry.filter, shape: *shape };
                    let (gone, last) =
                        self.purge_listing(listing, bound, most.saturating_sub(rows))?;
                    rows += gone;
                    let low = &mut entry.stats_mut(*shape).low;
                    *low = last.max(*low);
                }
            }
            if rows > before {
                self.set_maintained_listings(uid, listings)?;
            }
        }
        Ok(rows)
    }

    /// Gives how many rows it deleted, and the last change among them.
    fn purge_listing(
        &mut self,
        listing: Listing,
        bound: ModSeq,
        most: usize,
    ) -> Result<(usize, ModSeq), Error> {
        let mut gone = Vec::new();
        if most > 0 {
            let removed = |modseq| (self.account, listing, modseq);
            let left =
                KeyRange::<MailboxEmailList>::between(&removed(ModSeq(1)), &removed(bound.next()));
            self.keys(&left, |key, _| {
                gone.push(key);
                Ok(gone.len() < most)
            })?;
        }
        gone.iter().for_each(|key| self.delete::<MailboxEmailList>(key));
        Ok((gone.len(), gone.last().map_or(ModSeq(0), |key| key.removed)))
    }
}
