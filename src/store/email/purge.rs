//! Purges destroyed emails with the threads that died with them, and destroyed mailboxes.
//!
//! The low mark of a data type moves in the batch that purges. A state below it is refused.

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

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PurgeResult {
    pub emails: usize,
    pub threads: usize,
    pub has_more: bool,
}

impl Txn<'_> {
    /// Purges up to `limit` emails that were destroyed at `upto` or before, the first destroyed
    /// first. `limit` is at least 1.
    pub fn purge_emails(&mut self, upto: UtcMillis, limit: usize) -> Result<PurgeResult, Error> {
        let before = UtcMillis(upto.0.saturating_add(1));
        let range = KeyRange::<EmailPurge>::before(
            &(self.account,),
            &(self.account, KeyTime::from(before)),
        );
        let mut rows = Vec::new();
        self.keys(&range, |key, _| {
            rows.push(key);
            Ok(rows.len() < limit)
        })?;
        let mut done = PurgeResult { has_more: rows.len() >= limit, ..PurgeResult::default() };
        for row in rows {
            self.delete::<EmailPurge>(&row);
            let id = row.email;
            let found = self.email_row(id)?;
            // The email is missing only if the account is being erased.
            if let Some(email) = found.filter(|email| email.destroyed.is_some()) {
                done.emails += 1;
                done.threads += usize::from(self.purge(id, &email)?);
            }
        }
        Ok(done)
    }

    /// Purges one destroyed email, however long ago it was destroyed.
    ///
    /// # Errors
    /// `NotFound` if there is no tombstone; those of reading.
    pub fn purge_email(&mut self, id: EmailId) -> Result<(), Error> {
        let found = self.email_row(id)?;
        let found = found.and_then(|email| email.destroyed.map(|at| (email, at)));
        let (email, at) = found.ok_or(Error::NotFound("destroyed email"))?;
        self.delete::<EmailPurge>(&PurgeKey { account: self.account, at: at.into(), email: id });
        self.purge(id, &email).map(drop)
    }

    /// Deletes all rows of a destroyed email. Returns whether its thread was deleted, too.
    fn purge(&mut self, id: EmailId, email: &EmailMetadata) -> Result<bool, Error> {
        let (own, change) =
            (self.email_key(id), ModSeqKey { account: self.account, modseq: email.updated });
        self.delete::<table::EmailMetadata>(&own);
        self.delete::<EmailByModseq>(&change);
        self.delete::<EmailContent>(&own);
        self.delete_tokens(id)?;
        // If the email was restored, the new one has the reference to the message.
        if self.bytes::<BlobRefs>(&self.blob_ref_key(email.blob, id))?.is_some() {
            self.release_email_blob(&email.blob, id);
        }
        self.raise_low_mark(DataType::Email, email.updated);
        // A thread dies by the change that destroys its last email, and keeps that modseq.
        let thread_key = self.thread_key(email.thread);
        let thread = self.row::<Threads>(&thread_key)?;
        let is_last =
            thread.is_some_and(|thread| thread.destroyed && thread.updated == email.updated);
        if is_last {
            self.delete::<Threads>(&thread_key);
            self.delete::<ThreadByModseq>(&change);
            self.raise_low_mark(DataType::Thread, email.updated);
        }
        Ok(is_last)
    }

    /// Deletes up to `limit` rows of listings and subscriptions of destroyed mailboxes, however
    /// long ago they were destroyed. Their tombstones stay. Returns whether more may be left.
    pub fn clear_destroyed_mailboxes(&mut self, limit: usize) -> Result<bool, Error> {
        let mut rows_left = limit;
        for (uid, _) in self.dead_mailboxes()? {
            rows_left = rows_left.saturating_sub(self.delete_rows_of(uid, rows_left)?);
            if rows_left == 0 {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Deletes the tombstones of mailboxes that were destroyed by change `bound` or before, and
    /// what `clear_destroyed_mailboxes` has not deleted of them yet: up to `limit` rows. Returns
    /// how many.
    pub(in crate::store) fn purge_mailboxes(
        &mut self,
        bound: ModSeq,
        limit: usize,
    ) -> Result<usize, Error> {
        let mut rows = 0;
        for (uid, mailbox) in
            self.dead_mailboxes()?.into_iter().filter(|(_, mailbox)| mailbox.updated <= bound)
        {
            rows += self.delete_rows_of(uid, limit.saturating_sub(rows))?;
            if rows >= limit {
                break;
            }
            self.delete::<Mailboxes>(&self.mailbox_key(uid));
            self.raise_low_mark(DataType::Mailbox, mailbox.updated);
            rows += 1;
        }
        Ok(rows)
    }

    /// Returns the tombstones of mailboxes.
    fn dead_mailboxes(&self) -> Result<Vec<(MailboxUid, Mailbox)>, Error> {
        let mut dead = Vec::new();
        self.rows(&KeyRange::<Mailboxes>::under(&(self.account,)), |key, mailbox| {
            if mailbox.destroyed {
                dead.push((key.mailbox, mailbox));
            }
            Ok(true)
        })?;
        Ok(dead)
    }

    /// Deletes up to `limit` rows of listings and subscriptions of a mailbox. Returns how many.
    fn delete_rows_of(&mut self, uid: MailboxUid, limit: usize) -> Result<usize, Error> {
        let of = (self.account, uid);
        let rows = self.delete_listings(&of, limit)?;
        Ok(rows
            + self
                .delete_range::<Subscriptions>(&KeyRange::under(&of), limit.saturating_sub(rows))?)
    }
}
