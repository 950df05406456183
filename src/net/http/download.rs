//! `GET` of a blob (RFC 8620 §6.2), whole or a range of it (RFC 9110 §14).
//!
//! It is read a piece at a time as the client takes it, so that of an attachment of any size some
//! hundred KiB are held; who does not take a piece within a minute is left. What a blob is never
//! changes, so it may be kept for ever; and a browser must neither guess what it is nor run what is
//! in it.

use std::ops::Range;
use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::header::{HeaderName, HeaderValue};
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};

use super::blocking::blocking;
use super::piece_body::{Pieces, pieces};
use super::problem::Problem;
use super::request_context::RequestContext;
use super::upload::account;
use super::{Backend, concurrency};
use crate::jmap::{Blob, BlobReader};
use crate::model::BlobId;
use crate::store::Store;
use crate::wire::http::{RangeSelection, attachment, media_type, range, same_tag};
use crate::wire::jmap::MethodError;
use crate::wire::query;

pub(super) async fn download(
    State(backend): State<Arc<Backend>>,
    Extension(who): Extension<RequestContext>,
    method: Method,
    uri: Uri,
    Path(path): Path<(String, String, String)>,
    headers: HeaderMap,
) -> Response {
    match try_download(&backend, &who, &method, &uri, &path, &headers).await {
        Ok(response) => response,
        Err(problem) => problem.into_response(),
    }
}

pub(super) async fn download_unnamed(
    backend: State<Arc<Backend>>,
    who: Extension<RequestContext>,
    method: Method,
    uri: Uri,
    Path((account, blob)): Path<(String, String)>,
    headers: HeaderMap,
) -> Response {
    download(backend, who, method, uri, Path((account, blob, String::new())), headers).await
}

async fn try_download(
    backend: &Arc<Backend>,
    who: &RequestContext,
    method: &Method,
    uri: &Uri,
    (named, blob, name): &(String, String, String),
    headers: &HeaderMap,
) -> Result<Response, Problem> {
    let bad = |detail: &str| Problem::new(StatusCode::BAD_REQUEST, detail);
    let missing = || Problem::new(StatusCode::NOT_FOUND, "no such blob");
    let account = account(backend, who, named)?;
    let id = blob.parse::<BlobId>().map_err(|_| missing())?;
    let wish =
        query::read(uri.query().unwrap_or_default()).map_err(|_| bad("the query is none"))?;
    let accept = wish.iter().find(|(name, _)| name == "accept").map(|(_, value)| value.as_str());
    let accept = accept.filter(|kind| !kind.is_empty());
    let accept = accept
        .map(|kind| media_type(kind).ok_or_else(|| bad("accept: no media type")))
        .transpose()?;
    let counted = backend.downloads.enter(who.key());
    let counted = counted
        .ok_or_else(|| Problem::new(StatusCode::TOO_MANY_REQUESTS, "too many downloads at once"))?;

    let context = backend.context(&backend.settings.get(), who);
    // What is parsed to find a part counts among the messages that are held at once.
    let (asked, of, part) = (context.clone(), account.clone(), id.clone());
    let failed = |_| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "the download failed");
    let (needed, counted) =
        blocking(counted, move || asked.blob_room(&of, &part)).await.map_err(failed)?;
    let needed = needed?;
    let room = match usize::try_from(needed).unwrap_or(usize::MAX) {
        0 => None,
        bytes => Some(
            backend
                .out_flight
                .take(bytes)
                .await
                .ok_or_else(|| Problem::busy("too many downloads at once"))?,
        ),
    };
    let found = blocking((counted, room), move || {
        let blob = context.blob(&account, &id)?.ok_or(MethodError::NotFound("blob".into()))?;
        let size = blob.size(&context.store)?;
        Ok::<_, MethodError>((blob, size))
    });
    let (found, (counted, _)) = found.await.map_err(failed)?;
    let (found, size) = found.map_err(|error| match error {
        MethodError::NotFound(_) => missing(),
        error => error.into(),
    })?;

    let kind = accept.or(found.media_type()).unwrap_or("application/octet-stream").to_owned();
    let tag = format!("\"{blob}\"");
    let field = |name: &str| headers.get(name).map(HeaderValue::as_bytes);
    let mut response = Response::new(Body::empty());
    let text = |value: String| {
        HeaderValue::from_str(&value).map_err(|_| bad("a name that no field can hold"))
    };
    for (name, value) in [
        ("content-type", text(kind)?),
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
    // Of another than the client has, it gets the whole (RFC 9110 §13.1.5).
    let asked =
        field("range").filter(|_| field("if-range").is_none_or(|field| same_tag(field, &tag)));
    let wanted = match asked.map_or(RangeSelection::Whole, |asked| range(asked, size)) {
        RangeSelection::Whole => 0..size,
        RangeSelection::Part(part) => {
            *response.status_mut() = StatusCode::PARTIAL_CONTENT;
            let place = format!("bytes {}-{}/{size}", part.start, part.end.saturating_sub(1));
            response.headers_mut().insert("content-range", text(place)?);
            part
        }
        RangeSelection::Nothing => {
            let mut refused =
                Problem::new(StatusCode::RANGE_NOT_SATISFIABLE, "no such octets").into_response();
            refused.headers_mut().insert("content-range", text(format!("bytes */{size}"))?);
            return Ok(refused);
        }
    };
    response
        .headers_mut()
        .insert("content-length", HeaderValue::from(wanted.end.saturating_sub(wanted.start)));
    if method != Method::HEAD {
        *response.body_mut() = read(backend.store.clone(), found, wanted, counted);
    }
    Ok(response)
}

/// The octets of a blob, as they are taken.
fn read(
    store: Store,
    blob: Blob,
    wanted: Range<u64>,
    counted: concurrency::ConcurrencyPermit,
) -> Body {
    let (into, body) = pieces(counted);
    tokio::spawn(pump(store, blob.reader(wanted), into));
    body
}

async fn pump(store: Store, mut reader: BlobReader, into: Pieces) {
    loop {
        let store = store.clone();
        let read = tokio::task::spawn_blocking(move || {
            let piece = reader.next(&store);
            (reader, piece)
        });
        let Ok((again, piece)) = read.await else {
            return into.fail("a download failed".into()).await;
        };
        reader = again;
        match piece {
            Ok(Some(piece)) => {
                if !into.push(piece).await {
                    return;
                }
            }
            Ok(None) => return,
            Err(error) => {
                tracing::warn!(%error, "a download broke off");
                return into.fail(error.to_string()).await;
            }
        }
    }
}
