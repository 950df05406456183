//! A message is filed as it is: parsed once, one commit, and dated as it says.
//!
//! What must hold: the same call again, at any time and beside others, adds nothing. An email is
//! the same where its octets and its date are; this is asked of `blob_refs` under the account's
//! lock, and not of a record of what was imported. So it costs one short look-up and no row, it
//! never expires, and what its owner destroyed since is filed again when the owner imports it
//! again. The same email in two folders is one email in two mailboxes (RFC 8621 §4.1.1): it joins
//! the second, and has the keywords of both.

use std::collections::BTreeSet;

use crate::message::rows_or_bare;
use crate::model::{AccountId, BlobHash, EmailId, EmailMetadata, MailboxUid, ThreadId, UtcMillis};
use crate::store::{EncodedMessage, Error, NewEmail, Snapshot, Store, Ticket, Txn};

/// Milliseconds by which an email may be moved on where its own millisecond is full.
const MAX_ID_SHIFT_MS: i64 = 64;

/// What is to be filed.
#[derive(Debug, Clone)]
pub struct AppendRequest<'a> {
    pub raw: &'a [u8],
    pub mailbox: MailboxUid,
    /// Its keywords, normal form.
    pub keywords: BTreeSet<String>,
    /// When it was received.
    pub received_at: UtcMillis,
    /// The email that an export of this account wrote it of, if that is known. That one may have a
    /// trace prefix, and so another blob.
    pub known_as: Option<EmailId>,
}

/// What became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AppendOutcome {
    /// It is there now.
    Added,
    /// It was there, and is in this mailbox too now.
    Joined,
    /// It was there, in this mailbox; nothing was changed.
    There,
}

impl AppendOutcome {
    /// Its name on the wire.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Joined => "joined",
            Self::There => "there",
        }
    }
}

/// An email that was filed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AppendedEmail {
    pub email: EmailId,
    pub thread: ThreadId,
    /// What was done.
    pub outcome: AppendOutcome,
}

/// Files a message. Nothing may be promised before the ticket is redeemed.
///
/// # Errors
/// `NotFound` (account, mailbox), `Quota`, and those of the store.
pub fn append(
    store: &Store,
    account: AccountId,
    new: &AppendRequest<'_>,
) -> Result<(AppendedEmail, Ticket), Error> {
    let hash = BlobHash(*blake3::hash(new.raw).as_bytes());
    // What is there need not be parsed; the answer is given under the lock all the same.
    if there(&store.snapshot(), account, new, &hash)?.is_some() {
        let (done, ticket) =
            store.commit(account, |txn| there(&txn.snapshot(), account, new, &hash))?;
        if let Some(done) = done {
            return Ok((done, ticket));
        }
    }
    let rows = rows_or_bare(new.raw, store.secrets());
    let message = EncodedMessage::new(&rows);
    let (mut results, ticket) =
        store.commit_message(&[account], &message, new.raw, |txn| file(txn, new, &message));
    let done = results.pop().map_or(Err(Error::NotFound("account")), |(_, done)| done)?;
    Ok((done, ticket))
}

fn there(
    snapshot: &Snapshot<'_>,
    account: AccountId,
    new: &AppendRequest<'_>,
    hash: &BlobHash,
) -> Result<Option<AppendedEmail>, Error> {
    let known = known(snapshot, account, new, hash)?;
    Ok(known.filter(|(_, email)| email.mailboxes.contains(&new.mailbox)).map(|(id, email)| {
        AppendedEmail { email: id, thread: email.thread, outcome: AppendOutcome::There }
    }))
}

fn file(
    txn: &mut Txn<'_>,
    new: &AppendRequest<'_>,
    message: &EncodedMessage,
) -> Result<AppendedEmail, Error> {
    let known = known(&txn.snapshot(), txn.account(), new, &message.blob)?;
    if let Some((id, email)) = known {
        let (mut mailboxes, mut keywords) = (email.mailboxes, email.keywords);
        if !mailboxes.insert(new.mailbox) {
            return Ok(AppendedEmail {
                email: id,
                thread: email.thread,
                outcome: AppendOutcome::There,
            });
        }
        keywords.extend(new.keywords.iter().cloned());
        txn.update_email(id, mailboxes, keywords)?;
        return Ok(AppendedEmail {
            email: id,
            thread: email.thread,
            outcome: AppendOutcome::Joined,
        });
    }
    let (email, thread) = txn.create_email(&NewEmail {
        message,
        prefix: &[],
        mailboxes: BTreeSet::from([new.mailbox]),
        keywords: new.keywords.clone(),
        received_at: new.received_at,
    })?;
    Ok(AppendedEmail { email, thread, outcome: AppendOutcome::Added })
}

/// The email that this message is already: one in this mailbox rather than one elsewhere.
fn known(
    snapshot: &Snapshot<'_>,
    account: AccountId,
    new: &AppendRequest<'_>,
    hash: &BlobHash,
) -> Result<Option<(EmailId, EmailMetadata)>, Error> {
    let size = new.raw.len() as u64;
    if let Some(id) = new.known_as
        && let Some(email) = snapshot.email(account, id)?
        && email.size == size
        && snapshot.message(account, id)?.as_deref() == Some(new.raw)
    {
        return Ok(Some((id, email)));
    }
    let first = EmailId::new(new.received_at, 0).received_at();
    let mut elsewhere = None;
    for id in snapshot.emails_of_blob(
        account,
        hash,
        first,
        UtcMillis(first.0.saturating_add(MAX_ID_SHIFT_MS)),
    )? {
        let Some(email) = snapshot.email(account, id)?.filter(|email| email.size == size) else {
            continue;
        };
        if email.mailboxes.contains(&new.mailbox) {
            return Ok(Some((id, email)));
        }
        elsewhere.get_or_insert((id, email));
    }
    Ok(elsewhere)
}
