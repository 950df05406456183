//! Serves JMAP on the public listeners, where clients log in.
//!
//! - A TCP listener has TLS if a certificate is configured, with HTTP/2 and HTTP/1.1 (ALPN).
//!   Without TLS it is for clients on this machine and for proxies. A Unix socket is for a proxy,
//!   and has no TLS.
//! - The certificate and the limits of connections are read for each connection, and the other
//!   settings for each request, so a reload applies to those that begin afterwards.
//! - One IPv4 address or IPv6 /64 network may have only a part of all connections, at all listeners
//!   together. A trusted proxy or a Unix socket has no limit of its own, because it has the
//!   connections of many users.

use std::sync::Arc;

use axum::middleware::{from_fn, from_fn_with_state};

use super::connection::{HttpLimits, HttpListener, Timeouts};
use super::origin::Proxies;
use super::{Backend, auth, compress, cors, problem, routes};
use crate::account::LoginSource;
use crate::jmap::UploadSettings;
use crate::model::limits;
use crate::net::listen::{BoundListener, Peer};
use crate::net::stop::StopSignal;

#[derive(Debug, Clone, Default)]
pub struct HttpSettings {
    /// TLS of TCP listeners; `None`: not encrypted.
    pub tls: Option<Arc<rustls::ServerConfig>>,
    /// The base of URLs, without a slash at the end. `None`: made from the client's Host field.
    pub url: Option<String>,
    pub proxies: Proxies,
    pub origins: AllowedOrigins,
    pub uploads: Arc<UploadSettings>,
    /// Whether push subscriptions may lead to loopback and private addresses.
    pub push_to_private: bool,
}

/// The origins (RFC 6454) of web pages whose scripts may use the API.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AllowedOrigins {
    /// Whether every page may use the API. Only pages of `named` origins and of this service may
    /// open a WebSocket even then.
    pub all: bool,
    /// The origins that may use the API and open a WebSocket.
    pub named: Vec<String>,
}

/// Serves a public listener until the service stops. `http_limits` bounds the connections of all
/// public listeners together, so each must be given a clone of the same one.
pub async fn serve_public(
    bound: BoundListener,
    backend: Arc<Backend>,
    http_limits: HttpLimits,
    stop: StopSignal,
) {
    // A request passes the layers from the last to the first. `route_layer` applies to existing
    // paths only, so any other path gets 404 without a login.
    let router = routes()
        .route_layer(from_fn_with_state(Arc::clone(&backend), auth::authenticate))
        .layer(from_fn(problem::add_problem_details))
        .layer(from_fn_with_state(Arc::clone(&backend), cors::guard))
        .layer(from_fn(compress::zstd))
        .layer(compress::layer())
        .with_state(Arc::clone(&backend));
    let settings = backend.http.clone();
    let permit = move |peer| match peer {
        peer if settings.get().trusts(peer) => http_limits.permit(),
        Peer::Unix(_) => http_limits.permit(),
        Peer::Tcp(address) => {
            let max = (http_limits.max_connections() / limits::HTTP_ADDRESS_DIVISOR)
                .max(limits::MIN_HTTP_CONNECTIONS_PER_ADDRESS);
            // The debug form differs for each source.
            let source = format!("{:?}", LoginSource::from(address));
            http_limits.permit_for(source, max)
        }
    };
    let tls = move |peer| match peer {
        Peer::Tcp(_) => backend.http.get().tls.clone(),
        Peer::Unix(_) => None,
    };
    HttpListener { router, permit, tls, timeouts: Timeouts::default() }.serve(bound, stop).await;
}
