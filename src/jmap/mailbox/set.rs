//! Mailbox/set (RFC 8621 §2.5).
//!
//! - The operations of a call may depend on each other. One that fails is tried again after the
//!   others, until a round makes no progress. Updates that are valid only together, such as two
//!   mailboxes that swap their names, are then tried together.
//! - All this is one commit. Mailboxes that are destroyed with their emails
//!   (`onDestroyRemoveEmails`) follow in commits of their own, and an error there concerns only the
//!   mailbox.
//! - A guest may do what the shared rights in each mailbox allow, and set the guest's own
//!   subscriptions. A mailbox that a guest creates gets the shares of its parent.

mod object;
mod remove;

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::{MailboxProperty, VisibleMailboxes};
use crate::jmap::context::{Account, Context};
use crate::jmap::failure::SetFailure;
use crate::jmap::guest::newest_change;
use crate::jmap::method::{Call, Method};
use crate::jmap::share;
use crate::jmap::standard::{ObjectType as _, SetArguments, SetResponse, SetStates};
use crate::model::{DataType, Mailbox, MailboxUid, ModSeq};
use crate::store::{Error, MailboxFault, Txn};
use crate::wire::jmap::standard::{SetAnswer, SetArgs};
use crate::wire::jmap::{MethodError, Property as _, SetError, With};
use remove::remove_with_emails;

pub(in crate::jmap) struct MailboxSet;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::jmap) struct MailboxSetArgs {
    #[serde(default)]
    on_destroy_remove_emails: bool,
}

impl Method for MailboxSet {
    type Args = With<SetArgs, MailboxSetArgs>;
    type Answer = SetAnswer;

    fn call(call: &Call<'_>, With(args, extra): Self::Args) -> Result<SetAnswer, MethodError> {
        set(call, args, extra.on_destroy_remove_emails)
    }
}

fn set(call: &Call<'_>, args: SetArgs, remove_emails: bool) -> Result<SetAnswer, MethodError> {
    let context = call.context;
    let account = Mailbox::account(call, &args.account_id)?;
    let set = SetArguments::read(call.created, args)?;
    let unread_threads = guest_unread_threads(context, &account, &set)?;
    let checkpoint = call.created.checkpoint();
    let committed = context.store.commit(account.id, |txn| {
        call.created.restore(&checkpoint);
        let before = newest_change(txn.state(), account.guest.is_some(), DataType::Mailbox);
        if !set.is_in_state(context, before) {
            return Ok(None);
        }
        let mut work = MailboxSetCall {
            call,
            account: &account,
            response: set.done.clone(),
            changed: Vec::new(),
            unread_threads: unread_threads.clone(),
        };
        let mut states = SetStates::new(before);
        let to_empty = work.run_all(txn, &set, remove_emails)?;
        let reports_all = work.reports_every_change(txn, before)?;
        states.after(
            newest_change(txn.state(), account.guest.is_some(), DataType::Mailbox),
            reports_all,
        );
        Ok(Some((work, states, to_empty, txn.take_share_changes())))
    });
    let (result, ticket) = committed?;
    ticket.wait_blocking()?;
    let (mut work, mut states, to_empty, mut share_changes) =
        result.ok_or(MethodError::StateMismatch)?;
    share_changes.extend(remove_with_emails(context, &account, to_empty, &mut work, &mut states));
    share::notify(context, account.id, share_changes);
    Ok(work.response.into_answer(context, &account, states))
}

/// Counts the unread threads that a guest sees. This must be done before the account is locked, and
/// only if an update contains `unreadThreads`: a client may send back a value that the server set
/// (RFC 8620 §5.3). Otherwise returns an empty map.
fn guest_unread_threads(
    context: &Context,
    account: &Account,
    set: &SetArguments,
) -> Result<BTreeMap<MailboxUid, u64>, MethodError> {
    let has_count =
        |(_, patch): &&(String, Value)| patch.get(MailboxProperty::UnreadThreads.name()).is_some();
    let mut with_count = set.update.iter().filter(has_count).peekable();
    if account.guest.is_none() || with_count.peek().is_none() {
        return Ok(BTreeMap::new());
    }
    let snapshot = context.store.snapshot();
    let mut visible = VisibleMailboxes::read(&snapshot, account)?;
    if with_count.any(|(id, _)| visible.get(id).is_some()) {
        return Ok(visible.count_unread_threads(&snapshot, account, &context.budget)?.counts);
    }
    Ok(BTreeMap::new())
}

#[derive(Clone, Copy)]
enum MailboxOperation<'s> {
    Create(&'s str, &'s Map<String, Value>),
    Update(&'s str, &'s Value),
    Destroy(&'s str),
}

/// One run of the commit of a call, with the answer so far.
pub(super) struct MailboxSetCall<'a> {
    pub(super) call: &'a Call<'a>,
    pub(super) account: &'a Account,
    response: SetResponse,
    /// The mailboxes that were created or updated.
    changed: Vec<MailboxUid>,
    /// What [`guest_unread_threads`] returned.
    unread_threads: BTreeMap<MailboxUid, u64>,
}

impl MailboxSetCall<'_> {
    /// Runs every operation that can succeed, and records the outcomes in the answer. Returns the
    /// mailboxes that are still to be destroyed together with their emails.
    fn run_all(
        &mut self,
        txn: &mut Txn<'_>,
        set: &SetArguments,
        remove_emails: bool,
    ) -> Result<Vec<MailboxUid>, Error> {
        let creates =
            set.create.iter().map(|(name, object)| MailboxOperation::Create(name, object));
        let updates = set.update.iter().map(|(id, patch)| MailboxOperation::Update(id, patch));
        let mut operations: Vec<MailboxOperation<'_>> = creates.chain(updates).collect();
        operations.extend(set.destroy.iter().map(|id| MailboxOperation::Destroy(id)));
        let mut to_empty = Vec::new();
        loop {
            let mut failed: Vec<(MailboxOperation<'_>, SetError)> = Vec::new();
            let tried = operations.len();
            for operation in operations {
                match self.run(txn, operation) {
                    Ok(()) => {}
                    Err(OperationError::Call(error)) => return Err(error),
                    Err(OperationError::HasEmails(uid)) if remove_emails => to_empty.push(uid),
                    Err(OperationError::HasEmails(_)) => {
                        failed.push((operation, mailbox_has_email()));
                    }
                    Err(OperationError::Object(error)) => failed.push((operation, error)),
                }
            }
            // In a round without progress, only updates that are valid together can still succeed.
            if failed.len() == tried {
                failed = self.update_together(txn, failed)?;
            }
            if failed.is_empty() || failed.len() == tried {
                if remove_emails {
                    move_emptied_parents(
                        &txn.snapshot().mailboxes(txn.account())?,
                        &mut failed,
                        &mut to_empty,
                    );
                }
                for (operation, error) in failed {
                    match operation {
                        MailboxOperation::Create(name, _) => {
                            self.response.not_created(name, &error);
                        }
                        MailboxOperation::Update(id, _) => self.response.not_updated(id, &error),
                        MailboxOperation::Destroy(id) => self.response.not_destroyed(id, &error),
                    }
                }
                return Ok(to_empty);
            }
            operations = failed.into_iter().map(|(operation, _)| operation).collect();
        }
    }

    /// Applies the failed updates that are valid together: drops the one that the store refuses,
    /// and tries the rest, until they are accepted or only one is left, which was tried alone
    /// before. Returns the operations that still fail.
    fn update_together<'s>(
        &mut self,
        txn: &mut Txn<'_>,
        mut failed: Vec<(MailboxOperation<'s>, SetError)>,
    ) -> Result<Vec<(MailboxOperation<'s>, SetError)>, Error> {
        let mut updates = Vec::new();
        for (operation, _) in &failed {
            let MailboxOperation::Update(id, patch) = operation else { continue };
            match self.plan_update(txn, id, patch) {
                Ok(update) => updates.push((*id, update)),
                Err(OperationError::Call(error)) => return Err(error),
                Err(_) => {}
            }
        }
        while updates.len() > 1 {
            let rows: Vec<_> =
                updates.iter().map(|(_, update)| (update.uid, update.row.clone())).collect();
            match txn.update_mailboxes(&rows) {
                Ok(()) => {
                    failed.retain(|(operation, _)| match operation {
                        MailboxOperation::Update(own, _) => {
                            !updates.iter().any(|(id, _)| own == id)
                        }
                        _ => true,
                    });
                    for (id, update) in updates {
                        self.finish_update(txn, id, update)?;
                    }
                    return Ok(failed);
                }
                Err((uid, error)) => match operation_error(error, uid, |_| true) {
                    OperationError::Call(error) => return Err(error),
                    _ => updates.retain(|(_, update)| update.uid != uid),
                },
            }
        }
        Ok(failed)
    }

    fn run(
        &mut self,
        txn: &mut Txn<'_>,
        operation: MailboxOperation<'_>,
    ) -> Result<(), OperationError> {
        match operation {
            MailboxOperation::Create(name, properties) => self.create(txn, name, properties),
            MailboxOperation::Update(id, patch) => self.update(txn, id, patch),
            MailboxOperation::Destroy(id) => {
                let uid = self.resolve(id)?;
                if self.account.guest.is_some() {
                    self.require_destroy_right(txn, uid)?;
                }
                txn.destroy_mailbox(uid).map_err(|error| operation_error(error, uid, |_| true))?;
                self.response.destroyed(id);
                Ok(())
            }
        }
    }

    fn resolve(&self, id: &str) -> Result<MailboxUid, SetError> {
        self.call.created.resolve(id).and_then(|id| id.parse().ok()).ok_or(SetError::NotFound)
    }

    /// Whether the answer names every mailbox that changed since a state.
    fn reports_every_change(&self, txn: &Txn<'_>, since: ModSeq) -> Result<bool, Error> {
        let all = txn.snapshot().mailboxes(txn.account())?;
        Ok(all.iter().all(|(uid, row)| row.updated <= since || self.changed.contains(uid)))
    }
}

pub(super) enum OperationError {
    Object(SetError),
    /// A mailbox that is to be destroyed has emails.
    HasEmails(MailboxUid),
    Call(Error),
}

impl From<SetError> for OperationError {
    fn from(error: SetError) -> Self {
        Self::Object(error)
    }
}

fn mailbox_has_email() -> SetError {
    SetError::other("mailboxHasEmail", "it has emails in it")
}

/// Moves from `failed` to `to_empty` each mailbox that is to be destroyed, has children, and whose
/// children are all in `to_empty`. A parent comes after its children.
fn move_emptied_parents(
    all: &[(MailboxUid, Mailbox)],
    failed: &mut Vec<(MailboxOperation<'_>, SetError)>,
    to_empty: &mut Vec<MailboxUid>,
) {
    let emptied_parent = |operation: &MailboxOperation<'_>, to_empty: &[MailboxUid]| {
        let MailboxOperation::Destroy(id) = operation else { return None };
        id.parse::<MailboxUid>().ok().filter(|uid| {
            let mut children =
                all.iter().filter(|(_, mailbox)| mailbox.parent == Some(*uid)).peekable();
            children.peek().is_some() && children.all(|(uid, _)| to_empty.contains(uid))
        })
    };
    while let Some((index, uid)) = failed
        .iter()
        .enumerate()
        .find_map(|(index, (operation, _))| Some((index, emptied_parent(operation, to_empty)?)))
    {
        failed.remove(index);
        to_empty.push(uid);
    }
}

/// Converts an error of the store about the mailbox `uid`. If another mailbox has the name already,
/// `may_know` says whether the caller may learn the id of that mailbox.
fn operation_error(
    error: Error,
    uid: MailboxUid,
    may_know: impl Fn(MailboxUid) -> bool,
) -> OperationError {
    let Error::Mailbox { fault, .. } = error else {
        return match SetFailure::from(error) {
            SetFailure::Object(error) => OperationError::Object(error),
            SetFailure::Call(error) => OperationError::Call(error),
        };
    };
    let property = |name| SetError::property(name, fault.to_string());
    OperationError::Object(match fault {
        MailboxFault::NameTaken(other) if may_know(other) => {
            SetError::AlreadyExists(other.to_string())
        }
        MailboxFault::Name | MailboxFault::NameTaken(_) => property("name"),
        MailboxFault::RoleTaken(_) => property("role"),
        MailboxFault::NoParent | MailboxFault::UnderItself | MailboxFault::TooDeep => {
            property("parentId")
        }
        MailboxFault::Attribute(_) => property("attributes"),
        MailboxFault::Share(_) => property("shareWith"),
        MailboxFault::TooMany => SetError::OverQuota(fault.to_string()),
        MailboxFault::Inbox => SetError::Forbidden(fault.to_string()),
        MailboxFault::HasChildren => {
            SetError::other("mailboxHasChild", "it has mailboxes under it")
        }
        MailboxFault::HasEmails => return OperationError::HasEmails(uid),
    })
}
