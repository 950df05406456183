//! The transport of a WebSocket (RFC 6455, over HTTP/2 RFC 8441): the handshake, messages within
//! bounds, and the end.
//!
//! - The bytes of a message take room as they arrive, long before it is complete, and must come at
//!   a pace.
//! - A message that is refused is answered before the connection ends: the client is told why, then
//!   the rest of what it sends is read for a while, so that no reset overtakes the answer.
//!
//! What the messages say is the business of `socket`.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{HeaderName, HeaderValue};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use futures_util::{SinkExt as _, StreamExt as _};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message};

use super::body_pace::BodyPace;
use super::in_flight::{CapacityError, Reservation};
use super::problem::Problem;
use crate::model::limits;
use crate::net::stop::StopSignal;

/// Bytes that are read at once.
const READ_CHUNK: usize = 16 * 1024;

/// A handshake that a client began.
#[derive(Debug)]
pub(super) struct Handshake {
    /// What HTTP/1.1 proves by that it was understood.
    key: Option<HeaderValue>,
    upgrade: OnUpgrade,
    protocols: Vec<HeaderValue>,
}

impl Handshake {
    /// Reads the handshake of a request.
    ///
    /// # Errors
    /// It is none, or one of another version.
    pub(super) fn of(request: &mut Request) -> Result<Self, Problem> {
        let bad = |detail: &str| Problem::new(StatusCode::BAD_REQUEST, detail);
        let says = |headers: &HeaderMap, name: &str, wanted: &str| {
            let fields = headers.get_all(name).iter().filter_map(|field| field.to_str().ok());
            fields
                .flat_map(|field| field.split(','))
                .any(|word| word.trim().eq_ignore_ascii_case(wanted))
        };
        let headers = request.headers();
        let key = if *request.method() == Method::CONNECT {
            let protocol = request.extensions().get::<hyper::ext::Protocol>();
            if protocol.is_none_or(|protocol| protocol.as_str() != "websocket") {
                return Err(bad(":protocol is not websocket"));
            }
            None
        } else {
            if *request.method() != Method::GET {
                return Err(Problem::new(
                    StatusCode::METHOD_NOT_ALLOWED,
                    "a WebSocket is opened by GET",
                ));
            }
            if !says(headers, "connection", "upgrade") || !says(headers, "upgrade", "websocket") {
                return Err(Problem::new(StatusCode::UPGRADE_REQUIRED, "a WebSocket is wanted"));
            }
            Some(
                headers
                    .get("sec-websocket-key")
                    .cloned()
                    .ok_or_else(|| bad("no Sec-WebSocket-Key"))?,
            )
        };
        if headers.get("sec-websocket-version").is_none_or(|version| version != "13") {
            return Err(Problem::new(
                StatusCode::UPGRADE_REQUIRED,
                "version 13 of the WebSocket protocol is wanted",
            ));
        }
        let protocols = headers.get_all("sec-websocket-protocol").iter().cloned().collect();
        let upgrade = request.extensions_mut().remove::<OnUpgrade>();
        Ok(Self {
            key,
            upgrade: upgrade.ok_or_else(|| bad("this connection cannot be upgraded"))?,
            protocols,
        })
    }

    /// Whether the client offers a subprotocol.
    pub(super) fn offers(&self, name: &str) -> bool {
        let offered = self.protocols.iter().filter_map(|field| field.to_str().ok());
        offered.flat_map(|field| field.split(',')).any(|offer| offer.trim() == name)
    }

    /// Agrees to it with a subprotocol; `talk` begins when the client has the answer.
    pub(super) fn accept<F>(
        self,
        protocol: &'static str,
        room: Reservation,
        talk: impl FnOnce(Socket) -> F + Send + 'static,
    ) -> Response
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let upgrade = self.upgrade;
        tokio::spawn(async move {
            match upgrade.await {
                Ok(upgraded) => {
                    talk(
                        Socket::new(TokioIo::new(upgraded), room, limits::HTTP_WRITE_TIMEOUT).await,
                    )
                    .await
                }
                Err(error) => tracing::debug!(%error, "no WebSocket"),
            }
        });
        let mut response = Response::new(Body::empty());
        let mut set =
            |name, value| drop(response.headers_mut().insert(HeaderName::from_static(name), value));
        set("sec-websocket-protocol", HeaderValue::from_static(protocol));
        let Some(key) = self.key else { return response };
        let Ok(accepted) = HeaderValue::from_str(&derive_accept_key(key.as_bytes())) else {
            return Problem::new(StatusCode::BAD_REQUEST, "no Sec-WebSocket-Key").into_response();
        };
        set("connection", HeaderValue::from_static("upgrade"));
        set("upgrade", HeaderValue::from_static("websocket"));
        set("sec-websocket-accept", accepted);
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        response
    }
}

/// A message of the client.
#[derive(Debug)]
pub(super) enum ClientMessage {
    /// A text, and the room that it takes.
    Text(String, Reservation),
    /// Bytes, which mean nothing here.
    Bytes,
    /// A ping, or an answer to one.
    Control,
}

/// Why no more is heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReceiveError {
    /// The client went away, or does not speak the protocol.
    Gone,
    /// A message is larger than a request may be.
    TooLarge,
    /// There is no room for the message now.
    Full(CapacityError),
}

/// A WebSocket that is open.
#[derive(Debug)]
pub(super) struct Socket<S = TokioIo<Upgraded>> {
    stream: WebSocketStream<MeteredStream<S>>,
    meter: Arc<Mutex<MessageMeter>>,
    /// In so much time `limits::MIN_RESPONSE_PACE_BYTES` of a message must be taken, or its rest.
    unread: Duration,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Socket<S> {
    async fn new(stream: S, room: Reservation, unread: Duration) -> Self {
        let meter = Arc::new(Mutex::new(MessageMeter {
            room,
            bytes: 0,
            window: None,
            full: None,
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
            unread,
        }
    }

    /// The next message.
    ///
    /// # Errors
    /// There is none any more, or this one is refused.
    pub(super) async fn receive(&mut self) -> Result<ClientMessage, ReceiveError> {
        match self.stream.next().await {
            Some(Ok(Message::Text(text))) => Ok(ClientMessage::Text(
                text.as_str().to_owned(),
                self.meter.lock().take_message_room(),
            )),
            Some(Ok(Message::Binary(_))) => Ok(ClientMessage::Bytes),
            // Two bytes of a control frame say what it is, four are its mask (RFC 6455 §5.2).
            Some(Ok(Message::Ping(bytes) | Message::Pong(bytes))) => {
                self.meter.lock().discount_received(bytes.len() + 6);
                Ok(ClientMessage::Control)
            }
            Some(Err(Error::Capacity(_))) => Err(ReceiveError::TooLarge),
            Some(Ok(Message::Close(_))) => {
                // The answer to it goes out when more is read.
                drop(timeout(limits::HTTP_WRITE_TIMEOUT, self.stream.next()).await);
                Err(ReceiveError::Gone)
            }
            Some(Ok(Message::Frame(_)) | Err(_)) | None => {
                Err(self.meter.lock().full.map_or(ReceiveError::Gone, ReceiveError::Full))
            }
        }
    }

    /// Sends a text; whether the client took it, at a pace. After each window of time `goes_on` may
    /// end it.
    pub(super) async fn send_text(&mut self, text: String, goes_on: impl Fn() -> bool) -> bool {
        self.send(Message::Text(text.into()), goes_on).await
    }

    /// Asks whether the client is still there.
    pub(super) async fn ping(&mut self) -> bool {
        self.send(Message::Ping(Vec::new().into()), || true).await
    }

    async fn send(&mut self, message: Message, goes_on: impl Fn() -> bool) -> bool {
        let begun = Instant::now();
        let sent = {
            let mut sending = std::pin::pin!(self.stream.send(message));
            loop {
                let before = self.meter.lock().written;
                match timeout(self.unread, &mut sending).await {
                    Ok(sent) => break sent.is_ok(),
                    Err(_) if !self.meter.lock().is_read(before) || !goes_on() => break false,
                    Err(_) => {}
                }
            }
        };
        // Nothing was read meanwhile.
        self.pause_reading(begun.elapsed());
        sent
    }

    /// Takes note that for so long nothing was read: what did not come in this time is not slow.
    pub(super) fn pause_reading(&self, time: Duration) {
        self.meter.lock().pause_reading(time);
    }

    /// Whether a message that was begun comes too slowly. Asked from time to time; `reads` says
    /// whether it could come.
    pub(super) fn is_slow(&self, pace: BodyPace, reads: bool) -> bool {
        self.meter.lock().is_slow(Instant::now(), pace, reads)
    }

    /// Closes for a reason (RFC 6455 §7.4.1), and reads what the client still sends for a while; at
    /// once where the service stops.
    pub(super) async fn close(mut self, code: u16, reason: &'static str, stop: &StopSignal) {
        let frame = CloseFrame { code: CloseCode::from(code), reason: reason.into() };
        if !self.send(Message::Close(Some(frame)), || true).await || stop.is_stopping() {
            return;
        }
        // What came of a message, and its room, are given back before the rest is waited for.
        let mut stream = self.stream.into_inner().stream;
        drop(self.meter.lock().take_message_room());
        if timeout(limits::HTTP_WRITE_TIMEOUT, stream.shutdown()).await.is_err() {
            return;
        }
        let until = Instant::now() + limits::DRAIN_TIMEOUT;
        let (mut buffer, mut bytes) = (vec![0; READ_CHUNK], 0);
        while bytes <= limits::MAX_DRAINED_BYTES {
            match timeout_at(until, timeout(limits::DRAIN_PACE_WINDOW, stream.read(&mut buffer)))
                .await
            {
                Ok(Ok(Ok(read))) if read > 0 => bytes += read,
                _ => return,
            }
        }
    }
}

/// What came of the message that is not complete.
#[derive(Debug)]
struct MessageMeter {
    room: Reservation,
    bytes: usize,
    /// Since when its pace is looked at, and what had come then.
    window: Option<(Instant, usize)>,
    /// Why nothing more is read.
    full: Option<CapacityError>,
    /// Bytes that were written to the client.
    written: u64,
}

impl MessageMeter {
    fn count_received(&mut self, bytes: usize) -> io::Result<()> {
        self.bytes += bytes;
        self.room.grow(bytes).map_err(|full| {
            self.full = Some(full);
            io::Error::other(full)
        })
    }

    /// The message is complete: what it took goes with it.
    fn take_message_room(&mut self) -> Reservation {
        (self.bytes, self.window) = (0, None);
        self.room.take()
    }

    /// For so long nothing was read.
    fn pause_reading(&mut self, time: Duration) {
        if let Some((since, _)) = &mut self.window {
            *since += time;
        }
    }

    /// Whether the client took enough since so much had been written.
    fn is_read(&self, before: u64) -> bool {
        self.written.saturating_sub(before) >= limits::MIN_RESPONSE_PACE_BYTES as u64
    }

    /// Some of what came was not of the message.
    fn discount_received(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_sub(bytes);
        if self.bytes == 0 {
            self.take_message_room();
        }
    }

    fn is_slow(&mut self, now: Instant, pace: BodyPace, reads: bool) -> bool {
        let (since, before) = match self.window {
            Some(window) if reads && self.bytes > 0 => window,
            _ => {
                self.window = (self.bytes > 0).then_some((now, self.bytes));
                return false;
            }
        };
        if now.duration_since(since) < pace.window {
            return false;
        }
        self.window = Some((now, self.bytes));
        self.bytes.saturating_sub(before) < pace.least
    }
}

/// A stream of which is counted what was read.
#[derive(Debug)]
struct MeteredStream<S> {
    stream: S,
    meter: Arc<Mutex<MessageMeter>>,
}

impl<S: AsyncRead + Unpin> AsyncRead for MeteredStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        match Pin::new(&mut self.stream).poll_read(cx, into) {
            Poll::Ready(Ok(())) => {
                let read = into.filled().len().saturating_sub(before);
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

    fn meter(in_flight: &InFlight) -> MessageMeter {
        let room = in_flight.room("ann".into(), Bounds { all: 1000, each: 1000, free: 0 });
        MessageMeter { room, bytes: 0, window: None, full: None, written: 0 }
    }

    #[test]
    fn a_message_that_stays_unfinished_is_slow_and_an_idle_socket_is_not() {
        let mut meter = meter(&InFlight::default());
        let pace = BodyPace {
            window: Duration::from_secs(10),
            least: 100,
            whole: Duration::from_secs(60),
        };
        let begun = Instant::now();
        let slow = |meter: &mut MessageMeter, seconds, reads| {
            meter.is_slow(begun + Duration::from_secs(seconds), pace, reads)
        };
        assert!(!slow(&mut meter, 0, true) && !slow(&mut meter, 1000, true), "nothing was begun");
        meter.count_received(50).unwrap();
        assert!(!slow(&mut meter, 1010, true) && !slow(&mut meter, 1019, true));
        meter.count_received(100).unwrap();
        assert!(!slow(&mut meter, 1020, true), "fast enough");
        assert!(!slow(&mut meter, 1029, true));
        assert!(slow(&mut meter, 1030, true), "nothing came of the rest");
        // While it is not read it cannot come.
        assert!(!slow(&mut meter, 1050, false) && !slow(&mut meter, 1051, true));
        // Nor while the service sends, which may take long, and no less afterwards.
        assert!(!slow(&mut meter, 1059, true));
        meter.pause_reading(Duration::from_secs(600));
        assert!(!slow(&mut meter, 1659, true) && slow(&mut meter, 1660, true));
        drop(meter.take_message_room());
        assert!(!slow(&mut meter, 2000, true) && !slow(&mut meter, 3000, true));
        // A ping is no message.
        meter.count_received(8).unwrap();
        meter.discount_received(8);
        assert!(!slow(&mut meter, 4000, true) && !slow(&mut meter, 5000, true));
    }

    #[test]
    fn what_came_takes_room_until_its_message_is_answered() {
        let in_flight = InFlight::default();
        let (mut one, mut other) = (meter(&in_flight), meter(&in_flight));
        one.count_received(900).unwrap();
        assert!(other.count_received(101).is_err() && other.full == Some(CapacityError::Share));
        let held = one.take_message_room();
        assert!(one.count_received(101).is_err());
        drop(held);
        one.count_received(101).unwrap();
    }

    /// A client that reads on gets a large answer however long that takes, unless the service stops
    /// meanwhile; a client that takes next to nothing is left.
    #[tokio::test]
    async fn a_message_is_sent_as_long_as_the_client_takes_enough_of_it() {
        let in_flight = InFlight::default();
        for (step, goes_on, is_taken) in
            [(1 << 18, true, true), (1 << 10, true, false), (1 << 18, false, false)]
        {
            let (near, mut far) = tokio::io::duplex(1 << 10);
            let room = in_flight.room("ann".into(), Bounds { all: 1000, each: 1000, free: 0 });
            let mut socket = Socket::new(near, room, Duration::from_secs(1)).await;
            let reader = tokio::spawn(async move {
                let mut piece = vec![0; step];
                while far.read_exact(&mut piece).await.is_ok() {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            });
            // Twice as long as a client may read nothing.
            assert_eq!(
                socket.send_text("x".repeat(4 << 20), || goes_on).await,
                is_taken,
                "{step} {goes_on}"
            );
            drop(socket);
            reader.await.unwrap();
        }
    }
}
