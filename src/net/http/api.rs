//! `POST` of a request (RFC 8620 §3.1): read within its limits, run on a thread that may wait for
//! the disk.

use std::sync::Arc;

use axum::Extension;
use axum::body::{Body, HttpBody as _};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use serde_json::Value;

use super::blocking::blocking;
use super::body_pace::{BodyPace, PacedBody};
use super::concurrency::ConcurrencyPermit;
use super::connection::ResponseHold;
use super::in_flight::Bounds;
use super::problem::Problem;
use super::request_context::RequestContext;
use super::{Backend, answer};
use crate::jmap::{self, CAPABILITIES};
use crate::model::limits;
use crate::wire::jmap::{Request, RequestError, parse};

pub(super) async fn request(
    State(backend): State<Arc<Backend>>,
    Extension(who): Extension<RequestContext>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    match try_request(&backend, &who, &headers, body).await {
        Ok((value, counted)) => {
            let mut response = answer(StatusCode::OK, "application/json", &value);
            // An answer is held until the client has read it, and counts as under way so long.
            response.extensions_mut().insert(ResponseHold(Arc::new(counted)));
            response
        }
        Err(problem) => problem.into_response(),
    }
}

async fn try_request(
    backend: &Arc<Backend>,
    who: &RequestContext,
    headers: &HeaderMap,
    body: Body,
) -> Result<(Value, Option<ConcurrencyPermit>), Problem> {
    if !is_json(headers) {
        return Err(RequestError::NotJson("the content type is not application/json".into()).into());
    }
    let counted = (!who.caller.admin)
        .then(|| {
            backend.requests.enter(who.key()).ok_or_else(|| Problem::limit("maxConcurrentRequests"))
        })
        .transpose()?;
    let max_request = backend.settings.get().max_request;
    let most = if who.caller.admin { max_request } else { limits::MAX_REQUEST_BYTES };
    let announced =
        body.size_hint().upper().map(|octets| usize::try_from(octets).unwrap_or(usize::MAX));
    if announced.is_some_and(|octets| octets > most) {
        return Err(RequestError::Limit("maxSizeRequest").into());
    }
    let mut room = backend.held.room(who.key(), bounds(who));
    let mut paced = PacedBody::new(body, BodyPace::within(limits::REQUEST_TIMEOUT));
    let mut body = Vec::new();
    while let Some(piece) = paced.next().await? {
        if body.len() + piece.len() > most {
            return Err(RequestError::Limit("maxSizeRequest").into());
        }
        room.grow(piece.len())?;
        body.extend_from_slice(&piece);
    }
    let (value, (counted, _)) =
        run(backend, who, parse(&body, CAPABILITIES)?, (counted, room)).await?;
    Ok((value, counted))
}

/// What requests may hold. Other people's do not keep an administrator's out.
pub(super) fn bounds(who: &RequestContext) -> Bounds {
    let (all, each) =
        (limits::MAX_REQUEST_BYTES_IN_FLIGHT, limits::MAX_REQUEST_BYTES_IN_FLIGHT_PER_ACCOUNT);
    let (all, each) = if who.caller.admin { (2 * all, all) } else { (all, each) };
    Bounds { all, each, free: limits::FREE_REQUEST_BYTES }
}

/// Runs a request; the response as JSON. `held` is held until the request has ended, and comes
/// back.
pub(super) async fn run<H: Send + 'static>(
    backend: &Arc<Backend>,
    who: &RequestContext,
    request: Request,
    held: H,
) -> Result<(Value, H), Problem> {
    let context = backend.context(&backend.settings.get(), who);
    let ran = blocking(held, move || Ok::<_, Problem>(jmap::run(&context, request)?.json()));
    let (value, held) = ran.await.map_err(|error| {
        tracing::error!(%error, "a method failed");
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "a method failed")
    })?;
    Ok((value?, held))
}

/// `application/json`, with whatever parameters (RFC 8620 §3.1).
fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get("content-type").and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json")
}
