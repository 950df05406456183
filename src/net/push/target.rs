//! Where a push goes: a URL that a client chose, and so not a way to what this machine can reach
//! and the client cannot.
//!
//! The name is looked up once, each address is looked at, and the connection is made to one that
//! was: what the name means a moment later does not matter. Nothing is followed that the other side
//! says.

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

/// The longest that one push may take.
const PUSH_TIMEOUT: Duration = Duration::from_secs(30);

/// What came of a push.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PushResult {
    /// It was taken.
    Taken,
    /// There is nobody there for good.
    Gone,
    /// It is refused; it would be again.
    Refused(String),
    /// It may work later, and not before that.
    Later(String, Option<Duration>),
}

/// Sends a push.
pub(super) async fn send(url: &str, body: Vec<u8>, encrypted: bool, private: bool) -> PushResult {
    match timeout(PUSH_TIMEOUT, try_send(url, body, encrypted, private)).await {
        Ok(Ok(sent) | Err(sent)) => sent,
        Err(_) => PushResult::Later("too slow".into(), None),
    }
}

async fn try_send(
    url: &str,
    body: Vec<u8>,
    encrypted: bool,
    private: bool,
) -> Result<PushResult, PushResult> {
    let later = |error: &dyn std::fmt::Display| PushResult::Later(error.to_string(), None);
    let uri: Uri = url.parse().map_err(|_| PushResult::Refused("no URL".into()))?;
    let host =
        uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']').to_owned();
    let port = uri.port_u16().unwrap_or(443);
    let found =
        tokio::net::lookup_host((host.as_str(), port)).await.map_err(|error| later(&error))?;
    let address = pick_address(found, private, is_own)?;
    let stream = TcpStream::connect(address).await.map_err(|error| later(&error))?;
    // Whatever was found out before: who is reached from the same address is this machine.
    let here = stream.local_addr().map_err(|error| later(&error))?;
    if !private && is_within(here.ip(), address.ip()) {
        return Err(PushResult::Refused("an address of this machine".into()));
    }
    let name = ServerName::try_from(host.clone())
        .map_err(|_| PushResult::Refused("no name for TLS".into()))?;
    let connector = connector()
        .ok_or_else(|| PushResult::Later("no certificates are believed here".into(), None))?;
    let stream = connector.connect(name, stream).await.map_err(|error| later(&error))?;
    let shaken = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = shaken.map_err(|error| later(&error))?;
    let driver = tokio::spawn(connection);
    let place = uri.path_and_query().map_or("/", |place| place.as_str());
    let authority = uri.authority().map_or(host.as_str(), |authority| authority.as_str());
    let mut request = Request::post(place)
        .header("host", authority)
        // Whatever it is encoded as (RFC 8620 §7.2).
        .header("content-type", "application/json")
        .header("ttl", "86400");
    if encrypted {
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

/// What a status says (RFC 8030 §5, §7.3).
fn result_of_status(status: StatusCode, wait: Option<Duration>) -> PushResult {
    match status {
        status if status.is_success() => PushResult::Taken,
        StatusCode::NOT_FOUND | StatusCode::GONE => PushResult::Gone,
        StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT => {
            PushResult::Later(status.to_string(), wait)
        }
        status if status.is_server_error() => PushResult::Later(status.to_string(), wait),
        status => PushResult::Refused(status.to_string()),
    }
}

/// An address of these that may be gone to: none at all where any of them is of the inside, or this
/// machine's own.
fn pick_address(
    found: impl Iterator<Item = SocketAddr>,
    private: bool,
    is_own: impl Fn(IpAddr) -> bool,
) -> Result<SocketAddr, PushResult> {
    let all: Vec<SocketAddr> = found.collect();
    if !private && all.iter().any(|address| is_inside(address.ip()) || is_own(address.ip())) {
        return Err(PushResult::Refused("an address of the inside".into()));
    }
    all.first().copied().ok_or_else(|| PushResult::Later("no address".into(), None))
}

/// Whether an address is one of this machine's, however public: what it serves to itself alone is
/// reached there, too.
///
/// The kernel goes to an address of the machine from that very address, or from the loopback. So it
/// is asked from where it would go; a socket of UDP sends nothing when it is connected.
fn is_own(address: IpAddr) -> bool {
    let address = address.to_canonical();
    let any: IpAddr =
        if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let from = UdpSocket::bind((any, 0)).and_then(|socket| {
        socket.connect((address, 9))?;
        socket.local_addr()
    });
    from.is_ok_and(|from| is_within(from.ip(), address))
}

/// Whether what goes from one of these addresses to the other does not leave this machine.
fn is_within(from: IpAddr, to: IpAddr) -> bool {
    let (from, to) = (from.to_canonical(), to.to_canonical());
    from == to || from.is_loopback()
}

/// Whether an address is one that the world at large does not share: of this machine, of a private
/// network, of none.
fn is_inside(address: IpAddr) -> bool {
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
                // RFC 6598, RFC 6890, RFC 2544.
                || (first == 100 && second & 0xc0 == 64)
                || (first == 192 && second == 0 && third == 0)
                || (first == 198 && second & 0xfe == 18)
        }
        IpAddr::V6(address) => {
            let segments = address.segments();
            let [first, second, ..] = segments;
            let embedded = |high: u16, low: u16| {
                let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
                is_inside(IpAddr::from([a, b, c, d]))
            };
            let [.., next, last] = segments;
            address.is_loopback()
                || address.is_unspecified()
                || address.is_multicast()
                // RFC 4193, RFC 4291 §2.5.6, RFC 3849.
                || first & 0xfe00 == 0xfc00
                || first & 0xff80 == 0xfe80
                || (first == 0x2001 && second == 0xdb8)
                // What goes through a translator or a tunnel to an address of the inside: RFC 6052,
                // RFC 3056, and the old form of RFC 4291 §2.5.5.1.
                || (first == 0x64 && second == 0xff9b && embedded(next, last))
                || (first == 0x2002 && embedded(second, segments[2]))
                || (segments[..6] == [0; 6] && embedded(next, last))
        }
    }
}

/// TLS with the certificates that the machine believes.
fn connector() -> Option<TlsConnector> {
    static CONFIG: OnceLock<Option<Arc<ClientConfig>>> = OnceLock::new();
    let config = CONFIG.get_or_init(|| {
        let mut roots = RootCertStore::empty();
        let found = rustls_native_certs::load_native_certs();
        for error in &found.errors {
            tracing::warn!(%error, "a certificate of the machine");
        }
        roots.add_parsable_certificates(found.certs);
        if roots.is_empty() {
            return None;
        }
        let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        Some(Arc::new(config))
    });
    config.as_ref().map(|config| TlsConnector::from(Arc::clone(config)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_inside_is_not_gone_to() {
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
            assert!(is_inside(text.parse().unwrap()), "{text}");
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
            assert!(!is_inside(text.parse().unwrap()), "{text}");
        }
        let at = |text: &str| SocketAddr::new(text.parse().unwrap(), 443);
        // A name that leads to both is not gone to at all.
        let none = |_| false;
        assert!(pick_address([at("8.8.8.8"), at("127.0.0.1")].into_iter(), false, none).is_err());
        assert_eq!(pick_address([at("8.8.8.8")].into_iter(), false, none), Ok(at("8.8.8.8")));
        assert_eq!(pick_address([at("127.0.0.1")].into_iter(), true, none), Ok(at("127.0.0.1")));
        assert!(pick_address(std::iter::empty(), true, none).is_err());
        // A public address that this machine has.
        let own = |address: IpAddr| address == at("8.8.4.4").ip();
        assert!(pick_address([at("8.8.8.8"), at("8.8.4.4")].into_iter(), false, own).is_err());
        assert_eq!(pick_address([at("8.8.4.4")].into_iter(), true, own), Ok(at("8.8.4.4")));
    }

    #[test]
    fn addresses_of_this_machine_are_known() {
        for own in ["127.0.0.1", "127.3.2.1", "::ffff:127.0.0.1"] {
            assert!(is_own(own.parse().unwrap()), "{own}");
        }
        // From where it would go out is an address of its own, whichever that is.
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
    fn what_a_status_says() {
        let of = |status: u16, wait| result_of_status(StatusCode::from_u16(status).unwrap(), wait);
        assert_eq!(
            (of(201, None), of(204, None), of(410, None)),
            (PushResult::Taken, PushResult::Taken, PushResult::Gone)
        );
        let wait = Some(Duration::from_secs(7));
        assert!(matches!(of(429, wait), PushResult::Later(_, Some(after)) if Some(after) == wait));
        assert!(matches!(of(503, None), PushResult::Later(_, None)));
        // Nothing that it says is followed.
        assert!(matches!(
            (of(301, None), of(400, None)),
            (PushResult::Refused(_), PushResult::Refused(_))
        ));
    }
}
