//! The public listeners: TCP with TLS by rustls (HTTP/2 and HTTP/1.1 by ALPN), plain TCP on this
//! machine and behind a proxy, and Unix sockets for a proxy.
//!
//! - Certificate and settings are read for each connection, so a reload applies to new connections.
//! - One address may have a share of all connections, except the address of a trusted proxy.

use std::sync::Arc;

use axum::middleware::{from_fn, from_fn_with_state};

use super::connection::{HttpLimits, HttpListener, Timeouts};
use super::origin::Proxies;
use super::{Backend, auth, compress, cors, problem, routes};
use crate::account::LoginSource;
use crate::jmap::UploadSettings;
use crate::model::limits;
use crate::net::ceiling::Ceiling;
use crate::net::listen::{BoundListener, Peer};
use crate::net::stop::StopSignal;

/// The site's settings of the public listeners.
#[derive(Debug, Clone, Default)]
pub struct HttpSettings {
    /// TLS for TCP listeners; `None`: unencrypted, for this machine and for proxies.
    pub tls: Option<Arc<rustls::ServerConfig>>,
    /// The base of URLs, without a slash at the end; `None`: as the client's Host field says.
    pub url: Option<String>,
    pub proxies: Proxies,
    pub origins: AllowedOrigins,
    pub uploads: Arc<UploadSettings>,
    /// Whether changes may be pushed to loopback and private addresses.
    pub push_to_private: bool,
}

/// The origins (RFC 6454) of web pages whose scripts may use the API.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AllowedOrigins {
    /// Whether every page may use the API. `WebSockets` are still limited to `named`.
    pub all: bool,
    /// The origins that may use the API and open a WebSocket.
    pub named: Vec<String>,
}

/// Serves one listener until the service stops.
pub async fn serve_public(
    bound: BoundListener,
    backend: Arc<Backend>,
    ceiling: Ceiling,
    stop: StopSignal,
) {
    let router = routes()
        .route_layer(from_fn_with_state(Arc::clone(&backend), auth::authenticate))
        .layer(from_fn(problem::add_problem_details))
        .layer(from_fn_with_state(Arc::clone(&backend), cors::guard))
        .layer(from_fn(compress::zstd))
        .layer(compress::layer())
        .with_state(Arc::clone(&backend));
    let http_limits = HttpLimits::new(ceiling);
    let settings = backend.http.clone();
    let permit = move |peer| match peer {
        // A proxy has the connections of many users.
        peer if settings.get().trusts(peer) => http_limits.permit(),
        Peer::Unix(_) => http_limits.permit(),
        Peer::Tcp(address) => {
            let max = (http_limits.max_connections() / limits::HTTP_ADDRESS_DIVISOR)
                .max(limits::MIN_HTTP_CONNECTIONS_PER_ADDRESS);
            http_limits.permit_for(format!("{:?}", LoginSource::from(address)), max)
        }
    };
    let tls = move |peer| match peer {
        Peer::Tcp(_) => backend.http.get().tls.clone(),
        Peer::Unix(_) => None,
    };
    HttpListener { router, permit, tls, timeouts: Timeouts::default() }.serve(bound, stop).await;
}
