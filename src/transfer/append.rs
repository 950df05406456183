//! Files a message of an import.
//!
//! - Filing the same message again adds no email, also concurrently. A message is that of an email
//!   if the bytes are the same and the email has the same date of receipt, or one up to
//!   `MAX_ID_SHIFT_MS` later; or if an export wrote the message from the email
//!   (`AppendRequest::known_as`) and the bytes are the same.
//! - Whether a message is there is looked up in `blob_refs` under the account's lock, and not
//!   recorded anywhere else: a message that the owner has destroyed is filed again by another
//!   import.
//! - A message in two folders becomes one email in two mailboxes (RFC 8621 §4.1.1), with the
//!   keywords of both.

use std::collections::BTreeSet;

use crate::message::rows_of_any;
use crate::model::{
    AccountId, BlobHash, EmailId, EmailMetadata, MailboxUid, ThreadId, UtcMillis, limits,
};
use crate::store::{EncodedMessage, Error, NewEmail, Snapshot, Store, Ticket, Txn};

/// How much later than its message an email may be dated to be found: emails are dated later if
/// too many have the same millisecond.
const MAX_ID_SHIFT_MS: i64 = 64;

#[derive(Debug, Clone)]
pub struct AppendRequest<'a> {
    pub raw: &'a [u8],
    pub mailbox: MailboxUid,
    /// In normal form, at most `limits::MAX_KEYWORDS`.
    pub keywords: BTreeSet<String>,
    pub received_at: UtcMillis,
    /// The id of the exported email, if an export wrote the message. Its blob may be another one,
    /// because an export includes the trace prefix.
    pub known_as: Option<EmailId>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AppendOutcome {
    Added,
    /// The email existed and was added to this mailbox. The keywords were added to its own, up to
    /// `limits::MAX_KEYWORDS` of both.
    Joined,
    /// The email existed in this mailbox; nothing was changed.
    There,
}

impl AppendOutcome {
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Joined => "joined",
            Self::There => "there",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AppendedEmail {
    pub email: EmailId,
    pub thread: ThreadId,
    pub outcome: AppendOutcome,
    /// Whether keywords were left out because the email would have had too many.
    pub keywords_cut: bool,
}

/// Files a message. The result is durable when the ticket is ready.
///
/// # Errors
/// `NotFound` (account, mailbox), `Quota`, and those of the store.
pub fn append(
    store: &Store,
    account: AccountId,
    new: &AppendRequest<'_>,
) -> Result<(AppendedEmail, Ticket), Error> {
    let hash = BlobHash(*blake3::hash(new.raw).as_bytes());
    // A message that exists need not be parsed. The commit changes nothing: its ticket tells when
    // what it found is durable.
    if find_in_mailbox(&store.snapshot(), account, new, &hash)?.is_some() {
        let (found, ticket) =
            store.commit(account, |txn| find_in_mailbox(&txn.snapshot(), account, new, &hash))?;
        if let Some(found) = found {
            return Ok((found, ticket));
        }
    }
    let rows = rows_of_any(new.raw, store.secrets());
    let message = EncodedMessage::new(&rows);
    let (mut results, ticket) =
        store.commit_message(&[account], &message, new.raw, |txn| file(txn, new, &message));
    let done = results.pop().map_or(Err(Error::NotFound("account")), |(_, done)| done)?;
    Ok((done, ticket))
}

/// Finds the email of this message if it is in the mailbox already, so that nothing is to be done.
fn find_in_mailbox(
    snapshot: &Snapshot<'_>,
    account: AccountId,
    new: &AppendRequest<'_>,
    hash: &BlobHash,
) -> Result<Option<AppendedEmail>, Error> {
    let found = find(snapshot, account, new, hash)?;
    Ok(found.filter(|(_, email)| email.mailboxes.contains(&new.mailbox)).map(|(id, email)| {
        let (thread, outcome) = (email.thread, AppendOutcome::There);
        AppendedEmail { email: id, thread, outcome, keywords_cut: false }
    }))
}

/// Adds the email of this message to the mailbox, or creates one.
fn file(
    txn: &mut Txn<'_>,
    new: &AppendRequest<'_>,
    message: &EncodedMessage,
) -> Result<AppendedEmail, Error> {
    let found = find(&txn.snapshot(), txn.account(), new, &message.blob)?;
    if let Some((id, email)) = found {
        let (mut mailboxes, mut keywords) = (email.mailboxes, email.keywords);
        if !mailboxes.insert(new.mailbox) {
            return Ok(AppendedEmail {
                email: id,
                thread: email.thread,
                outcome: AppendOutcome::There,
                keywords_cut: false,
            });
        }
        let missing: Vec<String> = new.keywords.difference(&keywords).cloned().collect();
        let room = limits::MAX_KEYWORDS.saturating_sub(keywords.len());
        let keywords_cut = missing.len() > room;
        keywords.extend(missing.into_iter().take(room));
        txn.update_email(id, mailboxes, keywords)?;
        return Ok(AppendedEmail {
            email: id,
            thread: email.thread,
            outcome: AppendOutcome::Joined,
            keywords_cut,
        });
    }
    let (email, thread) = txn.create_email(&NewEmail {
        message,
        prefix: &[],
        mailboxes: BTreeSet::from([new.mailbox]),
        keywords: new.keywords.clone(),
        received_at: new.received_at,
    })?;
    Ok(AppendedEmail { email, thread, outcome: AppendOutcome::Added, keywords_cut: false })
}

/// Finds the email of this message: that of `known_as`, else one that is in the mailbox, else any
/// other. Destroyed emails do not count.
fn find(
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
    // The date as an id has it: one before 1970 becomes the beginning of 1970.
    let first = EmailId::new(new.received_at, 0).received_at();
    let mut elsewhere = None;
    for id in snapshot.emails_of_blob(
        account,
        hash,
        first,
        UtcMillis(first.0.saturating_add(MAX_ID_SHIFT_MS)),
    )? {
        // An email with a trace prefix is larger than its blob.
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
