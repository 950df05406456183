//! Reads requests and writes responses (RFC 8620 §3.2 to §3.4).

use serde_json::{Map, Value, json as object};

use super::error::RequestError;
use super::json::{self, JsonError};
use super::session::SessionState;
use crate::model::limits;

/// Registered capabilities that a request may name although this server may not offer them, because
/// some clients name all capabilities that they know. Any other unknown capability is an error (RFC
/// 8620 §3.6.1).
const PASSED_OVER: [&str; 6] = [
    "urn:ietf:params:jmap:calendars",
    "urn:ietf:params:jmap:contacts",
    "urn:ietf:params:jmap:principals",
    "urn:ietf:params:jmap:principals:owner",
    "urn:ietf:params:jmap:sieve",
    "urn:ietf:params:jmap:smimeverify",
];

/// A method call or a method response.
#[derive(Debug, Clone, PartialEq)]
pub struct Invocation {
    /// The name of the method, or `error`.
    pub name: String,
    pub arguments: Map<String, Value>,
    /// The client's id of the call.
    pub id: String,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// The capabilities that the request uses.
    pub using: Vec<String>,
    pub calls: Vec<Invocation>,
    /// The ids of created objects by creation id (RFC 8620 §3.3).
    pub created_ids: Option<Map<String, Value>>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Response {
    pub responses: Vec<Invocation>,
    /// `createdIds`, if the request has it.
    pub created_ids: Option<Map<String, Value>>,
    pub session_state: SessionState,
}

impl Response {
    #[must_use]
    pub fn json(self) -> Value {
        let responses: Vec<Value> = self
            .responses
            .into_iter()
            .map(|one| object!([one.name, one.arguments, one.id]))
            .collect();
        let mut whole =
            object!({"methodResponses": responses, "sessionState": self.session_state.to_string()});
        if let (Some(ids), Some(members)) = (self.created_ids, whole.as_object_mut()) {
            members.insert("createdIds".into(), Value::Object(ids));
        }
        whole
    }
}

/// Reads a request. `known` are the capabilities of this server.
///
/// # Errors
/// `RequestError`, which is the response.
pub fn parse(body: &[u8], known: &[&str]) -> Result<Request, RequestError> {
    let whole = json::read(body).map_err(|error| match error {
        JsonError::NoJson(what) => RequestError::NotJson(what),
        JsonError::Deep | JsonError::Many => RequestError::NotRequest(error.to_string()),
    })?;
    of_value(whole, known)
}

/// Reads a request from a JSON value, as [`parse`] does.
///
/// # Errors
/// `RequestError`, which is the response.
pub fn of_value(whole: Value, known: &[&str]) -> Result<Request, RequestError> {
    let bad = |what: &str| RequestError::NotRequest(what.into());
    let Value::Object(mut whole) = whole else { return Err(bad("a request is an object")) };
    let using = match whole.remove("using") {
        Some(Value::Array(using)) => using,
        _ => return Err(bad("`using` is an array of texts")),
    };
    let using: Option<Vec<String>> =
        using.iter().map(|one| one.as_str().map(str::to_owned)).collect();
    let using = using.ok_or_else(|| bad("`using` is an array of texts"))?;
    let is_known = |one: &str| known.contains(&one) || PASSED_OVER.contains(&one);
    if let Some(unknown) = using.iter().find(|one| !is_known(one)) {
        return Err(RequestError::UnknownCapability(unknown.clone()));
    }
    let Some(Value::Array(calls)) = whole.remove("methodCalls") else {
        return Err(bad("`methodCalls` is an array of calls"));
    };
    if calls.len() > limits::MAX_REQUEST_CALLS {
        return Err(RequestError::Limit("maxCallsInRequest"));
    }
    let calls: Option<Vec<Invocation>> = calls.into_iter().map(invocation).collect();
    let calls = calls.ok_or_else(|| bad("a call is an array of name, arguments and id"))?;
    let created_ids = match whole.remove("createdIds") {
        None => None,
        Some(Value::Object(ids)) if ids.values().all(Value::is_string) => Some(ids),
        Some(_) => return Err(bad("`createdIds` is an object of ids")),
    };
    Ok(Request { using, calls, created_ids })
}

fn invocation(call: Value) -> Option<Invocation> {
    let Value::Array(parts) = call else { return None };
    let [Value::String(name), Value::Object(arguments), Value::String(id)] =
        <[Value; 3]>::try_from(parts).ok()?
    else {
        return None;
    };
    Some(Invocation { name, arguments, id })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn error(body: &str) -> String {
        match parse(body.as_bytes(), &["a"]) {
            Ok(_) => "none".into(),
            Err(error) => error.problem()["type"]
                .as_str()
                .unwrap_or_default()
                .rsplit(':')
                .next()
                .unwrap_or_default()
                .into(),
        }
    }

    #[test]
    fn errors_of_a_request() {
        let many = vec![r#"["a",{},"0"]"#; limits::MAX_REQUEST_CALLS + 1].join(",");
        let many = format!(r#"{{"using":[],"methodCalls":[{many}]}}"#);
        let deep = format!(
            r#"{{"using":[],"methodCalls":[["a",{{"x":{}1{}}},"0"]]}}"#,
            "[".repeat(99),
            "]".repeat(99)
        );
        for (body, wanted) in [
            ("", "notJSON"),
            ("{", "notJSON"),
            ("[]", "notRequest"),
            ("{}", "notRequest"),
            (r#"{"using":[1],"methodCalls":[]}"#, "notRequest"),
            (r#"{"using":["a"],"methodCalls":[["a",{}]]}"#, "notRequest"),
            (r#"{"using":["a"],"methodCalls":[["a",[],"0"]]}"#, "notRequest"),
            (r#"{"using":["b"],"methodCalls":[]}"#, "unknownCapability"),
            (r#"{"using":["urn:ietf:params:jmap:contacts"],"methodCalls":[]}"#, "none"),
            (many.as_str(), "limit"),
            (deep.as_str(), "notRequest"),
            (r#"{"using":["a"],"methodCalls":[["a",{"x":1,"x":2},"0"]]}"#, "notJSON"),
            (r#"{"using":["a"],"methodCalls":[],"createdIds":{"a":1}}"#, "notRequest"),
            (r#"{"using":["a"],"methodCalls":[["a",{"x":"[[["},"0"]],"createdIds":{}}"#, "none"),
        ] {
            assert_eq!(error(body), wanted, "{body}");
        }
    }

    proptest! {
        #[test]
        fn any_octets_are_a_request_or_an_error(
            body in proptest::collection::vec(any::<u8>(), 0..200),
        ) {
            drop(parse(&body, &[]));
        }
    }
}
