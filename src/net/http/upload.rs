//! `POST` of octets (RFC 8620 §6.1). They are kept as an upload: their id is their hash, so the
//! same octets again are the same blob.
//!
//! While they come they are in a file, of which each account has a share; memory is taken when they
//! are all there, for no longer than the store needs. So a client that sends slowly keeps nobody
//! waiting; one that sends next to nothing is left.
//!
//! Refused with: 400 (`X-JMAP-AccountId` names another account or none, or the type is none), 404
//! (no such account), 413 (larger than maxSizeUpload), 415 (a type that the site refuses, or a
//! form), 408 (too slow), 429 with Retry-After (maxConcurrentUpload, or too many uploads in a
//! minute).

use std::sync::Arc;

use axum::Extension;
use axum::body::{Body, HttpBody as _};
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use serde_json::{Value, json};

use super::body_pace::{BodyPace, PacedBody};
use super::in_flight::{Bounds, Reservation};
use super::problem::Problem;
use super::request_context::RequestContext;
use super::{Backend, answer};
use crate::jmap::Account;
use crate::model::{AccountId, limits};
use crate::net::collect::BodyBuffer;
use crate::store::Error;
use crate::wire::http::media_type;
use crate::wire::jmap::MethodError;

/// The limit of RFC 8620 §2 for uploads under way: their number, and what they hold.
const UPLOAD_LIMIT_NAME: &str = "maxConcurrentUpload";

pub(super) async fn upload(
    State(backend): State<Arc<Backend>>,
    Extension(who): Extension<RequestContext>,
    Path(account): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    match try_upload(&backend, who, &account, &headers, body).await {
        // RFC 8620 §6.1 names no status; aerc takes any but this one for a failure.
        Ok(value) => answer(StatusCode::OK, "application/json", &value),
        Err(problem) => problem.into_response(),
    }
}

/// The account that a path names: the user's own, or one in which something is shared with the
/// user.
///
/// # Errors
/// 404 where the user may not know of it.
pub(super) fn account(
    backend: &Backend,
    who: &RequestContext,
    named: &str,
) -> Result<Account, Problem> {
    let missing = || Problem::new(StatusCode::NOT_FOUND, "no such account");
    let id = named.parse::<AccountId>().map_err(|_| missing())?;
    let context = backend.context(&backend.settings.get(), who);
    context.accessible_account(id).map_err(|error| match error {
        MethodError::AccountNotFound => missing(),
        error => error.into(),
    })
}

async fn try_upload(
    backend: &Arc<Backend>,
    who: RequestContext,
    named: &str,
    headers: &HeaderMap,
    body: Body,
) -> Result<Value, Problem> {
    let bad = |detail: &str| Problem::new(StatusCode::BAD_REQUEST, detail);
    let account = account(backend, &who, named)?.id;
    if let Some(field) = headers.get("x-jmap-accountid")
        && field.to_str().ok().and_then(|text| text.trim().parse::<AccountId>().ok())
            != Some(account)
    {
        return Err(bad("X-JMAP-AccountId names no account, or another than the URL"));
    }
    let kind = match headers.get("content-type") {
        None => "application/octet-stream",
        Some(kind) => kind
            .to_str()
            .ok()
            .and_then(media_type)
            .ok_or_else(|| bad("Content-Type is no media type"))?,
    };
    if is_form(kind, headers) {
        let detail = "a form is not taken: send the bytes themselves, under their own type";
        return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail));
    }
    let context = backend.context(&backend.settings.get(), &who);
    if context.uploads.refuses(kind) {
        let detail = format!("{kind} is not taken here");
        return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail));
    }
    let counted =
        backend.uploads.enter(who.key()).ok_or_else(|| Problem::limit(UPLOAD_LIMIT_NAME))?;
    let most = usize::try_from(context.uploads.max).unwrap_or(usize::MAX);
    let too_large = || Problem::too_large("maxSizeUpload");
    if body.size_hint().lower() > context.uploads.max {
        return Err(too_large());
    }
    let begun = context.begin_upload(account);
    begun.map_err(|wait| {
        Problem::new(StatusCode::TOO_MANY_REQUESTS, wait.to_string()).after(wait.0)
    })?;
    let paced = PacedBody::new(body, BodyPace::within(limits::UPLOAD_TIMEOUT));
    let (collected, room) = collect(backend, &who, paced, most).await?.ok_or_else(too_large)?;
    let size = collected.size();
    context.count_uploaded_bytes(account, size);
    let kept_as = kind.to_owned();
    let kept =
        store(backend, collected, move |octets| context.keep_upload(account, &octets, &kept_as))
            .await?;
    drop((room, counted));
    let id = kept.map_err(|error| match error {
        Error::Quota => too_large(),
        error => error.into(),
    })?;
    Ok(
        json!({"accountId": account.to_string(), "blobId": id.to_string(), "type": kind, "size": size}),
    )
}

/// Collects a body as it comes, and takes room for it meanwhile; mostly it goes into a file. `None`
/// where it is larger than `most`.
pub(super) async fn collect(
    backend: &Backend,
    who: &RequestContext,
    mut body: PacedBody,
    most: usize,
) -> Result<Option<(BodyBuffer, Reservation)>, Problem> {
    let settings = backend.settings.get();
    let each = (most as u64)
        .saturating_mul(limits::MAX_CONCURRENT_UPLOADS as u64)
        .max(limits::MAX_INCOMING_UPLOAD_BYTES_PER_ACCOUNT);
    let bounds = Bounds { all: each.saturating_mul(limits::MAX_FULL_UPLOADERS), each, free: 0 };
    let mut room = backend.coming.room(who.key(), bounds);
    let mut collected = BodyBuffer::new(settings.body_in_memory, &settings.spill_dir);
    while let Some(piece) = body.next().await? {
        if collected.size() + piece.len() > most {
            return Ok(None);
        }
        room.grow(piece.len()).map_err(|full| full.problem(UPLOAD_LIMIT_NAME))?;
        collected.add(&piece).map_err(|error| {
            tracing::warn!(%error, "cannot collect an upload");
            Problem::new(
                StatusCode::INSUFFICIENT_STORAGE,
                "no space for an upload of this size: try again later",
            )
        })?;
    }
    Ok(Some((collected, room)))
}

/// Stores what came in whole, as soon as there is memory for it and for the copies that storing
/// makes.
pub(super) async fn store<T: Send + 'static>(
    backend: &Backend,
    mut collected: BodyBuffer,
    kept: impl FnOnce(Vec<u8>) -> T + Send + 'static,
) -> Result<T, Problem> {
    let room =
        backend.storing.take(collected.size().saturating_mul(1 + limits::FILING_COPIES)).await;
    let room = room.ok_or_else(|| Problem::busy("too much at once: try again"))?;
    let done = tokio::task::spawn_blocking(move || {
        let done = collected.finish().map(kept);
        drop(room);
        done
    });
    let failed = |error: &dyn std::fmt::Display| {
        tracing::error!(%error, "an upload failed");
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "the upload failed")
    };
    done.await.map_err(|error| failed(&error))?.map_err(|error| failed(&error))
}

/// Whether a form of a web page is sent: it goes out without asking first, with the login that the
/// browser remembers.
///
/// Nobody means to upload `multipart/form-data`. The other types that forms have are also used by
/// clients, which do not wish to be shown a page.
fn is_form(kind: &str, headers: &HeaderMap) -> bool {
    let essence = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let accepted = headers.get_all("accept").iter().filter_map(|field| field.to_str().ok());
    match essence.as_str() {
        "multipart/form-data" => true,
        "application/x-www-form-urlencoded" | "text/plain" => {
            accepted.into_iter().any(|kinds| kinds.contains("text/html"))
        }
        _ => false,
    }
}
