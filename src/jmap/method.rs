//! What a method is: its arguments, its answer, and the call that it gets.

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

/// One call of a method: the context, and what the request says beside the arguments.
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

    /// Returns whether the request uses a capability. What belongs to any other capability is
    /// unknown to the request (RFC 8620 §3.3).
    pub(super) fn uses(&self, capability: &str) -> bool {
        self.using.iter().any(|used| used == capability)
    }

    /// Returns the id that a creation id stands for, and any other id as it is. An unknown creation
    /// id is returned as it is, too: no object has such an id.
    pub(super) fn resolve_id(&self, id: String) -> String {
        self.created.resolve(&id).unwrap_or(id)
    }

    /// Returns the account with this id if the caller may manage it or, with `guests`, if a mailbox
    /// of it is shared with the caller.
    ///
    /// # Errors
    /// `AccountNotFound`; `AccountNotSupportedByMethod` if the caller is a guest and `guests` is
    /// false.
    pub(super) fn open(&self, id: &str, guests: bool) -> Result<Account, MethodError> {
        let id = id.parse::<AccountId>().map_err(|_| MethodError::AccountNotFound)?;
        let account = self.context.accessible_account(id)?;
        if account.guest.is_some() && !guests {
            return Err(MethodError::AccountNotSupportedByMethod);
        }
        Ok(account)
    }

    /// Lets another call follow this one, with the same call id.
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
    /// Whether the method changes nothing. Only then may the call be refused for the size of its
    /// answer: changes that were made are always reported.
    pub(super) only_reads: bool,
    pub(super) handler: Handler,
}

/// Runs a method, given the call, the method's name and its arguments.
type RunMethod = fn(&Call<'_>, &str, Map<String, Value>) -> Result<Value, MethodError>;

/// Runs a method, whatever the types of its arguments and of its answer.
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
