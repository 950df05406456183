//! The trait that a JMAP method implements, the call that is passed to it, and its entry in the
//! registry.

use std::cell::RefCell;

use serde_json::{Map, Value};

use super::context::{Account, Context};
use super::creation_ids::CreationIds;
use crate::model::AccountId;
use crate::wire::jmap::{Answer, MethodArguments, MethodError, arguments};

/// A JMAP method. The registry has its name and its capability.
pub(super) trait Method {
    type Args: MethodArguments;
    type Answer: Answer;

    fn call(call: &Call<'_>, args: Self::Args) -> Result<Self::Answer, MethodError>;
}

/// One call of a method: the context, and what the rest of the request contributes.
pub(super) struct Call<'a> {
    pub(super) context: &'a Context,
    /// The creation ids of the request so far. References of the arguments to earlier answers are
    /// resolved before a method is called.
    pub(super) created: &'a CreationIds,
    /// The capabilities that the request uses.
    pub(super) using: &'a [String],
    follow_up: RefCell<Option<FollowUpCall>>,
}

impl<'a> Call<'a> {
    pub(super) fn new(context: &'a Context, created: &'a CreationIds, using: &'a [String]) -> Self {
        Self { context, created, using, follow_up: RefCell::default() }
    }

    /// Returns whether the request uses a capability. Properties and conditions of a capability
    /// that the request does not use are treated as unknown (RFC 8620 §3.3).
    pub(super) fn uses(&self, capability: &str) -> bool {
        self.using.iter().any(|used| used == capability)
    }

    /// Returns the id that a creation id stands for. Any other id, and an unknown creation id, is
    /// returned unchanged: no object has an id that begins with `#`.
    pub(super) fn resolve_id(&self, id: String) -> String {
        self.created.resolve(&id).unwrap_or(id)
    }

    /// Returns the account with this id if the caller may manage it, or if a mailbox of it is
    /// shared with the caller.
    ///
    /// # Errors
    /// `AccountNotFound`, and those of reading.
    pub(super) fn account(&self, id: &str) -> Result<Account, MethodError> {
        let id = id.parse::<AccountId>().map_err(|_| MethodError::AccountNotFound)?;
        self.context.accessible_account(id)
    }

    /// Returns the account with this id if the caller may manage it.
    ///
    /// # Errors
    /// `AccountNotSupportedByMethod` if the caller is a guest in it; those of `account`.
    pub(super) fn managed_account(&self, id: &str) -> Result<Account, MethodError> {
        let account = self.account(id)?;
        if account.guest.is_some() {
            return Err(MethodError::AccountNotSupportedByMethod);
        }
        Ok(account)
    }

    /// Lets another call follow this one, with the same call id. A later `next` replaces an earlier
    /// one. Nothing follows a method that returns an error.
    pub(super) fn follow_with(&self, next: FollowUpCall) {
        *self.follow_up.borrow_mut() = Some(next);
    }

    /// Takes the call that follows, if any.
    pub(super) fn take_follow_up(&self) -> Option<FollowUpCall> {
        self.follow_up.take()
    }
}

/// An implicit call that follows another one, with the same call id (RFC 8620 §5.4, RFC 8621 §7.5).
#[derive(Debug, Clone, PartialEq)]
pub(super) struct FollowUpCall {
    pub(super) name: &'static str,
    pub(super) arguments: Map<String, Value>,
}

/// An entry of the registry.
pub(super) struct RegisteredMethod {
    pub(super) name: &'static str,
    pub(super) capability: &'static str,
    /// A further capability that a request must use to call the method (RFC 9007 §2.1).
    pub(super) second_capability: Option<&'static str>,
    /// Whether the method makes no changes that its answer must report. A large answer is refused
    /// only then. Identity/get is such a method, too: the identities that it may add are reported
    /// by Identity/changes.
    pub(super) only_reads: bool,
    pub(super) handler: Handler,
}

/// Runs a method, given the call, the method's name and its arguments.
type RunMethod = fn(&Call<'_>, &str, Map<String, Value>) -> Result<Value, MethodError>;

/// Runs a method. The types of its arguments and its answer are erased, so that the registry can
/// hold all methods.
#[derive(Clone, Copy)]
pub(super) struct Handler(RunMethod);

impl Handler {
    pub(super) const fn of<M: Method>() -> Self {
        Self(run::<M>)
    }

    pub(super) const fn new(run: RunMethod) -> Self {
        Self(run)
    }

    pub(super) fn run(
        self,
        call: &Call<'_>,
        name: &str,
        arguments: Map<String, Value>,
    ) -> Result<Value, MethodError> {
        (self.0)(call, name, arguments)
    }
}

/// Reads the arguments, runs the method, and converts its answer to JSON.
fn run<M: Method>(
    call: &Call<'_>,
    name: &str,
    given: Map<String, Value>,
) -> Result<Value, MethodError> {
    Ok(M::call(call, arguments::read(name, given)?)?.into_value()?)
}
