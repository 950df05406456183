//! What an export asks beside the messages themselves: of which emails an account consists, and
//! where they are.

use std::collections::BTreeMap;

use super::mail::{email_id, rows};
use super::{AdminMethod, tell};
use crate::jmap::method::Call;
use crate::model::{Mailbox, MailboxUid, Role};
use crate::wire::jmap::admin::OfAccount;
use crate::wire::jmap::admin::mail::{
    IndexedEmail, IndexedMailbox, MailIndex, MailIndexAnswer, MailIndexArguments,
};
use crate::wire::jmap::{MethodError, With};

impl AdminMethod for MailIndex {
    /// All emails of an account, newest first, a page at a time; and its mailboxes, each with its
    /// way from the top or from the Inbox.
    fn call(
        &Call { context, .. }: &Call<'_>,
        With(named, args): OfAccount<MailIndexArguments>,
    ) -> Result<MailIndexAnswer, MethodError> {
        let (account, _) = context.account_of(&named)?;
        let (limit, after) = (rows(args.limit)?, email_id("after", args.after.as_deref())?);
        let snapshot = context.store.snapshot();
        let all: BTreeMap<_, _> = snapshot.mailboxes(account)?.into_iter().collect();
        let mailboxes = all.iter().map(|(uid, mailbox)| {
            let (inbox, names) = way(&all, mailbox);
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
            list.push(tell(context, row)?);
        }
        Ok(MailIndexAnswer { mailboxes: mailboxes.collect(), list })
    }
}

fn way(all: &BTreeMap<MailboxUid, Mailbox>, mailbox: &Mailbox) -> (bool, Vec<String>) {
    let (mut names, mut at) = (Vec::new(), Some(mailbox));
    while let Some(mailbox) = at.filter(|_| names.len() <= all.len()) {
        if mailbox.role == Some(Role::Inbox) {
            names.reverse();
            return (true, names);
        }
        names.push(mailbox.name.clone());
        at = mailbox.parent.and_then(|uid| all.get(&uid));
    }
    names.reverse();
    (false, names)
}
