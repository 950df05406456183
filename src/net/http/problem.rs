//! Responses for refused requests: problem details (RFC 7807), with a type of RFC 8620 §3.6.1 if
//! there is one.

use std::time::Duration;

use axum::extract::Request;
use axum::http::header::HeaderName;
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::body_pace::BodyError;
use super::json_response;
use crate::store::Error;
use crate::wire::jmap::{MethodError, RequestError};

/// A refusal with its problem details.
#[derive(Debug)]
pub(super) struct Problem {
    status: StatusCode,
    body: Value,
    retry_after: Option<Duration>,
    /// Further header fields.
    fields: Vec<(HeaderName, &'static str)>,
}

impl Problem {
    /// Makes problem details without a type of their own.
    pub(super) fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        let title = status.canonical_reason().unwrap_or_default();
        let body = json!({
            "type": "about:blank",
            "title": title,
            "status": status.as_u16(),
            "detail": detail.into(),
        });
        Self { status, body, retry_after: None, fields: Vec::new() }
    }

    /// 429: a limit of RFC 8620 §2 is exceeded for now.
    pub(super) fn limit(name: &'static str) -> Self {
        let mut body = RequestError::Limit(name).problem();
        body["status"] = StatusCode::TOO_MANY_REQUESTS.as_u16().into();
        Self {
            status: StatusCode::TOO_MANY_REQUESTS,
            body,
            retry_after: Some(Duration::from_secs(1)),
            fields: Vec::new(),
        }
    }

    /// 413: a limit of RFC 8620 §2 would be exceeded at any time.
    pub(super) fn too_large(name: &'static str) -> Self {
        let mut body = RequestError::Limit(name).problem();
        body["status"] = StatusCode::PAYLOAD_TOO_LARGE.as_u16().into();
        Self { status: StatusCode::PAYLOAD_TOO_LARGE, body, retry_after: None, fields: Vec::new() }
    }

    /// Returns the problem details.
    pub(super) fn body(&self) -> &Value {
        &self.body
    }

    pub(super) fn with_retry_after(self, wait: Duration) -> Self {
        Self { retry_after: Some(wait), ..self }
    }

    /// Adds a header field to the response.
    pub(super) fn with_field(mut self, name: HeaderName, value: &'static str) -> Self {
        self.fields.push((name, value));
        self
    }

    /// 503 with `Retry-After`.
    pub(super) fn busy(detail: &str) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, detail).with_retry_after(Duration::from_secs(5))
    }

    pub(super) fn status(&self) -> StatusCode {
        self.status
    }

    pub(super) fn detail(&self) -> &str {
        self.body.get("detail").and_then(Value::as_str).unwrap_or_default()
    }
}

impl From<BodyError> for Problem {
    fn from(error: BodyError) -> Self {
        match error {
            BodyError::Slow => {
                Self::new(StatusCode::REQUEST_TIMEOUT, "the request was sent too slowly")
            }
            BodyError::Broken => Self::new(StatusCode::BAD_REQUEST, "the request is incomplete"),
        }
    }
}

impl From<RequestError> for Problem {
    fn from(error: RequestError) -> Self {
        Self {
            status: StatusCode::BAD_REQUEST,
            body: error.problem(),
            retry_after: None,
            fields: Vec::new(),
        }
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let status = match &error {
            Error::NotFound(_) => StatusCode::NOT_FOUND,
            Error::Conflict(_) | Error::Mailbox { .. } | Error::Script(_) => StatusCode::CONFLICT,
            Error::Quota | Error::Full => StatusCode::INSUFFICIENT_STORAGE,
            Error::QueueFull(_)
            | Error::Overtaken(_)
            | Error::Away(_)
            | Error::Rebuilding(_)
            | Error::Stopped
            | Error::Poisoned(_) => {
                return Self::busy(&error.to_string());
            }
            Error::Corrupt { .. } | Error::Open(_) | Error::Io(_) => {
                StatusCode::INTERNAL_SERVER_ERROR
            }
        };
        Self::new(status, error.to_string())
    }
}

impl From<MethodError> for Problem {
    fn from(error: MethodError) -> Self {
        match error {
            MethodError::Forbidden(detail) => Self::new(StatusCode::FORBIDDEN, detail),
            MethodError::AccountNotFound => Self::new(StatusCode::NOT_FOUND, "no such account"),
            MethodError::ServerUnavailable(detail) => Self::busy(&detail),
            other => Self::new(StatusCode::INTERNAL_SERVER_ERROR, other.description()),
        }
    }
}

/// Turns error responses of libraries, such as the router, into problem details. Their other
/// fields are kept.
pub(super) async fn add_problem_details(request: Request, next: Next) -> Response {
    let response = next.run(request).await;
    let status = response.status();
    let is_problem =
        response.headers().get("content-type").is_some_and(|value| value == PROBLEM_MEDIA_TYPE);
    if is_problem || !(status.is_client_error() || status.is_server_error()) {
        return response;
    }
    let detail = match status {
        StatusCode::NOT_FOUND => "there is nothing at this path",
        StatusCode::METHOD_NOT_ALLOWED => "this path does not support this method",
        _ => "the request cannot be read",
    };
    let mut converted = Problem::new(status, detail).into_response();
    for (name, value) in response.headers() {
        if !["content-type", "content-length"].contains(&name.as_str()) {
            converted.headers_mut().append(name, value.clone());
        }
    }
    converted
}

const PROBLEM_MEDIA_TYPE: &str = "application/problem+json";

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = json_response(self.status, PROBLEM_MEDIA_TYPE, &self.body);
        if let Some(wait) = self.retry_after {
            let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
            response.headers_mut().insert("retry-after", HeaderValue::from(seconds.max(1)));
        }
        for (name, value) in self.fields {
            response.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn detail_of_a_failed_method_is_its_description() {
        let problem = |error: MethodError| {
            let problem = Problem::from(error);
            (problem.status().as_u16(), problem.detail().to_owned())
        };
        assert_eq!(problem(MethodError::ServerFail("a row".into())), (500, "a row".into()));
        assert_eq!(problem(MethodError::ServerUnavailable("later".into())), (503, "later".into()));
        assert_eq!(problem(MethodError::StateMismatch), (500, "stateMismatch".into()));
    }
}
