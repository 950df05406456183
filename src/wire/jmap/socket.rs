//! Reads and writes the messages of JMAP over WebSocket (RFC 8887).

use serde_json::{Value, json};

use super::error::RequestError;
use super::json::{self, JsonError};
use super::request::{Request, Response, from_value};

/// RFC 8887 §4.1.
pub const PROTOCOL: &str = "jmap";

#[derive(Debug, Clone, PartialEq)]
pub enum SocketMessage {
    /// A request and its id (§4.3.2).
    Request(Request, Option<String>),
    /// The types to report (`None`: all), and the state that the client knows (`None`: the present
    /// one; §4.3.5.2).
    PushEnable(Option<Vec<String>>, Option<String>),
    PushDisable,
}

/// Reads a message of the client: a request, or the beginning or end of pushes.
///
/// # Errors
/// The `RequestError` object (§4.3.4), which is the response.
pub fn read(text: &[u8], supported: &[&str]) -> Result<SocketMessage, Value> {
    let message = json::read(text).map_err(|error| match error {
        JsonError::NotJson(detail) => refusal(&RequestError::NotJson(detail).problem(), None),
        JsonError::TooDeep | JsonError::TooManyValues => {
            refusal(&RequestError::NotRequest(error.to_string()).problem(), None)
        }
    })?;
    let id = message.get("id").and_then(Value::as_str).map(str::to_owned);
    let invalid =
        |detail: &str| refusal(&RequestError::NotRequest(detail.into()).problem(), id.as_deref());
    match message.get("@type").and_then(Value::as_str) {
        Some("Request") if message.get("id").is_some_and(|id| !id.is_string()) => {
            Err(invalid("`id` must be a string"))
        }
        Some("Request") => match from_value(message, supported) {
            Ok(request) => Ok(SocketMessage::Request(request, id)),
            Err(error) => Err(refusal(&error.problem(), id.as_deref())),
        },
        Some("WebSocketPushEnable") => {
            let types = match message.get("dataTypes") {
                None | Some(Value::Null) => None,
                Some(types) => {
                    let types = types.as_array().filter(|types| types.len() <= MAX_TYPES);
                    let names = types.and_then(|types| {
                        types.iter().map(|name| name.as_str().map(str::to_owned)).collect()
                    });
                    Some(names.ok_or_else(|| {
                        invalid(&format!(
                            "`dataTypes` must be an array of at most {MAX_TYPES} strings, or null"
                        ))
                    })?)
                }
            };
            let state = match message.get("pushState") {
                None | Some(Value::Null) => None,
                Some(Value::String(state)) => Some(state.clone()),
                Some(_) => return Err(invalid("`pushState` must be a string")),
            };
            Ok(SocketMessage::PushEnable(types, state))
        }
        Some("WebSocketPushDisable") => Ok(SocketMessage::PushDisable),
        _ => Err(invalid("`@type` is unknown")),
    }
}

/// The most names in `dataTypes`.
const MAX_TYPES: usize = 64;

/// Writes a response as a message (§4.3.3).
#[must_use]
pub fn response(response: &Response, id: Option<&str>) -> Vec<u8> {
    response.write_with(b"\"@type\":\"Response\",", id)
}

/// Turns problem details into a refusal (§4.3.4). `id` is that of the refused message, if it has
/// one.
#[must_use]
pub fn refusal(problem: &Value, id: Option<&str>) -> Value {
    let mut refusal = problem.clone();
    if let Some(members) = refusal.as_object_mut() {
        members.insert("@type".into(), "RequestError".into());
        members.insert("requestId".into(), id.map_or(Value::Null, Value::from));
    }
    refusal
}

/// Turns a `StateChange` into a message (§4.3.5.1). `state` becomes its `pushState`: the state that
/// a client knows after this message.
#[must_use]
pub fn change(mut change: Value, state: &str) -> Value {
    if let Some(members) = change.as_object_mut() {
        members.insert("pushState".into(), json!(state));
    }
    change
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::jmap::session::SessionState;

    #[test]
    fn reads_messages_of_rfc_8887() {
        let text =
            r#"{"@type":"Request","id":"R1","using":["a"],"methodCalls":[["Core/echo",{},"0"]]}"#;
        let Ok(SocketMessage::Request(request, id)) = read(text.as_bytes(), &["a"]) else {
            panic!()
        };
        assert_eq!((request.calls.len(), id.as_deref()), (1, Some("R1")));
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
    fn invalid_message_is_refused_with_its_id() {
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
    fn answers_have_type_and_request_id() {
        let mut answer =
            Response { responses: Vec::new(), created_ids: None, session_state: SessionState(0) };
        let state = answer.session_state.to_string();
        let read =
            |answer: &Response, id| serde_json::from_slice::<Value>(&response(answer, id)).unwrap();
        let mut expected = json!({
            "@type": "Response", "requestId": "R1", "methodResponses": [], "sessionState": state,
        });
        assert_eq!(read(&answer, Some("R1")), expected);
        answer.created_ids = Some(serde_json::Map::new());
        expected["createdIds"] = json!({});
        assert_eq!(read(&answer, Some("R1")), expected);
        assert!(read(&answer, None).get("requestId").is_none());
        let pushed = change(json!({"@type": "StateChange", "changed": {}}), "s1");
        assert_eq!(pushed, json!({"@type": "StateChange", "changed": {}, "pushState": "s1"}));
    }
}
