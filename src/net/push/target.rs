//! Sends a push to the URL that a client chose.
//!
//! The URL must not give the client access to servers that only this machine can reach:
//!
//! - The host name is resolved once. Every address is checked, and the connection is made to one of
//!   these addresses, so that a later change of the name does not matter.
//! - Internal addresses and the addresses of this machine are refused, unless the site allows them.
//! - Redirects are not followed.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::{Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// For the whole push, from the look-up of the host name to the response.
const PUSH_TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PushResult {
    Accepted,
    /// The URL does not exist any more.
    Gone,
    /// The reason. A retry would fail, too.
    Refused(String),
    /// The reason, and the wait that the server asks for; `None` if it asks for none. A retry may
    /// succeed.
    Later(String, Option<Duration>),
}

/// Sends a push by POST, and says whether it arrived. `allow_private` permits internal addresses.
pub(super) async fn send(
    url: &str,
    body: Vec<u8>,
    is_encrypted: bool,
    allow_private: bool,
) -> PushResult {
    match timeout(PUSH_TIMEOUT, try_send(url, body, is_encrypted, allow_private)).await {
        Ok(Ok(result) | Err(result)) => result,
        Err(_) => PushResult::Later("timeout".into(), None),
    }
}

async fn try_send(
    url: &str,
    body: Vec<u8>,
    is_encrypted: bool,
    allow_private: bool,
) -> Result<PushResult, PushResult> {
    let later = |error: &dyn std::fmt::Display| PushResult::Later(error.to_string(), None);
    let uri: Uri = url.parse().map_err(|_| PushResult::Refused("invalid URL".into()))?;
    let host =
        uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']').to_owned();
    let port = uri.port_u16().unwrap_or(443);
    let addresses =
        tokio::net::lookup_host((host.as_str(), port)).await.map_err(|error| later(&error))?;
    let address = pick_address(addresses, allow_private, is_own)?;
    let stream = TcpStream::connect(address).await.map_err(|error| later(&error))?;
    // The check after the connection is certain: the kernel has chosen the local address.
    let local = stream.local_addr().map_err(|error| later(&error))?;
    if !allow_private && is_within_machine(local.ip(), address.ip()) {
        return Err(PushResult::Refused("the URL leads to an address of this machine".into()));
    }
    let name = ServerName::try_from(host.clone())
        .map_err(|_| PushResult::Refused("invalid host name for TLS".into()))?;
    let connector = connector()
        .ok_or_else(|| PushResult::Later("this machine trusts no certificates".into(), None))?;
    let stream = connector.connect(name, stream).await.map_err(|error| later(&error))?;
    let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(|error| later(&error))?;
    let driver = tokio::spawn(connection);
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let authority = uri.authority().map_or(host.as_str(), |authority| authority.as_str());
    let mut request = Request::post(path)
        .header("host", authority)
        // The type of the content before encryption (RFC 8620 §7.2).
        .header("content-type", "application/json")
        // How long the push server may keep the push for the client, in seconds: a day.
        .header("ttl", "86400");
    if is_encrypted {
        request = request.header("content-encoding", "aes128gcm");
    }
    let request = request
        .body(Full::new(Bytes::from(body)))
        .map_err(|error| PushResult::Refused(error.to_string()))?;
    let response = sender.send_request(request).await.map_err(|error| later(&error));
    driver.abort();
    let response = response?;
    let wait =
        response.headers().get("retry-after").and_then(|wait| wait.to_str().ok()?.parse().ok());
    Ok(result_of_status(response.status(), wait.map(Duration::from_secs)))
}

/// Reads the status of the push server's response (RFC 8030 §5, §7.3). `wait` is its Retry-After.
fn result_of_status(status: StatusCode, wait: Option<Duration>) -> PushResult {
    match status {
        status if status.is_success() => PushResult::Accepted,
        StatusCode::NOT_FOUND | StatusCode::GONE => PushResult::Gone,
        StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT => {
            PushResult::Later(status.to_string(), wait)
        }
        status if status.is_server_error() => PushResult::Later(status.to_string(), wait),
        status => PushResult::Refused(status.to_string()),
    }
}

/// Returns the first address.
///
/// # Errors
/// - `Refused`: any of the addresses is internal or one of this machine, and `allow_private` is not
///   set.
/// - `Later`: there is no address.
fn pick_address(
    addresses: impl Iterator<Item = SocketAddr>,
    allow_private: bool,
    is_own: impl Fn(IpAddr) -> bool,
) -> Result<SocketAddr, PushResult> {
    let all: Vec<SocketAddr> = addresses.collect();
    if !allow_private && all.iter().any(|address| is_internal(address.ip()) || is_own(address.ip()))
    {
        return Err(PushResult::Refused("the URL leads to an internal address".into()));
    }
    all.first()
        .copied()
        .ok_or_else(|| PushResult::Later("the host name has no address".into(), None))
}

/// Whether an address, even a public one, belongs to this machine.
///
/// The kernel connects to such an address from the same address or from the loopback address. So a
/// UDP socket is connected, which sends nothing, and its local address is compared.
fn is_own(address: IpAddr) -> bool {
    let address = address.to_canonical();
    let any: IpAddr =
        if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let from = UdpSocket::bind((any, 0)).and_then(|socket| {
        // Any port will do.
        socket.connect((address, 9))?;
        socket.local_addr()
    });
    from.is_ok_and(|from| is_within_machine(from.ip(), address))
}

/// Whether a connection between these addresses stays within this machine.
fn is_within_machine(from: IpAddr, to: IpAddr) -> bool {
    let (from, to) = (from.to_canonical(), to.to_canonical());
    from == to || from.is_loopback()
}

/// Whether an address is loopback, private, multicast or reserved, or contains such an IPv4
/// address.
fn is_internal(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => {
            let [first, second, third, _] = address.octets();
            address.is_private()
                || address.is_loopback()
                || address.is_link_local()
                || address.is_multicast()
                || address.is_documentation()
                || first == 0
                || first >= 240
                // 100.64.0.0/10 (RFC 6598), 192.0.0.0/24 (RFC 6890), 198.18.0.0/15 (RFC 2544).
                || (first == 100 && second & 0xc0 == 64)
                || (first == 192 && second == 0 && third == 0)
                || (first == 198 && second & 0xfe == 18)
        }
        IpAddr::V6(address) => {
            let segments = address.segments();
            let [first, second, ..] = segments;
            let embedded = |high: u16, low: u16| {
                let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
                is_internal(IpAddr::from([a, b, c, d]))
            };
            let [.., next, last] = segments;
            address.is_loopback()
                || address.is_unspecified()
                || address.is_multicast()
                // fc00::/7 (RFC 4193), fe80::/9 (RFC 4291 §2.5.6 and the former site-local
                // addresses), 2001:db8::/32 (RFC 3849).
                || first & 0xfe00 == 0xfc00
                || first & 0xff80 == 0xfe80
                || (first == 0x2001 && second == 0xdb8)
                // An internal IPv4 address behind a translator or tunnel: RFC 6052, RFC 3056, and
                // the deprecated form of RFC 4291 §2.5.5.1.
                || (first == 0x64 && second == 0xff9b && embedded(next, last))
                || (first == 0x2002 && embedded(second, segments[2]))
                || (segments[..6] == [0; 6] && embedded(next, last))
        }
    }
}

/// Returns `None` if the machine has no trusted certificates; the next call looks for them again.
fn connector() -> Option<TlsConnector> {
    static CONFIG: OnceLock<Arc<ClientConfig>> = OnceLock::new();
    let config = match CONFIG.get() {
        Some(config) => config,
        None => {
            let config = client_config()?;
            CONFIG.get_or_init(|| config)
        }
    };
    Some(TlsConnector::from(Arc::clone(config)))
}

fn client_config() -> Option<Arc<ClientConfig>> {
    let mut roots = RootCertStore::empty();
    let loaded = rustls_native_certs::load_native_certs();
    for error in &loaded.errors {
        tracing::warn!(%error, "cannot read a trusted certificate of the machine");
    }
    roots.add_parsable_certificates(loaded.certs);
    if roots.is_empty() {
        return None;
    }
    Some(Arc::new(ClientConfig::builder().with_root_certificates(roots).with_no_client_auth()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_internal_addresses() {
        for text in [
            "127.0.0.1",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "0.0.0.0",
            "0.1.2.3",
            "255.255.255.255",
            "240.0.0.1",
            "224.0.0.1",
            "192.0.0.8",
            "192.0.2.1",
            "198.18.0.1",
            "::1",
            "::",
            "fc00::1",
            "fd12::1",
            "fe80::1",
            "ff02::1",
            "::ffff:127.0.0.1",
            "::127.0.0.1",
            "64:ff9b::10.0.0.1",
            "2002:7f00:1::",
            "2002:c0a8:101::",
            "2001:db8::1",
        ] {
            assert!(is_internal(text.parse().unwrap()), "{text}");
        }
        for text in [
            "8.8.8.8",
            "100.63.0.1",
            "100.128.0.1",
            "172.15.0.1",
            "172.32.0.1",
            "192.0.1.1",
            "198.17.0.1",
            "198.20.0.1",
            "2001:4860:4860::8888",
            "64:ff9b::8.8.8.8",
            "2002:808:808::",
            "::ffff:8.8.8.8",
        ] {
            assert!(!is_internal(text.parse().unwrap()), "{text}");
        }
        let at = |text: &str| SocketAddr::new(text.parse().unwrap(), 443);
        let none = |_| false;
        assert!(pick_address([at("8.8.8.8"), at("127.0.0.1")].into_iter(), false, none).is_err());
        assert_eq!(pick_address([at("8.8.8.8")].into_iter(), false, none), Ok(at("8.8.8.8")));
        assert_eq!(pick_address([at("127.0.0.1")].into_iter(), true, none), Ok(at("127.0.0.1")));
        assert!(pick_address(std::iter::empty(), true, none).is_err());
        let own = |address: IpAddr| address == at("8.8.4.4").ip();
        assert!(pick_address([at("8.8.8.8"), at("8.8.4.4")].into_iter(), false, own).is_err());
        assert_eq!(pick_address([at("8.8.4.4")].into_iter(), true, own), Ok(at("8.8.4.4")));
    }

    #[test]
    fn recognises_addresses_of_this_machine() {
        for own in ["127.0.0.1", "127.3.2.1", "::ffff:127.0.0.1"] {
            assert!(is_own(own.parse().unwrap()), "{own}");
        }
        let out = UdpSocket::bind("0.0.0.0:0").and_then(|socket| {
            socket.connect("8.8.8.8:9")?;
            socket.local_addr()
        });
        if let Ok(out) = out {
            assert!(is_own(out.ip()), "{out}");
        }
        assert!(
            !is_own("8.8.8.8".parse().unwrap()) && !is_own("2001:4860:4860::8888".parse().unwrap())
        );
    }

    #[test]
    fn status_tells_whether_a_push_is_retried() {
        let result =
            |status: u16, wait| result_of_status(StatusCode::from_u16(status).unwrap(), wait);
        assert_eq!(
            (result(201, None), result(204, None), result(410, None)),
            (PushResult::Accepted, PushResult::Accepted, PushResult::Gone)
        );
        let wait = Some(Duration::from_secs(7));
        let retried = result(429, wait);
        assert!(matches!(retried, PushResult::Later(_, Some(after)) if Some(after) == wait));
        assert!(matches!(result(503, None), PushResult::Later(_, None)));
        assert!(matches!(
            (result(301, None), result(400, None)),
            (PushResult::Refused(_), PushResult::Refused(_))
        ));
    }
}
