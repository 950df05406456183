//! Commits of Email/set, Email/import and Email/copy.
//!
//! - A call may make several commits. `ifInState` is checked in the first one, and the states of
//!   the answer span all of them.
//! - Each new message is a commit of its own.
//! - After the first commit an error fails only the objects of its commit.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::filing::{self, Filing};
use crate::jmap::context::{Account, Context, date_or_null};
use crate::jmap::failure::{SetFailure, TxnResult};
use crate::jmap::rights::Rights;
use crate::jmap::standard::SetStates;
use crate::message::rows_of_any;
use crate::model::mailbox::Right;
use crate::model::{BlobId, DataType, EmailId, ModSeq, ThreadId, UtcMillis};
use crate::query::Scope;
use crate::store::{EncodedMessage, Error, NewEmail, Snapshot, Ticket, Txn};
use crate::wire::jmap::{MethodError, SetError};

#[derive(Debug, Default)]
pub(in crate::jmap::email) struct Commits {
    /// The states before and after the commits so far; `None` before the first one.
    states: Option<SetStates>,
}

impl Commits {
    /// Records the state in which a commit begins. Returns false if this is the first commit and
    /// `now` is not the expected state.
    fn begin(&mut self, now: ModSeq, is_expected: impl Fn(ModSeq) -> bool) -> bool {
        match &mut self.states {
            Some(states) => states.before(now),
            None if is_expected(now) => self.states = Some(SetStates::new(now)),
            None => return false,
        }
        true
    }

    /// Runs one commit, and waits until it is durable. The transaction must first call the function
    /// that `commit` gets. If this function returns `None`, the state is not the expected one, and
    /// the transaction must change nothing.
    ///
    /// # Errors
    /// `stateMismatch` or another error of the call in the first commit; in a later one, an error
    /// of the objects of the commit.
    pub(in crate::jmap::email) fn run<T>(
        &mut self,
        is_expected: impl Fn(ModSeq) -> bool,
        commit: impl FnOnce(
            &mut dyn FnMut(&mut Txn<'_>) -> Result<Option<()>, Error>,
        ) -> Result<(T, Ticket), Error>,
    ) -> Result<T, SetFailure> {
        let (is_first, before) = (self.states.is_none(), self.states);
        let mut has_begun = true;
        let result = commit(&mut |txn| {
            // The transaction may be run again.
            self.states = before;
            let now = txn.state().high_mark(DataType::Email);
            has_begun = self.begin(now, &is_expected);
            Ok(has_begun.then_some(()))
        });
        let result = result.and_then(|(done, ticket)| ticket.wait_blocking().map(|()| done));
        if !has_begun {
            return Err(SetFailure::Call(MethodError::StateMismatch));
        }
        match result {
            Ok(done) => Ok(done),
            Err(error) if is_first => {
                self.states = before;
                Err(SetFailure::Call(error.into()))
            }
            Err(error) => {
                self.states = before;
                Err(SetError::ServerFail(error.to_string()).into())
            }
        }
    }

    /// Records the state in which the transaction of a successful `run` ended; `None` if it changed
    /// nothing.
    pub(in crate::jmap::email) fn end(&mut self, now: Option<ModSeq>) {
        if let (Some(states), Some(now)) = (&mut self.states, now) {
            states.after(now, true);
        }
    }

    /// Returns the states before and after all commits; without a commit, the present state for
    /// both.
    ///
    /// # Errors
    /// `stateMismatch` without a commit, if the present state is not the expected one; errors of
    /// the store.
    pub(in crate::jmap::email) fn into_states(
        self,
        snapshot: &Snapshot<'_>,
        account: &Account,
        is_expected: impl Fn(ModSeq) -> bool,
    ) -> Result<SetStates, MethodError> {
        if let Some(states) = self.states {
            return Ok(states);
        }
        let now = snapshot.state(account.id, DataType::Email)?;
        if is_expected(now) { Ok(SetStates::new(now)) } else { Err(MethodError::StateMismatch) }
    }

    /// Turns an error of the call into one of the object if there was a commit: an error of the
    /// call would tell the client that nothing was changed (RFC 8620 §3.6.2). Errors that occur
    /// before `run` is called need this, too.
    pub(in crate::jmap::email) fn object_failure(&self, failure: SetFailure) -> SetFailure {
        match failure {
            SetFailure::Call(error) if self.states.is_some() => {
                SetFailure::Object(SetError::ServerFail(error.description()))
            }
            other => other,
        }
    }
}

#[derive(Debug)]
pub(in crate::jmap::email) struct NewMessage<'m> {
    pub(in crate::jmap::email) raw: &'m [u8],
    /// The trace prefix.
    pub(in crate::jmap::email) prefix: &'m [u8],
    pub(in crate::jmap::email) filing: &'m Filing,
    /// Used if `filing` has no keywords.
    pub(in crate::jmap::email) keywords: BTreeSet<String>,
    /// Used if `filing` has no time of receipt.
    pub(in crate::jmap::email) received_at: UtcMillis,
    /// Whether to refuse the message if the caller sees an email with the same bytes.
    pub(in crate::jmap::email) refuse_duplicate: bool,
}

#[derive(Debug)]
pub(in crate::jmap::email) struct FiledEmail {
    pub(in crate::jmap::email) id: EmailId,
    thread: ThreadId,
    size: u64,
    received_at: UtcMillis,
}

impl FiledEmail {
    /// Returns `id`, `blobId`, `threadId` and `size`, which the client cannot know (RFC 8621 §4.6,
    /// §4.8).
    pub(in crate::jmap::email) fn object(&self) -> Map<String, Value> {
        let mut object = Map::new();
        object.insert("id".into(), self.id.to_string().into());
        object.insert("blobId".into(), BlobId::email(self.id).to_string().into());
        object.insert("threadId".into(), self.thread.to_string().into());
        object.insert("size".into(), self.size.into());
        object
    }

    /// For Email/set: returns `object`, with `receivedAt` if the client sent none, or if Email/get
    /// shows another time than the client sent: it shows no time before 1970, and no fraction of a
    /// second.
    pub(in crate::jmap::email) fn object_with_date(&self, filing: &Filing) -> Map<String, Value> {
        let mut object = self.object();
        let received_at = date_or_null(Some(self.received_at));
        let stored = received_at.as_str().and_then(UtcMillis::parse_rfc3339);
        if filing.received_at.is_none() || filing.received_at != stored {
            object.insert("receivedAt".into(), received_at);
        }
        object
    }

    /// For Email/copy and Email/import: returns `object`, with `receivedAt` only if the client sent
    /// a time and Email/get shows another one (RFC 8621 §4.7, §4.8).
    pub(in crate::jmap::email) fn object_with_changed_date(
        &self,
        filing: &Filing,
    ) -> Map<String, Value> {
        if filing.received_at.is_some() { self.object_with_date(filing) } else { self.object() }
    }
}

/// Stores a new email in a commit of its own.
///
/// # Errors
/// The error of the object if the message is refused, or an error of the call.
pub(in crate::jmap::email) fn file_message(
    context: &Context,
    account: &Account,
    commits: &mut Commits,
    is_expected: impl Fn(ModSeq) -> bool,
    message: &NewMessage<'_>,
) -> Result<FiledEmail, SetFailure> {
    context.budget.charge_stored(message.raw.len() as u64)?;
    let encoded = EncodedMessage::new(&rows_of_any(message.raw, context.store.secrets()));
    let keywords = message.filing.keywords.clone().unwrap_or_else(|| message.keywords.clone());
    let received_at = message.filing.received_at.unwrap_or(message.received_at);
    let new = NewEmail {
        message: &encoded,
        prefix: message.prefix,
        mailboxes: message.filing.mailboxes.clone(),
        keywords,
        received_at,
    };
    let mut state_after = None;
    let outcome = commits.run(is_expected, |begin| {
        let (mut results, ticket) =
            context.store.commit_message(&[account.id], &encoded, message.raw, |txn| {
                if begin(txn)?.is_none() {
                    return Ok(None);
                }
                let created = match create_email(txn, account, &new, message.refuse_duplicate) {
                    Ok(created) => Ok(created),
                    Err(failure) => Err(failure.object()?),
                };
                state_after = Some(txn.state().high_mark(DataType::Email));
                Ok(Some(created))
            });
        let created =
            results.pop().map_or(Err(Error::NotFound("account")), |(_, created)| created)?;
        Ok((created, ticket))
    });
    let created = outcome?;
    commits.end(state_after);
    let (id, thread) = created.ok_or(SetFailure::Call(MethodError::StateMismatch))??;
    let size = encoded.size + message.prefix.len() as u64;
    Ok(FiledEmail { id, thread, size, received_at: id.received_at() })
}

/// Creates the email, if the caller may add emails to its mailboxes. With `refuse_duplicate`, it
/// must not have the bytes of an email that the caller sees.
fn create_email(
    txn: &mut Txn<'_>,
    account: &Account,
    new: &NewEmail<'_>,
    refuse_duplicate: bool,
) -> TxnResult<(EmailId, ThreadId)> {
    let rights = Rights::in_account(&txn.snapshot(), account)?;
    filing::require_mailboxes(&txn.snapshot(), (account, &rights), &new.mailboxes)?;
    rights.require(&new.mailboxes, Right::AddItems)?;
    if refuse_duplicate {
        let snapshot = txn.snapshot();
        for id in snapshot.emails_of_blob(
            account.id,
            &new.message.blob,
            UtcMillis(0),
            UtcMillis(i64::MAX),
        )? {
            if snapshot.email(account.id, id)?.is_some_and(|email| rights.may_read_email(&email)) {
                return Err(SetError::AlreadyExists(id.to_string()).into());
            }
        }
    }
    let scope = rights.scope();
    Ok(txn.create_email_within(new, scope.as_ref().map(Scope::mailboxes))?)
}
