//! Listings and counts follow every change of an email (`storage.md`, "Listings"; the rules were proved on a model).
//!
//! Kept always: of each mailbox "every", and of all mail "flagged", both in both shapes. A listing that is made on demand
//! joins by being named in `kept`.

use super::Txn;
use crate::model::{
    AccountId, DataType, EmailId, EmailMetadata, Listing, Mailbox, MailboxUid, ModSeq, Shape, ThreadId, View, keyword,
};
use crate::store::engine::{Read, Table, after};
use crate::store::error::Error;
use crate::store::key::{self, Parts};
use crate::store::row::Thread;

/// The email views of a mailbox that are kept, in both shapes.
pub(in crate::store) fn kept(uid: MailboxUid) -> &'static [View] {
    if uid == MailboxUid::ALL { &[View::Flagged] } else { &[View::Every] }
}

/// Whether an email, by itself, matches an email view of a mailbox.
pub(in crate::store) fn shows(email: &EmailMetadata, uid: MailboxUid, view: View) -> bool {
    (uid == MailboxUid::ALL || email.mailboxes.contains(&uid))
        && match view {
            View::Every => true,
            View::Unseen => !email.has(keyword::SEEN),
            View::Flagged => email.has(keyword::FLAGGED),
            View::ThreadUnseen | View::ThreadFlagged | View::ThreadUntouched => false,
        }
}

/// The value of a `mailbox_email_list` row: which email and thread.
pub(in crate::store) fn list_value(email: EmailId, thread: ThreadId) -> Vec<u8> {
    pair(email.0, thread.0)
}

/// The value of a `mailbox_email_index` row: since which change, and which thread.
pub(in crate::store) fn index_value(added: ModSeq, thread: ThreadId) -> Vec<u8> {
    pair(added.0, thread.0)
}

fn pair(first: u64, second: u64) -> Vec<u8> {
    let mut value = Vec::with_capacity(17);
    value.push(1);
    value.extend_from_slice(&first.to_be_bytes());
    value.extend_from_slice(&second.to_be_bytes());
    value
}

impl Txn<'_> {
    /// All kept views of one mailbox, after a change of one email.
    pub(super) fn write_listings(
        &mut self,
        uid: MailboxUid,
        thread: ThreadId,
        id: EmailId,
        old: Option<&EmailMetadata>,
        new: Option<&EmailMetadata>,
    ) -> Result<(), Error> {
        for view in kept(uid) {
            let was = old.is_some_and(|email| shows(email, uid, *view));
            let now = new.is_some_and(|email| shows(email, uid, *view));
            if was == now {
                continue;
            }
            let listing = |shape| Listing { uid, view: *view, shape };
            let member = key::thread_index(self.account, uid, *view, thread, id);
            let before = self.newest(uid, *view, thread)?;
            if now {
                self.put(Table::MailboxThreadIndex, member, vec![1]);
                self.enter(listing(Shape::Emails), id, thread);
            } else {
                self.delete(Table::MailboxThreadIndex, member);
                self.leave(listing(Shape::Emails), id, thread)?;
            }
            let after = self.newest(uid, *view, thread)?;
            if before != after {
                if let Some(before) = before {
                    self.leave(listing(Shape::Threads), before, thread)?;
                }
                if let Some(after) = after {
                    self.enter(listing(Shape::Threads), after, thread);
                }
            }
        }
        Ok(())
    }

    /// The newest email of a thread in a view: what a collapsed listing shows of it.
    fn newest(&self, uid: MailboxUid, view: View, thread: ThreadId) -> Result<Option<EmailId>, Error> {
        let prefix = key::thread_index_of(self.account, uid, view, thread);
        let mut first = None;
        self.scan(Table::MailboxThreadIndex, &prefix, &after(&prefix), false, &mut |key, _| {
            first = Some(EmailId(Parts::of(Table::MailboxThreadIndex, key).u64()?));
            Ok(false)
        })?;
        Ok(first)
    }

    fn enter(&mut self, listing: Listing, id: EmailId, thread: ThreadId) {
        let (account, modseq) = (self.account, self.state.modseq);
        self.put(Table::MailboxEmailList, key::list(account, listing, ModSeq(0), modseq), list_value(id, thread));
        self.put(Table::MailboxEmailIndex, key::index(account, listing, id), index_value(modseq, thread));
    }

    fn leave(&mut self, listing: Listing, id: EmailId, thread: ThreadId) -> Result<(), Error> {
        let (account, modseq) = (self.account, self.state.modseq);
        let index = key::index(account, listing, id);
        let row = self.get(Table::MailboxEmailIndex, &index)?.ok_or_else(|| missing(account, &index))?;
        let added = row.get(1..9).and_then(|octets| octets.try_into().ok()).map(u64::from_be_bytes);
        let added = ModSeq(added.ok_or_else(|| missing(account, &index))?);
        self.delete(Table::MailboxEmailIndex, index);
        self.delete(Table::MailboxEmailList, key::list(account, listing, ModSeq(0), added));
        // What entered and left by the same change was never shown.
        if added != modseq {
            self.put(Table::MailboxEmailList, key::list(account, listing, modseq, added), list_value(id, thread));
        }
        Ok(())
    }

    /// Counts move by the difference that one email and its thread make; the mailbox's mark only if they do.
    pub(super) fn write_counts(
        &mut self,
        uid: MailboxUid,
        was: (&Thread, Option<&EmailMetadata>),
        now: (&Thread, Option<&EmailMetadata>),
    ) -> Result<(), Error> {
        let trash = self.state.trash;
        let weight = |(thread, email): (&Thread, Option<&EmailMetadata>)| {
            let here = email.filter(|email| email.mailboxes.contains(&uid));
            [
                here.is_some(),
                here.is_some_and(EmailMetadata::is_unread),
                thread.members.contains_key(&uid),
                thread.unread_in(uid, trash),
            ]
        };
        self.move_counts(uid, weight(was), weight(now))
    }

    pub(super) fn move_counts(&mut self, uid: MailboxUid, was: [bool; 4], now: [bool; 4]) -> Result<(), Error> {
        if was == now {
            return Ok(());
        }
        let key = key::mailbox(self.account, uid);
        let mut mailbox = self.row::<Mailbox>(&key)?.ok_or_else(|| missing(self.account, &key))?;
        let counts = &mut mailbox.counts;
        let totals = [
            &mut counts.total_emails,
            &mut counts.unread_emails,
            &mut counts.total_threads,
            &mut counts.unread_threads,
        ];
        for (total, (was, now)) in totals.into_iter().zip(was.into_iter().zip(now)) {
            *total = (*total + u64::from(now)).saturating_sub(u64::from(was));
        }
        mailbox.updated = self.state.modseq;
        self.put_row(key, &mailbox);
        self.touch(DataType::Mailbox);
        self.touch(DataType::MailboxCounts);
        Ok(())
    }
}

fn missing(account: AccountId, key: &[u8]) -> Error {
    Error::Corrupt {
        table: Table::MailboxEmailIndex.name(),
        key: crate::store::error::hex(key),
        what: format!("a row of account {account} that another names is not there: run `restante check`"),
    }
}
