//! Files the emails that are planned for the recipients of one account, in the transaction of its
//! commit.
//!
//! - There is one email for each version of the message, in all the mailboxes that are planned for
//!   any of the recipients. An email of the same version that was filed for an earlier recipient
//!   gets the further mailboxes, unless its owner has destroyed it.
//! - The Inbox takes the place of a mailbox that is gone or cannot be created. For one recipient it
//!   gets one version of the message, as any mailbox does (`targets`).

use std::collections::BTreeSet;

use super::job::{PlannedEmail, RecipientJob, RecipientWork};
use crate::filter::StoreTarget;
use crate::model::{MailboxUid, ThreadId, limits};
use crate::store::{DeliveredEmail, EncodedMessage, Error, NewEmail, Txn};

/// A recipient for whom the message is filed now, with its index in the job.
pub(super) type Fresh<'a> = (usize, &'a RecipientJob, &'a RecipientWork);

/// An email with the mailboxes that it goes to, for one or several recipients.
struct PlacedEmail<'a> {
    /// The email as planned for the first of the recipients. All plan the same version.
    planned: &'a PlannedEmail,
    /// The trace fields of the first of the recipients.
    prefix: &'a [u8],
    /// The mailboxes and keywords for any of the recipients.
    mailboxes: BTreeSet<MailboxUid>,
    keywords: BTreeSet<String>,
}

/// A mailbox of a script that could not be created (RFC 5490 §3.2).
pub(super) struct RefusedMailbox {
    pub(super) path: String,
    /// How the step of the command that named it begins.
    pub(super) step: String,
    /// What becomes of the message, or of its copy.
    pub(super) instead: &'static str,
}

/// What was filed of one version of the message.
pub(super) struct FiledVersion {
    /// What the record of the delivery gets.
    pub(super) filed: DeliveredEmail,
    /// `None` if the version was filed before.
    pub(super) thread: Option<ThreadId>,
}

/// Joins the emails that are planned for the recipients, and files each (`file_email`). `former`
/// are the emails that were filed for earlier recipients. If there are any, none is filed for a
/// recipient without scripts. Adds the mailboxes that cannot be created to `refused`.
pub(super) fn file_emails(
    txn: &mut Txn<'_>,
    fresh: &[Fresh<'_>],
    former: &[DeliveredEmail],
    message: &EncodedMessage,
    refused: &mut Vec<RefusedMailbox>,
) -> Result<Vec<FiledVersion>, Error> {
    let mut joined: Vec<PlacedEmail<'_>> = Vec::new();
    for (_, recipient, work) in fresh {
        if !former.is_empty() && !work.is_scripted {
            continue;
        }
        for placed in place_emails(txn, recipient, work, former, refused)? {
            let version = placed.planned.version();
            match joined.iter_mut().find(|known| known.planned.version() == version) {
                Some(known) => {
                    known.mailboxes.extend(placed.mailboxes);
                    known.keywords.extend(placed.keywords);
                }
                None => joined.push(placed),
            }
        }
    }
    joined.into_iter().map(|email| file_email(txn, email, former, message)).collect()
}

/// Returns the emails of one recipient with their mailboxes, which may be created.
///
/// If mailboxes are missing for several versions, the Inbox gets the last of these versions; none
/// of them, if another version is stored there anyway. A version that then goes nowhere leaves its
/// keywords to the one in the Inbox.
fn place_emails<'a>(
    txn: &mut Txn<'_>,
    recipient: &'a RecipientJob,
    work: &'a RecipientWork,
    former: &[DeliveredEmail],
    refused: &mut Vec<RefusedMailbox>,
) -> Result<Vec<PlacedEmail<'a>>, Error> {
    let inbox = txn.state().inbox;
    let mut placed = Vec::with_capacity(work.emails.len());
    let mut last_missing = None;
    for planned in &work.emails {
        let mut mailboxes = BTreeSet::new();
        let is_destroyed = match find_former(former, planned) {
            Some(filed) => txn.snapshot().email(txn.account(), filed.email)?.is_none(),
            None => false,
        };
        // No mailbox is created for an email that does not come back.
        for target in planned.targets.iter().filter(|_| !is_destroyed) {
            match find_or_create(txn, target, refused)? {
                Some(uid) => drop(mailboxes.insert(uid)),
                None => last_missing = Some(placed.len()),
            }
        }
        placed.push(PlacedEmail {
            planned,
            prefix: &recipient.prefix,
            mailboxes,
            keywords: planned.keywords.clone(),
        });
    }
    if placed.iter().all(|email| !email.mailboxes.contains(&inbox))
        && let Some(email) = last_missing.and_then(|index| placed.get_mut(index))
    {
        email.mailboxes.insert(inbox);
    }
    let (mut placed, left): (Vec<_>, Vec<_>) = placed.into_iter().partition(|email| {
        !email.mailboxes.is_empty() || find_former(former, email.planned).is_some()
    });
    if let Some(kept) = placed.iter_mut().find(|email| email.mailboxes.contains(&inbox)) {
        kept.keywords.extend(left.into_iter().flat_map(|email| email.keywords));
    }
    Ok(placed)
}

/// Finds the email of the same version that was filed for an earlier recipient.
fn find_former<'a>(
    former: &'a [DeliveredEmail],
    planned: &PlannedEmail,
) -> Option<&'a DeliveredEmail> {
    let version = planned.version();
    former.iter().find(|filed| filed.version == version)
}

/// Adds the mailboxes and keywords to the email of the same version in `former`, unless that is
/// destroyed. If there is no such email, creates one.
fn file_email(
    txn: &mut Txn<'_>,
    placed: PlacedEmail<'_>,
    former: &[DeliveredEmail],
    message: &EncodedMessage,
) -> Result<FiledVersion, Error> {
    let PlacedEmail { planned, prefix, mut mailboxes, mut keywords } = placed;
    let version = planned.version();
    if let Some(filed) = find_former(former, planned) {
        // An email that the owner has destroyed meanwhile does not come back.
        let known = txn.snapshot().email(txn.account(), filed.email)?;
        if let Some(known) = known {
            mailboxes.extend(known.mailboxes);
            keywords.extend(known.keywords);
            txn.update_email(filed.email, mailboxes, bounded(keywords))?;
        }
        return Ok(FiledVersion { filed: *filed, thread: None });
    }
    let (email, thread) = txn.create_email(&NewEmail {
        message: planned.edited.as_ref().map_or(message, |edited| &edited.rows),
        prefix,
        mailboxes,
        keywords: bounded(keywords),
        received_at: txn.now(),
    })?;
    if let Some(edited) = &planned.edited {
        txn.put_message(&edited.rows, &edited.message.0)?;
    }
    Ok(FiledVersion { filed: DeliveredEmail { email, version }, thread: Some(thread) })
}

/// Returns the first `limits::MAX_KEYWORDS` of these keywords.
fn bounded(keywords: BTreeSet<String>) -> BTreeSet<String> {
    keywords.into_iter().take(limits::MAX_KEYWORDS).collect()
}

/// Returns the mailbox of a target, which may be created. `None` if it is gone, or cannot be
/// created.
fn find_or_create(
    txn: &mut Txn<'_>,
    target: &StoreTarget,
    refused: &mut Vec<RefusedMailbox>,
) -> Result<Option<MailboxUid>, Error> {
    Ok(match target {
        StoreTarget::Inbox => Some(txn.state().inbox),
        StoreTarget::Mailbox(uid) => {
            let found = txn.snapshot().mailbox(txn.account(), *uid)?;
            found.filter(|mailbox| !mailbox.destroyed).map(|_| *uid)
        }
        StoreTarget::Create { path, role } => {
            let created = txn.create_mailbox_path(path, *role)?;
            if created.is_none() {
                refused.push(RefusedMailbox {
                    path: path.clone(),
                    step: format!("fileinto {path}"),
                    instead: "the message goes to the Inbox",
                });
            }
            created
        }
    })
}
