//! Converts errors of the store and of queries into errors of one object, or of the whole call. The
//! result type of a function says what it can refuse: `MethodError` the call, `SetError` one
//! object, `SetFailure` either.

use super::budget::TOO_MANY_EMAILS;
use crate::model::AccountId;
use crate::query;
use crate::store::{Error, ScriptFault, Store, Txn};
use crate::wire::jmap::{MethodError, SetError};

/// The error of one object, or of the whole call. Within a commit `E` is the store's error.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SetFailure<E = MethodError> {
    Object(SetError),
    Call(E),
}

impl<E> SetFailure<E> {
    /// Returns the error of the object as `Ok`, or that of the call as `Err`.
    pub(super) fn object(self) -> Result<SetError, E> {
        match self {
            Self::Object(error) => Ok(error),
            Self::Call(error) => Err(error),
        }
    }
}

pub(super) type TxnResult<T> = Result<T, SetFailure<Error>>;

/// Runs a commit that changes one object, and waits until it is durable. `change` may be run more
/// than once. It must refuse the object (`SetFailure::Object`) before it writes, because what it
/// wrote before is committed then. After `SetFailure::Call` nothing is written.
pub(super) fn commit_object<T>(
    store: &Store,
    account: AccountId,
    mut change: impl FnMut(&mut Txn<'_>) -> Result<T, SetFailure<Error>>,
) -> Result<T, SetFailure> {
    let (changed, ticket) = store.commit(account, |txn| match change(txn) {
        Ok(changed) => Ok(Ok(changed)),
        Err(failure) => Ok(Err(failure.object()?)),
    })?;
    let changed = changed?;
    ticket.wait_blocking()?;
    Ok(changed)
}

impl<E> From<SetError> for SetFailure<E> {
    fn from(error: SetError) -> Self {
        Self::Object(error)
    }
}

impl From<MethodError> for SetFailure {
    /// If the request reads too much, only the object is refused: the earlier objects of the call
    /// stay changed.
    fn from(error: MethodError) -> Self {
        match error {
            MethodError::RequestTooLarge(why) => Self::Object(SetError::RateLimit(why.into())),
            call => Self::Call(call),
        }
    }
}

impl From<Error> for SetFailure<Error> {
    fn from(error: Error) -> Self {
        match error {
            Error::NotFound(_) => Self::Object(SetError::NotFound),
            Error::Conflict(what) => Self::Object(SetError::Forbidden(what)),
            Error::Quota => Self::Object(SetError::OverQuota("the account is full".into())),
            Error::Script(fault) => Self::Object(fault.into()),
            call => Self::Call(call),
        }
    }
}

impl From<ScriptFault> for SetError {
    fn from(fault: ScriptFault) -> Self {
        let description = fault.to_string();
        match fault {
            ScriptFault::Name => Self::property("name", description),
            ScriptFault::NameTaken(id) => Self::AlreadyExists(id.to_string()),
            ScriptFault::TooMany => Self::OverQuota(description),
            ScriptFault::TooLarge(_) => Self::TooLarge(description),
            ScriptFault::Active => Self::other("sieveIsActive", &description),
        }
    }
}

impl From<Error> for SetFailure {
    fn from(error: Error) -> Self {
        match SetFailure::<Error>::from(error) {
            SetFailure::Object(error) => Self::Object(error),
            SetFailure::Call(error) => Self::Call(error.into()),
        }
    }
}

impl From<Error> for MethodError {
    fn from(error: Error) -> Self {
        Self::from(&error)
    }
}

impl From<&Error> for MethodError {
    fn from(error: &Error) -> Self {
        match error {
            Error::NotFound("account") => Self::AccountNotFound,
            Error::NotFound(what) => Self::NotFound(format!("no such {what}")),
            Error::Conflict(what) => Self::Conflict(what.clone()),
            Error::Quota | Error::Mailbox { .. } | Error::Script(_) => {
                Self::Conflict(error.to_string())
            }
            Error::Full
            | Error::QueueFull(_)
            | Error::Overtaken(_)
            | Error::Away(_)
            | Error::Rebuilding(_)
            | Error::Stopped
            | Error::Poisoned(_) => Self::ServerUnavailable(error.to_string()),
            Error::Corrupt { .. } | Error::Open(_) | Error::Io(_) => {
                Self::ServerFail(error.to_string())
            }
        }
    }
}

impl From<serde_json::Error> for MethodError {
    fn from(error: serde_json::Error) -> Self {
        Self::ServerFail(error.to_string())
    }
}

impl From<query::Error> for MethodError {
    fn from(error: query::Error) -> Self {
        match error {
            query::Error::Unsupported(what) => Self::UnsupportedFilter(what.into()),
            query::Error::TooMuchRead => Self::UnsupportedFilter(error.to_string()),
            query::Error::TooMuchWalked => Self::RequestTooLarge(TOO_MANY_EMAILS),
            query::Error::AnchorNotFound => Self::AnchorNotFound,
            query::Error::CannotCalculateChanges => Self::CannotCalculateChanges,
            query::Error::TooManyChanges => Self::TooManyChanges,
            query::Error::Store(error) => error.into(),
        }
    }
}
