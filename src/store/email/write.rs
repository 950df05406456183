//! Creates, changes and destroys emails.
//!
//! Every creation, change and destruction goes through `rewrite`, which writes the derived rows.

use std::collections::BTreeSet;

use crate::model::{
    BlobHash, DataType, EmailId, EmailMetadata, MailboxUid, ModSeq, ThreadId, UtcMillis,
};
use crate::store::engine::typed::TypedRead as _;
use crate::store::error::Error;
use crate::store::listing::write::{EmailChange, missing_row};
use crate::store::row::{EncodedMessage, encode_content, encode_tokens};
use crate::store::table::codec::Prefix as _;
use crate::store::table::keys::{BlobRefKey, ModSeqKey, PurgeKey, ThreadEmailKey};
use crate::store::table::{
    self, Accounts, BlobRefs, EmailByModseq, EmailByThread, EmailContent, EmailPurge, EmailTokens,
    Mailboxes, Present, Table as _,
};
use crate::store::txn::Txn;

/// Ids that `free_email_id` tries for one millisecond before it goes on to the next. An import may
/// give thousands of emails the same time: to try all its ids for each email would be slow.
const MAX_ID_TRIES: u16 = 64;

#[derive(Debug, Clone)]
pub struct NewEmail<'a> {
    pub message: &'a EncodedMessage,
    /// The trace prefix. Empty if the email was not delivered.
    pub prefix: &'a [u8],
    /// At least one.
    pub mailboxes: BTreeSet<MailboxUid>,
    /// In lower case.
    pub keywords: BTreeSet<String>,
    pub received_at: UtcMillis,
}

impl Txn<'_> {
    /// Creates an email. Its message must be written by the same commit, or be in the store and
    /// held by another object. Returns the email's id, whose time is `received_at`, brought into
    /// the range of ids, or a little later if many emails have that; and its thread.
    ///
    /// # Errors
    /// `Quota`; `Conflict` if no mailbox is named, or no id from `received_at` on is free;
    /// `NotFound` if a named mailbox or the account does not exist; those of reading.
    pub fn create_email(&mut self, new: &NewEmail<'_>) -> Result<(EmailId, ThreadId), Error> {
        self.create_email_within(new, None)
    }

    /// Creates an email for a guest who may read only the mailboxes `open` (`None`: all). The email
    /// joins only threads with an email in these mailboxes: otherwise the thread's id would tell
    /// the guest which Message-IDs the account holds.
    ///
    /// # Errors
    /// As `create_email`.
    pub fn create_email_within(
        &mut self,
        new: &NewEmail<'_>,
        open: Option<&BTreeSet<MailboxUid>>,
    ) -> Result<(EmailId, ThreadId), Error> {
        if new.mailboxes.is_empty() {
            return Err(Error::Conflict("an email must be in at least one mailbox".into()));
        }
        for uid in &new.mailboxes {
            self.live_mailbox(*uid)?;
        }
        let size = new.message.size + new.prefix.len() as u64;
        self.check_quota(size)?;
        let modseq = self.next_modseq();
        let id = self.free_email_id(new.received_at, modseq)?;
        let thread = self.thread_for(&new.message.thread_keys, open)?;
        let key = self.email_key(id);
        self.put_bytes::<EmailContent>(&key, encode_content(new.prefix, &new.message.content));
        self.put_bytes::<EmailTokens>(&key, encode_tokens(new.prefix, &new.message.tokens));
        self.put::<BlobRefs>(&self.blob_ref_key(new.message.blob, id), &Present);
        self.state.unfolded += 1;
        let metadata = EmailMetadata {
            thread,
            mailboxes: new.mailboxes.clone(),
            keywords: new.keywords.clone(),
            received_at: id.received_at(),
            blob: new.message.blob,
            size,
            created: modseq,
            updated: modseq,
            destroyed: None,
        };
        self.rewrite(id, None, Some(&metadata))?;
        self.touch(DataType::EmailDelivery);
        Ok((id, thread))
    }

    /// Gives an email these mailboxes and keywords in place of its own, with one modseq. Returns
    /// whether anything changed; if not, no modseq is taken.
    ///
    /// # Errors
    /// `NotFound` if the email or a new mailbox does not exist; `Conflict` if no mailbox is named;
    /// those of reading.
    pub fn update_email(
        &mut self,
        id: EmailId,
        mailboxes: BTreeSet<MailboxUid>,
        keywords: BTreeSet<String>,
    ) -> Result<bool, Error> {
        let old = self.live_email(id)?;
        if old.mailboxes == mailboxes && old.keywords == keywords {
            return Ok(false);
        }
        if mailboxes.is_empty() {
            return Err(Error::Conflict("an email must be in at least one mailbox".into()));
        }
        for uid in mailboxes.difference(&old.mailboxes) {
            self.live_mailbox(*uid)?;
        }
        let updated = self.next_modseq();
        let new = EmailMetadata { mailboxes, keywords, updated, ..old.clone() };
        self.rewrite(id, Some(&old), Some(&new))?;
        Ok(true)
    }

    /// Destroys an email. A tombstone stays, so that the email can be restored and clients learn of
    /// its destruction.
    ///
    /// # Errors
    /// `NotFound` if the email does not exist or is destroyed already; those of reading.
    pub fn destroy_email(&mut self, id: EmailId) -> Result<(), Error> {
        let old = self.live_email(id)?;
        self.next_modseq();
        self.delete_tokens(id)?;
        self.rewrite(id, Some(&old), None)
    }

    /// Returns the metadata of an email, or its tombstone.
    pub(in crate::store) fn email_row(&self, id: EmailId) -> Result<Option<EmailMetadata>, Error> {
        self.row::<table::EmailMetadata>(&self.email_key(id))
    }

    pub(in crate::store) fn blob_ref_key(&self, blob: BlobHash, email: EmailId) -> BlobRefKey {
        BlobRefKey { blob, account: self.account, email }
    }

    /// Returns the metadata of an email; `NotFound` if it is destroyed or does not exist.
    pub(in crate::store) fn live_email(&self, id: EmailId) -> Result<EmailMetadata, Error> {
        let found = self.email_row(id)?;
        found.filter(|email| email.destroyed.is_none()).ok_or(Error::NotFound("email"))
    }

    /// Checks that the account's quota has room for an email of this size.
    ///
    /// # Errors
    /// `Quota`; `NotFound` if the account was removed; `Corrupt` if its row is damaged, or missing
    /// although the account has a state.
    pub fn check_quota(&self, size: u64) -> Result<(), Error> {
        let account = match self.snapshot().account(self.account)? {
            Some(account) => account,
            None if self.state_before.is_some() => {
                return Err(Error::missing(Accounts::ID.name(), &self.account_key().encode()));
            }
            None => return Err(Error::NotFound("account")),
        };
        let bytes_left = account.quota_bytes.map(|limit| limit.saturating_sub(self.state.bytes));
        let emails_left = account.quota_emails.map(|limit| limit.saturating_sub(self.state.emails));
        if bytes_left.is_some_and(|left| size > left) || emails_left.is_some_and(|left| left == 0) {
            return Err(Error::Quota);
        }
        Ok(())
    }

    /// Writes all rows that follow from a change of an email from `old` (`None`: it is created) to
    /// `new` (`None`: it is destroyed). The caller has taken the modseq of the change, written the
    /// content, the tokens and the reference of a new email, and deleted the tokens of a destroyed
    /// one.
    fn rewrite(
        &mut self,
        id: EmailId,
        old: Option<&EmailMetadata>,
        new: Option<&EmailMetadata>,
    ) -> Result<(), Error> {
        let modseq = self.state.modseq;
        let Some(thread_id) = old.or(new).map(|email| email.thread) else { return Ok(()) };
        self.write_metadata(id, modseq, old, new);
        let (was, now) = self.write_thread(thread_id, id, old, new)?;
        let change = EmailChange { id, thread: thread_id, old, new, was: &was, now: &now };
        let uids: BTreeSet<MailboxUid> =
            was.members.keys().chain(now.members.keys()).copied().collect();
        for uid in uids {
            let key = self.mailbox_key(uid);
            let stored = self
                .row::<Mailboxes>(&key)?
                .ok_or_else(|| missing_row::<Mailboxes>(self.account, &key))?;
            let mut mailbox = stored.clone();
            self.write_counts(uid, &mut mailbox, &change);
            self.write_listings(uid, &mut mailbox.listings, &change)?;
            if mailbox != stored {
                self.put::<Mailboxes>(&key, &mailbox);
            }
        }
        let mut listings = std::mem::take(&mut self.state.listings);
        let written = self.write_listings(MailboxUid::ALL, &mut listings, &change);
        self.state.listings = listings;
        self.touch(DataType::Email);
        written
    }

    /// Writes the email's row or tombstone, its rows in the indexes, and the totals of the account.
    /// `old` and `new` are those of `rewrite`.
    fn write_metadata(
        &mut self,
        id: EmailId,
        modseq: ModSeq,
        old: Option<&EmailMetadata>,
        new: Option<&EmailMetadata>,
    ) {
        let account = self.account;
        if let Some(old) = old {
            self.delete::<EmailByModseq>(&ModSeqKey { account, modseq: old.updated });
            self.state.bytes = self.state.bytes.saturating_sub(old.size);
            self.state.emails = self.state.emails.saturating_sub(1);
        }
        let by_thread =
            |row: &EmailMetadata| ThreadEmailKey { account, thread: row.thread, email: id };
        let key = self.email_key(id);
        match (old, new) {
            (_, Some(new)) => {
                self.state.bytes += new.size;
                self.state.emails += 1;
                if old.is_none() {
                    self.put::<EmailByThread>(&by_thread(new), &Present);
                }
                self.put::<table::EmailMetadata>(&key, new);
            }
            (Some(old), None) => {
                let tombstone =
                    EmailMetadata { updated: modseq, destroyed: Some(self.now), ..old.clone() };
                self.delete::<EmailByThread>(&by_thread(old));
                self.put::<EmailPurge>(
                    &PurgeKey { account, at: self.now.into(), email: id },
                    &Present,
                );
                self.put::<table::EmailMetadata>(&key, &tombstone);
            }
            (None, None) => {}
        }
        self.put::<EmailByModseq>(&ModSeqKey { account, modseq }, &id);
    }

    /// Returns a free id with the time `at`, which is first brought into the range of ids. If the
    /// `MAX_ID_TRIES` ids that it tries of a millisecond are taken, it goes on to the next.
    /// `modseq` says with which id of each millisecond it begins: emails that are created one after
    /// the other find different ones free at once.
    ///
    /// # Errors
    /// `Conflict` if the latest time is taken, too; those of reading.
    fn free_email_id(&self, at: UtcMillis, modseq: ModSeq) -> Result<EmailId, Error> {
        #[expect(clippy::cast_possible_truncation, reason = "the low bits are what is wanted")]
        let start = modseq.0 as u16;
        let mut at = EmailId::new(at, 0).received_at();
        loop {
            for step in 0..MAX_ID_TRIES {
                let id = EmailId::new(at, start.wrapping_add(step));
                if self.bytes::<table::EmailMetadata>(&self.email_key(id))?.is_none() {
                    return Ok(id);
                }
            }
            let next = EmailId::new(UtcMillis(at.0.saturating_add(1)), 0).received_at();
            if next == at {
                return Err(Error::Conflict(
                    "no free id was found from this date on: give it an earlier date".into(),
                ));
            }
            at = next;
        }
    }
}
