//! The end of what was destroyed: emails after their grace time with the threads that died with
//! them, and what is left of destroyed mailboxes.
//!
//! The low mark of a type is the highest change that was really purged, and moves in the batch that
//! purges it: a state equal to it is still served, one below it is refused, and none in between is
//! served wrongly.

use crate::model::{DataType, EmailId, EmailMetadata, Mailbox, MailboxUid, ModSeq, UtcMillis};
use crate::store::engine::typed::{KeyRange, TypedRead as _};
use crate::store::error::Error;
use crate::store::table::codec::KeyTime;
use crate::store::table::keys::{ModSeqKey, PurgeKey};
use crate::store::table::{
    self, BlobRefs, EmailByModseq, EmailContent, EmailPurge, Mailboxes, Subscriptions,
    ThreadByModseq, Threads,
};
use crate::store::txn::Txn;

/// What a step of purging did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PurgeResult {
    /// Emails that are gone for good.
    pub emails: usize,
    /// Threads that died with them.
    pub threads: usize,
    /// Whether more may be left.
    pub left: bool,
}

impl Txn<'_> {
    /// Purges up to `most` emails that were destroyed at `upto` or before, the first destroyed
    /// first.
    ///
    /// # Errors
    /// Those of reading.
    pub fn purge_emails(&mut self, upto: UtcMillis, most: usize) -> Result<PurgeResult, Error> {
        let over = UtcMillis(upto.0.saturating_add(1));
        let range =
            KeyRange::<EmailPurge>::before(&(self.account,), &(self.account, KeyTime::from(over)));
        let mut rows = Vec::new();
        self.keys(&range, |key, _| {
            rows.push(key);
            Ok(rows.len() < most)
        })?;
        let mut done = PurgeResult { left: rows.len() >= most, ..PurgeResult::default() };
        for row in rows {
            self.delete::<EmailPurge>(&row);
            let id = row.email;
            let found = self.email_row(id)?;
            // Without its email the row is one of an account that is being erased.
            if let Some(email) = found.filter(|email| email.deleted.is_some()) {
                done.emails += 1;
                done.threads += usize::from(self.purge(id, &email)?);
            }
        }
        Ok(done)
    }

    /// Purges one destroyed email, whatever its time.
    ///
    /// # Errors
    /// `NotFound`; those of reading.
    pub fn purge_email(&mut self, id: EmailId) -> Result<(), Error> {
        let found = self.email_row(id)?;
        let found = found.and_then(|email| email.deleted.map(|at| (email, at)));
        let (email, at) = found.ok_or(Error::NotFound("destroyed email"))?;
        self.delete::<EmailPurge>(&PurgeKey { account: self.account, at: at.into(), email: id });
        self.purge(id, &email).map(drop)
    }

    /// Says whether its thread went with it.
    fn purge(&mut self, id: EmailId, email: &EmailMetadata) -> Result<bool, Error> {
        let (own, change) =
            (self.email_key(id), ModSeqKey { account: self.account, modseq: email.updated });
        self.delete::<table::EmailMetadata>(&own);
        self.delete::<EmailByModseq>(&change);
        self.delete::<EmailContent>(&own);
        self.delete_tokens(id)?;
        if self.bytes::<BlobRefs>(&self.blob_ref_key(email.blob, id))?.is_some() {
            self.release_email_blob(&email.blob, id);
        }
        self.raise_low_mark(DataType::Email, email.updated);
        // A thread dies by the change that destroys its last email, and has that number.
        let thread_key = self.thread_key(email.thread);
        let thread = self.row::<Threads>(&thread_key)?;
        let killed = thread.is_some_and(|thread| thread.deleted && thread.updated == email.updated);
        if killed {
            self.delete::<Threads>(&thread_key);
            self.delete::<ThreadByModseq>(&change);
            self.raise_low_mark(DataType::Thread, email.updated);
        }
        Ok(killed)
    }

    /// Deletes up to `most` rows that destroyed mailboxes left behind: nobody can ask for their
    /// listings any more. Says whether more may be left.
    ///
    /// # Errors
    /// Those of reading.
    pub fn clear_destroyed_mailboxes(&mut self, most: usize) -> Result<bool, Error> {
        let mut room = most;
        for (uid, _) in self.dead_mailboxes()? {
            room = room.saturating_sub(self.delete_rows_of(uid, room)?);
            if room == 0 {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Deletes the tombstones of mailboxes that were destroyed by a change up to `bound`, and first
    /// what they left behind; up to `most` rows. Gives how many.
    pub(in crate::store) fn purge_mailboxes(
        &mut self,
        bound: ModSeq,
        most: usize,
    ) -> Result<usize, Error> {
        let mut rows = 0;
        for (uid, mailbox) in
            self.dead_mailboxes()?.into_iter().filter(|(_, mailbox)| mailbox.updated <= bound)
        {
            rows += self.delete_rows_of(uid, most.saturating_sub(rows))?;
            if rows >= most {
                break;
            }
            self.delete::<Mailboxes>(&self.mailbox_key(uid));
            self.raise_low_mark(DataType::Mailbox, mailbox.updated);
            rows += 1;
        }
        Ok(rows)
    }

    fn dead_mailboxes(&self) -> Result<Vec<(MailboxUid, Mailbox)>, Error> {
        let mut dead = Vec::new();
        self.rows(&KeyRange::<Mailboxes>::under(&(self.account,)), |key, mailbox| {
            if mailbox.deleted {
                dead.push((key.mailbox, mailbox));
            }
            Ok(true)
        })?;
        Ok(dead)
    }

    fn delete_rows_of(&mut self, uid: MailboxUid, most: usize) -> Result<usize, Error> {
        let of = (self.account, uid);
        let rows = self.delete_listings(&of, most)?;
        Ok(rows
            + self
                .delete_range::<Subscriptions>(&KeyRange::under(&of), most.saturating_sub(rows))?)
    }
}
