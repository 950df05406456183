//! The WebSocket protocol (RFC 6455) after the handshake: messages within limits, and the close.
//!
//! - Memory for a message is reserved as its bytes arrive, long before the message is complete. The
//!   bytes must come at a minimum rate.
//! - After the close frame, further input is read and discarded for a while, so that a reset does
//!   not destroy the last message to the client.
//!
//! `handshake` answers the handshake, and `socket` interprets the messages.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message};

use super::body_pace::BodyPace;
use super::in_flight::{CapacityError, Reservation};
use crate::model::limits;
use crate::net::stop::StopSignal;

const READ_CHUNK: usize = 16 * 1024;

#[derive(Debug)]
pub(super) enum ClientMessage {
    /// With the memory that is reserved for it.
    Text(String, Reservation),
    /// JMAP does not use binary messages. The memory stays reserved until the close.
    Bytes,
    /// A ping or pong.
    Control,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReceiveError {
    /// The client disconnected or violates the protocol.
    Gone,
    /// The message is larger than `limits::MAX_REQUEST_BYTES`.
    TooLarge,
    NoMemory(CapacityError),
}

#[derive(Debug)]
pub(super) struct Socket<S = TokioIo<Upgraded>> {
    stream: WebSocketStream<MeteredStream<S>>,
    meter: Arc<Mutex<MessageMeter>>,
    /// In each window of this length, the client must read `limits::MIN_RESPONSE_PACE_BYTES` of a
    /// message that is sent, or the rest of it.
    send_window: Duration,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Socket<S> {
    /// Begins after the handshake. `reservation` is empty, and grows with each message. For
    /// `send_window` see the field.
    pub(super) async fn new(stream: S, reservation: Reservation, send_window: Duration) -> Self {
        let meter = Arc::new(Mutex::new(MessageMeter {
            reservation,
            bytes: 0,
            window: None,
            error: None,
            written: 0,
        }));
        let config = WebSocketConfig::default()
            .read_buffer_size(READ_CHUNK)
            .max_message_size(Some(limits::MAX_REQUEST_BYTES))
            .max_frame_size(Some(limits::MAX_REQUEST_BYTES));
        let metered = MeteredStream { stream, meter: Arc::clone(&meter) };
        Self {
            stream: WebSocketStream::from_raw_socket(metered, Role::Server, Some(config)).await,
            meter,
            send_window,
        }
    }

    /// Receives the next message. May be cancelled: what was read of a message is kept.
    ///
    /// # Errors
    /// `ReceiveError`; then no more can be received, and after `Gone` no more can be sent.
    pub(super) async fn receive(&mut self) -> Result<ClientMessage, ReceiveError> {
        match self.stream.next().await {
            Some(Ok(Message::Text(text))) => Ok(ClientMessage::Text(
                text.as_str().to_owned(),
                self.meter.lock().take_message_reservation(),
            )),
            Some(Ok(Message::Binary(_))) => Ok(ClientMessage::Bytes),
            // A control frame has two bytes of head and four of mask (RFC 6455 §5.2).
            Some(Ok(Message::Ping(bytes) | Message::Pong(bytes))) => {
                self.meter.lock().discount_received(bytes.len() + 6);
                Ok(ClientMessage::Control)
            }
            Some(Err(Error::Capacity(_))) => Err(ReceiveError::TooLarge),
            Some(Ok(Message::Close(_))) => {
                // The library sends its close frame when more is read.
                drop(timeout(limits::HTTP_WRITE_TIMEOUT, self.stream.next()).await);
                Err(ReceiveError::Gone)
            }
            Some(Ok(Message::Frame(_)) | Err(_)) | None => {
                Err(self.meter.lock().error.map_or(ReceiveError::Gone, ReceiveError::NoMemory))
            }
        }
    }

    /// Sends a text message. Returns `false` if the client read too slowly or disconnected, or if
    /// `may_continue`, which is asked after each `send_window`, returned `false`. Then part of the
    /// text may have been sent, and the socket must be dropped.
    pub(super) async fn send_text(
        &mut self,
        text: String,
        may_continue: impl Fn() -> bool,
    ) -> bool {
        self.send(Message::Text(text.into()), may_continue).await
    }

    /// Sends a ping. The pong is not awaited. Returns `false` as `send_text` does.
    pub(super) async fn ping(&mut self) -> bool {
        self.send(Message::Ping(Vec::new().into()), || true).await
    }

    async fn send(&mut self, message: Message, may_continue: impl Fn() -> bool) -> bool {
        let begun = Instant::now();
        let sent = {
            let mut sending = std::pin::pin!(self.stream.send(message));
            loop {
                let before = self.meter.lock().written;
                match timeout(self.send_window, &mut sending).await {
                    Ok(sent) => break sent.is_ok(),
                    Err(_) if !self.meter.lock().is_fast(before) || !may_continue() => break false,
                    Err(_) => {}
                }
            }
        };
        self.pause_reading(begun.elapsed());
        sent
    }

    /// Records that nothing was read for `time`, so that the client is not taken for slow.
    pub(super) fn pause_reading(&self, time: Duration) {
        self.meter.lock().pause_reading(time);
    }

    /// Whether an incomplete message comes too slowly. To be called regularly; `is_reading` tells
    /// whether the socket is being read. `pace.total` is not used.
    pub(super) fn is_slow(&self, pace: BodyPace, is_reading: bool) -> bool {
        self.meter.lock().is_slow(Instant::now(), pace, is_reading)
    }

    /// Sends a close frame (RFC 6455 §7.4.1), then discards further input for a while, unless the
    /// service is stopping.
    pub(super) async fn close(mut self, code: u16, reason: &'static str, stop: &StopSignal) {
        let frame = CloseFrame { code: CloseCode::from(code), reason: reason.into() };
        if !self.send(Message::Close(Some(frame)), || true).await || stop.is_stopping() {
            return;
        }
        // Buffers and reserved memory are released before the wait.
        let mut stream = self.stream.into_inner().stream;
        drop(self.meter.lock().take_message_reservation());
        if timeout(limits::HTTP_WRITE_TIMEOUT, stream.shutdown()).await.is_err() {
            return;
        }
        let deadline = Instant::now() + limits::DRAIN_TIMEOUT;
        let (mut buffer, mut bytes) = (vec![0; READ_CHUNK], 0);
        while bytes <= limits::MAX_DRAINED_BYTES {
            match timeout_at(deadline, timeout(limits::DRAIN_PACE_WINDOW, stream.read(&mut buffer)))
                .await
            {
                Ok(Ok(Ok(read))) if read > 0 => bytes += read,
                _ => return,
            }
        }
    }
}

/// Measures what was read of the incomplete message, and what was written.
#[derive(Debug)]
struct MessageMeter {
    reservation: Reservation,
    /// Bytes of the incomplete message.
    bytes: usize,
    /// When the current window of `is_slow` began, and `bytes` at that time.
    window: Option<(Instant, usize)>,
    /// Why the last read failed, if a bound was exceeded.
    error: Option<CapacityError>,
    /// Bytes that were written to the connection.
    written: u64,
}

impl MessageMeter {
    /// Counts bytes that were read, and reserves memory for them.
    fn count_received(&mut self, bytes: usize) -> io::Result<()> {
        self.bytes += bytes;
        self.reservation.grow(bytes).map_err(|error| {
            self.error = Some(error);
            io::Error::other(error)
        })
    }

    /// Returns the memory that is reserved so far, and starts to measure the next message. Bytes of
    /// the next one that were read already count as part of this one.
    fn take_message_reservation(&mut self) -> Reservation {
        (self.bytes, self.window) = (0, None);
        self.reservation.take()
    }

    fn pause_reading(&mut self, time: Duration) {
        if let Some((since, _)) = &mut self.window {
            *since += time;
        }
    }

    /// Whether the client read enough for one window since `written` was `before`.
    fn is_fast(&self, before: u64) -> bool {
        self.written.saturating_sub(before) >= limits::MIN_RESPONSE_PACE_BYTES as u64
    }

    /// Subtracts bytes of a control frame. If no other bytes are left, their memory is released.
    fn discount_received(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_sub(bytes);
        if self.bytes == 0 {
            self.take_message_reservation();
        }
    }

    /// Does what `Socket::is_slow` says: at the end of a window, compares its bytes with the pace.
    fn is_slow(&mut self, now: Instant, pace: BodyPace, is_reading: bool) -> bool {
        let (since, before) = match self.window {
            Some(window) if is_reading && self.bytes > 0 => window,
            _ => {
                self.window = (self.bytes > 0).then_some((now, self.bytes));
                return false;
            }
        };
        if now.duration_since(since) < pace.window {
            return false;
        }
        self.window = Some((now, self.bytes));
        self.bytes.saturating_sub(before) < pace.min_bytes
    }
}

#[derive(Debug)]
struct MeteredStream<S> {
    stream: S,
    meter: Arc<Mutex<MessageMeter>>,
}

impl<S: AsyncRead + Unpin> AsyncRead for MeteredStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        match Pin::new(&mut self.stream).poll_read(cx, buffer) {
            Poll::Ready(Ok(())) => {
                let read = buffer.filled().len().saturating_sub(before);
                Poll::Ready(if read > 0 { self.meter.lock().count_received(read) } else { Ok(()) })
            }
            other => other,
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for MeteredStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        if let Poll::Ready(Ok(bytes)) = written {
            self.meter.lock().written += bytes as u64;
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::http::in_flight::{Bounds, InFlight};

    const BOUNDS: Bounds = Bounds { all: 1000, per_account: 1000, free: 0 };

    fn meter(in_flight: &InFlight) -> MessageMeter {
        let reservation = in_flight.reservation("ann".into(), BOUNDS);
        MessageMeter { reservation, bytes: 0, window: None, error: None, written: 0 }
    }

    #[test]
    fn incomplete_message_is_slow_but_an_idle_socket_is_not() {
        let mut meter = meter(&InFlight::default());
        let pace = BodyPace {
            window: Duration::from_secs(10),
            min_bytes: 100,
            total: Duration::from_secs(60),
        };
        let begun = Instant::now();
        let slow = |meter: &mut MessageMeter, seconds, is_reading| {
            meter.is_slow(begun + Duration::from_secs(seconds), pace, is_reading)
        };
        assert!(!slow(&mut meter, 0, true) && !slow(&mut meter, 1000, true));
        meter.count_received(50).unwrap();
        assert!(!slow(&mut meter, 1010, true) && !slow(&mut meter, 1019, true));
        meter.count_received(100).unwrap();
        assert!(!slow(&mut meter, 1020, true), "fast enough");
        assert!(!slow(&mut meter, 1029, true));
        assert!(slow(&mut meter, 1030, true), "the rest did not come");
        assert!(!slow(&mut meter, 1050, false) && !slow(&mut meter, 1051, true));
        assert!(!slow(&mut meter, 1059, true));
        meter.pause_reading(Duration::from_secs(600));
        assert!(!slow(&mut meter, 1659, true) && slow(&mut meter, 1660, true));
        drop(meter.take_message_reservation());
        assert!(!slow(&mut meter, 2000, true) && !slow(&mut meter, 3000, true));
        meter.count_received(8).unwrap();
        meter.discount_received(8);
        assert!(!slow(&mut meter, 4000, true) && !slow(&mut meter, 5000, true));
    }

    #[test]
    fn bytes_stay_reserved_until_the_message_is_answered() {
        let in_flight = InFlight::default();
        let (mut one, mut other) = (meter(&in_flight), meter(&in_flight));
        one.count_received(900).unwrap();
        assert!(other.count_received(101).is_err() && other.error == Some(CapacityError::Account));
        let reservation = one.take_message_reservation();
        assert!(one.count_received(101).is_err());
        drop(reservation);
        one.count_received(101).unwrap();
    }

    /// A client that reads fast enough gets a large message however long it takes, unless
    /// `may_continue` returns `false`.
    #[tokio::test]
    async fn sends_a_large_message_unless_the_client_is_slow_or_may_continue_is_false() {
        let in_flight = InFlight::default();
        for (step, may_continue, is_sent) in
            [(1 << 18, true, true), (1 << 10, true, false), (1 << 18, false, false)]
        {
            let (near, mut far) = tokio::io::duplex(1 << 10);
            let reservation = in_flight.reservation("ann".into(), BOUNDS);
            let mut socket = Socket::new(near, reservation, Duration::from_secs(1)).await;
            let reader = tokio::spawn(async move {
                let mut chunk = vec![0; step];
                while far.read_exact(&mut chunk).await.is_ok() {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            });
            // With every `step` this takes longer than the window of one second, after which the
            // pace is checked.
            assert_eq!(
                socket.send_text("x".repeat(4 << 20), || may_continue).await,
                is_sent,
                "{step} {may_continue}"
            );
            drop(socket);
            reader.await.unwrap();
        }
    }
}
