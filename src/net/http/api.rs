//! Answers JMAP requests (RFC 8620 §3.1).

use std::sync::Arc;

use axum::Extension;
use axum::body::{Body, HttpBody as _};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};

use super::Backend;
use super::body_pace::PacedBody;
use super::connection::ResponseHold;
use super::problem::Problem;
use super::request_context::RequestContext;
use crate::jmap::{self, CAPABILITIES};
use crate::model::limits;
use crate::net::concurrency::ConcurrencyPermit;
use crate::wire::jmap::{Request, RequestError, Response as MethodResponses, parse};

/// Answers a JMAP request.
pub(super) async fn request(
    State(backend): State<Arc<Backend>>,
    Extension(context): Extension<RequestContext>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    match try_request(&backend, &context, &headers, body).await {
        Ok((json, permit)) => {
            let mut response =
                (StatusCode::OK, [("content-type", "application/json")], json).into_response();
            // The request counts as concurrent until the client has read the response.
            response.extensions_mut().insert(ResponseHold(Arc::new(permit)));
            response
        }
        Err(problem) => problem.into_response(),
    }
}

/// Returns the response, and the permit by which the request counts among the caller's concurrent
/// requests. An administrator's requests are not counted, and have no permit.
async fn try_request(
    backend: &Arc<Backend>,
    context: &RequestContext,
    headers: &HeaderMap,
    body: Body,
) -> Result<(Vec<u8>, Option<ConcurrencyPermit>), Problem> {
    if !is_json(headers) {
        return Err(RequestError::NotJson("the content type is not application/json".into()).into());
    }
    let permit = (!context.caller.admin)
        .then(|| {
            backend
                .requests
                .enter(context.key())
                .ok_or_else(|| Problem::limit("maxConcurrentRequests"))
        })
        .transpose()?;
    let max_request = backend.settings.get().max_request;
    let max = if context.caller.admin { max_request } else { limits::MAX_REQUEST_BYTES };
    let announced =
        body.size_hint().upper().map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
    if announced.is_some_and(|bytes| bytes > max) {
        return Err(RequestError::Limit("maxSizeRequest").into());
    }
    let mut reservation = backend.request_bytes.reservation(context);
    let mut paced = PacedBody::of_request(body, limits::REQUEST_TIMEOUT, &backend.stop);
    let mut body = Vec::new();
    while let Some(chunk) = paced.next().await? {
        if body.len() + chunk.len() > max {
            return Err(RequestError::Limit("maxSizeRequest").into());
        }
        reservation.grow(chunk.len())?;
        body.extend_from_slice(&chunk);
    }
    let request = parse(&body, CAPABILITIES)?;
    let held = (permit, reservation);
    let (json, (permit, _)) = run(backend, context, request, held, MethodResponses::write).await?;
    Ok((json, permit))
}

/// Runs the methods of a request. Returns the response as `write` writes it, with `held`, which is
/// not dropped before the methods have ended.
///
/// # Errors
/// The request as a whole is refused, or a method panicked.
pub(super) async fn run<H: Send + 'static>(
    backend: &Arc<Backend>,
    context: &RequestContext,
    request: Request,
    held: H,
    write: impl FnOnce(&MethodResponses) -> Vec<u8> + Send + 'static,
) -> Result<(Vec<u8>, H), Problem> {
    let methods = backend.context(&backend.settings.get(), context);
    let work = move || Ok::<_, Problem>(write(&jmap::run(&methods, request)?));
    let (json, held) = backend.turns.run(held, work).await.map_err(|error| {
        tracing::error!(%error, "a method failed");
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "a method failed")
    })?;
    Ok((json?, held))
}

/// Whether the content type is that of a request (RFC 8620 §3.1).
fn is_json(headers: &HeaderMap) -> bool {
    let value =
        headers.get("content-type").and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json")
}
