//! Emails, threads, mailboxes, listings, messages.

use std::collections::BTreeSet;

use super::View;
use crate::model::{
    AccountId, BlobHash, EmailContent, EmailId, EmailMetadata, Listing, Mailbox, MailboxUid, ModSeq, Role, ThreadId,
    Tokens, UtcMillis,
};
use crate::store::engine::{Table, after};
use crate::store::error::Error;
use crate::store::key::{self, Parts};
use crate::store::row::{Row, Thread, decode_content, decode_index, decode_tokens, indexed};

impl View<'_> {
    /// The facts of an email; a destroyed one is not there.
    ///
    /// # Errors
    /// Those of reading; so for every function here.
    pub fn email(&self, account: AccountId, id: EmailId) -> Result<Option<EmailMetadata>, Error> {
        let row = self.row::<EmailMetadata>(&key::email(account, id))?;
        Ok(row.filter(|email| email.deleted.is_none()))
    }

    /// The trace prefix and the content of an email.
    ///
    /// # Errors
    /// Those of reading.
    pub fn content(&self, account: AccountId, id: EmailId) -> Result<Option<(Vec<u8>, EmailContent)>, Error> {
        let key = key::email(account, id);
        self.read.get(Table::EmailContent, &key)?.map(|row| decode_content(&key, &row)).transpose()
    }

    /// The search tokens of an email.
    ///
    /// # Errors
    /// Those of reading.
    pub fn tokens(&self, account: AccountId, id: EmailId) -> Result<Option<Tokens>, Error> {
        let key = key::email(account, id);
        self.read.get(Table::EmailTokens, &key)?.map(|row| decode_tokens(&key, &row)).transpose()
    }

    /// The emails of an account that hold a blob and were received within these times, destroyed ones among them.
    ///
    /// # Errors
    /// Those of reading.
    pub fn emails_of_blob(
        &self,
        account: AccountId,
        blob: &BlobHash,
        from: UtcMillis,
        to: UtcMillis,
    ) -> Result<Vec<EmailId>, Error> {
        let first = key::blob_ref(blob, account, EmailId::new(to, 0));
        let end = after(&key::blob_ref(blob, account, EmailId::new(from, u16::MAX)));
        let mut out = Vec::new();
        self.keys(Table::BlobRefs, &first, &end, |key, _| {
            out.push(EmailId(Parts::of(Table::BlobRefs, key).u64()?));
            Ok(true)
        })?;
        Ok(out)
    }

    /// The mailboxes of an account that a user is subscribed to: of the owner by their rows, of others by rows of their own.
    ///
    /// # Errors
    /// Those of reading.
    pub fn subscribed(&self, account: AccountId, user: AccountId) -> Result<BTreeSet<MailboxUid>, Error> {
        let mut out = BTreeSet::new();
        for (uid, mailbox) in self.mailboxes(account)? {
            let own = key::subscription(account, uid, user);
            let is_in = match user == account {
                true => mailbox.subscribed,
                false => self.read.get(Table::Subscriptions, &own)?.is_some(),
            };
            if is_in {
                out.insert(uid);
            }
        }
        Ok(out)
    }

    /// Who else than the owner is subscribed to a mailbox, from `from` on, `limit` at most.
    ///
    /// # Errors
    /// Those of reading.
    pub fn subscribers(
        &self,
        account: AccountId,
        uid: MailboxUid,
        from: AccountId,
        limit: usize,
    ) -> Result<Vec<AccountId>, Error> {
        let mut out = Vec::new();
        if limit > 0 {
            let (first, end) = (key::subscription(account, uid, from), after(&key::mailbox(account, uid)));
            self.keys(Table::Subscriptions, &first, &end, |key, _| {
                out.push(AccountId(Parts::of(Table::Subscriptions, key).u32()?));
                Ok(out.len() < limit)
            })?;
        }
        Ok(out)
    }

    /// A page of a listing, newest first: what comes after `after` (`None`: from the start), `limit` at most.
    ///
    /// # Errors
    /// Those of reading.
    pub fn listing(
        &self,
        account: AccountId,
        listing: Listing,
        start: Option<EmailId>,
        limit: usize,
    ) -> Result<Vec<(EmailId, ThreadId)>, Error> {
        let prefix = key::listing(account, listing);
        let from = match start {
            Some(EmailId(u64::MAX)) => return Ok(Vec::new()),
            Some(EmailId(id)) => key::index(account, listing, EmailId(id + 1)),
            None => prefix.clone(),
        };
        let mut out = Vec::with_capacity(limit.min(1024));
        if limit > 0 {
            self.keys(Table::MailboxEmailIndex, &from, &after(&prefix), |key, value| {
                let (_, thread) = decode_index(key, value)?;
                out.push((EmailId(Parts::of(Table::MailboxEmailIndex, key).u64()?), thread));
                Ok(out.len() < limit)
            })?;
        }
        Ok(out)
    }

    /// All live emails of an account, newest first: what comes after `start`, `limit` at most.
    ///
    /// # Errors
    /// Those of reading.
    pub fn emails(
        &self,
        account: AccountId,
        start: Option<EmailId>,
        limit: usize,
    ) -> Result<Vec<(EmailId, EmailMetadata)>, Error> {
        let prefix = key::account(account);
        let from = match start {
            Some(EmailId(u64::MAX)) => return Ok(Vec::new()),
            Some(EmailId(id)) => key::email(account, EmailId(id + 1)),
            None => prefix.clone(),
        };
        let mut out = Vec::new();
        self.keys(Table::EmailMetadata, &from, &after(&prefix), |key, value| {
            let row = EmailMetadata::decode(key, value)?;
            if row.deleted.is_none() {
                out.push((EmailId(Parts::of(Table::EmailMetadata, key).u64()?), row));
            }
            Ok(out.len() < limit)
        })?;
        Ok(out)
    }

    /// A listing from its oldest email on: what stands before `end`, or before the end, `limit` at most.
    ///
    /// # Errors
    /// Those of reading.
    pub fn listing_from_end(
        &self,
        account: AccountId,
        listing: Listing,
        end: Option<EmailId>,
        limit: usize,
    ) -> Result<Vec<(EmailId, ThreadId)>, Error> {
        let from = key::listing(account, listing);
        let to = end.map_or_else(|| after(&from), |end| key::index(account, listing, end));
        let mut out = Vec::with_capacity(limit.min(1024));
        if limit > 0 {
            self.read.scan(Table::MailboxEmailIndex, &from, &to, true, &mut |key, value| {
                let (_, thread) = decode_index(key, value)?;
                out.push((EmailId(Parts::of(Table::MailboxEmailIndex, key).u64()?), thread));
                Ok(out.len() < limit)
            })?;
        }
        Ok(out)
    }

    /// All live emails of an account from the oldest on: what stands before `end`, or before the end, `limit` at most.
    ///
    /// # Errors
    /// Those of reading.
    pub fn emails_from_end(
        &self,
        account: AccountId,
        end: Option<EmailId>,
        limit: usize,
    ) -> Result<Vec<(EmailId, EmailMetadata)>, Error> {
        let from = key::account(account);
        let to = end.map_or_else(|| after(&from), |end| key::email(account, end));
        let mut out = Vec::new();
        self.read.scan(Table::EmailMetadata, &from, &to, true, &mut |key, value| {
            let row = EmailMetadata::decode(key, value)?;
            if row.deleted.is_none() {
                out.push((EmailId(Parts::of(Table::EmailMetadata, key).u64()?), row));
            }
            Ok(out.len() < limit)
        })?;
        Ok(out)
    }

    /// The live threads of an account in order of making, `limit` at most.
    ///
    /// # Errors
    /// Those of reading.
    pub fn threads(&self, account: AccountId, limit: usize) -> Result<Vec<ThreadId>, Error> {
        let mut out = Vec::new();
        self.rows::<Thread>(&key::account(account), |key, thread| {
            if !thread.deleted {
                out.push(ThreadId(Parts::of(<Thread as Row>::TABLE, key).u64()?));
            }
            Ok(out.len() < limit)
        })?;
        Ok(out)
    }

    /// The counters of a thread; a dead one is not there.
    ///
    /// # Errors
    /// Those of reading.
    pub fn thread(&self, account: AccountId, id: ThreadId) -> Result<Option<Thread>, Error> {
        Ok(self.row::<Thread>(&key::thread(account, id))?.filter(|thread| !thread.deleted))
    }

    /// The emails of a thread, newest first.
    ///
    /// # Errors
    /// Those of reading.
    pub fn thread_emails(&self, account: AccountId, id: ThreadId) -> Result<Vec<EmailId>, Error> {
        let prefix = key::thread(account, id);
        let mut out = Vec::new();
        self.keys(Table::EmailByThread, &prefix, &after(&prefix), |key, _| {
            out.push(EmailId(Parts::of(Table::EmailByThread, key).u64()?));
            Ok(true)
        })?;
        Ok(out)
    }

    /// The emails that changed after `since`, in the order of their last change, destroyed ones among them; `None` where
    /// they are more than `most`.
    ///
    /// # Errors
    /// Those of reading.
    pub fn emails_since(
        &self,
        account: AccountId,
        since: ModSeq,
        most: usize,
    ) -> Result<Option<Vec<(ModSeq, EmailId)>>, Error> {
        let (from, end) = (key::by_modseq(account, since.next()), after(&key::account(account)));
        let mut out = Vec::new();
        self.keys(Table::EmailByModseq, &from, &end, |key, value| {
            let id = indexed(Table::EmailByModseq, key, value)?;
            out.push((ModSeq(Parts::of(Table::EmailByModseq, key).u64()?), EmailId(id)));
            Ok(out.len() <= most)
        })?;
        Ok((out.len() <= most).then_some(out))
    }

    /// A live mailbox.
    ///
    /// # Errors
    /// Those of reading.
    pub fn mailbox(&self, account: AccountId, uid: MailboxUid) -> Result<Option<Mailbox>, Error> {
        Ok(self.row::<Mailbox>(&key::mailbox(account, uid))?.filter(|mailbox| !mailbox.deleted))
    }

    /// The live mailboxes of an account, by uid.
    ///
    /// # Errors
    /// Those of reading.
    pub fn mailboxes(&self, account: AccountId) -> Result<Vec<(MailboxUid, Mailbox)>, Error> {
        let mut out = Vec::new();
        self.rows::<Mailbox>(&key::account(account), |key, row| {
            if !row.deleted {
                out.push((MailboxUid(Parts::of(Table::Mailboxes, key).u32()?), row));
            }
            Ok(true)
        })?;
        Ok(out)
    }

    /// The mailbox of a role, or of a name path with `/` between its names; case is ignored where nothing fits exactly.
    ///
    /// # Errors
    /// Those of reading.
    pub fn find_mailbox(&self, account: AccountId, name: &str) -> Result<Option<(MailboxUid, Mailbox)>, Error> {
        let all = self.mailboxes(account)?;
        let path = |mailbox: &Mailbox| {
            let (mut path, mut parent) = (mailbox.name.clone(), mailbox.parent);
            for _ in 0..all.len() {
                let Some((_, above)) = parent.and_then(|uid| all.iter().find(|(other, _)| *other == uid)) else {
                    break;
                };
                path = format!("{}/{path}", above.name);
                parent = above.parent;
            }
            path
        };
        let exact = all.iter().find(|(_, mailbox)| path(mailbox) == name);
        let loose = || all.iter().find(|(_, mailbox)| path(mailbox).to_lowercase() == name.to_lowercase());
        let role = || Role::from_name(&name.to_lowercase());
        let by_role = || role().and_then(|role| all.iter().find(|(_, mailbox)| mailbox.role == Some(role)));
        Ok(exact.or_else(loose).or_else(by_role).cloned())
    }
}
