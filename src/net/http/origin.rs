//! Finds the address of a client, from the connection or from the fields of a trusted proxy, and
//! the base of its URLs. Fields of any other client that name an address are ignored.

use std::net::IpAddr;
use std::sync::Arc;

use axum::http::{HeaderMap, StatusCode, Uri};

use super::connection::{HttpPermit, RequestGuard};
use super::problem::Problem;
use super::public::HttpSettings;
use crate::account::LoginSource;
use crate::net::listen::Peer;
use crate::wire::http::{Network, authority, client, forwarded, x_forwarded_for};

/// The proxies that are trusted to name the client's address.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Proxies {
    /// Whether every process that connects to a Unix socket is trusted.
    pub unix: bool,
    pub networks: Vec<Network>,
    /// Whether proxies use `Forwarded` (RFC 7239) instead of `X-Forwarded-For`.
    pub standard: bool,
}

/// The connection of a request; an extension of every request.
#[derive(Debug, Clone)]
pub(super) struct ConnectionInfo {
    pub(super) peer: Peer,
    pub(super) is_tls: bool,
    /// Kept until the connection ends, also by a WebSocket.
    pub(super) _permit: Arc<HttpPermit>,
    /// Keeps the request active; `None` outside of a request.
    pub(super) _request: Option<Arc<RequestGuard>>,
}

impl HttpSettings {
    /// Whether this client is a proxy that is trusted.
    pub(super) fn trusts(&self, peer: Peer) -> bool {
        match peer {
            Peer::Unix(_) => self.proxies.unix,
            Peer::Tcp(address) => {
                self.proxies.networks.iter().any(|network| network.contains(address))
            }
        }
    }
}

#[derive(Debug, PartialEq)]
pub(super) struct RequestSource {
    /// The source under which failed logins are counted.
    pub(super) login_source: LoginSource,
    /// `None` if the client came over a Unix socket and no proxy names an address.
    pub(super) address: Option<IpAddr>,
    /// The base of URLs in responses: that of the settings, or made of the request's host. A proxy
    /// that is trusted is taken to serve `https`.
    pub(super) base: String,
}

/// Returns where a request came from, by its connection or by the fields of a trusted proxy.
///
/// # Errors
/// - 403: the request came unencrypted over a network, and not from a trusted proxy.
/// - 400: no URL is configured, and the request has no valid host.
pub(super) fn request_source(
    settings: &HttpSettings,
    connection: &ConnectionInfo,
    uri: &Uri,
    headers: &HeaderMap,
) -> Result<RequestSource, Problem> {
    let peer = match connection.peer {
        Peer::Unix(_) => None,
        Peer::Tcp(address) => Some(address.to_canonical()),
    };
    let (proxies, trusted) = (&settings.proxies, settings.trusts(connection.peer));
    if !connection.is_tls && !trusted && peer.is_some_and(|address| !address.is_loopback()) {
        let detail = "requests over a network must be encrypted: \
                      use https, or a proxy that is trusted here";
        return Err(Problem::new(StatusCode::FORBIDDEN, detail));
    }
    let address = if trusted {
        let name = if proxies.standard { "forwarded" } else { "x-forwarded-for" };
        let fields = headers.get_all(name).iter().map(axum::http::HeaderValue::as_bytes);
        let hops = if proxies.standard { forwarded(fields) } else { x_forwarded_for(fields) };
        client(peer, &hops, &proxies.networks)
    } else {
        peer
    };
    let base = match &settings.url {
        Some(url) => url.clone(),
        None => {
            // HTTP/2 has the host in `:authority`.
            let host = uri.authority().map(axum::http::uri::Authority::as_str);
            let host = host
                .map(str::as_bytes)
                .or_else(|| headers.get("host").map(axum::http::HeaderValue::as_bytes));
            let host = host.and_then(authority);
            let host = host.ok_or_else(|| {
                Problem::new(StatusCode::BAD_REQUEST, "the request has no valid Host field")
            })?;
            format!("{}://{host}", if connection.is_tls || trusted { "https" } else { "http" })
        }
    };
    Ok(RequestSource {
        login_source: address.map_or(LoginSource::LOCAL, LoginSource::from),
        address,
        base,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(url: Option<&str>, networks: &[&str], unix: bool) -> HttpSettings {
        let networks = networks.iter().map(|text| text.parse().unwrap()).collect();
        let proxies = Proxies { unix, networks, standard: false };
        HttpSettings { url: url.map(str::to_owned), proxies, ..HttpSettings::default() }
    }

    fn source(
        settings: &HttpSettings,
        peer: Option<&str>,
        is_tls: bool,
        fields: &[(&'static str, &str)],
    ) -> Result<RequestSource, u16> {
        let peer = peer.map_or(Peer::Unix(None), |text| Peer::Tcp(text.parse().unwrap()));
        let headers = fields.iter().map(|(name, value)| {
            (
                axum::http::HeaderName::from_static(name),
                value.parse::<axum::http::HeaderValue>().unwrap(),
            )
        });
        let found = request_source(
            settings,
            &ConnectionInfo::uncounted(peer, is_tls),
            &Uri::from_static("/jmap"),
            &headers.collect(),
        );
        found.map_err(|problem| problem.status().as_u16())
    }

    #[test]
    fn admits_unencrypted_requests_only_from_this_machine_or_a_proxy() {
        let (none, host) = (settings(None, &[], false), [("host", "mail.example.org")]);
        assert_eq!(source(&none, Some("192.0.2.1"), false, &host), Err(403));
        assert_eq!(
            source(&none, Some("192.0.2.1"), true, &host).unwrap().base,
            "https://mail.example.org"
        );
        assert_eq!(
            source(&none, Some("::1"), false, &host).unwrap().base,
            "http://mail.example.org"
        );
        assert_eq!(
            source(&none, Some("::ffff:127.0.0.1"), false, &host).unwrap().base,
            "http://mail.example.org"
        );
        assert_eq!(source(&none, None, false, &host).unwrap().login_source, LoginSource::LOCAL);
        let proxied = settings(None, &["192.0.2.0/24"], false);
        assert_eq!(
            source(&proxied, Some("192.0.2.1"), false, &host).unwrap().base,
            "https://mail.example.org"
        );
    }

    #[test]
    fn takes_the_address_from_the_fields_of_trusted_proxies_only() {
        let host = ("host", "mail.example.org");
        let fields = [host, ("x-forwarded-for", "203.0.113.9"), ("forwarded", "for=198.51.100.1")];
        let address = |settings: &HttpSettings, peer, is_tls| {
            source(settings, peer, is_tls, &fields)
                .unwrap()
                .address
                .map(|address| address.to_string())
        };
        let proxied = settings(None, &["127.0.0.1"], true);
        assert_eq!(address(&proxied, Some("127.0.0.1"), false).as_deref(), Some("203.0.113.9"));
        assert_eq!(address(&proxied, None, false).as_deref(), Some("203.0.113.9"));
        assert_eq!(address(&proxied, Some("192.0.2.1"), true).as_deref(), Some("192.0.2.1"));
        let mut standard = proxied.clone();
        standard.proxies.standard = true;
        assert_eq!(address(&standard, None, false).as_deref(), Some("198.51.100.1"));
        assert_eq!(address(&settings(None, &[], false), None, false), None);
    }

    #[test]
    fn base_is_the_configured_url_or_a_valid_host() {
        let configured = settings(Some("https://jmap.example.org"), &[], false);
        assert_eq!(
            source(&configured, None, false, &[("host", "a b")]).unwrap().base,
            "https://jmap.example.org"
        );
        let none = settings(None, &[], false);
        assert_eq!(source(&none, None, false, &[("host", "evil.example/\"")]), Err(400));
        assert_eq!(source(&none, None, false, &[]), Err(400));
    }
}
