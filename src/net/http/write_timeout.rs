//! Closes a connection whose peer stops reading.
//!
//! A client that accepts no bytes would otherwise hold its connection, its task and the buffered
//! response forever. Reads are not limited here: an idle event stream is legitimate.

use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// A stream whose writes, flushes and shutdown fail with `TimedOut` after being pending for
/// `timeout`.
#[derive(Debug)]
pub(super) struct WriteTimeout<S> {
    stream: S,
    timeout: Duration,
    /// Set while a write, flush or shutdown is pending.
    deadline: Option<Pin<Box<Sleep>>>,
    progress: Arc<WriteProgress>,
}

/// What of the writes to a stream is done.
#[derive(Debug, Default)]
pub(super) struct WriteProgress {
    /// How many bytes the stream has taken.
    pub(super) written: AtomicU64,
    /// Whether a write, flush or shutdown is pending.
    pub(super) is_pending: AtomicBool,
}

impl<S: AsyncRead + AsyncWrite + Unpin> WriteTimeout<S> {
    pub(super) fn new(stream: S, timeout: Duration) -> Self {
        Self { stream, timeout, deadline: None, progress: Arc::default() }
    }

    pub(super) fn progress(&self) -> Arc<WriteProgress> {
        Arc::clone(&self.progress)
    }

    /// Passes on a finished write; starts or checks the deadline of a pending one.
    fn poll_deadline<T>(
        &mut self,
        cx: &mut Context<'_>,
        result: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        self.progress.is_pending.store(result.is_pending(), Ordering::Relaxed);
        if result.is_ready() {
            self.deadline = None;
            return result;
        }
        let timeout = self.timeout;
        let deadline = self.deadline.get_or_insert_with(|| Box::pin(sleep(timeout)));
        ready!(deadline.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the other end does not read")))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for WriteTimeout<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for WriteTimeout<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write(cx, bytes);
        if let Poll::Ready(Ok(count)) = &result {
            self.progress.written.fetch_add(*count as u64, Ordering::Relaxed);
        }
        self.poll_deadline(cx, result)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.stream).poll_flush(cx);
        self.poll_deadline(cx, result)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.poll_deadline(cx, result)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;

    #[tokio::test]
    async fn a_peer_that_does_not_read_times_out() {
        // The peer takes 16 bytes without reading.
        let (near, _far) = duplex(16);
        let mut near = WriteTimeout::new(near, Duration::from_millis(50));
        near.write_all(&[0; 16]).await.unwrap();
        let progress = near.progress();
        assert!(!progress.is_pending.load(Ordering::Relaxed));
        assert_eq!(near.write_all(&[0; 1]).await.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert!(progress.is_pending.load(Ordering::Relaxed));
        // A peer that reads gets all bytes.
        let (near, mut far) = duplex(16);
        let mut near = WriteTimeout::new(near, Duration::from_secs(5));
        let reader = tokio::spawn(async move {
            let mut all = Vec::new();
            far.read_to_end(&mut all).await.map(|_| all.len())
        });
        let progress = near.progress();
        near.write_all(&[0; 1000]).await.unwrap();
        drop(near);
        assert_eq!(progress.written.load(Ordering::Relaxed), 1000);
        assert_eq!(reader.await.unwrap().unwrap(), 1000);
    }
}
