//! `GET` of the session (RFC 8620 §2). The well-known place (§2.2) gives the session itself and
//! leads nowhere else: scripts of web pages may not follow a redirection when they had to ask
//! first.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};

use super::problem::Problem;
use super::request_context::RequestContext;
use super::{Backend, answer};
use crate::jmap;

pub(super) async fn get(
    State(backend): State<Arc<Backend>>,
    Extension(who): Extension<RequestContext>,
) -> Response {
    let context = backend.context(&backend.settings.get(), &who);
    match jmap::session(&context) {
        Ok(session) => {
            let mut response = answer(StatusCode::OK, "application/json", &session.json());
            let fresh = axum::http::HeaderValue::from_static("no-cache, no-store, must-revalidate");
            response.headers_mut().insert("cache-control", fresh);
            response
        }
        Err(error) => Problem::from(error).into_response(),
    }
}
