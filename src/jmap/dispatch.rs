//! Takes a request through its calls, one after another (RFC 8620 §3.3). May wait for the disk: not for an asynchronous task.

use serde_json::{Map, Value};

use super::context::{Args, Context};
use super::{admin, vacation};
use crate::wire::jmap::{ADMIN, CORE, Invocation, MethodError, Request, Response, VACATION, reference};

/// The capabilities that are known here.
pub const CAPABILITIES: &[&str] = &[CORE, VACATION, ADMIN];

pub(super) type Method = fn(&Context, &Args<'_>) -> Result<Value, MethodError>;

fn echo(_: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    Ok(Value::Object(arguments.0.clone()))
}

/// Every method with its capability.
fn find(name: &str) -> Option<(&'static str, Method)> {
    let core: [(&str, &str, Method); 3] = [
        ("Core/echo", CORE, echo),
        ("VacationResponse/get", VACATION, vacation::get),
        ("VacationResponse/set", VACATION, vacation::set),
    ];
    let ours = admin::METHODS.iter().map(|(name, method)| (*name, ADMIN, *method));
    core.into_iter().chain(ours).find(|(known, ..)| *known == name).map(|(_, capability, method)| (capability, method))
}

/// Answers a request.
#[must_use]
pub fn run(context: &Context, request: Request) -> Response {
    let mut responses: Vec<Invocation> = Vec::with_capacity(request.calls.len());
    for mut call in request.calls {
        let answer =
            match find(&call.name).filter(|(capability, _)| request.using.iter().any(|used| used == capability)) {
                None => Err(MethodError::UnknownMethod),
                Some((_, method)) => reference::resolve(&mut call.arguments, &responses)
                    .and_then(|()| method(context, &Args(&call.arguments))),
            };
        let (name, arguments) = match answer {
            Ok(arguments) => (call.name, arguments),
            Err(error) => ("error".to_owned(), error.arguments()),
        };
        let arguments = match arguments {
            Value::Object(arguments) => arguments,
            _ => Map::new(),
        };
        responses.push(Invocation { name, arguments, id: call.id });
    }
    let session_state = format!("{:x}", context.store.epoch());
    Response { responses, created_ids: request.created_ids, session_state }
}
