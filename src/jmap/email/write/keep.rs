//! One more email of an account: how Email/set, Email/import and Email/copy file what they have.
//! Each message is a commit of its own, for it is read while nobody waits.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::filing::{self, Filing};
use crate::jmap::context::{Account, Context, date_or_null};
use crate::jmap::failure::{SetFailure, TxnResult};
use crate::jmap::rights::Rights;
use crate::jmap::standard::SetStates;
use crate::message::rows_or_bare;
use crate::model::mailbox::Right;
use crate::model::{BlobId, DataType, EmailId, ModSeq, ThreadId, UtcMillis};
use crate::query::Scope;
use crate::store::{EncodedMessage, Error, NewEmail, Snapshot, Ticket, Txn};
use crate::wire::jmap::{MethodError, SetError};

/// The commits of a call: in which state the first may begin, and from which state to which they
/// led.
#[derive(Debug, Default)]
pub(in crate::jmap::email) struct Commits {
    stand: Option<SetStates>,
}

impl Commits {
    /// Begins with what a client may take for known: nothing if `is_right` does not hold of the
    /// first commit's state.
    fn enter(&mut self, now: ModSeq, is_right: impl Fn(ModSeq) -> bool) -> bool {
        match &mut self.stand {
            Some(stand) => stand.before(now),
            None if is_right(now) => self.stand = Some(SetStates::new(now)),
            None => return false,
        }
        true
    }

    /// Runs one commit. A fault that only concerns its objects is what `change` gives.
    ///
    /// # Errors
    /// `stateMismatch`, and what concerns the whole call; once something was done, that is the
    /// object's.
    pub(in crate::jmap::email) fn run<T>(
        &mut self,
        is_right: impl Fn(ModSeq) -> bool,
        commit: impl FnOnce(
            &mut dyn FnMut(&mut Txn<'_>) -> Result<Option<()>, Error>,
        ) -> Result<(T, Ticket), Error>,
    ) -> Result<T, SetFailure> {
        let (first, old) = (self.stand.is_none(), self.stand);
        let mut begun = true;
        let result = commit(&mut |txn| {
            // It may be run again.
            self.stand = old;
            let now = txn.state().state(DataType::Email);
            begun = self.enter(now, &is_right);
            Ok(begun.then_some(()))
        });
        let result = result.and_then(|(made, ticket)| ticket.wait_blocking().map(|()| made));
        if !begun {
            return Err(SetFailure::Call(MethodError::StateMismatch));
        }
        match result {
            Ok(made) => Ok(made),
            Err(error) if first => {
                self.stand = old;
                Err(SetFailure::Call(error.into()))
            }
            Err(error) => {
                self.stand = old;
                Err(SetError::ServerFail(error.to_string()).into())
            }
        }
    }

    /// After a commit that is durable; `now` is the state that it left.
    pub(in crate::jmap::email) fn leave(&mut self, now: Option<ModSeq>) {
        if let (Some(stand), Some(now)) = (&mut self.stand, now) {
            stand.after(now, true);
        }
    }

    /// From which state to which; where nothing was committed, the state now.
    ///
    /// # Errors
    /// `stateMismatch` where that is not the right one; those of reading.
    pub(in crate::jmap::email) fn stand(
        self,
        snapshot: &Snapshot<'_>,
        account: &Account,
        is_right: impl Fn(ModSeq) -> bool,
    ) -> Result<SetStates, MethodError> {
        if let Some(stand) = self.stand {
            return Ok(stand);
        }
        let now = snapshot.state(account.id, DataType::Email)?;
        if is_right(now) { Ok(SetStates::new(now)) } else { Err(MethodError::StateMismatch) }
    }

    /// Makes an error of the call the object's own once something was done: an error of the call
    /// would say that nothing was (RFC 8620 §3.6.2).
    pub(in crate::jmap::email) fn of_one(&self, failure: SetFailure) -> SetFailure {
        match failure {
            SetFailure::Call(error) if self.stand.is_some() => {
                SetFailure::Object(SetError::ServerFail(error.description()))
            }
            other => other,
        }
    }
}

/// A message to be filed.
#[derive(Debug)]
pub(in crate::jmap::email) struct NewMessage<'m> {
    /// Its octets.
    pub(in crate::jmap::email) raw: &'m [u8],
    /// The trace fields that it was delivered with.
    pub(in crate::jmap::email) prefix: &'m [u8],
    /// Where it is filed.
    pub(in crate::jmap::email) filing: &'m Filing,
    /// Its keywords where nothing is said.
    pub(in crate::jmap::email) keywords: BTreeSet<String>,
    /// When it was received, likewise.
    pub(in crate::jmap::email) received_at: UtcMillis,
    /// Whether it may not be there twice.
    pub(in crate::jmap::email) once: bool,
}

/// An email that was filed.
#[derive(Debug)]
pub(in crate::jmap::email) struct FiledEmail {
    pub(in crate::jmap::email) id: EmailId,
    thread: ThreadId,
    size: u64,
    received_at: UtcMillis,
}

impl FiledEmail {
    /// What the client cannot know of it (RFC 8621 §4.6, §4.8).
    pub(in crate::jmap::email) fn object(&self) -> Map<String, Value> {
        let mut object = Map::new();
        object.insert("id".into(), self.id.to_string().into());
        object.insert("blobId".into(), BlobId::email(self.id).to_string().into());
        object.insert("threadId".into(), self.thread.to_string().into());
        object.insert("size".into(), self.size.into());
        object
    }

    /// The same with when it was received, where that is not what the client said: the client said
    /// nothing, or a time before 1970 or within a second, which is not kept.
    pub(in crate::jmap::email) fn object_dated(&self, filing: &Filing) -> Map<String, Value> {
        let mut object = self.object();
        let told = date_or_null(Some(self.received_at));
        let kept = told.as_str().and_then(UtcMillis::parse_rfc3339);
        if filing.received_at.is_none() || filing.received_at != kept {
            object.insert("receivedAt".into(), told);
        }
        object
    }

    /// The same where RFC 8621 wants no `receivedAt` that the client did not say (§4.7, §4.8), but
    /// for one that was changed.
    pub(in crate::jmap::email) fn object_changed(&self, filing: &Filing) -> Map<String, Value> {
        if filing.received_at.is_some() { self.object_dated(filing) } else { self.object() }
    }
}

/// Files a message.
///
/// # Errors
/// What concerns the whole call; why this one is refused.
pub(in crate::jmap::email) fn keep(
    context: &Context,
    account: &Account,
    commits: &mut Commits,
    is_right: impl Fn(ModSeq) -> bool,
    message: &NewMessage<'_>,
) -> Result<FiledEmail, SetFailure> {
    context.budget.charge_stored(message.raw.len() as u64)?;
    let encoded = EncodedMessage::new(&rows_or_bare(message.raw, context.store.secrets()));
    let keywords = message.filing.keywords.clone().unwrap_or_else(|| message.keywords.clone());
    let received_at = message.filing.received_at.unwrap_or(message.received_at);
    let new = NewEmail {
        message: &encoded,
        prefix: message.prefix,
        mailboxes: message.filing.mailboxes.clone(),
        keywords,
        received_at,
    };
    let mut left = None;
    let done = commits.run(is_right, |enter| {
        let (mut results, ticket) =
            context.store.commit_message(&[account.id], &encoded, message.raw, |txn| {
                if enter(txn)?.is_none() {
                    return Ok(None);
                }
                let made = match one(txn, account, &new, message.once) {
                    Ok(made) => Ok(made),
                    Err(failure) => Err(failure.object()?),
                };
                left = Some(txn.state().state(DataType::Email));
                Ok(Some(made))
            });
        let made = results.pop().map_or(Err(Error::NotFound("account")), |(_, made)| made)?;
        Ok((made, ticket))
    });
    let made = done?;
    commits.leave(left);
    let (id, thread) = made.ok_or(SetFailure::Call(MethodError::StateMismatch))??;
    let size = encoded.size + message.prefix.len() as u64;
    Ok(FiledEmail { id, thread, size, received_at: id.received_at() })
}

fn one(
    txn: &mut Txn<'_>,
    account: &Account,
    new: &NewEmail<'_>,
    once: bool,
) -> TxnResult<(EmailId, ThreadId)> {
    let rights = Rights::of(&txn.snapshot(), account)?;
    filing::prove(&txn.snapshot(), (account, &rights), &new.mailboxes)?;
    rights.require(&new.mailboxes, Right::AddItems)?;
    if once {
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
