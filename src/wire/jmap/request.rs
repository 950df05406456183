//! Reads requests and writes responses (RFC 8620 §3.2 to §3.4).

use serde_json::{Map, Value};

use super::error::RequestError;
use super::json::{self, JsonError};
use super::session::SessionState;
use super::text::{ResponseArguments, write_members, write_string};
use crate::model::limits;

/// Registered capabilities that a request may name although this server may not offer them, because
/// some clients name all that they know.
const TOLERATED_CAPABILITIES: [&str; 6] = [
    "urn:ietf:params:jmap:calendars",
    "urn:ietf:params:jmap:contacts",
    "urn:ietf:params:jmap:principals",
    "urn:ietf:params:jmap:principals:owner",
    "urn:ietf:params:jmap:sieve",
    "urn:ietf:params:jmap:smimeverify",
];

/// The bytes that are reserved for all of a response but its `ResponseArguments::text`.
const RESERVED_TREE_BYTES: usize = 8 << 10;

/// A method call or a method response.
#[derive(Debug, Clone, PartialEq)]
pub struct Invocation<A = Map<String, Value>> {
    /// The name of the method, or `error`.
    pub name: String,
    pub arguments: A,
    pub id: String,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    pub using: Vec<String>,
    pub calls: Vec<Invocation>,
    /// The ids of objects by their creation ids (RFC 8620 §3.3).
    pub created_ids: Option<Map<String, Value>>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Response {
    pub responses: Vec<Invocation<ResponseArguments>>,
    /// If the request has `createdIds`.
    pub created_ids: Option<Map<String, Value>>,
    pub session_state: SessionState,
}

impl Response {
    /// Writes the response as JSON, without noncharacters.
    #[must_use]
    pub fn write(&self) -> Vec<u8> {
        self.write_with(b"", None)
    }

    /// Writes the response as JSON: the members in `first`, each with a comma after it, then those
    /// of a response, and among them `requestId`, if there is one.
    #[must_use]
    pub(super) fn write_with(&self, first: &[u8], request_id: Option<&str>) -> Vec<u8> {
        let texts = self.responses.iter().filter_map(|response| response.arguments.text.as_ref());
        let length: usize = texts.map(|(_, text)| text.bytes().len()).sum();
        let mut out = Vec::with_capacity(length.saturating_add(RESERVED_TREE_BYTES));
        out.push(b'{');
        out.extend_from_slice(first);
        if let Some(ids) = &self.created_ids {
            out.extend_from_slice(b"\"createdIds\":");
            write_members(&mut out, ids);
            out.push(b',');
        }
        out.extend_from_slice(b"\"methodResponses\":[");
        for (number, response) in self.responses.iter().enumerate() {
            out.extend_from_slice(if number > 0 { b",[" } else { b"[" });
            write_string(&mut out, &response.name);
            out.push(b',');
            response.arguments.write(&mut out);
            out.push(b',');
            write_string(&mut out, &response.id);
            out.push(b']');
        }
        out.push(b']');
        if let Some(id) = request_id {
            out.extend_from_slice(b",\"requestId\":");
            write_string(&mut out, id);
        }
        out.extend_from_slice(b",\"sessionState\":");
        write_string(&mut out, &self.session_state.to_string());
        out.push(b'}');
        json::without_noncharacters(out)
    }

    /// Returns what a client reads; null for JSON that is nested deeper than `serde_json` reads.
    #[cfg(any(test, feature = "internals"))]
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.write()).unwrap_or_default()
    }
}

/// Reads a request. `supported` are the capabilities of this server.
///
/// # Errors
/// The error of the response.
pub fn parse(body: &[u8], supported: &[&str]) -> Result<Request, RequestError> {
    let value = json::read(body).map_err(|error| match error {
        JsonError::NotJson(detail) => RequestError::NotJson(detail),
        JsonError::TooDeep | JsonError::TooManyValues => {
            RequestError::NotRequest(error.to_string())
        }
    })?;
    from_value(value, supported)
}

/// Reads a request from a JSON value that was parsed already.
///
/// # Errors
/// The error of the response.
pub fn from_value(value: Value, supported: &[&str]) -> Result<Request, RequestError> {
    let invalid = |detail: &str| RequestError::NotRequest(detail.into());
    let Value::Object(mut members) = value else {
        return Err(invalid("a request must be an object"));
    };
    let using = match members.remove("using") {
        Some(Value::Array(using)) => using,
        _ => return Err(invalid("`using` must be an array of strings")),
    };
    let using: Option<Vec<String>> =
        using.iter().map(|name| name.as_str().map(str::to_owned)).collect();
    let using = using.ok_or_else(|| invalid("`using` must be an array of strings"))?;
    let is_accepted =
        |name: &str| supported.contains(&name) || TOLERATED_CAPABILITIES.contains(&name);
    if let Some(unknown) = using.iter().find(|name| !is_accepted(name)) {
        return Err(RequestError::UnknownCapability(unknown.clone()));
    }
    let Some(Value::Array(calls)) = members.remove("methodCalls") else {
        return Err(invalid("`methodCalls` must be an array of calls"));
    };
    if calls.len() > limits::MAX_REQUEST_CALLS {
        return Err(RequestError::Limit("maxCallsInRequest"));
    }
    let calls: Option<Vec<Invocation>> = calls.into_iter().map(invocation).collect();
    let calls =
        calls.ok_or_else(|| invalid("a call must be an array of name, arguments and id"))?;
    let created_ids = match members.remove("createdIds") {
        None => None,
        Some(Value::Object(ids)) if ids.values().all(Value::is_string) => Some(ids),
        Some(_) => return Err(invalid("`createdIds` must be an object of ids")),
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
    fn invalid_requests_get_their_error_types() {
        let many = vec![r#"["a",{},"0"]"#; limits::MAX_REQUEST_CALLS + 1].join(",");
        let many = format!(r#"{{"using":[],"methodCalls":[{many}]}}"#);
        let deep = format!(
            r#"{{"using":[],"methodCalls":[["a",{{"x":{}1{}}},"0"]]}}"#,
            "[".repeat(99),
            "]".repeat(99)
        );
        for (body, expected) in [
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
            assert_eq!(error(body), expected, "{body}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_request_or_an_error(
            body in proptest::collection::vec(any::<u8>(), 0..200),
        ) {
            drop(parse(&body, &[]));
        }
    }
}
