//! Answers uploads (RFC 8620 §6.1).
//!
//! - The id of an upload is its hash, so uploading the same bytes again returns the same blob.
//! - An upload is collected in a file, or in memory if it is small. The bytes that a caller uploads
//!   at a time are bounded.
//! - Memory for storing an upload is taken only when it is complete, so a slow client does not
//!   delay others.

use std::io;
use std::sync::Arc;

use axum::Extension;
use axum::body::{Body, HttpBody as _};
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use serde_json::{Value, json};

use super::body_pace::PacedBody;
use super::in_flight::{Bounds, Reservation};
use super::problem::Problem;
use super::request_context::RequestContext;
use super::{Backend, json_response};
use crate::jmap::Account;
use crate::model::{AccountId, limits};
use crate::net::collect::BodyBuffer;
use crate::store::Error;
use crate::wire::http::media_type;
use crate::wire::jmap::MethodError;

/// The limit of RFC 8620 §2 that a refused upload names: a caller has too many concurrent uploads,
/// or too many bytes of them.
const UPLOAD_LIMIT_NAME: &str = "maxConcurrentUpload";

/// Answers an upload.
pub(super) async fn upload(
    State(backend): State<Arc<Backend>>,
    Extension(context): Extension<RequestContext>,
    Path(account): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    match try_upload(&backend, context, &account, &headers, body).await {
        // RFC 8620 §6.1 names no status; the client aerc takes any status but 200 for a failure.
        Ok(value) => json_response(StatusCode::OK, "application/json", &value),
        Err(problem) => problem.into_response(),
    }
}

/// Finds an account that the caller may manage, or that has a mailbox shared with the caller.
///
/// # Errors
/// 404 for any other account, whether it exists or not; those of reading.
pub(super) fn find_account(
    backend: &Backend,
    context: &RequestContext,
    text: &str,
) -> Result<Account, Problem> {
    let missing = || Problem::new(StatusCode::NOT_FOUND, "no such account");
    let id = text.parse::<AccountId>().map_err(|_| missing())?;
    let methods = backend.context(&backend.settings.get(), context);
    methods.accessible_account(id).map_err(|error| match error {
        MethodError::AccountNotFound => missing(),
        error => error.into(),
    })
}

async fn try_upload(
    backend: &Arc<Backend>,
    context: RequestContext,
    account: &str,
    headers: &HeaderMap,
    body: Body,
) -> Result<Value, Problem> {
    let bad_request = |detail: &str| Problem::new(StatusCode::BAD_REQUEST, detail);
    let account = find_account(backend, &context, account)?.id;
    if let Some(field) = headers.get("x-jmap-accountid")
        && field.to_str().ok().and_then(|text| text.trim().parse::<AccountId>().ok())
            != Some(account)
    {
        return Err(bad_request("X-JMAP-AccountId does not name the account of the URL"));
    }
    let content_type = match headers.get("content-type") {
        None => "application/octet-stream",
        Some(value) => value
            .to_str()
            .ok()
            .and_then(media_type)
            .ok_or_else(|| bad_request("Content-Type is not a media type"))?,
    };
    if is_form(content_type, headers) {
        let detail = "forms are not accepted: send the bytes themselves, with their media type";
        return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail));
    }
    let methods = backend.context(&backend.settings.get(), &context);
    if methods.uploads.refuses(content_type) {
        let detail = format!("uploads of the media type {content_type} are not accepted here");
        return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail));
    }
    let permit =
        backend.uploads.enter(context.key()).ok_or_else(|| Problem::limit(UPLOAD_LIMIT_NAME))?;
    let max = usize::try_from(methods.uploads.max).unwrap_or(usize::MAX);
    let too_large = || Problem::too_large("maxSizeUpload");
    if body.size_hint().lower() > methods.uploads.max {
        return Err(too_large());
    }
    let begun = methods.begin_upload(account);
    begun.map_err(|wait| {
        Problem::new(StatusCode::TOO_MANY_REQUESTS, wait.to_string()).with_retry_after(wait.0)
    })?;
    let paced = PacedBody::of_request(body, limits::UPLOAD_TIMEOUT, &backend.stop);
    let (collected, reservation) =
        collect(backend, &context, paced, max).await?.ok_or_else(too_large)?;
    let size = collected.size();
    methods.count_uploaded_bytes(account, size);
    let stored_type = content_type.to_owned();
    let stored =
        store(backend, collected, move |bytes| methods.keep_upload(account, &bytes, &stored_type))
            .await?;
    drop((reservation, permit));
    let id = stored.map_err(|error| match error {
        Error::Quota => too_large(),
        error => error.into(),
    })?;
    Ok(json!({
        "accountId": account.to_string(),
        "blobId": id.to_string(),
        "type": content_type,
        "size": size,
    }))
}

/// Collects a body, and reserves its bytes as they arrive. Returns `None` if it is larger than
/// `max`.
///
/// # Errors
/// The client sent the body too slowly or not whole, a bound on bytes would be exceeded, or the
/// file cannot be written.
pub(super) async fn collect(
    backend: &Backend,
    context: &RequestContext,
    mut body: PacedBody,
    max: usize,
) -> Result<Option<(BodyBuffer, Reservation)>, Problem> {
    let settings = backend.settings.get();
    let bounds = bounds([
        backend.http.get().uploads.max,
        settings.max_message,
        settings.filter.max_script_bytes as u64,
    ]);
    let mut reservation = backend.upload_bytes.reservation(context.key(), bounds);
    let mut collected = BodyBuffer::new(settings.body_in_memory, &settings.spill_dir);
    while let Some(chunk) = body.next().await? {
        if collected.size() + chunk.len() > max {
            return Ok(None);
        }
        reservation.grow(chunk.len()).map_err(|error| error.problem(UPLOAD_LIMIT_NAME))?;
        collected.add(&chunk).map_err(|error| cannot_collect(&error))?;
    }
    Ok(Some((collected, reservation)))
}

/// 507 if the disk is full or a quota is exceeded, else 500.
fn cannot_collect(error: &io::Error) -> Problem {
    tracing::warn!(%error, "cannot collect an upload");
    Error::of_write("the file of an upload", error).into()
}

/// Returns the bounds on the bytes of all kinds of uploads together, whose largest sizes are given:
/// room for as many of the largest size as an account may have at once, or the default if that is
/// more.
fn bounds(largest: [u64; 3]) -> Bounds {
    let per_account = largest
        .into_iter()
        .fold(0, u64::max)
        .saturating_mul(limits::MAX_CONCURRENT_UPLOADS as u64)
        .max(limits::MAX_INCOMING_UPLOAD_BYTES_PER_ACCOUNT);
    Bounds { all: per_account.saturating_mul(limits::MAX_FULL_UPLOADERS), per_account, free: 0 }
}

/// Calls `write` with the body on a thread that may wait, once there is memory for the body and the
/// copies that storing makes.
///
/// # Errors
/// There was no memory in time, the collected body cannot be read, or `write` panicked.
pub(super) async fn store<T: Send + 'static>(
    backend: &Backend,
    mut collected: BodyBuffer,
    write: impl FnOnce(Vec<u8>) -> T + Send + 'static,
) -> Result<T, Problem> {
    let bytes = collected.size().saturating_mul(1 + limits::FILING_COPIES);
    let memory = backend.storing_memory.acquire(bytes).await;
    let memory = memory
        .ok_or_else(|| Problem::busy("too many messages are being stored: try again later"))?;
    let written = tokio::task::spawn_blocking(move || {
        let result = collected.finish().map(write);
        drop(memory);
        result
    });
    let failed = |error: &dyn std::fmt::Display| {
        tracing::error!(%error, "an upload failed");
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "the upload failed")
    };
    written.await.map_err(|error| failed(&error))?.map_err(|error| failed(&error))
}

/// Whether the body may be a form of a web page, which a browser sends without a CORS preflight and
/// with the login that it remembers. `application/x-www-form-urlencoded` and `text/plain` count
/// only if the client accepts HTML as the response, as a browser does.
fn is_form(content_type: &str, headers: &HeaderMap) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let accepted = headers.get_all("accept").iter().filter_map(|field| field.to_str().ok());
    match essence.as_str() {
        "multipart/form-data" => true,
        "application/x-www-form-urlencoded" | "text/plain" => {
            accepted.into_iter().any(|types| types.contains("text/html"))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jmap::{Caller, UploadSettings};
    use crate::net::http::auth::tests::backend;
    use crate::net::http::body_pace::BodyPace;
    use crate::net::http::{ControlSettings, HttpSettings};

    /// Where uploads may be larger than messages, imports have the same room as uploads.
    #[tokio::test]
    async fn import_is_not_refused_while_large_uploads_are_within_their_bounds() {
        let backend = tokio::task::spawn_blocking(backend).await.unwrap();
        let uploads = Arc::new(UploadSettings { max: 1 << 30, ..UploadSettings::default() });
        backend.http.set(HttpSettings { uploads, ..HttpSettings::default() });
        let settings = (*backend.settings.get()).clone();
        backend.settings.set(ControlSettings { body_in_memory: 1024, ..settings });
        let context = |user: &str| {
            let caller = Caller { user: Some(user.into()), ..Caller::default() };
            RequestContext { caller, base: "".into() }
        };
        let body = |size| {
            let body = Body::from(vec![b'x'; size]);
            PacedBody::new(body, BodyPace::within(limits::UPLOAD_TIMEOUT))
        };
        let mut uploads = Vec::new();
        for user in ["ann", "bob", "eve"] {
            let upload = collect(&backend, &context(user), body(1), 1 << 30).await.unwrap();
            let (_, mut reservation) = upload.unwrap();
            reservation.grow(800 << 20).unwrap();
            uploads.push(reservation);
        }
        for user in ["ann", "root"] {
            let import = collect(&backend, &context(user), body(10), 50 << 20).await;
            assert!(import.is_ok_and(|import| import.is_some()), "{user}");
        }
    }

    #[test]
    fn only_a_full_disk_or_quota_is_insufficient_storage() {
        for (kind, status) in [
            (io::ErrorKind::StorageFull, StatusCode::INSUFFICIENT_STORAGE),
            (io::ErrorKind::QuotaExceeded, StatusCode::INSUFFICIENT_STORAGE),
            (io::ErrorKind::NotFound, StatusCode::INTERNAL_SERVER_ERROR),
            (io::ErrorKind::PermissionDenied, StatusCode::INTERNAL_SERVER_ERROR),
            (io::ErrorKind::Other, StatusCode::INTERNAL_SERVER_ERROR),
        ] {
            assert_eq!(cannot_collect(&kind.into()).status(), status, "{kind}");
        }
    }
}
