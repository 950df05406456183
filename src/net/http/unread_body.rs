//! Reads and discards the rest of a request body that was not read before the response.
//!
//! - If a connection were closed before the body was received, the kernel would answer the rest
//!   with a reset, and the client would lose the response.
//! - The rest is read while the response is sent, within bounds of time and size.
//! - The body of a client that waits for `100 Continue` (RFC 9110 §10.1.1) is not read, because the
//!   client has not sent it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::http::Request;
use hyper::body::{Body as HttpBody, Bytes, Frame, Incoming, SizeHint};
use parking_lot::Mutex;

use super::body_pace::{BodyPace, PacedBody};
use super::connection::RequestGuard;
use crate::model::limits;

/// A request body that puts its unread rest into `rest` when it is dropped.
struct ReclaimableBody {
    /// `None` only while this is being dropped.
    body: Option<Incoming>,
    /// Whether the client waits for `100 Continue`, which hyper sends when the body is first read.
    awaits_continue: bool,
    rest: Arc<Mutex<Option<Incoming>>>,
}

/// The unread rest of a request body, once the handler has dropped the request.
#[derive(Debug)]
pub(super) struct UnreadBody(Arc<Mutex<Option<Incoming>>>);

/// Wraps the body of a request so that its unread rest can be discarded after the response.
pub(super) fn split_body(request: Request<Incoming>) -> (Request<Body>, UnreadBody) {
    let rest = Arc::new(Mutex::new(None));
    let expects = request.headers().get("expect");
    let awaits_continue =
        expects.is_some_and(|field| field.as_bytes().eq_ignore_ascii_case(b"100-continue"));
    let request = request.map(|body| {
        Body::new(ReclaimableBody { body: Some(body), awaits_continue, rest: Arc::clone(&rest) })
    });
    (request, UnreadBody(rest))
}

impl UnreadBody {
    /// Discards the rest, if there is one, in a task of its own. The request is active meanwhile.
    /// Ends early if the client sends too much, or too slowly.
    pub(super) fn drain(self, request: Arc<RequestGuard>) {
        let Some(body) = self.0.lock().take() else { return };
        tokio::spawn(async move {
            let _request = request;
            let (mut paced, mut bytes) = (PacedBody::new(Body::new(body), BodyPace::hurried()), 0);
            while bytes <= limits::MAX_DRAINED_BYTES
                && let Ok(Some(chunk)) = paced.next().await
            {
                bytes += chunk.len();
            }
        });
    }
}

impl Drop for ReclaimableBody {
    fn drop(&mut self) {
        if let Some(body) = self.body.take()
            && !self.awaits_continue
            && !body.is_end_stream()
        {
            *self.rest.lock() = Some(body);
        }
    }
}

impl HttpBody for ReclaimableBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        self.awaits_continue = false;
        match &mut self.body {
            Some(body) => Pin::new(body).poll_frame(cx),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(SizeHint::default, HttpBody::size_hint)
    }
}
