//! Emails, their change numbers, blobs, and threads.

use std::collections::{BTreeMap, BTreeSet};

use super::{Breach, Checker};
use crate::model::{AccountId, BlobHash, DataType, EmailId, EmailMetadata, MailboxUid, ModSeq, ThreadId};
use crate::store::engine::{Read, Table};
use crate::store::error::{Error, hex};
use crate::store::key::{self, Parts};
use crate::store::read::blob;
use crate::store::row::{Blob, Row, Thread, decode_content};

impl Checker<'_> {
    /// Reads the emails and the mailboxes, and proves what hangs on single emails.
    pub(super) fn emails(&mut self) -> Result<(), Error> {
        let account = self.account;
        for (key, value) in self.rows(Table::EmailMetadata)? {
            let id = EmailId(Parts::of(Table::EmailMetadata, &key).u64()?);
            match EmailMetadata::decode(&key, &value) {
                Ok(row) => drop(self.emails.insert(id, row)),
                Err(error) => self.say(Table::EmailMetadata, &key, error.to_string()),
            }
        }
        for (key, value) in self.rows(Table::Mailboxes)? {
            let uid = MailboxUid(Parts::of(Table::Mailboxes, &key).u32()?);
            match Row::decode(&key, &value) {
                Ok(row) => drop(self.mailboxes.insert(uid, row)),
                Err(error) => self.say(Table::Mailboxes, &key, error.to_string()),
            }
        }
        let (mut by_modseq, mut by_thread) = (BTreeMap::new(), BTreeMap::new());
        let mut purge = BTreeMap::new();
        for (id, email) in &self.emails {
            by_modseq.insert(key::by_modseq(account, email.updated), id.0.to_be_bytes().to_vec());
            match email.deleted {
                None => drop(by_thread.insert(key::email_by_thread(account, email.thread, *id), vec![1])),
                Some(at) => drop(purge.insert(key::purge(account, at, *id), vec![1])),
            }
        }
        self.compare(Table::EmailByModseq, &by_modseq)?;
        self.compare(Table::EmailByThread, &by_thread)?;
        self.compare(Table::EmailPurge, &purge)?;
        let live: Vec<(EmailId, EmailMetadata)> = self.live().map(|(id, email)| (*id, email.clone())).collect();
        for (id, email) in &live {
            self.one(*id, email)?;
        }
        let octets: u64 = live.iter().map(|(_, email)| email.size).sum();
        if (self.state.octets, self.state.emails) != (octets, live.len() as u64) {
            let (has, says) = ((octets, live.len()), (self.state.octets, self.state.emails));
            self.say(
                Table::AccountState,
                &key::account(account),
                format!("holds {has:?} octets and emails, says {says:?}"),
            );
        }
        Ok(())
    }

    fn one(&mut self, id: EmailId, email: &EmailMetadata) -> Result<(), Error> {
        let key = key::email(self.account, id);
        if email.mailboxes.is_empty() {
            self.say(Table::EmailMetadata, &key, "in no mailbox");
        }
        if email.updated > self.state.modseq || email.created > email.updated {
            self.say(Table::EmailMetadata, &key, "change numbers above the account's, or in the wrong order");
        }
        if email.received_at != id.received_at() {
            self.say(Table::EmailMetadata, &key, "the id's time is not receivedAt");
        }
        let prefix = match self.read.get(Table::EmailContent, &key)?.map(|row| decode_content(&key, &row)) {
            Some(Ok((prefix, _))) => prefix.len() as u64,
            Some(Err(error)) => {
                return {
                    self.say(Table::EmailContent, &key, error.to_string());
                    Ok(())
                };
            }
            None => {
                return {
                    self.say(Table::EmailContent, &key, "the row is missing");
                    Ok(())
                };
            }
        };
        let (blob, mut raw) = (key::blob(&email.blob), Vec::new());
        match blob::append(self.read, &email.blob, 0..u64::MAX, &mut raw) {
            Ok(false) => self.say(Table::Blobs, &blob, format!("the message of {id} is missing")),
            Ok(true) if blake3::hash(&raw).as_bytes() != &email.blob.0 => {
                self.say(Table::Blobs, &blob, "the message does not have this hash");
            }
            Ok(true) if raw.len() as u64 + prefix != email.size => {
                self.say(Table::EmailMetadata, &key, "the size is not that of prefix and message");
            }
            Ok(true) => {}
            Err(error) => self.say(Table::Blobs, &blob, error.to_string()),
        }
        let reference = key::blob_ref(&email.blob, self.account, id);
        if self.read.get(Table::BlobRefs, &reference)?.is_none() {
            self.say(Table::BlobRefs, &reference, "the row is missing");
        }
        Ok(())
    }

    /// The threads equal a recount of their emails.
    pub(super) fn threads(&mut self) -> Result<(), Error> {
        let mut recount: BTreeMap<ThreadId, Thread> = BTreeMap::new();
        for (id, email) in &self.emails {
            let thread = recount.entry(email.thread).or_default();
            if email.deleted.is_none() {
                if thread.emails == 0 {
                    thread.latest = *id;
                }
                thread.count(email, self.state.trash, true);
            }
        }
        let mut by_modseq = BTreeMap::new();
        let mut left = recount.clone();
        let last: BTreeSet<(ThreadId, ModSeq)> =
            self.emails.values().map(|email| (email.thread, email.updated)).collect();
        for (key, value) in self.rows(Table::Threads)? {
            let id = ThreadId(Parts::of(Table::Threads, &key).u64()?);
            let row = match Thread::decode(&key, &value) {
                Ok(row) => row,
                Err(error) => {
                    self.say(Table::Threads, &key, error.to_string());
                    continue;
                }
            };
            by_modseq.insert(key::by_modseq(self.account, row.updated), id.0.to_be_bytes().to_vec());
            let mut wanted = left.remove(&id).unwrap_or_default();
            if row.deleted && !last.contains(&(id, row.updated)) {
                self.say(Table::Threads, &key, "the email whose end it died by is not there");
            }
            wanted = Thread { created: row.created, updated: row.updated, deleted: wanted.emails == 0, ..wanted };
            if wanted.deleted {
                wanted.latest = row.latest;
            }
            if wanted != row {
                self.say(Table::Threads, &key, format!("reads {row:?}, should read {wanted:?}"));
            }
        }
        // Tombstones may outlive their thread's, where the clock went back; the marks tell.
        let low = self.state.purged(DataType::Thread);
        let told: BTreeSet<ThreadId> = self
            .emails
            .values()
            .filter(|email| email.deleted.is_none() || email.updated > low)
            .map(|email| email.thread)
            .collect();
        for (id, _) in left.into_iter().filter(|(id, _)| told.contains(id)) {
            let key = key::thread(self.account, id);
            self.say(Table::Threads, &key, "the row is missing");
        }
        self.compare(Table::ThreadByModseq, &by_modseq)
    }
}

/// Every reference to a blob is of an email that holds it.
pub(super) fn blob_refs(read: &dyn Read, breaches: &mut Vec<Breach>) -> Result<(), Error> {
    read.scan(Table::BlobRefs, &[], &[0xff; 45], false, &mut |key, _| {
        let mut parts = Parts::of(Table::BlobRefs, key);
        let (email, account, hash) = (EmailId(parts.u64()?), AccountId(parts.u32()?), BlobHash(parts.take()?));
        let row = key::email(account, email);
        let holds = match read.get(Table::EmailMetadata, &row)? {
            Some(value) => EmailMetadata::decode(&row, &value).is_ok_and(|email| email.blob == hash),
            None => false,
        };
        if !holds {
            let what = "refers to a message for an email that does not hold it".into();
            breaches.push(Breach { account, table: Table::BlobRefs.name(), key: hex(key), what });
        }
        Ok(true)
    })
}

/// Every frame is of a message that has so many.
pub(super) fn blob_frames(read: &dyn Read, breaches: &mut Vec<Breach>) -> Result<(), Error> {
    read.scan(Table::BlobFrames, &[], &[0xff; 37], false, &mut |key, _| {
        let mut parts = Parts::of(Table::BlobFrames, key);
        let (number, hash) = (parts.u32()?, BlobHash(parts.take()?));
        let head = key::blob(&hash);
        let row = read.get(Table::Blobs, &head)?;
        let frames = row.and_then(|row| Blob::decode(&head, &row).ok().map(|blob| blob.octets.frames()));
        if frames.is_none_or(|frames| u64::from(number) >= frames) {
            let what = "a frame of no message".into();
            breaches.push(Breach { account: AccountId::SITE, table: Table::BlobFrames.name(), key: hex(key), what });
        }
        Ok(true)
    })
}
