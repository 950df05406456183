//! What a method is: its arguments, its answer, and what it is called with.

use std::cell::RefCell;

use serde_json::{Map, Value};

use super::context::{Account, Context};
use super::creation_ids::CreationIds;
use crate::model::AccountId;
use crate::wire::jmap::{Answer, MethodArguments, MethodError, arguments};

/// A JMAP method. Its name and its capability stand in the registry.
pub(super) trait Method {
    type Args: MethodArguments;
    type Answer: Answer;

    fn call(call: &Call<'_>, args: Self::Args) -> Result<Self::Answer, MethodError>;
}

/// One call of a method: who asks of what, and what the request says beside the arguments.
pub(super) struct Call<'a> {
    pub(super) context: &'a Context,
    /// What creation ids stand for; the references of the arguments to earlier answers are
    /// resolved.
    pub(super) created: &'a CreationIds,
    /// The capabilities that the request uses.
    pub(super) using: &'a [String],
    follow_up: RefCell<Option<FollowUpCall>>,
}

impl<'a> Call<'a> {
    pub(super) fn new(context: &'a Context, created: &'a CreationIds, using: &'a [String]) -> Self {
        Self { context, created, using, follow_up: RefCell::default() }
    }

    /// Whether the request uses a capability: what belongs to another one is unknown to it (RFC
    /// 8620 §3.3).
    pub(super) fn uses(&self, capability: &str) -> bool {
        self.using.iter().any(|used| used == capability)
    }

    /// The id that a client wrote, or what its creation id stands for. An unknown creation id stays
    /// as it is: no object is called that.
    pub(super) fn id(&self, id: String) -> String {
        self.created.resolve(&id).unwrap_or(id)
    }

    /// The account of that id, where it is the caller's own; or, with `guests`, one in which a
    /// mailbox is shared with the caller.
    ///
    /// # Errors
    /// `accountNotFound`; `accountNotSupportedByMethod` where the caller is a guest and `guests` is
    /// false.
    pub(super) fn open(&self, id: &str, guests: bool) -> Result<Account, MethodError> {
        let id = id.parse::<AccountId>().map_err(|_| MethodError::AccountNotFound)?;
        let account = self.context.accessible_account(id)?;
        if account.guest.is_some() && !guests {
            return Err(MethodError::AccountNotSupportedByMethod);
        }
        Ok(account)
    }

    /// Has another call follow this one, with the same call id.
    pub(super) fn follow_with(&self, next: FollowUpCall) {
        *self.follow_up.borrow_mut() = Some(next);
    }

    /// The call that follows.
    pub(super) fn follow_up(&self) -> Option<FollowUpCall> {
        self.follow_up.take()
    }
}

/// The call that follows another by itself, with the same call id (RFC 8620 §5.4, RFC 8621 §7.5).
#[derive(Debug, Clone, PartialEq)]
pub(super) struct FollowUpCall {
    pub(super) name: &'static str,
    pub(super) arguments: Map<String, Value>,
}

/// A method as the registry names it.
pub(super) struct RegisteredMethod {
    pub(super) name: &'static str,
    pub(super) capability: &'static str,
    /// A capability that a request must use beside it (RFC 9007 §2.1).
    pub(super) also: Option<&'static str>,
    /// A method that only reads may be refused for the size of its answer; what was changed is told
    /// whatever its size.
    pub(super) only_reads: bool,
    pub(super) handler: Handler,
}

/// Runs a method: given the call, the method's name and its arguments.
type RunMethod = fn(&Call<'_>, &str, Map<String, Value>) -> Result<Value, MethodError>;

/// How a method is run.
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
        given: Map<String, Value>,
    ) -> Result<Value, MethodError> {
        (self.0)(call, name, given)
    }
}

/// Reads the arguments, runs the method, and makes its answer JSON.
fn run<M: Method>(
    call: &Call<'_>,
    name: &str,
    given: Map<String, Value>,
) -> Result<Value, MethodError> {
    Ok(M::call(call, arguments::read(name, given)?)?.into_value()?)
}
