//! Answers downloads of blobs (RFC 8620 §6.2), whole or a range (RFC 9110 §14).
//!
//! - A blob is read in chunks as the client takes them. To find a part of a message, the message
//!   may have to be read whole and parsed first.
//! - A blob never changes, so clients may cache it for a year.
//! - A browser must neither guess the media type of a blob nor run its contents.

use std::ops::Range;
use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::header::{HeaderName, HeaderValue};
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};

use super::Backend;
use super::blocking::blocking;
use super::problem::Problem;
use super::request_context::RequestContext;
use super::streamed_body::{BodySender, streamed_body};
use super::upload::find_account;
use crate::jmap::{Blob, BlobReader};
use crate::model::BlobId;
use crate::net::concurrency::ConcurrencyPermit;
use crate::store::Store;
use crate::wire::http::{RangeSelection, attachment, media_type, range, same_tag};
use crate::wire::jmap::MethodError;
use crate::wire::query;

pub(super) async fn download(
    State(backend): State<Arc<Backend>>,
    Extension(request_context): Extension<RequestContext>,
    method: Method,
    uri: Uri,
    Path(path): Path<(String, String, String)>,
    headers: HeaderMap,
) -> Response {
    match try_download(&backend, &request_context, &method, &uri, &path, &headers).await {
        Ok(response) => response,
        Err(problem) => problem.into_response(),
    }
}

pub(super) async fn download_unnamed(
    backend: State<Arc<Backend>>,
    request_context: Extension<RequestContext>,
    method: Method,
    uri: Uri,
    Path((account, blob)): Path<(String, String)>,
    headers: HeaderMap,
) -> Response {
    download(backend, request_context, method, uri, Path((account, blob, String::new())), headers)
        .await
}

async fn try_download(
    backend: &Arc<Backend>,
    request_context: &RequestContext,
    method: &Method,
    uri: &Uri,
    (account, blob, name): &(String, String, String),
    headers: &HeaderMap,
) -> Result<Response, Problem> {
    let bad_request = |detail: &str| Problem::new(StatusCode::BAD_REQUEST, detail);
    let missing = || Problem::new(StatusCode::NOT_FOUND, "no such blob");
    let account = find_account(backend, request_context, account)?;
    let id = blob.parse::<BlobId>().map_err(|_| missing())?;
    let arguments = query::read(uri.query().unwrap_or_default())
        .map_err(|_| bad_request("the query of the URL is malformed"))?;
    let accept =
        arguments.iter().find(|(name, _)| name == "accept").map(|(_, value)| value.as_str());
    let accept = accept.filter(|value| !value.is_empty());
    let accept = accept
        .map(|value| media_type(value).ok_or_else(|| bad_request("accept: not a media type")))
        .transpose()?;
    let permit = backend.downloads.enter(request_context.key());
    let permit = permit
        .ok_or_else(|| Problem::new(StatusCode::TOO_MANY_REQUESTS, "too many downloads at once"))?;

    let context = backend.context(&backend.settings.get(), request_context);
    // If a message must be parsed to find a part, its memory is taken from `outgoing_memory`.
    let (part_context, part_account, part_id) = (context.clone(), account.clone(), id.clone());
    let failed = |_| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "the download failed");
    let (needed, permit) =
        blocking(permit, move || part_context.memory_to_find_blob(&part_account, &part_id))
            .await
            .map_err(failed)?;
    let needed = needed?;
    let memory = match usize::try_from(needed).unwrap_or(usize::MAX) {
        0 => None,
        bytes => Some(
            backend
                .outgoing_memory
                .acquire(bytes)
                .await
                .ok_or_else(|| Problem::busy("too many downloads at once"))?,
        ),
    };
    let found = blocking((permit, memory), move || {
        let blob = context.blob(&account, &id)?.ok_or(MethodError::NotFound("blob".into()))?;
        let size = blob.size(&context.store)?;
        Ok::<_, MethodError>((blob, size))
    });
    let (found, (permit, _)) = found.await.map_err(failed)?;
    let (found_blob, size) = found.map_err(|error| match error {
        MethodError::NotFound(_) => missing(),
        error => error.into(),
    })?;

    let content_type =
        accept.or(found_blob.media_type()).unwrap_or("application/octet-stream").to_owned();
    let tag = format!("\"{blob}\"");
    let field = |name: &str| headers.get(name).map(HeaderValue::as_bytes);
    let mut response = Response::new(Body::empty());
    let text = |value: String| {
        HeaderValue::from_str(&value)
            .map_err(|_| bad_request("the name cannot stand in a header field"))
    };
    for (name, value) in [
        ("content-type", text(content_type)?),
        ("content-disposition", text(attachment(name))?),
        ("etag", text(tag.clone())?),
        ("cache-control", HeaderValue::from_static("private, immutable, max-age=31536000")),
        ("accept-ranges", HeaderValue::from_static("bytes")),
        ("x-content-type-options", HeaderValue::from_static("nosniff")),
        ("content-security-policy", HeaderValue::from_static("default-src 'none'; sandbox")),
    ] {
        response.headers_mut().insert(HeaderName::from_static(name), value);
    }
    if field("if-none-match").is_some_and(|field| same_tag(field, &tag)) {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        return Ok(response);
    }
    // The range is ignored if the method is not GET (RFC 9110 §14.2), or if If-Range is not exactly
    // the tag of this blob (§13.1.5).
    let is_same_blob = |field: &[u8]| field.trim_ascii() == tag.as_bytes();
    let may_select = method == Method::GET && field("if-range").is_none_or(is_same_blob);
    let range_field = field("range").filter(|_| may_select);
    let selected = match range_field.map_or(RangeSelection::Whole, |field| range(field, size)) {
        RangeSelection::Whole => 0..size,
        RangeSelection::Part(part) => {
            *response.status_mut() = StatusCode::PARTIAL_CONTENT;
            let content_range =
                format!("bytes {}-{}/{size}", part.start, part.end.saturating_sub(1));
            response.headers_mut().insert("content-range", text(content_range)?);
            part
        }
        RangeSelection::Nothing => {
            let mut refused =
                Problem::new(StatusCode::RANGE_NOT_SATISFIABLE, "the range is beyond the blob")
                    .into_response();
            refused.headers_mut().insert("content-range", text(format!("bytes */{size}"))?);
            return Ok(refused);
        }
    };
    response
        .headers_mut()
        .insert("content-length", HeaderValue::from(selected.end.saturating_sub(selected.start)));
    if method != Method::HEAD {
        *response.body_mut() = stream(backend.store.clone(), found_blob, selected, permit);
    }
    Ok(response)
}

/// Returns a body of the bytes in `range`, which holds `permit` while it is sent.
fn stream(store: Store, blob: Blob, range: Range<u64>, permit: ConcurrencyPermit) -> Body {
    let (sender, body) = streamed_body(permit);
    tokio::spawn(send_blob(store, blob.reader(range), sender));
    body
}

/// Sends the chunks of a blob. If one cannot be read, the response is aborted.
async fn send_blob(store: Store, mut reader: BlobReader, sender: BodySender) {
    loop {
        let store = store.clone();
        let read = tokio::task::spawn_blocking(move || {
            let chunk = reader.next(&store);
            (reader, chunk)
        });
        let Ok((returned, chunk)) = read.await else {
            return sender.fail("the download failed".into()).await;
        };
        reader = returned;
        match chunk {
            Ok(Some(chunk)) => {
                if !sender.send(chunk).await {
                    return;
                }
            }
            Ok(None) => return,
            Err(error) => {
                tracing::warn!(%error, "a download was aborted");
                return sender.fail(error.to_string()).await;
            }
        }
    }
}
