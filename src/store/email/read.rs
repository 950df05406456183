//! Reads emails, threads, mailboxes and pages of listings.

use std::collections::BTreeSet;

use crate::model::{
    AccountId, BlobHash, EmailContent, EmailId, EmailMetadata, Listing, Mailbox, MailboxUid,
    ModSeq, Role, ThreadId, UtcMillis,
};
use crate::store::engine::typed::{KeyRange, TypedRead as _};
use crate::store::error::Error;
use crate::store::row::{Thread, decode_content};
use crate::store::table::keys::{
    BlobRefKey, EmailKey, ListingEmailKey, MailboxKey, ModSeqKey, SubscriptionKey, ThreadIdKey,
};
use crate::store::table::{
    self, BlobRefs, EmailByModseq, EmailByThread, MailboxEmailIndex, Mailboxes, Subscriptions,
    Threads,
};
use crate::store::txn::snapshot::Snapshot;

impl Snapshot<'_> {
    /// Returns the metadata of an email; `None` if it is destroyed or does not exist.
    pub fn email(&self, account: AccountId, id: EmailId) -> Result<Option<EmailMetadata>, Error> {
        let row = self.read.row::<table::EmailMetadata>(&EmailKey { account, email: id })?;
        Ok(row.filter(|email| email.destroyed.is_none()))
    }

    /// Returns the trace prefix and the content of an email, or of a tombstone that can be
    /// restored. `None` if there is no such row.
    pub fn content(
        &self,
        account: AccountId,
        id: EmailId,
    ) -> Result<Option<(Vec<u8>, EmailContent)>, Error> {
        self.read
            .row_with::<table::EmailContent, _>(&EmailKey { account, email: id }, decode_content)
    }

    /// Returns the emails and tombstones of an account that hold the message `blob` and were
    /// received from `from` to `to`, both included, newest first.
    pub fn emails_of_blob(
        &self,
        account: AccountId,
        blob: &BlobHash,
        from: UtcMillis,
        to: UtcMillis,
    ) -> Result<Vec<EmailId>, Error> {
        let key = |email| BlobRefKey { blob: *blob, account, email };
        let range =
            KeyRange::through(&key(EmailId::new(to, 0)), &key(EmailId::new(from, u16::MAX)));
        let mut out = Vec::new();
        self.read.keys::<BlobRefs>(&range, |key, _| {
            out.push(key.email);
            Ok(true)
        })?;
        Ok(out)
    }

    /// Returns the mailboxes of an account to which a user is subscribed. The owner is the user
    /// whose id is `account`; all others are guests.
    pub fn subscribed_mailboxes(
        &self,
        account: AccountId,
        user: AccountId,
    ) -> Result<BTreeSet<MailboxUid>, Error> {
        let mut out = BTreeSet::new();
        for (uid, mailbox) in self.mailboxes(account)? {
            let own = SubscriptionKey { account, mailbox: uid, subscriber: user };
            let is_subscribed = match user == account {
                true => mailbox.subscribed,
                false => self.read.bytes::<Subscriptions>(&own)?.is_some(),
            };
            if is_subscribed {
                out.insert(uid);
            }
        }
        Ok(out)
    }

    /// Returns up to `limit` emails of a listing with their threads, newest first: those behind
    /// `start`, or from the newest on (`None`). A listing has rows only as far as it is maintained
    /// (`Snapshot::maintained_listings`), which the caller must know.
    pub fn listing(
        &self,
        account: AccountId,
        listing: Listing,
        start: Option<EmailId>,
        limit: usize,
    ) -> Result<Vec<(EmailId, ThreadId)>, Error> {
        let range = match start {
            Some(email) => {
                KeyRange::behind(&(account, listing), &ListingEmailKey { account, listing, email })
            }
            None => KeyRange::under(&(account, listing)),
        };
        self.listing_rows(&range, limit)
    }

    /// Returns up to `limit` emails of an account that are not destroyed, newest first: those
    /// behind `start`, or from the newest on (`None`).
    pub fn emails(
        &self,
        account: AccountId,
        start: Option<EmailId>,
        limit: usize,
    ) -> Result<Vec<(EmailId, EmailMetadata)>, Error> {
        self.live_emails(
            &match start {
                Some(email) => KeyRange::behind(&(account,), &EmailKey { account, email }),
                None => KeyRange::under(&(account,)),
            },
            limit,
        )
    }

    /// Does as `listing` in the opposite order: returns up to `limit` emails before `end`, or from
    /// the oldest on (`None`), oldest first.
    pub fn listing_from_end(
        &self,
        account: AccountId,
        listing: Listing,
        end: Option<EmailId>,
        limit: usize,
    ) -> Result<Vec<(EmailId, ThreadId)>, Error> {
        let range = match end {
            Some(email) => {
                KeyRange::before(&(account, listing), &ListingEmailKey { account, listing, email })
            }
            None => KeyRange::under(&(account, listing)),
        };
        self.listing_rows(&range.reversed(), limit)
    }

    /// Does as `emails` in the opposite order: returns up to `limit` emails before `end`, or from
    /// the oldest on (`None`), oldest first.
    pub fn emails_from_end(
        &self,
        account: AccountId,
        end: Option<EmailId>,
        limit: usize,
    ) -> Result<Vec<(EmailId, EmailMetadata)>, Error> {
        let range = match end {
            Some(email) => KeyRange::before(&(account,), &EmailKey { account, email }),
            None => KeyRange::under(&(account,)),
        };
        self.live_emails(&range.reversed(), limit)
    }

    fn listing_rows(
        &self,
        range: &KeyRange<MailboxEmailIndex>,
        limit: usize,
    ) -> Result<Vec<(EmailId, ThreadId)>, Error> {
        let mut out = Vec::with_capacity(limit.min(1024));
        if limit > 0 {
            self.read.rows(range, |key, (_, thread)| {
                out.push((key.email, thread));
                Ok(out.len() < limit)
            })?;
        }
        Ok(out)
    }

    fn live_emails(
        &self,
        range: &KeyRange<table::EmailMetadata>,
        limit: usize,
    ) -> Result<Vec<(EmailId, EmailMetadata)>, Error> {
        let mut out = Vec::new();
        if limit == 0 {
            return Ok(out);
        }
        self.read.rows(range, |key, row| {
            if row.destroyed.is_none() {
                out.push((key.email, row));
            }
            Ok(out.len() < limit)
        })?;
        Ok(out)
    }

    /// Returns up to `limit` live threads in the order of their creation. `limit` is at least 1.
    pub fn threads(&self, account: AccountId, limit: usize) -> Result<Vec<ThreadId>, Error> {
        let mut out = Vec::new();
        self.read.rows::<Threads>(&KeyRange::under(&(account,)), |key, thread| {
            if !thread.destroyed {
                out.push(key.thread);
            }
            Ok(out.len() < limit)
        })?;
        Ok(out)
    }

    /// Returns a thread; `None` if it is destroyed or does not exist.
    pub fn thread(&self, account: AccountId, id: ThreadId) -> Result<Option<Thread>, Error> {
        Ok(self
            .read
            .row::<Threads>(&ThreadIdKey { account, thread: id })?
            .filter(|thread| !thread.destroyed))
    }

    /// Returns the emails of a thread that are not destroyed, newest first.
    pub fn thread_emails(&self, account: AccountId, id: ThreadId) -> Result<Vec<EmailId>, Error> {
        let mut out = Vec::new();
        self.read.keys::<EmailByThread>(&KeyRange::under(&(account, id)), |key, _| {
            out.push(key.email);
            Ok(true)
        })?;
        Ok(out)
    }

    /// Returns the emails and tombstones that changed after `since`, in the order of their last
    /// change; `None` if there are more than `limit`.
    pub fn emails_since(
        &self,
        account: AccountId,
        since: ModSeq,
        limit: usize,
    ) -> Result<Option<Vec<(ModSeq, EmailId)>>, Error> {
        let range = KeyRange::from(&(account,), &ModSeqKey { account, modseq: since.next() });
        let mut out = Vec::new();
        self.read.rows::<EmailByModseq>(&range, |key, id| {
            out.push((key.modseq, id));
            Ok(out.len() <= limit)
        })?;
        Ok((out.len() <= limit).then_some(out))
    }

    /// Returns a mailbox; `None` if it is destroyed or does not exist.
    pub fn mailbox(&self, account: AccountId, uid: MailboxUid) -> Result<Option<Mailbox>, Error> {
        Ok(self
            .read
            .row::<Mailboxes>(&MailboxKey { account, mailbox: uid })?
            .filter(|mailbox| !mailbox.destroyed))
    }

    /// Returns the mailboxes that are not destroyed, by ascending uid.
    pub fn mailboxes(&self, account: AccountId) -> Result<Vec<(MailboxUid, Mailbox)>, Error> {
        let mut out = Vec::new();
        self.read.rows::<Mailboxes>(&KeyRange::under(&(account,)), |key, row| {
            if !row.destroyed {
                out.push((key.mailbox, row));
            }
            Ok(true)
        })?;
        Ok(out)
    }

    /// Finds a mailbox by its path, with `/` between the names. If no mailbox has the path
    /// `wanted`, finds one that has it without regard to case. If there is none either, the first
    /// name may be that of a role, and stands for the mailbox with that role.
    pub fn find_mailbox(
        &self,
        account: AccountId,
        wanted: &str,
    ) -> Result<Option<(MailboxUid, Mailbox)>, Error> {
        let all = self.mailboxes(account)?;
        let path = |mailbox: &Mailbox| {
            let (mut path, mut parent) = (mailbox.name.clone(), mailbox.parent);
            for _ in 0..all.len() {
                let Some((_, above)) =
                    parent.and_then(|uid| all.iter().find(|(other, _)| *other == uid))
                else {
                    break;
                };
                path = format!("{}/{path}", above.name);
                parent = above.parent;
            }
            path
        };
        let by_path = |wanted: &str| {
            let exact = all.iter().find(|(_, mailbox)| path(mailbox) == wanted);
            let folded = wanted.to_lowercase();
            exact.or_else(|| all.iter().find(|(_, mailbox)| path(mailbox).to_lowercase() == folded))
        };
        let by_role = || {
            let (first, below) = match wanted.split_once('/') {
                Some((first, below)) => (first, Some(below)),
                None => (wanted, None),
            };
            let role = Role::from_name(&first.to_lowercase())?;
            let found = all.iter().find(|(_, mailbox)| mailbox.role == Some(role))?;
            below.map_or(Some(found), |below| by_path(&format!("{}/{below}", path(&found.1))))
        };
        Ok(by_path(wanted).or_else(by_role).cloned())
    }
}
