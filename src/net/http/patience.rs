//! A stream that does not wait for ever on who does not read: what could not be written for so long ends it.

use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// The stream.
#[derive(Debug)]
pub(super) struct WriteTimeout<S> {
    stream: S,
    most: Duration,
    /// Runs while something waits to be written.
    deadline: Option<Pin<Box<Sleep>>>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> WriteTimeout<S> {
    /// Waits so long, and no longer.
    pub(super) fn new(stream: S, most: Duration) -> Self {
        Self { stream, most, deadline: None }
    }

    fn waited<T>(&mut self, waker: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.deadline = None;
            return written;
        }
        let most = self.most;
        let deadline = self.deadline.get_or_insert_with(|| Box::pin(sleep(most)));
        ready!(deadline.as_mut().poll(waker));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the other end does not read")))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for WriteTimeout<S> {
    fn poll_read(mut self: Pin<&mut Self>, waker: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(waker, into)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for WriteTimeout<S> {
    fn poll_write(mut self: Pin<&mut Self>, waker: &mut Context<'_>, octets: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(waker, octets);
        self.waited(waker, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, waker: &mut Context<'_>) -> Poll<io::Result<()>> {
        let written = Pin::new(&mut self.stream).poll_flush(waker);
        self.waited(waker, written)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, waker: &mut Context<'_>) -> Poll<io::Result<()>> {
        let written = Pin::new(&mut self.stream).poll_shutdown(waker);
        self.waited(waker, written)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;

    #[tokio::test]
    async fn who_does_not_read_is_left() {
        let (near, mut far) = duplex(16);
        let mut near = WriteTimeout::new(near, Duration::from_millis(50));
        near.write_all(&[0; 16]).await.unwrap();
        assert_eq!(near.write_all(&[0; 1]).await.unwrap_err().kind(), io::ErrorKind::TimedOut);
        // Who reads again in time is not.
        let (near, far_again) = duplex(16);
        drop(std::mem::replace(&mut far, far_again));
        let mut near = WriteTimeout::new(near, Duration::from_secs(5));
        let reader = tokio::spawn(async move {
            let mut all = Vec::new();
            far.read_to_end(&mut all).await.map(|_| all.len())
        });
        near.write_all(&[0; 1000]).await.unwrap();
        drop(near);
        assert_eq!(reader.await.unwrap().unwrap(), 1000);
    }
}
