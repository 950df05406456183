//! A body that another task makes a piece at a time. One piece waits at most, and who does not take
//! it in time is left.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use hyper::body::{Bytes, Frame};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::timeout;

use super::concurrency::ConcurrencyPermit;

/// The longest wait for a piece to be taken.
const SEND_TIMEOUT: Duration = Duration::from_secs(60);

/// Where pieces go in.
#[derive(Debug)]
pub(super) struct Pieces(Sender<io::Result<Bytes>>);

impl Pieces {
    /// Hands on a piece; whether there is anybody who takes it, and took the one before in time.
    pub(super) async fn push(&self, piece: impl Into<Bytes>) -> bool {
        matches!(timeout(SEND_TIMEOUT, self.0.send(Ok(piece.into()))).await, Ok(Ok(())))
    }

    /// Breaks off: what came is not all.
    pub(super) async fn fail(&self, why: String) {
        drop(timeout(SEND_TIMEOUT, self.0.send(Err(io::Error::other(why)))).await);
    }

    /// Waits until nobody takes pieces any more.
    pub(super) async fn wait_until_closed(&self) {
        self.0.closed().await;
    }
}

struct PieceBody {
    pieces: Receiver<io::Result<Bytes>>,
    _counted: ConcurrencyPermit,
}

impl hyper::body::Body for PieceBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        waker: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        self.pieces.poll_recv(waker).map(|piece| piece.map(|piece| piece.map(Frame::data)))
    }
}

/// A body, and where its pieces go in. It counts as under way until it is gone.
pub(super) fn pieces(counted: ConcurrencyPermit) -> (Pieces, Body) {
    let (sender, receiver) = channel(1);
    (Pieces(sender), Body::new(PieceBody { pieces: receiver, _counted: counted }))
}
