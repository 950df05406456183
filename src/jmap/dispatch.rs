//! Takes a request through its calls, one after another (RFC 8620 §3.3). May wait for the disk: not for an asynchronous task.

use serde_json::{Map, Value};

use super::budget::Budget;
use super::context::{Args, Context};
use super::standard::Created;
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
pub(super) type Followed = fn(&Context, &Args<'_>) -> Result<(Value, Option<Next>), MethodError>;

/// The call that follows.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Next {
    /// Its method.
    pub(super) name: &'static str,
    /// Its arguments.
    pub(super) arguments: Map<String, Value>,
}

/// How a method runs, and what becomes of an answer that is too large.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    /// Changes nothing: an answer that is too large is refused.
    Reads(Method),
    /// Tells what was changed: the answer is given whatever its size.
    Changes(Method),
    /// The same, and another call may follow.
    Followed(Followed),
}

impl Kind {
    fn only_reads(self) -> bool {
        matches!(self, Self::Reads(_))
    }

    fn run(self, context: &Context, arguments: &Args<'_>) -> Result<(Value, Option<Next>), MethodError> {
        match self {
            Self::Reads(method) | Self::Changes(method) => method(context, arguments).map(|answer| (answer, None)),
            Self::Followed(method) => method(context, arguments),
        }
    }
}

/// Every method with its capability, but for the vendor's (`admin`).
const METHODS: &[(&str, &str, Kind)] = &[
    ("Core/echo", CORE, Kind::Reads(echo)),
    ("PushSubscription/get", CORE, Kind::Reads(subscription::get)),
    ("PushSubscription/set", CORE, Kind::Changes(subscription::set)),
    ("Blob/copy", CORE, Kind::Changes(blob::copy)),
    ("Blob/upload", BLOB, Kind::Changes(blob::upload)),
    ("Blob/get", BLOB, Kind::Reads(blob::get)),
    ("Blob/lookup", BLOB, Kind::Reads(blob::lookup)),
    ("Mailbox/get", MAIL, Kind::Reads(mailbox::get)),
    ("Mailbox/changes", MAIL, Kind::Reads(mailbox::changes)),
    ("Mailbox/query", MAIL, Kind::Reads(mailbox::query)),
    ("Mailbox/queryChanges", MAIL, Kind::Reads(mailbox::query_changes)),
    ("Mailbox/set", MAIL, Kind::Changes(mailbox::set)),
    ("Thread/get", MAIL, Kind::Reads(thread::get)),
    ("Thread/changes", MAIL, Kind::Reads(thread::changes)),
    ("Email/changes", MAIL, Kind::Reads(email::changes)),
    ("Email/get", MAIL, Kind::Reads(email::get)),
    ("Email/parse", MAIL, Kind::Reads(email::parse)),
    ("Email/set", MAIL, Kind::Changes(email::set)),
    ("Email/import", MAIL, Kind::Changes(email::import)),
    ("Email/copy", MAIL, Kind::Followed(email::copy)),
    ("Email/query", MAIL, Kind::Reads(email::query)),
    ("Email/queryChanges", MAIL, Kind::Reads(email::query_changes)),
    ("Identity/get", SUBMISSION, Kind::Reads(identity::get)),
    ("Identity/changes", SUBMISSION, Kind::Reads(identity::changes)),
    ("Identity/set", SUBMISSION, Kind::Changes(identity::set)),
    ("EmailSubmission/get", SUBMISSION, Kind::Reads(submission::get)),
    ("EmailSubmission/changes", SUBMISSION, Kind::Reads(submission::changes)),
    ("EmailSubmission/query", SUBMISSION, Kind::Reads(submission::query)),
    ("EmailSubmission/queryChanges", SUBMISSION, Kind::Reads(submission::query_changes)),
    ("EmailSubmission/set", SUBMISSION, Kind::Followed(submission::set)),
    ("SearchSnippet/get", MAIL, Kind::Reads(email::snippets)),
    ("MDN/send", MDN, Kind::Followed(mdn::send)),
    ("MDN/parse", MDN, Kind::Reads(mdn::parse)),
    ("VacationResponse/get", VACATION, Kind::Reads(vacation::get)),
    ("VacationResponse/set", VACATION, Kind::Changes(vacation::set)),
    ("ShareNotification/get", PRINCIPALS, Kind::Reads(share::get)),
    ("ShareNotification/changes", PRINCIPALS, Kind::Reads(share::changed)),
    ("ShareNotification/set", PRINCIPALS, Kind::Changes(share::set)),
    ("ShareNotification/query", PRINCIPALS, Kind::Reads(share::query)),
    ("ShareNotification/queryChanges", PRINCIPALS, Kind::Reads(share::query_changes)),
    ("Principal/get", PRINCIPALS, Kind::Reads(principal::get)),
    ("Principal/changes", PRINCIPALS, Kind::Reads(principal::changes)),
    ("Principal/set", PRINCIPALS, Kind::Changes(principal::set)),
    ("Principal/query", PRINCIPALS, Kind::Reads(principal::query)),
    ("Principal/queryChanges", PRINCIPALS, Kind::Reads(principal::query_changes)),
    ("Quota/get", QUOTA, Kind::Reads(quota::get)),
    ("Quota/changes", QUOTA, Kind::Reads(quota::changes)),
    ("Quota/query", QUOTA, Kind::Reads(quota::query)),
    ("Quota/queryChanges", QUOTA, Kind::Reads(quota::query_changes)),
];

/// What a method wants in `using` beside its own capability (RFC 9007 §2.1).
const ALSO: &[(&str, &str)] = &[("MDN/send", MAIL)];

/// The methods of both tables.
fn all() -> impl Iterator<Item = (&'static str, &'static str, Kind)> {
    METHODS.iter().copied().chain(admin::METHODS.iter().map(|(name, kind)| (*name, ADMIN, *kind)))
}

/// The names of all methods, and whether each only reads.
#[cfg(test)]
pub(super) fn names() -> impl Iterator<Item = (&'static str, bool)> {
    all().map(|(name, _, kind)| (name, kind.only_reads()))
}

fn find(name: &str) -> Option<(&'static str, Kind)> {
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
    let created = Created::new(request.created_ids.as_ref());
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
