//! Destroys mailboxes together with the emails in them (`onDestroyRemoveEmails`).

use super::{MailboxSetCall, OperationError, mailbox_has_email, operation_error};
use crate::jmap::context::{Account, Context};
use crate::jmap::guest::newest_change;
use crate::jmap::standard::SetStates;
use crate::model::{DataType, MailboxUid};
use crate::store::ShareChange;
use crate::wire::jmap::SetError;

/// How many emails one commit removes. The account is locked for the time of one commit.
const EMAILS_PER_COMMIT: usize = 64;

/// Empties and destroys mailboxes. An email that is in no other mailbox is destroyed. If the
/// process stops in between, a mailbox remains with fewer emails. Records the outcomes in `work`,
/// and returns the shares that ended.
pub(super) fn remove_with_emails(
    context: &Context,
    account: &Account,
    uids: Vec<MailboxUid>,
    work: &mut MailboxSetCall<'_>,
    states: &mut SetStates,
) -> Vec<ShareChange> {
    let mut share_changes = Vec::new();
    for uid in uids {
        let outcome = loop {
            let step = context.store.commit(account.id, |txn| {
                states.before(newest_change(
                    txn.state(),
                    account.guest.is_some(),
                    DataType::Mailbox,
                ));
                if account.guest.is_some() {
                    // The owner may have ended the share since the last step.
                    match work.require_destroy_right(txn, uid) {
                        Ok(()) => {}
                        Err(OperationError::Object(refused)) => return Ok(Err(refused)),
                        Err(OperationError::HasEmails(_)) => return Ok(Err(mailbox_has_email())),
                        Err(OperationError::Call(error)) => return Err(error),
                    }
                }
                // A mailbox that cannot be destroyed must not lose its emails.
                txn.destroyable_mailbox(uid)?;
                let has_more = txn.empty_mailbox(uid, EMAILS_PER_COMMIT)?;
                if !has_more {
                    txn.destroy_mailbox(uid)?;
                }
                // Removing the emails may change the counts of other mailboxes, which the answer
                // does not report. So the new state stays before this commit, and the client learns
                // of these changes by /changes.
                let reports_all = false;
                states.after(
                    newest_change(txn.state(), account.guest.is_some(), DataType::Mailbox),
                    reports_all,
                );
                Ok(Ok((has_more, txn.take_share_changes())))
            });
            match step.and_then(|(result, ticket)| ticket.wait_blocking().map(|()| result)) {
                Ok(Ok((true, _))) => {}
                Ok(Ok((false, ended))) => {
                    share_changes.extend(ended);
                    break Ok(());
                }
                Ok(Err(refused)) => break Err(refused),
                Err(error) => {
                    // No error of a destruction names a mailbox that has the same name.
                    let may_know = |_| true;
                    break Err(match operation_error(error, uid, may_know) {
                        OperationError::Object(error) => error,
                        OperationError::HasEmails(_) => mailbox_has_email(),
                        OperationError::Call(error) => SetError::ServerFail(error.to_string()),
                    });
                }
            }
        };
        match outcome {
            Ok(()) => work.response.destroyed(&uid.to_string()),
            Err(error) => work.response.not_destroyed(&uid.to_string(), &error),
        }
    }
    share_changes
}
