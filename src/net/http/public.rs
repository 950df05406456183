//! The public door: TCP with TLS by rustls (HTTP/2 and HTTP/1.1 by ALPN), plain TCP on this machine
//! and behind a proxy, and Unix sockets for a proxy.
//!
//! Certificate and settings are taken for each connection anew, so a reload holds from the next one
//! on. Of one address there are at most a quarter of all connections that may be, unless it is a
//! trusted proxy's.

use std::sync::Arc;

use axum::middleware::{from_fn, from_fn_with_state};

use super::connection::{HttpLimits, HttpListener, Times};
use super::origin::Proxies;
use super::{Backend, auth, compress, cors, problem, routes};
use crate::account::LoginSource;
use crate::jmap::UploadSettings;
use crate::model::limits;
use crate::net::ceiling::Ceiling;
use crate::net::listen::{BoundListener, Peer};
use crate::net::stop::StopSignal;

/// What a site sets.
#[derive(Debug, Clone, Default)]
pub struct HttpSettings {
    /// TLS for TCP; `None`: in the clear, for this machine and for proxies.
    pub tls: Option<Arc<rustls::ServerConfig>>,
    /// What URLs begin with, no slash at the end; `None`: as the client's Host says.
    pub url: Option<String>,
    /// Proxies that are trusted to say for which client a request is.
    pub proxies: Proxies,
    /// Whose scripts may ask.
    pub origins: AllowedOrigins,
    /// What may be uploaded.
    pub uploads: Arc<UploadSettings>,
    /// Whether changes may be pushed to addresses of the inside.
    pub push_to_private: bool,
}

/// Web pages whose scripts may ask, by their origins (RFC 6454).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AllowedOrigins {
    /// Whether every page may ask; a WebSocket is still opened for `named` ones alone.
    pub all: bool,
    /// Origins that may ask, and open a WebSocket.
    pub named: Vec<String>,
}

/// Serves one listener until the end.
pub async fn serve_public(
    bound: BoundListener,
    backend: Arc<Backend>,
    ceiling: Ceiling,
    stop: StopSignal,
) {
    let router = routes()
        .route_layer(from_fn_with_state(Arc::clone(&backend), auth::authenticate))
        .layer(from_fn(problem::shape))
        .layer(from_fn_with_state(Arc::clone(&backend), cors::guard))
        .layer(from_fn(compress::zstd))
        .layer(compress::layer())
        .with_state(Arc::clone(&backend));
    let places = HttpLimits::new(ceiling);
    let settings = backend.http.clone();
    let place = move |peer| match peer {
        // A proxy brings many people.
        peer if settings.get().trusts(peer) => places.permit(),
        Peer::Unix(_) => places.permit(),
        Peer::Tcp(address) => {
            let most = (places.most() / limits::HTTP_ADDRESS_DIVISOR)
                .max(limits::MIN_HTTP_CONNECTIONS_PER_ADDRESS);
            places.permit_for(format!("{:?}", LoginSource::from(address)), most)
        }
    };
    let tls = move |peer| match peer {
        Peer::Tcp(_) => backend.http.get().tls.clone(),
        Peer::Unix(_) => None,
    };
    HttpListener { router, place, tls, times: Times::default() }.serve(bound, stop).await;
}
