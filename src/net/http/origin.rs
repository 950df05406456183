//! Where a client is, and by which URL it came: of the connection, or as a trusted proxy says.

use std::net::IpAddr;
use std::sync::Arc;

use axum::http::{HeaderMap, StatusCode, Uri};

use super::connection::{HttpPermit, RequestGuard};
use super::problem::Problem;
use super::public::HttpSettings;
use crate::account::LoginSource;
use crate::net::listen::Peer;
use crate::wire::http::{Network, authority, client, forwarded, x_forwarded_for};

/// Proxies that say whom they speak for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Proxies {
    /// Every process that may open the Unix socket.
    pub unix: bool,
    /// Those at these addresses.
    pub networks: Vec<Network>,
    /// Whether they say it in `Forwarded` (RFC 7239), not in `X-Forwarded-For`.
    pub standard: bool,
}

#[derive(Debug, Clone)]
pub(super) struct ConnectionInfo {
    /// Who is at the other end.
    pub(super) peer: Peer,
    /// Whether by TLS.
    pub(super) secured: bool,
    /// Its place among those that may be; a WebSocket keeps it.
    pub(super) _place: Arc<HttpPermit>,
    /// The request that this stands with, which is under way as long as it is held; none outside of
    /// a request.
    pub(super) _under_way: Option<Arc<RequestGuard>>,
}

impl HttpSettings {
    /// Whether a peer says whom it speaks for.
    pub(super) fn trusts(&self, peer: Peer) -> bool {
        match peer {
            Peer::Unix(_) => self.proxies.unix,
            Peer::Tcp(address) => {
                self.proxies.networks.iter().any(|network| network.contains(address))
            }
        }
    }
}

/// Where a request is from.
#[derive(Debug, PartialEq)]
pub(super) struct RequestSource {
    /// By what failures are counted.
    pub(super) source: LoginSource,
    /// The address, for the log.
    pub(super) address: Option<IpAddr>,
    /// What URLs begin with.
    pub(super) base: String,
}

/// Finds out where a request is from.
///
/// # Errors
/// It came in the clear over a network; its Host is none.
pub(super) fn origin(
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
    if !connection.secured && !trusted && peer.is_some_and(|address| !address.is_loopback()) {
        let detail = "nothing is served in the clear over a network: use https, or a proxy that is trusted here";
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
            // HTTP/2 says it in `:authority`.
            let said = uri.authority().map(axum::http::uri::Authority::as_str);
            let said = said
                .map(str::as_bytes)
                .or_else(|| headers.get("host").map(axum::http::HeaderValue::as_bytes));
            let host = said.and_then(authority);
            let host = host.ok_or_else(|| {
                Problem::new(StatusCode::BAD_REQUEST, "no Host that a URL can be made of")
            })?;
            format!("{}://{host}", if connection.secured || trusted { "https" } else { "http" })
        }
    };
    Ok(RequestSource {
        source: address.map_or(LoginSource::LOCAL, LoginSource::from),
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

    fn from(
        settings: &HttpSettings,
        peer: Option<&str>,
        secured: bool,
        fields: &[(&'static str, &str)],
    ) -> Result<RequestSource, u16> {
        let peer = peer.map_or(Peer::Unix(None), |text| Peer::Tcp(text.parse().unwrap()));
        let headers = fields.iter().map(|(name, value)| {
            (
                axum::http::HeaderName::from_static(name),
                value.parse::<axum::http::HeaderValue>().unwrap(),
            )
        });
        let found = origin(
            settings,
            &ConnectionInfo::alone(peer, secured),
            &Uri::from_static("/jmap"),
            &headers.collect(),
        );
        found.map_err(|problem| problem.status().as_u16())
    }

    #[test]
    fn in_the_clear_only_on_this_machine_or_behind_a_proxy() {
        let (none, host) = (settings(None, &[], false), [("host", "mail.example.org")]);
        assert_eq!(from(&none, Some("192.0.2.1"), false, &host), Err(403));
        assert_eq!(
            from(&none, Some("192.0.2.1"), true, &host).unwrap().base,
            "https://mail.example.org"
        );
        assert_eq!(from(&none, Some("::1"), false, &host).unwrap().base, "http://mail.example.org");
        assert_eq!(
            from(&none, Some("::ffff:127.0.0.1"), false, &host).unwrap().base,
            "http://mail.example.org"
        );
        assert_eq!(from(&none, None, false, &host).unwrap().source, LoginSource::LOCAL);
        let proxied = settings(None, &["192.0.2.0/24"], false);
        assert_eq!(
            from(&proxied, Some("192.0.2.1"), false, &host).unwrap().base,
            "https://mail.example.org"
        );
    }

    #[test]
    fn who_a_trusted_proxy_speaks_for_and_nobody_else() {
        let host = ("host", "mail.example.org");
        let fields = [host, ("x-forwarded-for", "203.0.113.9"), ("forwarded", "for=198.51.100.1")];
        let address = |settings: &HttpSettings, peer, secured| {
            from(settings, peer, secured, &fields)
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
    fn the_base_is_what_is_set_or_a_host_that_can_be_one() {
        let set = settings(Some("https://jmap.example.org"), &[], false);
        assert_eq!(
            from(&set, None, false, &[("host", "a b")]).unwrap().base,
            "https://jmap.example.org"
        );
        let none = settings(None, &[], false);
        assert_eq!(from(&none, None, false, &[("host", "evil.example/\"")]), Err(400));
        assert_eq!(from(&none, None, false, &[]), Err(400));
    }
}
