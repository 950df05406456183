//! What is still known of emails that are gone.

use super::View;
use crate::model::{AccountId, EmailId, EmailMetadata};
use crate::store::error::Error;
use crate::store::key;

impl View<'_> {
    /// The facts of an email, or of its tombstone until that is purged.
    ///
    /// # Errors
    /// Those of reading.
    pub fn email_or_tombstone(&self, account: AccountId, id: EmailId) -> Result<Option<EmailMetadata>, Error> {
        self.row::<EmailMetadata>(&key::email(account, id))
    }
}
