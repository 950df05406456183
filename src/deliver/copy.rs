//! Files a copy of a vacation reply or a notification in the owner's account (RFC 8580).
//!
//! - The copy goes to the first mailbox that exists: the one with the special use of `Fcc`, the one
//!   with the path of `Fcc` (which is created if `Fcc::create` is set), Sent.
//! - A mailbox that is created gets the special use of `Fcc`, if a role stands for it (RFC 8579
//!   §4.1).
//! - `find_mailbox` compares paths before roles, so a mailbox whose name is that of the special use
//!   is preferred to the one that has this role.
//! - If none of these mailboxes exists, or the quota is used up, no copy is filed.

use std::collections::BTreeSet;

use crate::model::{MailboxUid, Role, keyword};
use crate::store::{EncodedMessage, Error, NewEmail, Txn};
use crate::vacation::Fcc;

/// Files the copy of a message where `fcc` says. `copy` is the message, encoded as rows. If the
/// mailbox of `fcc` could not be created, returns what becomes of the copy instead.
///
/// # Errors
/// Those of the store, but not `Quota`.
pub(super) fn file_copy(
    txn: &mut Txn<'_>,
    message: &[u8],
    fcc: &Fcc,
    copy: &EncodedMessage,
) -> Result<Option<&'static str>, Error> {
    let role =
        fcc.special_use.as_deref().map(|name| name.trim_start_matches('\\').to_ascii_lowercase());
    let mut target = match &role {
        Some(role) => find_mailbox(txn, role)?,
        None => None,
    };
    if target.is_none() {
        target = find_mailbox(txn, &fcc.mailbox)?;
    }
    let mut is_refused = false;
    if target.is_none() && fcc.create {
        target =
            txn.create_mailbox_path(&fcc.mailbox, role.as_deref().and_then(Role::from_name))?;
        is_refused = target.is_none();
    }
    if target.is_none() {
        target = find_mailbox(txn, "sent")?;
    }
    let instead = match target {
        Some(_) => "the copy goes to Sent",
        None => "no copy is filed",
    };
    let instead = is_refused.then_some(instead);
    let Some(uid) = target else { return Ok(instead) };
    let filed = txn.create_email(&NewEmail {
        message: copy,
        prefix: b"",
        mailboxes: BTreeSet::from([uid]),
        keywords: fcc.keywords.iter().filter_map(|word| keyword::normalize(word)).collect(),
        received_at: txn.now(),
    });
    match filed {
        Err(Error::Quota) => return Ok(instead.map(|_| "no copy is filed")),
        filed => {
            filed?;
            txn.put_message(copy, message)?;
        }
    }
    Ok(instead)
}

/// Finds a mailbox by its path, or else by its role. An empty text finds none.
fn find_mailbox(txn: &Txn<'_>, path_or_role: &str) -> Result<Option<MailboxUid>, Error> {
    let mailbox = if path_or_role.is_empty() {
        None
    } else {
        txn.snapshot().find_mailbox(txn.account(), path_or_role)?
    };
    Ok(mailbox.map(|(uid, _)| uid))
}
