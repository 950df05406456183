//! The end of what was destroyed: emails after their grace time with the threads that died with them, and what is left of
//! destroyed mailboxes.
//!
//! The low mark of a type is the highest change that was really purged, and moves in the batch that purges it: a state
//! equal to it is still served, one below it is refused, and none in between is served wrongly.

use super::Txn;
use crate::model::{DataType, EmailId, EmailMetadata, Mailbox, MailboxUid, ModSeq, UtcMillis};
use crate::store::engine::{Read, Table, after};
use crate::store::error::Error;
use crate::store::key::{self, Parts};
use crate::store::row::{Row, Thread};

/// What a step of purging did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Purged {
    /// Emails that are gone for good.
    pub emails: usize,
    /// Threads that died with them.
    pub threads: usize,
    /// Whether more may be left.
    pub left: bool,
}

impl Txn<'_> {
    /// Purges up to `most` emails that were destroyed at `upto` or before, the first destroyed first.
    ///
    /// # Errors
    /// Those of reading.
    pub fn purge_emails(&mut self, upto: UtcMillis, most: usize) -> Result<Purged, Error> {
        let over = UtcMillis(upto.0.saturating_add(1));
        let (from, to) = (key::account(self.account), key::purge(self.account, over, EmailId(0)));
        let mut rows = Vec::new();
        self.scan(Table::EmailPurge, &from, &to, false, &mut |key, _| {
            rows.push((key.to_vec(), EmailId(Parts::of(Table::EmailPurge, key).u64()?)));
            Ok(rows.len() < most)
        })?;
        let mut done = Purged { left: rows.len() >= most, ..Purged::default() };
        for (row, id) in rows {
            self.delete(Table::EmailPurge, row);
            let found = self.row::<EmailMetadata>(&key::email(self.account, id))?;
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
        let found = self.row::<EmailMetadata>(&key::email(self.account, id))?;
        let found = found.and_then(|email| email.deleted.map(|at| (email, at)));
        let (email, at) = found.ok_or(Error::NotFound("destroyed email"))?;
        self.delete(Table::EmailPurge, key::purge(self.account, at, id));
        self.purge(id, &email).map(drop)
    }

    /// Says whether its thread went with it.
    fn purge(&mut self, id: EmailId, email: &EmailMetadata) -> Result<bool, Error> {
        let account = self.account;
        self.delete(Table::EmailMetadata, key::email(account, id));
        self.delete(Table::EmailByModseq, key::by_modseq(account, email.updated));
        self.delete(Table::EmailContent, key::email(account, id));
        self.delete_tokens(id)?;
        if self.get_raw(Table::BlobRefs, &key::blob_ref(&email.blob, account, id))?.is_some() {
            self.let_go(&email.blob, id);
        }
        self.raise_low(DataType::Email, email.updated);
        // A thread dies by the change that destroys its last email, and has that number.
        let thread_key = key::thread(account, email.thread);
        let thread = self.row::<Thread>(&thread_key)?;
        let killed = thread.is_some_and(|thread| thread.deleted && thread.updated == email.updated);
        if killed {
            self.delete(Table::Threads, thread_key);
            self.delete(Table::ThreadByModseq, key::by_modseq(account, email.updated));
            self.raise_low(DataType::Thread, email.updated);
        }
        Ok(killed)
    }

    /// Deletes up to `most` rows that destroyed mailboxes left behind: nobody can ask for their listings any more. Says
    /// whether more may be left.
    ///
    /// # Errors
    /// Those of reading.
    pub fn clear_mailboxes(&mut self, most: usize) -> Result<bool, Error> {
        let mut room = most;
        for (uid, _) in self.dead_mailboxes()? {
            room = room.saturating_sub(self.delete_rows_of(uid, room)?);
            if room == 0 {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Deletes the tombstones of mailboxes that were destroyed by a change up to `bound`, and first what they left behind;
    /// up to `most` rows. Gives how many.
    pub(super) fn purge_mailboxes(&mut self, bound: ModSeq, most: usize) -> Result<usize, Error> {
        let mut rows = 0;
        for (uid, mailbox) in self.dead_mailboxes()?.into_iter().filter(|(_, mailbox)| mailbox.updated <= bound) {
            rows += self.delete_rows_of(uid, most.saturating_sub(rows))?;
            if rows >= most {
                break;
            }
            self.delete(Table::Mailboxes, key::mailbox(self.account, uid));
            self.raise_low(DataType::Mailbox, mailbox.updated);
            rows += 1;
        }
        Ok(rows)
    }

    fn dead_mailboxes(&self) -> Result<Vec<(MailboxUid, Mailbox)>, Error> {
        let prefix = key::account(self.account);
        let mut dead = Vec::new();
        self.scan(Table::Mailboxes, &prefix, &after(&prefix), false, &mut |key, value| {
            let mailbox = Mailbox::decode(key, value)?;
            if mailbox.deleted {
                dead.push((MailboxUid(Parts::of(Table::Mailboxes, key).u32()?), mailbox));
            }
            Ok(true)
        })?;
        Ok(dead)
    }

    fn delete_rows_of(&mut self, uid: MailboxUid, most: usize) -> Result<usize, Error> {
        let prefix = key::mailbox(self.account, uid);
        let rows = self.delete_rows_under(&prefix, most)?;
        Ok(rows + self.delete_rows_in(&[Table::Subscriptions], &prefix, most.saturating_sub(rows))?)
    }
}
