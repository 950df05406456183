//! Looks up the rows of many emails at once. Every function but `emails_of_threads` returns one
//! answer for each id or hash, in their order.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{AccountId, BlobHash, EmailContent, EmailId, EmailMetadata, Listing, ThreadId};
use crate::store::blob::read::whole;
use crate::store::engine::WalkStep;
use crate::store::engine::typed::{KeyRange, TypedRead as _};
use crate::store::error::Error;
use crate::store::row::{RowFormat as _, decode_content};
use crate::store::table::codec::Prefix as _;
use crate::store::table::keys::{BlobKey, EmailKey, ListingEmailKey};
use crate::store::table::{self, Blobs, EmailByThread, MailboxEmailIndex, Table as _};
use crate::store::txn::snapshot::Snapshot;

/// The trace prefix and the content of an email.
pub type StoredContent = (Vec<u8>, EmailContent);

impl Snapshot<'_> {
    /// Returns the metadata of emails. `None` for an email that is destroyed or does not exist.
    pub fn emails_at(
        &self,
        account: AccountId,
        ids: &[EmailId],
    ) -> Result<Vec<Option<EmailMetadata>>, Error> {
        let keys = ids.iter().map(|id| EmailKey { account, email: *id });
        let mut emails = Vec::with_capacity(ids.len());
        self.read.many::<table::EmailMetadata>(keys, |key, row| {
            let email = row
                .map(|row| EmailMetadata::from_bytes(table::EmailMetadata::ID, key, row))
                .transpose()?;
            emails.push(email.filter(|email| email.destroyed.is_none()));
            Ok(())
        })?;
        Ok(emails)
    }

    /// Returns the live emails of each thread, newest first, as `thread_emails` does, with a single
    /// iterator for all threads.
    pub fn emails_of_threads(
        &self,
        account: AccountId,
        threads: &BTreeSet<ThreadId>,
    ) -> Result<BTreeMap<ThreadId, Vec<EmailId>>, Error> {
        let mut emails: BTreeMap<ThreadId, Vec<EmailId>> =
            threads.iter().map(|thread| (*thread, Vec::new())).collect();
        let start = |thread: ThreadId| WalkStep::At((account, thread).encode());
        let range = KeyRange::<EmailByThread>::under(&(account,));
        let mut rest = emails.iter_mut().peekable();
        let Some(first) = rest.peek().map(|(thread, _)| **thread) else { return Ok(emails) };
        self.read.walk_rows(&range, start(first), |row| {
            let Some((key, _)) = row else { return Ok(WalkStep::End) };
            // The walk is past the emails of these threads: they have no more.
            while rest.next_if(|(thread, _)| **thread < key.thread).is_some() {}
            Ok(match rest.peek_mut() {
                Some((thread, own)) if **thread == key.thread => {
                    own.push(key.email);
                    WalkStep::Next
                }
                Some((thread, _)) => start(**thread),
                None => WalkStep::End,
            })
        })?;
        Ok(emails)
    }

    /// Returns trace prefixes and contents; `None` for an email without a content row. Tombstones
    /// that can be restored have one.
    pub fn contents_at(
        &self,
        account: AccountId,
        ids: &[EmailId],
    ) -> Result<Vec<Option<StoredContent>>, Error> {
        let keys = ids.iter().map(|id| EmailKey { account, email: *id });
        let mut contents = Vec::with_capacity(ids.len());
        self.read.many::<table::EmailContent>(keys, |key, row| {
            contents.push(row.map(|row| decode_content(key, row)).transpose()?);
            Ok(())
        })?;
        Ok(contents)
    }

    /// Tells for each of these emails whether a listing shows it.
    pub fn emails_in_listing(
        &self,
        account: AccountId,
        listing: Listing,
        ids: &[EmailId],
    ) -> Result<Vec<bool>, Error> {
        let keys = ids.iter().map(|id| ListingEmailKey { account, listing, email: *id });
        let mut listed = Vec::with_capacity(ids.len());
        self.read.many::<MailboxEmailIndex>(keys, |_, row| {
            listed.push(row.is_some());
            Ok(())
        })?;
        Ok(listed)
    }

    /// Returns messages as they were received; `None` for one that does not exist.
    pub fn raw_messages(&self, blobs: &[BlobHash]) -> Result<Vec<Option<Vec<u8>>>, Error> {
        let keys = blobs.iter().map(|blob| BlobKey { blob: *blob });
        let mut messages = Vec::with_capacity(blobs.len());
        self.read.many::<Blobs>(keys, |_, row| {
            let blob = blobs.get(messages.len()).zip(row);
            messages.push(blob.map(|(blob, row)| whole(&*self.read, blob, row)).transpose()?);
            Ok(())
        })?;
        Ok(messages)
    }
}
