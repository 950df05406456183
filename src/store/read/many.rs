//! Many rows at once: what each of them would cost by itself they share.

use super::View;
use super::blob::whole;
use crate::model::{AccountId, BlobHash, EmailId, EmailMetadata, Listing};
use crate::store::engine::{Table, after};
use crate::store::error::Error;
use crate::store::key::{self, Parts};
use crate::store::row::Row as _;

/// So many others are walked over at once before the rest is looked up.
const FEW: usize = if cfg!(test) { 1 } else { 8 };

impl View<'_> {
    /// The facts of these emails; none of one that is destroyed or not there.
    ///
    /// # Errors
    /// Those of reading; so for every function here.
    pub fn emails_at(&self, account: AccountId, ids: &[EmailId]) -> Result<Vec<Option<EmailMetadata>>, Error> {
        let keys: Vec<Vec<u8>> = ids.iter().map(|id| key::email(account, *id)).collect();
        let rows = self.read.get_many(Table::EmailMetadata, &keys)?;
        keys.iter().zip(rows).map(|(key, row)| live(key, row.as_deref())).collect()
    }

    /// The same of emails, newest first, of which most of an account's may be: as long as few others lie between them, each
    /// is a step to the next row, which costs a fraction of a look-up.
    ///
    /// # Errors
    /// Those of reading.
    pub fn emails_along(&self, account: AccountId, ids: &[EmailId]) -> Result<Vec<Option<EmailMetadata>>, Error> {
        let (Some(first), Some(last)) = (ids.first(), ids.last()) else { return Ok(Vec::new()) };
        let (mut rest, mut others) = (ids, 0);
        let mut emails = Vec::with_capacity(ids.len());
        let (from, end) = (key::email(account, *first), after(&key::email(account, *last)));
        self.keys(Table::EmailMetadata, &from, &end, |key, value| {
            let at = EmailId(Parts::of(Table::EmailMetadata, key).u64()?);
            let gone = rest.partition_point(|id| *id < at);
            emails.extend(rest.iter().take(gone).map(|_| None));
            rest = rest.get(gone..).unwrap_or_default();
            match rest.split_first() {
                Some((id, behind)) if *id == at => {
                    emails.push(live(key, Some(value))?);
                    rest = behind;
                }
                _ => others += 1,
            }
            Ok(!rest.is_empty() && others <= FEW + 2 * emails.len())
        })?;
        emails.extend(self.emails_at(account, rest)?);
        Ok(emails)
    }

    /// Which of these emails are in a kept listing.
    ///
    /// # Errors
    /// Those of reading.
    pub fn listed(&self, account: AccountId, listing: Listing, ids: &[EmailId]) -> Result<Vec<bool>, Error> {
        let keys: Vec<Vec<u8>> = ids.iter().map(|id| key::index(account, listing, *id)).collect();
        let rows = self.read.get_many(Table::MailboxEmailIndex, &keys)?;
        Ok(rows.into_iter().map(|row| row.is_some()).collect())
    }

    /// These messages as they were received; none of one that is not there.
    ///
    /// # Errors
    /// Those of reading.
    pub fn received_all(&self, blobs: &[BlobHash]) -> Result<Vec<Option<Vec<u8>>>, Error> {
        let keys: Vec<Vec<u8>> = blobs.iter().map(key::blob).collect();
        let rows = self.read.get_many(Table::Blobs, &keys)?;
        let octets =
            |(blob, row): (&BlobHash, Option<Vec<u8>>)| row.map(|row| whole(&*self.read, blob, row)).transpose();
        blobs.iter().zip(rows).map(octets).collect()
    }
}

/// The facts of an email, by its row, if it is there and live.
fn live(key: &[u8], row: Option<&[u8]>) -> Result<Option<EmailMetadata>, Error> {
    let email = row.map(|row| EmailMetadata::decode(key, row)).transpose()?;
    Ok(email.filter(|email| email.deleted.is_none()))
}
