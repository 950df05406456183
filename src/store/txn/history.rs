//! Purges history by age: what left listings, and tombstones of mailboxes and of small objects.
//!
//! Rows of history have change numbers and no times. So notes say how far the changes of an account
//! had come at a time: changes up to that number are at least as old as the note.

use std::time::Duration;

use crate::model::{Listing, MailboxUid, MaintainedListing, ModSeq, UtcMillis};
use crate::store::engine::typed::{KeyRange, TypedRead as _};
use crate::store::error::Error;
use crate::store::row::HistoryRow;
use crate::store::table::keys::HistoryKey;
use crate::store::table::{History, MailboxEmailList};
use crate::store::txn::Txn;

impl Txn<'_> {
    /// Notes how far the account's changes have come. Does so if there is no note up to now, or if
    /// the last one is at least `every` old and the account has changed since. Replaces notes of
    /// the future by one that covers no more than the last one. Returns whether it did.
    pub fn note_history(&mut self, every: Duration) -> Result<bool, Error> {
        let last = self.last_note(self.now)?;
        let is_current = last
            .is_some_and(|(at, modseq)| modseq == self.state.modseq || self.now < at.after(every));
        if !is_current {
            let key = HistoryKey { account: self.account, at: self.now.into() };
            // With notes of the future, the clock was wrong, or is wrong now. If it is wrong now,
            // the newest changes will turn out to be new.
            let future = KeyRange::<History>::behind(&(self.account,), &key);
            let deleted = self.delete_range(&future, usize::MAX)?;
            let covered = match last {
                _ if deleted == 0 => self.state.modseq,
                Some((_, covered)) => covered,
                None => ModSeq(0),
            };
            self.put::<History>(&key, &HistoryRow(covered));
        }
        Ok(!is_current)
    }

    /// Deletes at most `limit` rows of history that ended, as the notes say, at `upto` or before.
    /// Returns whether more may be left. The low marks of the listings and data types move to the
    /// last deleted change.
    pub fn purge_history(&mut self, upto: UtcMillis, limit: usize) -> Result<bool, Error> {
        let Some((at, bound)) = self.last_note(upto)? else { return Ok(false) };
        let mut rows = self.purge_listings(bound, limit)?;
        if rows < limit {
            rows += self.purge_mailboxes(bound, limit.saturating_sub(rows))?;
        }
        if rows < limit {
            rows += self.purge_objects(bound, limit.saturating_sub(rows))?;
        }
        if rows < limit {
            // Everything that these notes cover is purged.
            self.delete_range(&self.notes_upto(at), usize::MAX)?;
        }
        Ok(rows >= limit)
    }

    /// The newest note made at `upto` or before: its time, and how far the changes had come.
    fn last_note(&self, upto: UtcMillis) -> Result<Option<(UtcMillis, ModSeq)>, Error> {
        let found = self.first(&self.notes_upto(upto).reversed())?;
        Ok(found.map(|(key, HistoryRow(modseq))| (key.at.into(), modseq)))
    }

    fn notes_upto(&self, upto: UtcMillis) -> KeyRange<History> {
        let account = self.account;
        KeyRange::through(&(account,), &HistoryKey { account, at: upto.into() })
    }

    /// Purges the history of all complete listings, up to the change `bound`, and returns how many
    /// rows it deleted.
    fn purge_listings(&mut self, bound: ModSeq, limit: usize) -> Result<usize, Error> {
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
                    let (deleted, last) =
                        self.purge_listing(listing, bound, limit.saturating_sub(rows))?;
                    rows += deleted;
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

    /// Purges the history of a listing up to the change `bound`. Returns how many rows it deleted,
    /// and the last change among them. The rows of emails that the listing still shows stay: in
    /// them, `removed` is 0.
    fn purge_listing(
        &mut self,
        listing: Listing,
        bound: ModSeq,
        limit: usize,
    ) -> Result<(usize, ModSeq), Error> {
        let mut keys = Vec::new();
        if limit > 0 {
            let removed = |modseq| (self.account, listing, modseq);
            let left =
                KeyRange::<MailboxEmailList>::between(&removed(ModSeq(1)), &removed(bound.next()));
            self.keys(&left, |key, _| {
                keys.push(key);
                Ok(keys.len() < limit)
            })?;
        }
        keys.iter().for_each(|key| self.delete::<MailboxEmailList>(key));
        Ok((keys.len(), keys.last().map_or(ModSeq(0), |key| key.removed)))
    }
}
