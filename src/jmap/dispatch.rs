//! Takes a request through its calls, one after another (RFC 8620 §3.3). May wait for the disk: not for an asynchronous task.

use serde_json::{Map, Value};

use super::budget::Budget;
use super::context::{Args, Context};
use super::standard::CreationIds;
use super::{
    admin, arguments, blob, email, identity, mailbox, mdn, principal, quota, share, submission, subscription, thread,
    vacation,
};
use crate::wire::jmap::{
    ADMIN, BLOB, CORE, Invocation, MAIL, MDN, MethodError, PRINCIPALS, QUOTA, Request, Response, SUBMISSION, VACATION,
    WEBSOCKET, reference,
};

/// The capabilities that are known here.
pub const CAPABILITIES: &[&str] = &[CORE, MAIL, SUBMISSION, VACATION, MDN, QUOTA, BLOB, PRINCIPALS, WEBSOCKET, ADMIN];

pub(super) type Method = fn(&Context, &Args<'_>) -> Result<Value, MethodError>;

/// A method that another follows by itself, with the same call id (RFC 8620 §5.4, RFC 8621 §7.5).
pub(super) type ChainedMethod = fn(&Context, &Args<'_>) -> Result<(Value, Option<FollowUpCall>), MethodError>;

/// The call that follows.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct FollowUpCall {
    /// Its method.
    pub(super) name: &'static str,
    /// Its arguments.
    pub(super) arguments: Map<String, Value>,
}

/// How a method runs, and what becomes of an answer that is too large.
#[derive(Clone, Copy)]
pub(super) enum MethodKind {
    /// Changes nothing: an answer that is too large is refused.
    Reads(Method),
    /// Tells what was changed: the answer is given whatever its size.
    Changes(Method),
    /// The same, and another call may follow.
    Followed(ChainedMethod),
}

impl MethodKind {
    fn only_reads(self) -> bool {
        matches!(self, Self::Reads(_))
    }

    fn run(self, context: &Context, arguments: &Args<'_>) -> Result<(Value, Option<FollowUpCall>), MethodError> {
        match self {
            Self::Reads(method) | Self::Changes(method) => method(context, arguments).map(|answer| (answer, None)),
            Self::Followed(method) => method(context, arguments),
        }
    }
}

/// Every method with its capability, but for the vendor's (`admin`).
const METHODS: &[(&str, &str, MethodKind)] = &[
    ("Core/echo", CORE, MethodKind::Reads(echo)),
    ("PushSubscription/get", CORE, MethodKind::Reads(subscription::get)),
    ("PushSubscription/set", CORE, MethodKind::Changes(subscription::set)),
    ("Blob/copy", CORE, MethodKind::Changes(blob::copy)),
    ("Blob/upload", BLOB, MethodKind::Changes(blob::upload)),
    ("Blob/get", BLOB, MethodKind::Reads(blob::get)),
    ("Blob/lookup", BLOB, MethodKind::Reads(blob::lookup)),
    ("Mailbox/get", MAIL, MethodKind::Reads(mailbox::get)),
    ("Mailbox/changes", MAIL, MethodKind::Reads(mailbox::changes)),
    ("Mailbox/query", MAIL, MethodKind::Reads(mailbox::query)),
    ("Mailbox/queryChanges", MAIL, MethodKind::Reads(mailbox::query_changes)),
    ("Mailbox/set", MAIL, MethodKind::Changes(mailbox::set)),
    ("Thread/get", MAIL, MethodKind::Reads(thread::get)),
    ("Thread/changes", MAIL, MethodKind::Reads(thread::changes)),
    ("Email/changes", MAIL, MethodKind::Reads(email::changes)),
    ("Email/get", MAIL, MethodKind::Reads(email::get)),
    ("Email/parse", MAIL, MethodKind::Reads(email::parse)),
    ("Email/set", MAIL, MethodKind::Changes(email::set)),
    ("Email/import", MAIL, MethodKind::Changes(email::import)),
    ("Email/copy", MAIL, MethodKind::Followed(email::copy)),
    ("Email/query", MAIL, MethodKind::Reads(email::query)),
    ("Email/queryChanges", MAIL, MethodKind::Reads(email::query_changes)),
    ("Identity/get", SUBMISSION, MethodKind::Reads(identity::get)),
    ("Identity/changes", SUBMISSION, MethodKind::Reads(identity::changes)),
    ("Identity/set", SUBMISSION, MethodKind::Changes(identity::set)),
    ("EmailSubmission/get", SUBMISSION, MethodKind::Reads(submission::get)),
    ("EmailSubmission/changes", SUBMISSION, MethodKind::Reads(submission::changes)),
    ("EmailSubmission/query", SUBMISSION, MethodKind::Reads(submission::query)),
    ("EmailSubmission/queryChanges", SUBMISSION, MethodKind::Reads(submission::query_changes)),
    ("EmailSubmission/set", SUBMISSION, MethodKind::Followed(submission::set)),
    ("SearchSnippet/get", MAIL, MethodKind::Reads(email::snippets)),
    ("MDN/send", MDN, MethodKind::Followed(mdn::send)),
    ("MDN/parse", MDN, MethodKind::Reads(mdn::parse)),
    ("VacationResponse/get", VACATION, MethodKind::Reads(vacation::get)),
    ("VacationResponse/set", VACATION, MethodKind::Changes(vacation::set)),
    ("ShareNotification/get", PRINCIPALS, MethodKind::Reads(share::get)),
    ("ShareNotification/changes", PRINCIPALS, MethodKind::Reads(share::changed)),
    ("ShareNotification/set", PRINCIPALS, MethodKind::Changes(share::set)),
    ("ShareNotification/query", PRINCIPALS, MethodKind::Reads(share::query)),
    ("ShareNotification/queryChanges", PRINCIPALS, MethodKind::Reads(share::query_changes)),
    ("Principal/get", PRINCIPALS, MethodKind::Reads(principal::get)),
    ("Principal/changes", PRINCIPALS, MethodKind::Reads(principal::changes)),
    ("Principal/set", PRINCIPALS, MethodKind::Changes(principal::set)),
    ("Principal/query", PRINCIPALS, MethodKind::Reads(principal::query)),
    ("Principal/queryChanges", PRINCIPALS, MethodKind::Reads(principal::query_changes)),
    ("Quota/get", QUOTA, MethodKind::Reads(quota::get)),
    ("Quota/changes", QUOTA, MethodKind::Reads(quota::changes)),
    ("Quota/query", QUOTA, MethodKind::Reads(quota::query)),
    ("Quota/queryChanges", QUOTA, MethodKind::Reads(quota::query_changes)),
];

/// What a method wants in `using` beside its own capability (RFC 9007 §2.1).
const ALSO: &[(&str, &str)] = &[("MDN/send", MAIL)];

/// The methods of both tables.
fn all() -> impl Iterator<Item = (&'static str, &'static str, MethodKind)> {
    METHODS.iter().copied().chain(admin::METHODS.iter().map(|(name, kind)| (*name, ADMIN, *kind)))
}

/// The names of all methods, and whether each only reads.
#[cfg(test)]
pub(super) fn names() -> impl Iterator<Item = (&'static str, bool)> {
    all().map(|(name, _, kind)| (name, kind.only_reads()))
}

fn find(name: &str) -> Option<(&'static str, MethodKind)> {
    all().find(|(known, ..)| *known == name).map(|(_, capability, kind)| (capability, kind))
}

fn echo(_: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    Ok(Value::Object(arguments.0.clone()))
}

/// Answers a request, within one budget for all its calls.
#[must_use]
pub fn run(context: &Context, request: Request) -> Response {
    let budget = if context.caller.admin { Budget::of_administrator() } else { Budget::default() };
    run_within(context, budget, request)
}

/// The same, within a given budget.
pub(super) fn run_within(context: &Context, budget: Budget, request: Request) -> Response {
    let context = &Context { budget, ..context.clone() };
    let mut responses: Vec<Invocation> = Vec::with_capacity(request.calls.len());
    let created = CreationIds::new(request.created_ids.as_ref());
    for mut call in request.calls {
        let resolved = reference::resolve(&mut call.arguments, &responses);
        let mut next = Some((call.name, resolved.map(|()| call.arguments)));
        // What follows by itself needs no capability beyond that of what it follows.
        let mut is_asked = true;
        while let Some((name, arguments)) = next.take() {
            let is_used = |capability: &str| request.using.iter().any(|used| used == capability);
            let also = || ALSO.iter().filter(|(known, _)| *known == name).all(|(_, capability)| is_used(capability));
            let usable = find(&name).filter(|(capability, _)| !is_asked || (is_used(capability) && also()));
            is_asked = false;
            let answer = match (usable, arguments) {
                (None, _) => Err(MethodError::UnknownMethod),
                (_, Err(astray)) => Err(astray),
                (Some((capability, kind)), Ok(arguments)) => {
                    let proved = if capability == ADMIN { Ok(()) } else { arguments::prove(&name, &arguments) };
                    context.budget.begin_answer();
                    let answered = proved.and_then(|()| kind.run(context, &Args(&arguments, &created, &request.using)));
                    answered.and_then(|(answer, next)| {
                        context.budget.end_answer(&answer, kind.only_reads())?;
                        Ok((answer, next))
                    })
                }
            };
            let (name, arguments) = match answer {
                Ok((arguments, follows)) => {
                    next = follows.map(|next| (next.name.to_owned(), Ok(next.arguments)));
                    (name, arguments)
                }
                Err(error) => ("error".to_owned(), error.arguments()),
            };
            let arguments = match arguments {
                Value::Object(arguments) => arguments,
                _ => Map::new(),
            };
            responses.push(Invocation { name, arguments, id: call.id.clone() });
        }
    }
    let session_state = format!("{:x}", context.store.epoch());
    Response { responses, created_ids: request.created_ids.map(|_| created.all()), session_state }
}
