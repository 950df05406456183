//! Look-ups of many rows at once, which cost less together than one by one.

use crate::model::{AccountId, BlobHash, EmailContent, EmailId, EmailMetadata, Listing};
use crate::store::blob::read::whole;
use crate::store::engine::typed::TypedRead as _;
use crate::store::error::Error;
use crate::store::row::{RowFormat as _, decode_content};
use crate::store::table::keys::{BlobKey, EmailKey, IndexKey};
use crate::store::table::{self, Blobs, MailboxEmailIndex, Table as _};
use crate::store::txn::snapshot::Snapshot;

/// The trace prefix of an email and its content.
pub type StoredContent = (Vec<u8>, EmailContent);

impl Snapshot<'_> {
    /// The facts of these emails; none of one that is destroyed or not there.
    ///
    /// # Errors
    /// Those of reading; so for every function here.
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
            emails.push(email.filter(|email| email.deleted.is_none()));
            Ok(())
        })?;
        Ok(emails)
    }

    /// The trace prefixes and the contents of these emails; none of one that has no such row.
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

    /// Which of these emails are in a kept listing.
    ///
    /// # Errors
    /// Those of reading.
    pub fn emails_in_listing(
        &self,
        account: AccountId,
        listing: Listing,
        ids: &[EmailId],
    ) -> Result<Vec<bool>, Error> {
        let keys = ids.iter().map(|id| IndexKey { account, listing, email: *id });
        let mut listed = Vec::with_capacity(ids.len());
        self.read.many::<MailboxEmailIndex>(keys, |_, row| {
            listed.push(row.is_some());
            Ok(())
        })?;
        Ok(listed)
    }

    /// These messages as they were received; none of one that is not there.
    ///
    /// # Errors
    /// Those of reading.
    pub fn raw_messages(&self, blobs: &[BlobHash]) -> Result<Vec<Option<Vec<u8>>>, Error> {
        let keys = blobs.iter().map(|blob| BlobKey { blob: *blob });
        let mut octets = Vec::with_capacity(blobs.len());
        self.read.many::<Blobs>(keys, |_, row| {
            let blob = blobs.get(octets.len()).zip(row);
            octets.push(blob.map(|(blob, row)| whole(&*self.read, blob, row)).transpose()?);
            Ok(())
        })?;
        Ok(octets)
    }
}
