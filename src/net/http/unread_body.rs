//! Reads on what of a request is unread when it is answered.
//!
//! A request may be refused before its body has come: it is too large, its login is wrong, there is
//! no room. If the connection were closed then, the kernel would answer the rest of the body with a
//! reset, and the client would lose the answer. So the rest is read and thrown away, for a bounded
//! time and size; the answer goes out meanwhile.
//!
//! A client that waits for `100 Continue` (RFC 9110 §10.1.1) has sent nothing yet and need not.

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

/// A body that is put aside when it is dropped unread.
struct ReclaimableBody {
    body: Option<Incoming>,
    /// Whether the client sends it only when it is asked for, and was not asked yet.
    waits: bool,
    rest: Arc<Mutex<Option<Incoming>>>,
}

/// What is left of a request's body.
#[derive(Debug)]
pub(super) struct UnreadBody(Arc<Mutex<Option<Incoming>>>);

/// The same request, of whose body the rest can be had after it was dropped.
pub(super) fn split_body(request: Request<Incoming>) -> (Request<Body>, UnreadBody) {
    let rest = Arc::new(Mutex::new(None));
    let expects = request.headers().get("expect");
    let waits = expects.is_some_and(|field| field.as_bytes().eq_ignore_ascii_case(b"100-continue"));
    let request = request.map(|body| {
        Body::new(ReclaimableBody { body: Some(body), waits, rest: Arc::clone(&rest) })
    });
    (request, UnreadBody(rest))
}

impl UnreadBody {
    /// Reads what is left, within bounds, in a task of its own.
    pub(super) fn drain(self, under_way: Arc<RequestGuard>) {
        let Some(body) = self.0.lock().take() else { return };
        tokio::spawn(async move {
            let _under_way = under_way;
            let pace = BodyPace {
                window: limits::DRAIN_PACE_WINDOW,
                least: limits::MIN_DRAIN_PACE_BYTES,
                whole: limits::DRAIN_TIMEOUT,
            };
            let (mut paced, mut bytes) = (PacedBody::new(Body::new(body), pace), 0);
            while bytes <= limits::MAX_DRAINED_BYTES
                && let Ok(Some(piece)) = paced.next().await
            {
                bytes += piece.len();
            }
        });
    }
}

impl Drop for ReclaimableBody {
    fn drop(&mut self) {
        if let Some(body) = self.body.take()
            && !self.waits
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
        self.waits = false;
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
