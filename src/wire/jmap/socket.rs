//! Reads and writes the messages of JMAP over WebSocket (RFC 8887).
//!
//! A message has an `@type`. A request may have an id, which its response repeats.

use serde_json::{Value, json};

use super::error::RequestError;
use super::json::{self, JsonError};
use super::request::{Request, of_value};

/// The subprotocol (RFC 8887 §4.1).
pub const PROTOCOL: &str = "jmap";

/// A message of a client.
#[derive(Debug, Clone, PartialEq)]
pub enum SocketMessage {
    /// A request (§4.3.2), and the client's id for it.
    Request(Request, Option<String>),
    /// Starts the push of changes (§4.3.5.2): the types, `None` for all, and the state that the
    /// client knows.
    PushEnable(Option<Vec<String>>, Option<String>),
    /// Ends the push of changes (§4.3.5.3).
    PushDisable,
}

/// Reads a message.
///
/// # Errors
/// The `RequestError` object (§4.3.4), which is the response.
pub fn read(text: &[u8], known: &[&str]) -> Result<SocketMessage, Value> {
    let whole = json::read(text).map_err(|error| match error {
        JsonError::NoJson(what) => refusal(&RequestError::NotJson(what).problem(), None),
        JsonError::Deep | JsonError::Many => {
            refusal(&RequestError::NotRequest(error.to_string()).problem(), None)
        }
    })?;
    let id = whole.get("id").and_then(Value::as_str).map(str::to_owned);
    let wrong =
        |what: &str| refusal(&RequestError::NotRequest(what.into()).problem(), id.as_deref());
    match whole.get("@type").and_then(Value::as_str) {
        Some("Request") if whole.get("id").is_some_and(|id| !id.is_string()) => {
            Err(wrong("`id` is a text"))
        }
        Some("Request") => match of_value(whole, known) {
            Ok(request) => Ok(SocketMessage::Request(request, id)),
            Err(error) => Err(refusal(&error.problem(), id.as_deref())),
        },
        Some("WebSocketPushEnable") => {
            let types = match whole.get("dataTypes") {
                None | Some(Value::Null) => None,
                Some(types) => {
                    let all = types.as_array().filter(|all| all.len() <= MAX_TYPES);
                    let names = all.and_then(|all| {
                        all.iter().map(|one| one.as_str().map(str::to_owned)).collect()
                    });
                    Some(names.ok_or_else(|| wrong("`dataTypes` is an array of texts, or null"))?)
                }
            };
            let state = match whole.get("pushState") {
                None | Some(Value::Null) => None,
                Some(Value::String(state)) => Some(state.clone()),
                Some(_) => return Err(wrong("`pushState` is a text")),
            };
            Ok(SocketMessage::PushEnable(types, state))
        }
        Some("WebSocketPushDisable") => Ok(SocketMessage::PushDisable),
        _ => Err(wrong("`@type` is none that is known")),
    }
}

/// The most types that a client may name.
const MAX_TYPES: usize = 64;

/// Turns the response of a request into a message (§4.3.3).
#[must_use]
pub fn response(mut whole: Value, id: Option<&str>) -> Value {
    if let Some(members) = whole.as_object_mut() {
        members.insert("@type".into(), "Response".into());
        if let Some(id) = id {
            members.insert("requestId".into(), id.into());
        }
    }
    whole
}

/// Turns problem details into a refusal (§4.3.4).
#[must_use]
pub fn refusal(problem: &Value, id: Option<&str>) -> Value {
    let mut whole = problem.clone();
    if let Some(members) = whole.as_object_mut() {
        members.insert("@type".into(), "RequestError".into());
        members.insert("requestId".into(), id.map_or(Value::Null, Value::from));
    }
    whole
}

/// Turns a `StateChange` into a message (§4.3.5.1). `known` is the new state of the client.
#[must_use]
pub fn change(mut change: Value, known: &str) -> Value {
    if let Some(members) = change.as_object_mut() {
        members.insert("pushState".into(), json!(known));
    }
    change
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_rfc_8887() {
        let request =
            r#"{"@type":"Request","id":"R1","using":["a"],"methodCalls":[["Core/echo",{},"0"]]}"#;
        let Ok(SocketMessage::Request(read_as, id)) = read(request.as_bytes(), &["a"]) else {
            panic!()
        };
        assert_eq!((read_as.calls.len(), id.as_deref()), (1, Some("R1")));
        let enable =
            r#"{"@type":"WebSocketPushEnable","dataTypes":["Mailbox","Email"],"pushState":"aaa"}"#;
        let types = Some(vec!["Mailbox".to_owned(), "Email".to_owned()]);
        assert_eq!(
            read(enable.as_bytes(), &[]),
            Ok(SocketMessage::PushEnable(types, Some("aaa".into())))
        );
        let all = br#"{"@type":"WebSocketPushEnable","dataTypes":null}"#;
        assert_eq!(read(all, &[]), Ok(SocketMessage::PushEnable(None, None)));
        assert_eq!(
            read(br#"{"@type":"WebSocketPushDisable"}"#, &[]),
            Ok(SocketMessage::PushDisable)
        );
    }

    #[test]
    fn what_is_no_message_is_refused_under_its_id() {
        for (text, kind, id) in [
            ("{", "notJSON", Value::Null),
            ("[]", "notRequest", Value::Null),
            (r#"{"@type":"Request","id":"R1"}"#, "notRequest", json!("R1")),
            (
                r#"{"@type":"Request","id":7,"using":[],"methodCalls":[]}"#,
                "notRequest",
                Value::Null,
            ),
            (
                r#"{"@type":"Request","id":"R2","using":["b"],"methodCalls":[]}"#,
                "unknownCapability",
                json!("R2"),
            ),
            (r#"{"@type":"Other","id":"R3"}"#, "notRequest", json!("R3")),
            (r#"{"@type":"WebSocketPushEnable","dataTypes":[1]}"#, "notRequest", Value::Null),
            (r#"{"using":[],"methodCalls":[]}"#, "notRequest", Value::Null),
        ] {
            let refused = read(text.as_bytes(), &["a"]).unwrap_err();
            assert_eq!(refused["@type"], "RequestError", "{text}");
            assert_eq!(refused["type"], format!("urn:ietf:params:jmap:error:{kind}"), "{text}");
            assert_eq!(refused["requestId"], id, "{text}");
        }
    }

    #[test]
    fn answers_say_what_they_are() {
        let answer = response(json!({"methodResponses": []}), Some("R1"));
        assert_eq!(answer, json!({"@type": "Response", "requestId": "R1", "methodResponses": []}));
        assert!(response(json!({}), None).get("requestId").is_none());
        let told = change(json!({"@type": "StateChange", "changed": {}}), "s1");
        assert_eq!(told, json!({"@type": "StateChange", "changed": {}, "pushState": "s1"}));
    }
}
