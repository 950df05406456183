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

#[derive(Clone, Copy)]
enum Kind {
    Alone(Method),
    Followed(Followed),
}

impl Kind {
    fn run(self, context: &Context, arguments: &Args<'_>) -> Result<(Value, Option<Next>), MethodError> {
        match self {
            Self::Alone(method) => method(context, arguments).map(|answer| (answer, None)),
            Self::Followed(method) => method(context, arguments),
        }
    }
}

/// Every method with its capability, but for the vendor's (`admin`).
const METHODS: &[(&str, &str, Kind)] = &[
    ("Core/echo", CORE, Kind::Alone(echo)),
    ("PushSubscription/get", CORE, Kind::Alone(subscription::get)),
    ("PushSubscription/set", CORE, Kind::Alone(subscription::set)),
    ("Blob/copy", CORE, Kind::Alone(blob::copy)),
    ("Blob/upload", BLOB, Kind::Alone(blob::upload)),
    ("Blob/get", BLOB, Kind::Alone(blob::get)),
    ("Blob/lookup", BLOB, Kind::Alone(blob::lookup)),
    ("Mailbox/get", MAIL, Kind::Alone(mailbox::get)),
    ("Mailbox/changes", MAIL, Kind::Alone(mailbox::changes)),
    ("Mailbox/query", MAIL, Kind::Alone(mailbox::query)),
    ("Mailbox/queryChanges", MAIL, Kind::Alone(mailbox::query_changes)),
    ("Mailbox/set", MAIL, Kind::Alone(mailbox::set)),
    ("Thread/get", MAIL, Kind::Alone(thread::get)),
    ("Thread/changes", MAIL, Kind::Alone(thread::changes)),
    ("Email/changes", MAIL, Kind::Alone(email::changes)),
    ("Email/get", MAIL, Kind::Alone(email::get)),
    ("Email/parse", MAIL, Kind::Alone(email::parse)),
    ("Email/set", MAIL, Kind::Alone(email::set)),
    ("Email/import", MAIL, Kind::Alone(email::import)),
    ("Email/copy", MAIL, Kind::Followed(email::copy)),
    ("Email/query", MAIL, Kind::Alone(email::query)),
    ("Email/queryChanges", MAIL, Kind::Alone(email::query_changes)),
    ("Identity/get", SUBMISSION, Kind::Alone(identity::get)),
    ("Identity/changes", SUBMISSION, Kind::Alone(identity::changes)),
    ("Identity/set", SUBMISSION, Kind::Alone(identity::set)),
    ("EmailSubmission/get", SUBMISSION, Kind::Alone(submission::get)),
    ("EmailSubmission/changes", SUBMISSION, Kind::Alone(submission::changes)),
    ("EmailSubmission/query", SUBMISSION, Kind::Alone(submission::query)),
    ("EmailSubmission/queryChanges", SUBMISSION, Kind::Alone(submission::query_changes)),
    ("EmailSubmission/set", SUBMISSION, Kind::Followed(submission::set)),
    ("SearchSnippet/get", MAIL, Kind::Alone(email::snippets)),
    ("MDN/send", MDN, Kind::Followed(mdn::send)),
    ("MDN/parse", MDN, Kind::Alone(mdn::parse)),
    ("VacationResponse/get", VACATION, Kind::Alone(vacation::get)),
    ("VacationResponse/set", VACATION, Kind::Alone(vacation::set)),
    ("ShareNotification/get", PRINCIPALS, Kind::Alone(share::get)),
    ("ShareNotification/changes", PRINCIPALS, Kind::Alone(share::changed)),
    ("ShareNotification/set", PRINCIPALS, Kind::Alone(share::set)),
    ("ShareNotification/query", PRINCIPALS, Kind::Alone(share::query)),
    ("ShareNotification/queryChanges", PRINCIPALS, Kind::Alone(share::query_changes)),
    ("Principal/get", PRINCIPALS, Kind::Alone(principal::get)),
    ("Principal/changes", PRINCIPALS, Kind::Alone(principal::changes)),
    ("Principal/set", PRINCIPALS, Kind::Alone(principal::set)),
    ("Principal/query", PRINCIPALS, Kind::Alone(principal::query)),
    ("Principal/queryChanges", PRINCIPALS, Kind::Alone(principal::query_changes)),
    ("Quota/get", QUOTA, Kind::Alone(quota::get)),
    ("Quota/changes", QUOTA, Kind::Alone(quota::changes)),
    ("Quota/query", QUOTA, Kind::Alone(quota::query)),
    ("Quota/queryChanges", QUOTA, Kind::Alone(quota::query_changes)),
];

/// What a method wants in `using` beside its own capability (RFC 9007 §2.1).
const ALSO: &[(&str, &str)] = &[("MDN/send", MAIL)];

fn find(name: &str) -> Option<(&'static str, Kind)> {
    let ours = admin::METHODS.iter().map(|(name, method)| (*name, ADMIN, Kind::Alone(*method)));
    let mut all = METHODS.iter().copied().chain(ours);
    all.find(|(known, ..)| *known == name).map(|(_, capability, kind)| (capability, kind))
}

fn echo(_: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    Ok(Value::Object(arguments.0.clone()))
}

/// The last words of the methods that change nothing: an answer of theirs that is too large is
/// refused.
const READING: [&str; 7] = ["get", "query", "queryChanges", "changes", "parse", "lookup", "echo"];

/// Answers a request, within one budget for all its calls.
#[must_use]
pub fn run(context: &Context, request: Request) -> Response {
    run_within(context, Budget::default(), request)
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
                        let only_reads = READING.contains(&name.rsplit('/').next().unwrap_or_default());
                        context.budget.end_answer(&answer, only_reads)?;
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
