//! Answers requests for the session (RFC 8620 §2).
//!
//! The well-known URL (§2.2) returns the session itself instead of a redirect: older browsers
//! refuse a redirect after a CORS preflight, and some clients drop the Authorization field on the
//! way.

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};

use super::connection::ResponseHold;
use super::problem::Problem;
use super::request_context::RequestContext;
use super::{Backend, json_response};
use crate::jmap;

/// Returns the session as JSON, which may not be cached. The request counts among the caller's
/// concurrent requests for the session until the client has read the response, except an
/// administrator's.
pub(super) async fn get(
    State(backend): State<Arc<Backend>>,
    Extension(context): Extension<RequestContext>,
) -> Response {
    let permit = match context.caller.admin {
        true => None,
        false => match backend.sessions.enter(context.key()) {
            Some(permit) => Some(permit),
            None => return too_many().into_response(),
        },
    };
    let context = backend.context(&backend.settings.get(), &context);
    match jmap::session(&context) {
        Ok(session) => {
            let mut response = json_response(StatusCode::OK, "application/json", &session.json());
            let no_cache =
                axum::http::HeaderValue::from_static("no-cache, no-store, must-revalidate");
            response.headers_mut().insert("cache-control", no_cache);
            response.extensions_mut().insert(ResponseHold(Arc::new(permit)));
            response
        }
        Err(error) => Problem::from(error).into_response(),
    }
}

fn too_many() -> Problem {
    Problem::new(StatusCode::TOO_MANY_REQUESTS, "too many requests for the session at once")
        .with_retry_after(Duration::from_secs(1))
}
