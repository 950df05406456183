//! What is left of emails and mailboxes that are gone, and messages that nobody holds.

use std::collections::BTreeSet;

use super::{Breach, Checker};
use crate::model::{AccountId, BlobHash, EmailId, EmailMetadata, ModSeq};
use crate::store::engine::{Read, Table, after};
use crate::store::error::{Error, hex};
use crate::store::key::{self, Parts};
use crate::store::row::{Noted, Row, decode_content};

impl Checker<'_> {
    /// A tombstone holds what restoring it needs, or (once restored) nothing; nothing is kept of emails that are not there;
    /// no mark and no note is of the future.
    pub(super) fn remains(&mut self) -> Result<(), Error> {
        let dead = self.emails.iter().filter(|(_, email)| email.deleted.is_some());
        let dead: Vec<(EmailId, EmailMetadata)> = dead.map(|(id, email)| (*id, email.clone())).collect();
        for (id, email) in &dead {
            self.tombstone(*id, email)?;
        }
        for table in [Table::EmailContent, Table::EmailTokens] {
            let prefix = key::account(self.account);
            let mut loose = Vec::new();
            self.read.scan(table, &prefix, &after(&prefix), false, &mut |key, _| {
                if !self.emails.contains_key(&EmailId(Parts::of(table, key).u64()?)) {
                    loose.push(key.to_vec());
                }
                Ok(true)
            })?;
            loose.iter().for_each(|key| self.say(table, key, "of an email that is not there"));
        }
        let own = key::account(self.account);
        let kept = self.mailboxes.values().flat_map(|mailbox| &mailbox.kept).chain(&self.state.kept);
        let marks: Vec<ModSeq> = self.state.low.iter().copied().chain(kept.map(|entry| entry.low)).collect();
        if marks.iter().any(|low| *low > self.state.modseq) {
            self.say(Table::AccountState, &own, "changes of the future were purged");
        }
        let mut last = ModSeq(0);
        for (key, value) in self.rows(Table::History)? {
            match Noted::decode(&key, &value) {
                Ok(Noted(modseq)) if modseq < last || modseq > self.state.modseq => {
                    self.say(Table::History, &key, "changes went back, or are of the future");
                }
                Ok(Noted(modseq)) => last = modseq,
                Err(error) => self.say(Table::History, &key, error.to_string()),
            }
        }
        Ok(())
    }

    fn tombstone(&mut self, id: EmailId, email: &EmailMetadata) -> Result<(), Error> {
        let key = key::email(self.account, id);
        if email.updated > self.state.modseq || email.created > email.updated {
            self.say(Table::EmailMetadata, &key, "change numbers above the account's, or in the wrong order");
        }
        let held = self.read.get(Table::BlobRefs, &key::blob_ref(&email.blob, self.account, id))?.is_some();
        let content = self.read.get(Table::EmailContent, &key)?;
        match (held, content.map(|row| decode_content(&key, &row))) {
            (true, None) => self.say(Table::EmailContent, &key, "the row is missing"),
            (true, Some(Err(error))) => self.say(Table::EmailContent, &key, error.to_string()),
            (false, Some(_)) => self.say(Table::EmailContent, &key, "kept of an email that was restored"),
            (true, Some(Ok(_))) | (false, None) => {}
        }
        if !held && self.read.get(Table::EmailTokens, &key)?.is_some() {
            self.say(Table::EmailTokens, &key, "kept of an email that was restored");
        }
        let blob = key::blob(&email.blob);
        if held && self.read.get(Table::Blobs, &blob)?.is_none() {
            self.say(Table::Blobs, &blob, format!("the message of {id}, which can be restored, is missing"));
        }
        Ok(())
    }
}

/// Every message is held by an email, or will be looked at by and by.
pub(super) fn unheld(read: &dyn Read, breaches: &mut Vec<Breach>) -> Result<(), Error> {
    let end = after(&[]);
    let mut known: BTreeSet<BlobHash> = BTreeSet::new();
    read.scan(Table::BlobPurge, &[], &end, false, &mut |key, _| {
        known.insert(BlobHash(Parts::of(Table::BlobPurge, key).take()?));
        Ok(true)
    })?;
    read.scan(Table::BlobRefs, &[], &end, false, &mut |key, _| {
        let mut parts = Parts::of(Table::BlobRefs, key);
        parts.take::<12>()?;
        known.insert(BlobHash(parts.take()?));
        Ok(true)
    })?;
    read.scan(Table::Blobs, &[], &end, false, &mut |key, _| {
        if !known.contains(&BlobHash(Parts::of(Table::Blobs, key).take()?)) {
            let what = "nobody holds this message, and nobody will look at it".into();
            let account = AccountId::SITE;
            breaches.push(Breach { account, table: Table::Blobs.name(), key: hex(key), what });
        }
        Ok(true)
    })
}
