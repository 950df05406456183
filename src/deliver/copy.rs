//! Copies of replies (RFC 8580), filed in the commit of the delivery that gave rise to them.
//!
//! Into the mailbox with the use that is asked for, else the one of that name, made if that is
//! asked for and it can be, else Sent. Where there is none, or no room, there is no copy: the reply
//! goes out all the same.

use std::collections::BTreeSet;

use crate::model::{MailboxUid, keyword};
use crate::store::{EncodedMessage, Error, NewEmail, NewMailbox, Txn};
use crate::vacation::{Fcc, VacationReply};

/// Files the copy of a reply, whose rows are `copy`.
pub(super) fn file(
    txn: &mut Txn<'_>,
    reply: &VacationReply,
    fcc: &Fcc,
    copy: &EncodedMessage,
) -> Result<(), Error> {
    let role =
        fcc.special_use.as_deref().map(|name| name.trim_start_matches('\\').to_ascii_lowercase());
    let mut found = match role {
        Some(role) => mailbox(txn, &role)?,
        None => None,
    };
    if found.is_none() {
        found = mailbox(txn, &fcc.mailbox)?;
    }
    if found.is_none() && fcc.create {
        found = create_path(txn, &fcc.mailbox)?;
    }
    if found.is_none() {
        found = mailbox(txn, "sent")?;
    }
    let Some(uid) = found else { return Ok(()) };
    let filed = txn.create_email(&NewEmail {
        message: copy,
        prefix: b"",
        mailboxes: BTreeSet::from([uid]),
        keywords: fcc.keywords.iter().filter_map(|word| keyword::normalize(word)).collect(),
        received_at: txn.now(),
    });
    match filed {
        Err(Error::Quota) => Ok(()),
        filed => {
            filed?;
            txn.put_message(copy, &reply.message);
            Ok(())
        }
    }
}

fn mailbox(txn: &Txn<'_>, name: &str) -> Result<Option<MailboxUid>, Error> {
    let found =
        if name.is_empty() { None } else { txn.snapshot().find_mailbox(txn.account(), name)? };
    Ok(found.map(|(uid, _)| uid))
}

/// The mailbox at the end of a path, with all that is missing on the way; none where it cannot be
/// made.
fn create_path(txn: &mut Txn<'_>, path: &str) -> Result<Option<MailboxUid>, Error> {
    let (mut parent, mut so_far) = (None, String::new());
    for name in path.split('/') {
        so_far = if so_far.is_empty() { name.to_owned() } else { format!("{so_far}/{name}") };
        parent = match mailbox(txn, &so_far)? {
            Some(known) => Some(known),
            None => match txn.create_mailbox(&NewMailbox {
                name: name.into(),
                parent,
                role: None,
                sort_order: 0,
            }) {
                Ok(new) => Some(new),
                Err(Error::Mailbox { .. } | Error::NotFound(_) | Error::Quota) => return Ok(None),
                Err(error) => return Err(error),
            },
        };
    }
    Ok(parent)
}
