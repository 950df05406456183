//! Restores destroyed emails.
//!
//! - A restored email gets a new id, because clients saw the old one destroyed (RFC 8620 §5.2).
//! - The tombstone of the old id gives up the message, so that no email is restored twice.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::model::{EmailId, EmailMetadata, MailboxUid, ThreadId};
use crate::store::email::write::NewEmail;
use crate::store::engine::typed::TypedRead as _;
use crate::store::error::Error;
use crate::store::listing::write::missing_row;
use crate::store::row::{EncodedMessage, decode_content};
use crate::store::table::{BlobRefs, EmailContent, EmailTokens};
use crate::store::txn::Txn;

impl Txn<'_> {
    /// Restores an email that was destroyed less than `grace` ago into those of its mailboxes that
    /// still exist, or else into the Inbox. `message` must be made from the email's message.
    /// Returns the new id and the thread.
    ///
    /// # Errors
    /// `NotFound` if the id has no row; `Conflict` if the email was not destroyed, was restored
    /// before or was destroyed too long ago, if there is no mailbox for it, or if `message` is
    /// another message; `Quota`. Nothing is staged then. Those of reading.
    pub fn restore_email(
        &mut self,
        id: EmailId,
        message: &EncodedMessage,
        grace: Duration,
    ) -> Result<(EmailId, ThreadId), Error> {
        let old = self.tombstone(id)?;
        if old.destroyed.is_none_or(|at| at.after(grace) <= self.now) {
            return Err(Error::Conflict("the time in which it could be restored is over".into()));
        }
        let prefix = self.prefix_of(id, &old, message)?;
        let mut mailboxes = BTreeSet::new();
        for uid in &old.mailboxes {
            match self.live_mailbox(*uid) {
                Ok(_) => {
                    mailboxes.insert(*uid);
                }
                Err(Error::NotFound(_)) => {}
                Err(error) => return Err(error),
            }
        }
        if mailboxes.is_empty() {
            if self.state.inbox == MailboxUid(0) {
                return Err(Error::Conflict(
                    "none of its mailboxes is left, and there is no inbox to put it in".into(),
                ));
            }
            mailboxes.insert(self.state.inbox);
        }
        let restored = self.create_email(&NewEmail {
            message,
            prefix: &prefix,
            mailboxes,
            keywords: old.keywords.clone(),
            received_at: old.received_at,
        })?;
        self.delete::<EmailContent>(&self.email_key(id));
        self.delete_tokens(id)?;
        self.delete::<BlobRefs>(&self.blob_ref_key(old.blob, id));
        Ok(restored)
    }

    /// Returns the tombstone of an email that was not restored.
    fn tombstone(&self, id: EmailId) -> Result<EmailMetadata, Error> {
        let found = self.email_row(id)?.ok_or(Error::NotFound("destroyed email"))?;
        if found.destroyed.is_none() {
            return Err(Error::Conflict("it was not destroyed".into()));
        }
        if self.bytes::<BlobRefs>(&self.blob_ref_key(found.blob, id))?.is_none() {
            return Err(Error::Conflict("it was restored before, under another id".into()));
        }
        Ok(found)
    }

    /// Returns the trace prefix of a destroyed email. `Conflict` if `message` is not its message.
    fn prefix_of(
        &self,
        id: EmailId,
        email: &EmailMetadata,
        message: &EncodedMessage,
    ) -> Result<Vec<u8>, Error> {
        if message.blob != email.blob {
            return Err(Error::Conflict("these are the rows of another message".into()));
        }
        let key = self.email_key(id);
        let content = self.row_with::<EmailContent, _>(&key, decode_content)?;
        Ok(content.ok_or_else(|| missing_row::<EmailContent>(self.account, &key))?.0)
    }

    /// Deletes the token row of an email. An email that is in a fold has none.
    pub(in crate::store) fn delete_tokens(&mut self, id: EmailId) -> Result<(), Error> {
        let key = self.email_key(id);
        if self.bytes::<EmailTokens>(&key)?.is_some() {
            self.delete::<EmailTokens>(&key);
            self.state.unfolded = self.state.unfolded.saturating_sub(1);
        }
        Ok(())
    }
}
