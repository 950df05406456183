//! Destroyed emails that can be restored, and the bytes of messages.

use crate::model::{AccountId, BlobHash, EmailId, EmailMetadata, UtcMillis};
use crate::store::blob::read::append;
use crate::store::engine::typed::{KeyRange, TypedRead as _};
use crate::store::error::Error;
use crate::store::row::FRAME;
use crate::store::table::keys::{BlobRefKey, EmailKey, PurgeKey};
use crate::store::table::{self, BlobRefs, EmailPurge};
use crate::store::txn::snapshot::Snapshot;

/// A destroyed email that can be restored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DestroyedEmail {
    /// The id that it had.
    pub id: EmailId,
    /// When it was destroyed.
    pub at: UtcMillis,
    /// What it was.
    pub email: EmailMetadata,
}

impl Snapshot<'_> {
    /// The facts of an email, or of its tombstone until that is purged.
    ///
    /// # Errors
    /// Those of reading; so for every function here.
    pub fn email_or_tombstone(&self, account: AccountId, id: EmailId) -> Result<Option<EmailMetadata>, Error> {
        self.read.row::<table::EmailMetadata>(&EmailKey { account, email: id })
    }

    /// The emails that were destroyed after `since` and can be restored, the last destroyed first, `limit` at most.
    ///
    /// # Errors
    /// Those of reading.
    pub fn destroyed_emails(
        &self,
        account: AccountId,
        since: UtcMillis,
        limit: usize,
    ) -> Result<Vec<DestroyedEmail>, Error> {
        let after = UtcMillis(since.0.saturating_add(1));
        let first = PurgeKey { account, at: after.into(), email: EmailId(0) };
        let mut out = Vec::new();
        if limit == 0 {
            return Ok(out);
        }
        self.read.keys::<EmailPurge>(
            &KeyRange::from(&(account,), &first).reversed(),
            |PurgeKey { email: id, .. }, _| {
                if let Some(email) = self.email_or_tombstone(account, id)?
                    && let Some(at) = email.deleted
                    && self.read.bytes::<BlobRefs>(&BlobRefKey { blob: email.blob, account, email: id })?.is_some()
                {
                    out.push(DestroyedEmail { id, at, email });
                }
                Ok(out.len() < limit)
            },
        )?;
        Ok(out)
    }

    /// A message as it was received, without any email's trace prefix.
    ///
    /// # Errors
    /// Those of reading.
    pub fn raw_message(&self, blob: &BlobHash) -> Result<Option<Vec<u8>>, Error> {
        let mut octets = Vec::new();
        Ok(append(&*self.read, blob, 0..u64::MAX, &mut octets)?.then_some(octets))
    }

    /// The beginning of a message as it was received: a long one is read frame by frame until
    /// `is_enough` says so of what was read.
    ///
    /// # Errors
    /// Those of reading.
    pub fn raw_message_until(
        &self,
        blob: &BlobHash,
        is_enough: &dyn Fn(&[u8]) -> bool,
    ) -> Result<Option<Vec<u8>>, Error> {
        let mut octets = Vec::new();
        loop {
            let before = octets.len();
            let frame = before as u64..(before as u64).saturating_add(FRAME as u64);
            if !append(&*self.read, blob, frame, &mut octets)? {
                return Ok(None);
            }
            if octets.len() == before || is_enough(&octets) {
                return Ok(Some(octets));
            }
        }
    }
}
