//! Mail/index: the emails of an account and the paths of their mailboxes, for an export.

use std::collections::BTreeMap;

use super::mail::{email_id, row_count};
use super::{AdminMethod, charge_row};
use crate::jmap::method::Call;
use crate::model::{Mailbox, MailboxUid, Role};
use crate::wire::jmap::admin::OfAccount;
use crate::wire::jmap::admin::mail::{
    IndexedEmail, IndexedMailbox, MailIndex, MailIndexAnswer, MailIndexArguments,
};
use crate::wire::jmap::{MethodError, With};

impl AdminMethod for MailIndex {
    /// Returns a page of the emails, newest first, and all mailboxes with their paths.
    fn call(
        &Call { context, .. }: &Call<'_>,
        With(account_ref, args): OfAccount<MailIndexArguments>,
    ) -> Result<MailIndexAnswer, MethodError> {
        let (account, _) = context.account_of(&account_ref)?;
        let (limit, after) = (row_count(args.limit)?, email_id("after", args.after.as_deref())?);
        let snapshot = context.store.snapshot();
        let all: BTreeMap<_, _> = snapshot.mailboxes(account)?.into_iter().collect();
        let mailboxes = all.iter().map(|(uid, mailbox)| {
            let (inbox, names) = path(&all, mailbox);
            let role = mailbox.role.map(|role| role.name().to_owned());
            IndexedMailbox { id: uid.to_string(), inbox, names, role }
        });
        let emails = snapshot.emails(account, after, limit)?;
        let mut list = Vec::with_capacity(emails.len());
        for (id, email) in emails {
            let mailbox_ids = email.mailboxes.iter().map(ToString::to_string).collect();
            let row = IndexedEmail {
                id: id.to_string(),
                mailbox_ids,
                keywords: email.keywords,
                size: email.size,
            };
            list.push(charge_row(context, row)?);
        }
        Ok(MailIndexAnswer { mailboxes: mailboxes.collect(), list })
    }
}

/// Returns whether the path to a mailbox begins at the Inbox, and the other names on the path. For
/// the Inbox itself there are none. A cycle, which damaged rows may form, is cut off.
fn path(all: &BTreeMap<MailboxUid, Mailbox>, mailbox: &Mailbox) -> (bool, Vec<String>) {
    let (mut names, mut current) = (Vec::new(), Some(mailbox));
    while let Some(mailbox) = current.filter(|_| names.len() <= all.len()) {
        if mailbox.role == Some(Role::Inbox) {
            names.reverse();
            return (true, names);
        }
        names.push(mailbox.name.clone());
        current = mailbox.parent.and_then(|uid| all.get(&uid));
    }
    names.reverse();
    (false, names)
}
