//! The public door: TCP with TLS by rustls (HTTP/2 and HTTP/1.1 by ALPN), plain TCP on this machine and behind a proxy, and
//! Unix sockets for a proxy.
//!
//! Certificate and settings are taken for each connection anew, so a reload holds from the next one on. A connection that
//! begins no request, does not answer pings or does not read what it is sent is closed within a minute or so.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::Request;
use axum::middleware::{from_fn, from_fn_with_state};
use hyper::body::Incoming;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

use super::origin::{Connection, Proxies};
use super::patience::Patient;
use super::{Backend, auth, compress, cors, routes};
use crate::model::limits;
use crate::net::ceiling::Ceiling;
use crate::net::listen::{Bound, Peer, Stream};
use crate::net::stop::Stop;

/// What a site sets.
#[derive(Debug, Clone)]
pub struct HttpSettings {
    /// TLS for TCP; `None`: in the clear, for this machine and for proxies.
    pub tls: Option<Arc<rustls::ServerConfig>>,
    /// What URLs begin with, no slash at the end; `None`: as the client's Host says.
    pub url: Option<String>,
    /// Who says whom he speaks for.
    pub proxies: Proxies,
    /// Whose scripts may ask.
    pub origins: Origins,
    /// Media types that are refused on upload, in lower case; `video/*` is all of a kind.
    pub refused_types: Vec<String>,
    /// Octets of the largest upload.
    pub max_upload: u64,
    /// Whether changes may be pushed to addresses of the inside.
    pub push_to_private: bool,
}

impl Default for HttpSettings {
    fn default() -> Self {
        Self {
            tls: None,
            url: None,
            proxies: Proxies::default(),
            origins: Origins::default(),
            refused_types: Vec::new(),
            max_upload: limits::UPLOAD_OCTETS,
            push_to_private: false,
        }
    }
}

/// Web pages whose scripts may ask, by their origins (RFC 6454).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Origins {
    /// Whether every page may ask; a WebSocket is still opened for `named` ones alone.
    pub all: bool,
    /// Origins that may ask, and open a WebSocket.
    pub named: Vec<String>,
}

/// The longest handshake of TLS.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// The longest wait for the head of a request, the next one too.
const HEAD: Duration = Duration::from_secs(60);
/// How often an HTTP/2 client is asked whether it is there, and how long it may take to say so.
const PING: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(20));
/// The longest wait for a client to read.
const UNREAD: Duration = Duration::from_secs(60);
/// Octets of a request's head.
const HEAD_OCTETS: usize = 32 * 1024;
/// Requests of one HTTP/2 connection at once.
const STREAMS: u32 = 64;

/// Serves one listener until the end.
pub async fn serve_public(listener: Bound, backend: Arc<Backend>, ceiling: Ceiling, mut stop: Stop) {
    let router = routes()
        .route_layer(from_fn_with_state(Arc::clone(&backend), auth::known))
        .layer(from_fn_with_state(Arc::clone(&backend), cors::guard))
        .layer(from_fn(compress::zstd))
        .layer(compress::layer())
        .with_state(Arc::clone(&backend));
    loop {
        let accepted = tokio::select! {
            () = stop.pulled() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => {
                // Whoever comes when all places are taken is left at once: there is nothing to say before TLS.
                let Some(place) = ceiling.connection() else { continue };
                let tls = match peer {
                    Peer::Tcp(_) => backend.http.get().tls.clone(),
                    Peer::Unix => None,
                };
                let connection = Connection { peer, secured: tls.is_some(), _place: Arc::new(place) };
                tokio::spawn(connected(stream, tls, connection, router.clone(), stop.clone()));
            }
            Err(error) => {
                // Out of file descriptors, mostly: it passes.
                tracing::warn!(%error, "cannot accept");
                sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn connected(
    stream: Box<dyn Stream>,
    tls: Option<Arc<rustls::ServerConfig>>,
    connection: Connection,
    router: Router,
    stop: Stop,
) {
    let (stream, peer) = (Patient::new(stream, UNREAD), connection.peer);
    match tls {
        None => speak(stream, connection, router, stop).await,
        Some(config) => match timeout(HANDSHAKE, TlsAcceptor::from(config).accept(stream)).await {
            Ok(Ok(stream)) => speak(stream, connection, router, stop).await,
            Ok(Err(error)) => tracing::debug!(%peer, %error, "no TLS"),
            Err(_) => tracing::debug!(%peer, "TLS took too long"),
        },
    }
}

async fn speak(stream: impl Stream + 'static, connection: Connection, router: Router, mut stop: Stop) {
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD).max_buf_size(HEAD_OCTETS);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(PING.0)
        .keep_alive_timeout(PING.1)
        .max_concurrent_streams(STREAMS)
        .max_header_list_size(u32::try_from(HEAD_OCTETS).unwrap_or(u32::MAX))
        .enable_connect_protocol();
    let peer = connection.peer;
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(connection.clone());
        TowerToHyperService::new(router.clone()).call(request)
    });
    let served = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
    tokio::pin!(served);
    let done = tokio::select! {
        done = served.as_mut() => done,
        () = stop.pulled() => {
            served.as_mut().graceful_shutdown();
            served.await
        }
    };
    if let Err(error) = done {
        tracing::debug!(%peer, %error, "connection lost");
    }
}
