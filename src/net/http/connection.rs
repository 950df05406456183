//! Serves the connections of one HTTP listener, whichever door it is, within bounds.
//!
//! - Connections are bounded, in all and for each user or address, so that no client keeps the
//!   others out.
//! - A connection on which no request is under way is closed after `Times::idle`: one that never
//!   says anything, one that sends a head too slowly, and one of HTTP/2 that only answers pings. An
//!   event stream and a WebSocket are under way.
//! - A client that does not read what it is sent, or too slowly (`reading`), or does not answer
//!   pings, is left within a minute or so, and its other requests on the connection with it.
//! - What of a request is still unread when it is answered is read on for a while (`unread`), so
//!   that the client sees the answer.
//!
//! Who asks, and whether they may, is the business of the two doors (`control`, `public`).

use std::any::Any;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use hyper::body::{Body as HttpBody, Bytes, Frame, Incoming, SizeHint};
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use parking_lot::Mutex;
use tokio::io::AsyncWrite as _;
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout};
use tokio_rustls::TlsAcceptor;

use super::concurrency::{ConcurrencyLimit, ConcurrencyPermit};
use super::origin::ConnectionInfo;
use super::response_pace::ResponsePace;
use super::unread_body;
use super::write_timeout::WriteTimeout;
use crate::model::limits;
use crate::net::ceiling::{Ceiling, ConnectionPermit};
use crate::net::listen::{BoundListener, ByteStream, Peer};
use crate::net::stop::StopSignal;

/// The longest handshake of TLS.
const TLS_HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// How often an HTTP/2 client is asked whether it is there, and how long it may take to say so.
const HTTP2_PING: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(20));
/// Bytes of a request's head.
const MAX_HEAD_BYTES: usize = 32 * 1024;
/// Bytes of an answer that are handed over at once.
const WRITE_CHUNK: usize = 16 * 1024;
/// Requests of one HTTP/2 connection at once.
const MAX_HTTP2_STREAMS: u32 = 64;

/// How long a connection may do nothing.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    /// Without a request under way.
    pub(super) idle: Duration,
    /// Without reading what it is sent, or `limits::MIN_RESPONSE_PACE_BYTES` of it.
    pub(super) unread: Duration,
}

impl Default for Times {
    fn default() -> Self {
        Self { idle: limits::HTTP_IDLE_TIMEOUT, unread: limits::HTTP_WRITE_TIMEOUT }
    }
}

/// A connection's place under the ceiling, and among those of its user or address.
#[derive(Debug)]
pub(super) struct HttpPermit {
    _of_all: Option<ConnectionPermit>,
    _of_one: Option<ConcurrencyPermit>,
}

/// How many connections there may be.
#[derive(Debug, Clone)]
pub(super) struct HttpLimits {
    all: Ceiling,
    each: ConcurrencyLimit,
}

impl HttpLimits {
    pub(super) fn new(all: Ceiling) -> Self {
        Self { all, each: ConcurrencyLimit::new(usize::MAX) }
    }

    /// A place for a connection of `whose`, who may have `most` of them.
    pub(super) fn permit_for(&self, whose: String, most: usize) -> Option<HttpPermit> {
        let of_one = self.each.enter_within(whose, most)?;
        Some(HttpPermit { _of_all: Some(self.all.connection_permit()?), _of_one: Some(of_one) })
    }

    /// A place that only the ceiling bounds.
    pub(super) fn permit(&self) -> Option<HttpPermit> {
        Some(HttpPermit { _of_all: Some(self.all.connection_permit()?), _of_one: None })
    }

    /// A place that does not count among all: others cannot take it away. Of those, too, `whose`
    /// may have `most`.
    pub(super) fn reserved_permit_for(&self, whose: String, most: usize) -> Option<HttpPermit> {
        Some(HttpPermit { _of_all: None, _of_one: Some(self.each.enter_within(whose, most)?) })
    }

    /// How many there may be in all.
    pub(super) fn most(&self) -> usize {
        self.all.max_connections()
    }
}

/// One listener: what is behind it and by which bounds.
#[derive(Debug, Clone)]
pub(super) struct HttpListener<F, G> {
    pub(super) router: Router,
    /// Gives a new connection its place.
    pub(super) place: F,
    /// What to speak TLS with to a peer.
    pub(super) tls: G,
    pub(super) times: Times,
}

impl<F, G> HttpListener<F, G>
where
    F: Fn(Peer) -> Option<HttpPermit>,
    G: Fn(Peer) -> Option<Arc<rustls::ServerConfig>>,
{
    /// Serves until the end.
    pub(super) async fn serve(self, bound: BoundListener, mut stop: StopSignal) {
        while let Some((stream, peer)) = bound.next(&mut stop).await {
            let tls = (self.tls)(peer);
            let Some(place) = (self.place)(peer) else {
                turn_away(stream, tls.is_some()).await;
                continue;
            };
            let connection = ConnectionInfo {
                peer,
                secured: tls.is_some(),
                _place: Arc::new(place),
                _under_way: None,
            };
            let spoken =
                ConnectionService { router: self.router.clone(), connection, times: self.times };
            tokio::spawn(spoken.serve_stream(stream, tls, stop.clone()));
        }
    }
}

/// Says that there is no place, as far as that can be said at once: nobody is waited for.
async fn turn_away(mut stream: Box<dyn ByteStream>, secured: bool) {
    const REFUSAL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\n\
        content-type: application/problem+json\r\ncontent-length: 84\r\n\r\n\
        {\"type\":\"about:blank\",\"status\":503,\"detail\":\"too many connections: try again later\"}";
    if !secured {
        let write = std::future::poll_fn(|cx| {
            Poll::Ready(Pin::new(&mut stream).poll_write(cx, REFUSAL).is_ready())
        });
        let _written = write.await;
    }
}

/// What is spoken on one connection.
struct ConnectionService {
    router: Router,
    connection: ConnectionInfo,
    times: Times,
}

impl ConnectionService {
    async fn serve_stream(
        self,
        stream: Box<dyn ByteStream>,
        tls: Option<Arc<rustls::ServerConfig>>,
        stop: StopSignal,
    ) {
        let (stream, peer) = (WriteTimeout::new(stream, self.times.unread), self.connection.peer);
        match tls {
            None => self.serve_http(stream, stop).await,
            Some(config) => {
                match timeout(TLS_HANDSHAKE_TIMEOUT, TlsAcceptor::from(config).accept(stream)).await
                {
                    Ok(Ok(stream)) => self.serve_http(stream, stop).await,
                    Ok(Err(error)) => tracing::debug!(%peer, %error, "no TLS"),
                    Err(_) => tracing::debug!(%peer, "TLS took too long"),
                }
            }
        }
    }

    async fn serve_http(self, stream: impl ByteStream + 'static, mut stop: StopSignal) {
        let Self { router, connection, times } = self;
        let mut builder = Builder::new(TokioExecutor::new());
        builder
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(times.idle)
            .max_buf_size(MAX_HEAD_BYTES);
        builder
            .http2()
            .timer(TokioTimer::new())
            .keep_alive_interval(HTTP2_PING.0)
            .keep_alive_timeout(HTTP2_PING.1)
            .max_concurrent_streams(MAX_HTTP2_STREAMS)
            .max_header_list_size(u32::try_from(MAX_HEAD_BYTES).unwrap_or(u32::MAX))
            .enable_connect_protocol();
        let peer = connection.peer;
        let activity = Arc::new(Activity::default());
        let begun = Arc::clone(&activity);
        let service = service_fn(move |request: Request<Incoming>| {
            let under_way = Arc::new(RequestGuard::begin(&begun));
            let connection =
                ConnectionInfo { _under_way: Some(Arc::clone(&under_way)), ..connection.clone() };
            let router = TowerToHyperService::new(router.clone());
            let answers = Arc::clone(&begun);
            async move {
                let (mut request, rest) = unread_body::split_body(request);
                request.extensions_mut().insert(connection);
                let mut response = router.call(request).await?;
                rest.drain(Arc::clone(&under_way));
                let held = response.extensions_mut().remove::<ResponseHold>();
                let reading = answers.answer(Instant::now());
                Ok::<_, Infallible>(response.map(|body| {
                    Body::new(ResponseBody {
                        body,
                        rest: Bytes::new(),
                        reading,
                        _under_way: under_way,
                        _held: held,
                    })
                }))
            }
        });
        let served = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
        tokio::pin!(served);
        let look = times.idle / 4;
        let mut look = interval_at(Instant::now() + look, look);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut active, mut requests) = (Instant::now(), 0);
        let (mut stopping, mut ending) = (false, false);
        let done = loop {
            tokio::select! {
                done = served.as_mut() => break done,
                () = stop.wait(), if !stopping => {
                    stopping = true;
                    served.as_mut().graceful_shutdown();
                }
                now = look.tick() => {
                    if activity.is_read_slowly(now, times.unread) {
                        tracing::debug!(%peer, "an answer is read too slowly");
                        return;
                    }
                    let begun = activity.requests.load(Ordering::Acquire);
                    if activity.under_way.load(Ordering::Acquire) > 0 || begun != requests {
                        (active, requests) = (now, begun);
                    } else if now.duration_since(active) >= times.idle {
                        if ending {
                            return;
                        }
                        // It has as long again to go by itself.
                        (active, ending) = (now, true);
                        served.as_mut().graceful_shutdown();
                    }
                }
            }
        };
        if let Err(error) = done {
            tracing::debug!(%peer, %error, "connection lost");
        }
    }
}

/// What happens on a connection.
#[derive(Debug, Default)]
struct Activity {
    /// Requests since its beginning.
    requests: AtomicU64,
    /// Those that are not answered to the end.
    under_way: AtomicUsize,
    /// How the answers that go out are read.
    answers: Mutex<Vec<Weak<Mutex<ResponsePace>>>>,
}

impl Activity {
    /// Takes note of an answer that goes out.
    fn answer(&self, now: Instant) -> Arc<Mutex<ResponsePace>> {
        let reading = Arc::new(Mutex::new(ResponsePace::begin(now)));
        let mut answers = self.answers.lock();
        answers.retain(|answer| answer.strong_count() > 0);
        answers.push(Arc::downgrade(&reading));
        reading
    }

    /// Whether the client takes too little of any of them.
    fn is_read_slowly(&self, now: Instant, window: Duration) -> bool {
        let answers = self.answers.lock();
        answers.iter().filter_map(Weak::upgrade).any(|reading| reading.lock().is_slow(now, window))
    }
}

/// One request that is under way, until it is dropped.
#[derive(Debug)]
pub(super) struct RequestGuard(Arc<Activity>);

impl RequestGuard {
    fn begin(of: &Arc<Activity>) -> Self {
        of.requests.fetch_add(1, Ordering::AcqRel);
        of.under_way.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(of))
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::AcqRel);
    }
}

/// What an answer holds until it is sent, or the client has gone.
#[derive(Clone)]
pub(super) struct ResponseHold(
    #[expect(dead_code, reason = "dropped with the answer")] pub(super) Arc<dyn Any + Send + Sync>,
);

/// The body of an answer, whose request is under way until it is sent. It goes out in pieces: what
/// is handed over to hyper is buffered there whatever the client takes, and the rest of the answer
/// counts as unsent only while it is here.
struct ResponseBody {
    body: Body,
    /// What was taken from the body and is not handed over yet.
    rest: Bytes,
    reading: Arc<Mutex<ResponsePace>>,
    _under_way: Arc<RequestGuard>,
    _held: Option<ResponseHold>,
}

impl HttpBody for ResponseBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        self.reading.lock().piece_wanted(Instant::now());
        if self.rest.is_empty() {
            let Poll::Ready(next) = Pin::new(&mut self.body).poll_frame(cx) else {
                self.reading.lock().restart();
                return Poll::Pending;
            };
            match next {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.rest = data,
                    Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                },
                end => return Poll::Ready(end),
            }
        }
        let piece = self.rest.len().min(WRITE_CHUNK);
        self.reading.lock().piece_sent(piece, Instant::now());
        Poll::Ready(Some(Ok(Frame::data(self.rest.split_to(piece)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (of_body, rest) = (self.body.size_hint(), self.rest.len() as u64);
        let mut hint = SizeHint::new();
        hint.set_lower(of_body.lower().saturating_add(rest));
        if let Some(upper) = of_body.upper() {
            hint.set_upper(upper.saturating_add(rest));
        }
        hint
    }
}

#[cfg(test)]
impl ConnectionInfo {
    /// One that counts nowhere.
    pub(super) fn alone(peer: Peer, secured: bool) -> Self {
        Self {
            peer,
            secured,
            _place: Arc::new(HttpPermit { _of_all: None, _of_one: None }),
            _under_way: None,
        }
    }
}

#[cfg(test)]
mod tests;
