//! A response body that another task sends in chunks.
//!
//! At most one chunk is buffered. If the client reads too slowly (`response_pace`), the connection
//! is closed, and sending fails.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use hyper::body::{Bytes, Frame};
use tokio::sync::mpsc::{Receiver, Sender, channel};

use crate::net::concurrency::ConcurrencyPermit;

/// Sends the chunks of a body. The body is complete when this is dropped, unless `fail` was called.
#[derive(Debug)]
pub(super) struct BodySender(Sender<io::Result<Bytes>>);

impl BodySender {
    /// Sends a chunk, once the client has taken the previous one. Returns `false` if the connection
    /// is closed.
    pub(super) async fn send(&self, chunk: impl Into<Bytes>) -> bool {
        self.0.send(Ok(chunk.into())).await.is_ok()
    }

    /// Aborts the response, so that the client sees that it is incomplete.
    pub(super) async fn fail(&self, reason: String) {
        drop(self.0.send(Err(io::Error::other(reason))).await);
    }

    /// Waits until the client has disconnected.
    pub(super) async fn wait_until_closed(&self) {
        self.0.closed().await;
    }
}

struct StreamedBody {
    chunks: Receiver<io::Result<Bytes>>,
    _permit: ConcurrencyPermit,
}

impl hyper::body::Body for StreamedBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        waker: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        self.chunks.poll_recv(waker).map(|chunk| chunk.map(|chunk| chunk.map(Frame::data)))
    }
}

/// Returns a body and what sends its chunks. The body holds `permit` until it is dropped.
pub(super) fn streamed_body(permit: ConcurrencyPermit) -> (BodySender, Body) {
    let (sender, receiver) = channel(1);
    (BodySender(sender), Body::new(StreamedBody { chunks: receiver, _permit: permit }))
}
