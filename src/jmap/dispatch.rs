//! Runs the calls of a request, one after another (RFC 8620 §3.3).
//!
//! A request may wait for the disk, so `run` must not be called in an asynchronous task.

use serde_json::{Map, Value};

use super::budget::Budget;
use super::context::Context;
use super::creation_ids::CreationIds;
use super::method::{Call, FollowUpCall, RegisteredMethod};
use super::registry;
use super::session::session_state;
use crate::wire::jmap::text::ResponseArguments;
use crate::wire::jmap::{Invocation, MethodError, Request, Response, reference};

/// Returns the name of each method, and whether the method only reads.
#[cfg(test)]
pub(super) fn names() -> impl Iterator<Item = (&'static str, bool)> {
    registry::all().map(|method| (method.name, method.only_reads))
}

/// Runs the calls of a request in order, and returns the response.
///
/// # Errors
/// Those of reading the state of the session. Errors of a method are in the response.
pub fn run(context: &Context, request: Request) -> Result<Response, MethodError> {
    let budget = if context.caller.admin { Budget::for_administrator() } else { Budget::default() };
    run_within(context, budget, request)
}

/// Does what `run` does, with the given budget.
pub(super) fn run_within(
    context: &Context,
    budget: Budget,
    request: Request,
) -> Result<Response, MethodError> {
    let context = &Context { budget, ..context.clone() };
    let mut responses: Vec<Invocation<ResponseArguments>> = Vec::with_capacity(request.calls.len());
    let created = CreationIds::new(request.created_ids.as_ref());
    let mut calls = request.calls.into_iter();
    while let Some(mut call) = calls.next() {
        let is_referred_to =
            calls.as_slice().iter().any(|later| reference::refers_to(&later.arguments, &call.id));
        let resolved = reference::resolve(&mut call.arguments, &responses);
        let mut next = Some((call.name, resolved.map(|()| call.arguments)));
        // A follow-up call needs no capability beyond those of the call that it follows.
        let mut is_from_client = true;
        while let Some((name, arguments)) = next.take() {
            let is_used = |capability: &str| request.using.iter().any(|used| used == capability);
            let usable = registry::find(&name).filter(|method| {
                !is_from_client
                    || (is_used(method.capability) && method.second_capability.is_none_or(is_used))
            });
            is_from_client = false;
            let answer = match (usable, arguments) {
                (None, _) => Err(MethodError::UnknownMethod),
                (_, Err(error)) => Err(error),
                (Some(method), Ok(arguments)) => {
                    let call = Call::new(context, &created, &request.using, is_referred_to);
                    answer(&call, method, arguments)
                }
            };
            let (name, arguments) = match answer {
                Ok((arguments, follow_up)) => {
                    next = follow_up.map(|next| (next.name.to_owned(), Ok(next.arguments)));
                    (name, arguments)
                }
                Err(error) => ("error".to_owned(), error.arguments().into()),
            };
            responses.push(Invocation { name, arguments, id: call.id.clone() });
        }
    }
    let session_state = session_state(context)?;
    Ok(Response {
        responses,
        created_ids: request.created_ids.map(|_| created.all()),
        session_state,
    })
}

/// Runs one method and charges its answer. Returns the answer, and the call that follows, if any.
fn answer(
    call: &Call<'_>,
    method: &RegisteredMethod,
    arguments: Map<String, Value>,
) -> Result<(ResponseArguments, Option<FollowUpCall>), MethodError> {
    call.context.budget.begin_answer();
    let answer = method.handler.run(call, method.name, arguments)?;
    call.context.budget.end_answer(answer.weight(), method.only_reads)?;
    Ok((answer, call.take_follow_up()))
}
