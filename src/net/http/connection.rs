//! Serves the connections of one HTTP listener within limits.
//!
//! - Each connection needs a permit of the listener (`HttpLimits`).
//! - A connection without an active request is shut down after `Timeouts::idle`, which is checked
//!   four times in that time. Answers to HTTP/2 pings do not count. The connection is dropped if
//!   the client leaves it open for as long again. An event stream and a WebSocket are active
//!   requests.
//! - A connection is closed, with all its requests, if the client does not read a response, reads
//!   it too slowly (`response_pace`), or does not answer pings.
//! - When the service stops, a connection is shut down. It is dropped if it stays open without an
//!   active request and without a write for `Timeouts::stopping`, as that of a client whose machine
//!   sleeps.

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
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at, timeout};
use tokio_rustls::TlsAcceptor;

use super::origin::ConnectionInfo;
use super::response_pace::ResponsePace;
use super::unread_body;
use super::write_timeout::{WriteProgress, WriteTimeout};
use crate::model::limits;
use crate::net::ceiling::{Ceiling, ConnectionPermit};
use crate::net::concurrency::{ConcurrencyLimit, ConcurrencyPermit};
use crate::net::listen::{BoundListener, ByteStream, Peer};
use crate::net::stop::StopSignal;

const TLS_HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
const HTTP2_PING_INTERVAL: Duration = Duration::from_secs(60);
const HTTP2_PING_TIMEOUT: Duration = Duration::from_secs(20);
const MAX_HEAD_BYTES: usize = 32 * 1024;
/// The most bytes passed to hyper at a time.
const WRITE_CHUNK: usize = 16 * 1024;
const MAX_HTTP2_STREAMS: u32 = 64;

#[derive(Debug, Clone, Copy)]
pub(super) struct Timeouts {
    /// How long a connection may be without an active request.
    pub(super) idle: Duration,
    /// The time in which a client must read `limits::MIN_RESPONSE_PACE_BYTES` of a response. The
    /// connection must also take some of the bytes that wait to be written to it in this time.
    pub(super) unread: Duration,
    /// While the service stops: how long a connection may be without an active request and without
    /// a write.
    pub(super) stopping: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            idle: limits::HTTP_IDLE_TIMEOUT,
            unread: limits::HTTP_WRITE_TIMEOUT,
            stopping: Duration::from_secs(3),
        }
    }
}

/// Permits one connection until dropped.
#[derive(Debug)]
pub(super) struct HttpPermit {
    _of_all: Option<ConnectionPermit>,
    _of_client: Option<ConcurrencyPermit>,
}

/// Bounds the connections of one listener or of several. Clones share the counts.
#[derive(Debug, Clone)]
pub struct HttpLimits {
    /// Other listeners may share this one.
    all: Ceiling,
    /// Counts by client. Its bound is given with each connection.
    each: ConcurrencyLimit,
}

impl HttpLimits {
    #[must_use]
    pub fn new(all: Ceiling) -> Self {
        Self { all, each: ConcurrencyLimit::new(usize::MAX) }
    }

    /// Takes a permit that counts among all connections and among those of `client`. `client` may
    /// have at most `max` connections. Returns `None` at a limit, as do `permit` and
    /// `reserved_permit_for`.
    pub(super) fn permit_for(&self, client: String, max: usize) -> Option<HttpPermit> {
        let of_client = self.each.enter_within(client, max)?;
        let of_all = self.all.connection_permit()?;
        Some(HttpPermit { _of_all: Some(of_all), _of_client: Some(of_client) })
    }

    /// Takes a permit that is bounded only by the limit of all connections.
    pub(super) fn permit(&self) -> Option<HttpPermit> {
        Some(HttpPermit { _of_all: Some(self.all.connection_permit()?), _of_client: None })
    }

    /// Takes one of `max` permits that do not count among all connections, so that other clients
    /// cannot use them up.
    pub(super) fn reserved_permit_for(&self, client: String, max: usize) -> Option<HttpPermit> {
        Some(HttpPermit { _of_all: None, _of_client: Some(self.each.enter_within(client, max)?) })
    }

    pub(super) fn max_connections(&self) -> usize {
        self.all.max_connections()
    }
}

/// What a listener does with a connection. `permit` and `tls` are called with the client.
#[derive(Debug, Clone)]
pub(super) struct HttpListener<F, G> {
    pub(super) router: Router,
    /// Returns the permit of a connection, or `None` to refuse it.
    pub(super) permit: F,
    /// Returns the TLS of a connection, or `None` for plain HTTP.
    pub(super) tls: G,
    pub(super) timeouts: Timeouts,
}

impl<F, G> HttpListener<F, G>
where
    F: Fn(Peer) -> Option<HttpPermit>,
    G: Fn(Peer) -> Option<Arc<rustls::ServerConfig>>,
{
    /// Serves the connections of a listener until the service stops.
    pub(super) async fn serve(self, bound: BoundListener, mut stop: StopSignal) {
        while let Some((stream, peer)) = bound.next(&mut stop).await {
            let tls = (self.tls)(peer);
            let Some(permit) = (self.permit)(peer) else {
                refuse(stream, tls.is_some()).await;
                continue;
            };
            let connection = ConnectionInfo {
                peer,
                is_tls: tls.is_some(),
                _permit: Arc::new(permit),
                _request: None,
            };
            let service = ConnectionService {
                router: self.router.clone(),
                connection,
                timeouts: self.timeouts,
            };
            tokio::spawn(service.serve_stream(stream, tls, stop.clone()));
        }
    }
}

/// Answers 503 if the answer can be written at once, and closes the connection. With TLS there is
/// no answer, because it would need a handshake.
async fn refuse(mut stream: Box<dyn ByteStream>, is_tls: bool) {
    const REFUSAL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\n\
        retry-after: 1\r\nconnection: close\r\n\
        content-type: application/problem+json\r\ncontent-length: 84\r\n\r\n\
        {\"type\":\"about:blank\",\"status\":503,\
        \"detail\":\"too many connections: try again later\"}";
    if !is_tls {
        let write = std::future::poll_fn(|cx| {
            Poll::Ready(Pin::new(&mut stream).poll_write(cx, REFUSAL).is_ready())
        });
        let _written = write.await;
    }
}

/// Serves one connection.
struct ConnectionService {
    router: Router,
    connection: ConnectionInfo,
    timeouts: Timeouts,
}

impl ConnectionService {
    /// Begins TLS if it is given, and serves HTTP.
    async fn serve_stream(
        self,
        stream: Box<dyn ByteStream>,
        tls: Option<Arc<rustls::ServerConfig>>,
        mut stop: StopSignal,
    ) {
        let (stream, peer) =
            (WriteTimeout::new(stream, self.timeouts.unread), self.connection.peer);
        let writes = stream.progress();
        match tls {
            None => self.serve_http(stream, &writes, stop).await,
            Some(config) => {
                let handshake = TlsAcceptor::from(config).accept(stream);
                let accepted = tokio::select! {
                    biased;
                    () = stop.wait() => return,
                    accepted = timeout(TLS_HANDSHAKE_TIMEOUT, handshake) => accepted,
                };
                match accepted {
                    Ok(Ok(stream)) => self.serve_http(stream, &writes, stop).await,
                    Ok(Err(error)) => tracing::debug!(%peer, %error, "TLS handshake failed"),
                    Err(_) => tracing::debug!(%peer, "TLS handshake took too long"),
                }
            }
        }
    }

    /// Serves HTTP/1.1 or HTTP/2 until the connection is closed. Regularly looks whether it is idle
    /// or read too slowly. `writes` is that of the stream below TLS.
    async fn serve_http(
        self,
        stream: impl ByteStream + 'static,
        writes: &WriteProgress,
        mut stop: StopSignal,
    ) {
        let Self { router, connection, timeouts } = self;
        let mut builder = Builder::new(TokioExecutor::new());
        builder
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(timeouts.idle)
            .max_buf_size(MAX_HEAD_BYTES);
        builder
            .http2()
            .timer(TokioTimer::new())
            .keep_alive_interval(HTTP2_PING_INTERVAL)
            .keep_alive_timeout(HTTP2_PING_TIMEOUT)
            .max_concurrent_streams(MAX_HTTP2_STREAMS)
            .max_header_list_size(u32::try_from(MAX_HEAD_BYTES).unwrap_or(u32::MAX))
            .enable_connect_protocol();
        let peer = connection.peer;
        let activity = Arc::new(Activity::default());
        let service_activity = Arc::clone(&activity);
        let service = service_fn(move |request: Request<Incoming>| {
            let guard = Arc::new(RequestGuard::begin(&service_activity));
            let connection =
                ConnectionInfo { _request: Some(Arc::clone(&guard)), ..connection.clone() };
            let router = TowerToHyperService::new(router.clone());
            let activity = Arc::clone(&service_activity);
            async move {
                let (mut request, rest) = unread_body::split_body(request);
                request.extensions_mut().insert(connection);
                let mut response = router.call(request).await?;
                rest.drain(Arc::clone(&guard));
                let hold = response.extensions_mut().remove::<ResponseHold>();
                let pace = activity.begin_response(Instant::now());
                Ok::<_, Infallible>(response.map(|body| {
                    Body::new(ResponseBody {
                        body,
                        rest: Bytes::new(),
                        pace,
                        _request: guard,
                        _hold: hold,
                    })
                }))
            }
        });
        let served = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
        tokio::pin!(served);
        let (mut max_idle, mut check) = (timeouts.idle, checks_within(timeouts.idle));
        let (mut last_active, mut last_total, mut last_written) = (Instant::now(), 0, 0);
        let (mut is_stopping, mut is_closing) = (false, false);
        let result = loop {
            tokio::select! {
                result = served.as_mut() => break result,
                () = stop.wait(), if !is_stopping => {
                    served.as_mut().graceful_shutdown();
                    (is_stopping, is_closing, max_idle) = (true, true, timeouts.stopping);
                    (last_active, check) = (Instant::now(), checks_within(max_idle));
                    last_written = writes.written.load(Ordering::Relaxed);
                }
                now = check.tick() => {
                    if activity.is_read_slowly(now, timeouts.unread) {
                        tracing::debug!(%peer, "the client reads a response too slowly");
                        return;
                    }
                    let total = activity.total_requests.load(Ordering::Acquire);
                    let written = writes.written.load(Ordering::Relaxed);
                    // The end of the last response may still be on its way.
                    let is_writing = is_stopping
                        && (written != last_written || writes.is_pending.load(Ordering::Relaxed));
                    if activity.active_requests.load(Ordering::Acquire) > 0
                        || total != last_total
                        || is_writing
                    {
                        (last_active, last_total, last_written) = (now, total, written);
                    } else if now.duration_since(last_active) >= max_idle {
                        if is_closing {
                            return;
                        }
                        // The client has the idle time once more to close the connection itself.
                        (last_active, is_closing) = (now, true);
                        served.as_mut().graceful_shutdown();
                    }
                }
            }
        };
        if let Err(error) = result {
            tracing::debug!(%peer, %error, "connection lost");
        }
    }
}

/// Ticks four times in `time`, the first time after a quarter of it.
fn checks_within(time: Duration) -> Interval {
    let mut checks = interval_at(Instant::now() + time / 4, time / 4);
    checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    checks
}

/// The requests of one connection.
#[derive(Debug, Default)]
struct Activity {
    /// All requests so far.
    total_requests: AtomicU64,
    /// The requests of which something is still to be sent or received (`RequestGuard`).
    active_requests: AtomicUsize,
    /// The paces of the responses that are being sent, and of some that were sent.
    responses: Mutex<Vec<Weak<Mutex<ResponsePace>>>>,
}

impl Activity {
    fn begin_response(&self, now: Instant) -> Arc<Mutex<ResponsePace>> {
        let pace = Arc::new(Mutex::new(ResponsePace::begin(now)));
        let mut responses = self.responses.lock();
        responses.retain(|response| response.strong_count() > 0);
        responses.push(Arc::downgrade(&pace));
        pace
    }

    fn is_read_slowly(&self, now: Instant, window: Duration) -> bool {
        let responses = self.responses.lock();
        responses.iter().filter_map(Weak::upgrade).any(|pace| pace.lock().is_slow(now, window))
    }
}

/// Counts as an active request until dropped. It is kept by the response until that is sent, by the
/// rest of the request's body until that is discarded, and by a WebSocket.
#[derive(Debug)]
pub(super) struct RequestGuard(Arc<Activity>);

impl RequestGuard {
    fn begin(activity: &Arc<Activity>) -> Self {
        activity.total_requests.fetch_add(1, Ordering::AcqRel);
        activity.active_requests.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(activity))
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        self.0.active_requests.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A value, such as a permit, that a response keeps until it is sent or the connection ends.
#[derive(Clone)]
pub(super) struct ResponseHold(
    #[expect(dead_code, reason = "held until dropped")] pub(super) Arc<dyn Any + Send + Sync>,
);

/// The body of a response, whose request is active until the body is sent. It is passed to hyper in
/// chunks, because hyper buffers what it gets: only bytes that are still here count as unsent.
struct ResponseBody {
    body: Body,
    /// Bytes taken from `body`, and not yet passed to hyper.
    rest: Bytes,
    pace: Arc<Mutex<ResponsePace>>,
    _request: Arc<RequestGuard>,
    _hold: Option<ResponseHold>,
}

impl HttpBody for ResponseBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        self.pace.lock().chunk_requested(Instant::now());
        if self.rest.is_empty() {
            let Poll::Ready(next) = Pin::new(&mut self.body).poll_frame(cx) else {
                self.pace.lock().restart();
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
        let length = self.rest.len().min(WRITE_CHUNK);
        self.pace.lock().chunk_sent(length, Instant::now());
        Poll::Ready(Some(Ok(Frame::data(self.rest.split_to(length)))))
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
    pub(super) fn uncounted(peer: Peer, is_tls: bool) -> Self {
        Self {
            peer,
            is_tls,
            _permit: Arc::new(HttpPermit { _of_all: None, _of_client: None }),
            _request: None,
        }
    }
}

#[cfg(test)]
mod tests;
