//! Files copies of replies (RFC 8580), in the commit of the delivery that is answered.
//!
//! - A copy goes to the mailbox with the wanted special use, else to the one with the wanted name
//!   (which is created if asked for), else to Sent.
//! - If there is none of these, or the quota is used up, no copy is filed. The reply is sent
//!   nevertheless.

use std::collections::BTreeSet;

use crate::model::{MailboxUid, keyword};
use crate::store::{EncodedMessage, Error, NewEmail, NewMailbox, Txn};
use crate::vacation::{Fcc, VacationReply};

/// Files the copy of a reply. `copy` has the rows of the copy.
pub(super) fn file(
    txn: &mut Txn<'_>,
    reply: &VacationReply,
    fcc: &Fcc,
    copy: &EncodedMessage,
) -> Result<(), Error> {
    let role =
        fcc.special_use.as_deref().map(|name| name.trim_start_matches('\\').to_ascii_lowercase());
    let mut target = match role {
        Some(role) => find_mailbox(txn, &role)?,
        None => None,
    };
    if target.is_none() {
        target = find_mailbox(txn, &fcc.mailbox)?;
    }
    if target.is_none() && fcc.create {
        target = create_path(txn, &fcc.mailbox)?;
    }
    if target.is_none() {
        target = find_mailbox(txn, "sent")?;
    }
    let Some(uid) = target else { return Ok(()) };
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

fn find_mailbox(txn: &Txn<'_>, name: &str) -> Result<Option<MailboxUid>, Error> {
    let mailbox =
        if name.is_empty() { None } else { txn.snapshot().find_mailbox(txn.account(), name)? };
    Ok(mailbox.map(|(uid, _)| uid))
}

/// Creates the mailboxes of a path that are missing, and returns the last one. `None` if one cannot
/// be created.
fn create_path(txn: &mut Txn<'_>, path: &str) -> Result<Option<MailboxUid>, Error> {
    let (mut parent, mut prefix) = (None, String::new());
    for name in path.split('/') {
        prefix = if prefix.is_empty() { name.to_owned() } else { format!("{prefix}/{name}") };
        parent = match find_mailbox(txn, &prefix)? {
            Some(existing) => Some(existing),
            None => match txn.create_mailbox(&NewMailbox {
                name: name.into(),
                parent,
                role: None,
                sort_order: 0,
            }) {
                Ok(created) => Some(created),
                Err(Error::Mailbox { .. } | Error::NotFound(_) | Error::Quota) => return Ok(None),
                Err(error) => return Err(error),
            },
        };
    }
    Ok(parent)
}
