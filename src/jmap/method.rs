//! The trait that a standard JMAP method implements, its call, and its entry in the registry. (The
//! vendor methods have a trait of their own, `admin::AdminMethod`.)

use std::cell::RefCell;

use serde_json::{Map, Value};

use super::context::{Account, Context};
use super::creation_ids::CreationIds;
use crate::model::AccountId;
use crate::wire::jmap::text::ResponseArguments;
use crate::wire::jmap::{IntoArguments, MethodArguments, MethodError, arguments};

pub(super) trait Method {
    type Args: MethodArguments;
    type Answer: IntoArguments;

    fn call(call: &Call<'_>, args: Self::Args) -> Result<Self::Answer, MethodError>;
}

/// One call of a method, with what the rest of the request contributes.
pub(super) struct Call<'a> {
    pub(super) context: &'a Context,
    /// The creation ids of the request so far.
    pub(super) created: &'a CreationIds,
    /// The capabilities that the request uses.
    pub(super) using: &'a [String],
    /// Whether a later call of the request refers to the response to this call. The response must
    /// then be made of `Value`s, without `ResponseArguments::text`.
    pub(super) is_referred_to: bool,
    follow_up: RefCell<Option<FollowUpCall>>,
}

impl<'a> Call<'a> {
    pub(super) fn new(
        context: &'a Context,
        created: &'a CreationIds,
        using: &'a [String],
        is_referred_to: bool,
    ) -> Self {
        Self { context, created, using, is_referred_to, follow_up: RefCell::default() }
    }

    /// Whether the request uses a capability. What belongs to a capability that the request does
    /// not use is treated as unknown (RFC 8620 §3.3).
    pub(super) fn uses(&self, capability: &str) -> bool {
        self.using.iter().any(|used| used == capability)
    }

    /// Returns the id that a creation id stands for. Any other id, and an unknown creation id, is
    /// returned unchanged.
    pub(super) fn resolve_id(&self, id: String) -> String {
        self.created.resolve(&id).unwrap_or(id)
    }

    /// Returns an account that the caller may manage, or of which a mailbox is shared with the
    /// caller.
    ///
    /// # Errors
    /// `AccountNotFound`, and those of reading.
    pub(super) fn account(&self, id: &str) -> Result<Account, MethodError> {
        let id = id.parse::<AccountId>().map_err(|_| MethodError::AccountNotFound)?;
        self.context.accessible_account(id)
    }

    /// Returns an account that the caller may manage.
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

    /// Lets `next` follow this call if this call succeeds. A later `next` replaces an earlier one.
    pub(super) fn follow_with(&self, next: FollowUpCall) {
        *self.follow_up.borrow_mut() = Some(next);
    }

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

pub(super) struct RegisteredMethod {
    pub(super) name: &'static str,
    pub(super) capability: &'static str,
    /// Another capability that the request must use, for MDN/send (RFC 9007 §2.1).
    pub(super) second_capability: Option<&'static str>,
    /// Whether the method makes no changes that its answer must report, so that a large answer may
    /// be refused. Also true for Identity/get and Identity/changes, which may change identities.
    pub(super) only_reads: bool,
    pub(super) handler: Handler,
}

/// Gets the call, the method's name and its arguments.
type RunMethod = fn(&Call<'_>, &str, Map<String, Value>) -> Result<ResponseArguments, MethodError>;

/// Runs a method whose types are erased.
#[derive(Clone, Copy)]
pub(super) struct Handler(RunMethod);

impl Handler {
    /// Returns the handler of a method that implements [`Method`]. It refuses unknown arguments.
    pub(super) const fn of<M: Method>() -> Self {
        Self(run::<M>)
    }

    /// Returns a handler that reads the arguments itself: that of a vendor method.
    pub(super) const fn new(run: RunMethod) -> Self {
        Self(run)
    }

    pub(super) fn run(
        self,
        call: &Call<'_>,
        name: &str,
        arguments: Map<String, Value>,
    ) -> Result<ResponseArguments, MethodError> {
        (self.0)(call, name, arguments)
    }
}

fn run<M: Method>(
    call: &Call<'_>,
    name: &str,
    given: Map<String, Value>,
) -> Result<ResponseArguments, MethodError> {
    Ok(M::call(call, arguments::read(name, given)?)?.into_arguments()?)
}
