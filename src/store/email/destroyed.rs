//! Reads tombstones, and the destroyed emails that can still be restored.

use crate::model::{AccountId, EmailId, EmailMetadata, UtcMillis};
use crate::store::engine::typed::{KeyRange, TypedRead as _};
use crate::store::error::Error;
use crate::store::table::keys::{BlobRefKey, EmailKey, PurgeKey};
use crate::store::table::{self, BlobRefs, EmailPurge};
use crate::store::txn::snapshot::Snapshot;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DestroyedEmail {
    /// The id that the email had. If it is restored, it gets a new one.
    pub id: EmailId,
    /// When the email was destroyed.
    pub at: UtcMillis,
    /// The tombstone of the email.
    pub email: EmailMetadata,
}

impl Snapshot<'_> {
    /// Returns the metadata of an email, or its tombstone until that is purged.
    pub fn email_or_tombstone(
        &self,
        account: AccountId,
        id: EmailId,
    ) -> Result<Option<EmailMetadata>, Error> {
        self.read.row::<table::EmailMetadata>(&EmailKey { account, email: id })
    }

    /// Returns up to `limit` emails that were destroyed after `since` and neither restored nor
    /// purged, the last destroyed first.
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
                // The tombstone of a restored email has no reference any more.
                if let Some(email) = self.email_or_tombstone(account, id)?
                    && let Some(at) = email.destroyed
                    && self
                        .read
                        .bytes::<BlobRefs>(&BlobRefKey { blob: email.blob, account, email: id })?
                        .is_some()
                {
                    out.push(DestroyedEmail { id, at, email });
                }
                Ok(out.len() < limit)
            },
        )?;
        Ok(out)
    }
}
