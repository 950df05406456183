//! Opens a connection to the relay: connects, reads the greeting, starts TLS, logs in.

use std::fmt::Display;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use mail_send::SmtpClient;
use mail_send::smtp::tls::build_tls_connector;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use smtp_proto::{
    AUTH_LOGIN, AUTH_PLAIN, EXT_8BIT_MIME, EXT_DSN, EXT_PIPELINING, EXT_SIZE, EXT_SMTP_UTF8,
    EXT_START_TLS, EhloResponse,
};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::{RelayConnection, RelayExtensions, RelayStream, to_answer};
use crate::queue::relay::{Protocol, Relay, RelayAddress, RelayCredentials, Tls};

type RelayClient = SmtpClient<Box<dyn RelayStream>>;

/// Opens a connection to the relay that is ready for a transaction. The error begins with the
/// address of the relay.
pub(super) async fn open(relay: &Relay) -> Result<RelayConnection, String> {
    let with_address = |error: &dyn Display| format!("{}: {error}", relay.address);
    // Each step has a limit of its own, `Relay::timeout`. This one is for all steps together.
    let opening = timeout(relay.timeout.saturating_mul(4), open_connection(relay));
    match opening.await {
        Ok(opened) => opened.map_err(|error| with_address(&error)),
        Err(_) => Err(with_address(&"the relay takes too long to open the connection")),
    }
}

async fn open_connection(relay: &Relay) -> Result<RelayConnection, String> {
    let (stream, is_local) = connect(relay).await?;
    let mut client = SmtpClient { stream, timeout: relay.timeout };
    let mut is_encrypted = false;
    if relay.tls == Tls::Implicit {
        client = encrypt(client, relay).await?;
        is_encrypted = true;
    }
    let greeting = timeout(relay.timeout, client.read())
        .await
        .map_err(|_| "no greeting in time".to_owned())?;
    let greeting = greeting.map_err(|error| error.to_string())?;
    if greeting.code != 220 {
        return Err(to_answer(&greeting).line());
    }
    let mut greeted = hello(&mut client, relay).await?;
    let offers_tls = greeted.capabilities & EXT_START_TLS != 0;
    match relay.tls {
        Tls::Required if !offers_tls => return Err("the relay offers no TLS".into()),
        Tls::Opportunistic | Tls::Required if offers_tls => {
            let reply = client.cmd(b"STARTTLS\r\n").await.map_err(|error| error.to_string())?;
            if reply.code == 220 {
                client = encrypt(client, relay).await?;
                is_encrypted = true;
                // RFC 3207 §4.2: what the relay offered before TLS may have been forged.
                greeted = hello(&mut client, relay).await?;
            } else if relay.tls == Tls::Required {
                return Err(to_answer(&reply).line());
            }
        }
        _ => {}
    }
    if let Some(login) = &relay.login {
        if !(is_encrypted || is_local || login.in_the_clear) {
            return Err(
                "the password would go in the clear over the network: set [relay] tls".into()
            );
        }
        authenticate(&mut client, login, greeted.auth_mechanisms).await?;
    }
    let has = |bit: u32| greeted.capabilities & bit != 0;
    let extensions = RelayExtensions {
        dsn: has(EXT_DSN),
        utf8: has(EXT_SMTP_UTF8),
        eight_bit: has(EXT_8BIT_MIME),
        pipelining: has(EXT_PIPELINING),
        size: has(EXT_SIZE),
    };
    Ok(RelayConnection { client, protocol: relay.protocol, extensions, carried: 0 })
}

/// Connects to the relay. Returns the stream, and whether the relay is on this machine: at a Unix
/// socket or a loopback address.
async fn connect(relay: &Relay) -> Result<(Box<dyn RelayStream>, bool), String> {
    let connected = timeout(relay.timeout, async {
        let stream: std::io::Result<(Box<dyn RelayStream>, bool)> = match &relay.address {
            RelayAddress::Unix(path) => {
                UnixStream::connect(path).await.map(|stream| (Box::new(stream) as _, true))
            }
            RelayAddress::Tcp { host, port } => {
                TcpStream::connect((host.as_str(), *port)).await.map(|stream| {
                    let is_local = stream.peer_addr().is_ok_and(|peer| peer.ip().is_loopback());
                    drop(stream.set_nodelay(true));
                    (Box::new(stream) as _, is_local)
                })
            }
        };
        stream
    });
    let connected = connected.await.map_err(|_| "no connection in time".to_owned())?;
    connected.map_err(|error| error.to_string())
}

async fn hello(client: &mut RelayClient, relay: &Relay) -> Result<EhloResponse<String>, String> {
    let greeted = match relay.protocol {
        Protocol::Smtp => client.ehlo(&relay.hostname).await,
        Protocol::Lmtp => client.lhlo(&relay.hostname).await,
    };
    greeted.map_err(|error| error.to_string())
}

async fn encrypt(client: RelayClient, relay: &Relay) -> Result<RelayClient, String> {
    let connector = connector(relay)?;
    let name = match (&relay.tls_name, &relay.address) {
        (Some(name), _) => name.clone(),
        (None, RelayAddress::Tcp { host, .. }) => host.clone(),
        (None, RelayAddress::Unix(_)) => "localhost".into(),
    };
    let name = ServerName::try_from(name)
        .map_err(|error| format!("invalid server name for TLS: {error}"))?;
    let encrypted = timeout(relay.timeout, connector.connect(name, client.stream)).await;
    let stream = encrypted
        .map_err(|_| "no TLS in time".to_owned())?
        .map_err(|error| format!("TLS: {error}"))?;
    Ok(SmtpClient { stream: Box::new(stream), timeout: client.timeout })
}

/// Returns a connector that verifies the relay's certificate, by the configured authorities or else
/// by those of the machine. Opportunistic TLS accepts any certificate.
fn connector(relay: &Relay) -> Result<TlsConnector, String> {
    let accepts_any = relay.tls == Tls::Opportunistic;
    if accepts_any || relay.authorities.is_empty() {
        return build_tls_connector(accepts_any);
    }
    let mut roots = RootCertStore::empty();
    for authority in &relay.authorities {
        roots
            .add(CertificateDer::from(authority.as_slice()))
            .map_err(|error| format!("[relay] tls-ca: {error}"))?;
    }
    let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

/// Logs in with PLAIN, else LOGIN (RFC 4954 §4, RFC 4616). mail-send's own login begins with
/// mechanisms that were not compiled in, and then fails in the middle of the exchange.
async fn authenticate(
    client: &mut RelayClient,
    login: &RelayCredentials,
    offered: u64,
) -> Result<(), String> {
    let reply = if offered & AUTH_PLAIN != 0 {
        let credentials = BASE64.encode(format!("\0{}\0{}", login.user, login.password));
        client.cmd(format!("AUTH PLAIN {credentials}\r\n")).await
    } else if offered & AUTH_LOGIN != 0 {
        let mut reply = client.cmd("AUTH LOGIN\r\n").await;
        for word in [&login.user, &login.password] {
            if !reply.as_ref().is_ok_and(|reply| reply.code == 334) {
                break;
            }
            reply = client.cmd(format!("{}\r\n", BASE64.encode(word))).await;
        }
        reply
    } else {
        return Err("the relay offers neither AUTH PLAIN nor AUTH LOGIN".into());
    };
    let reply = reply.map_err(|error| error.to_string())?;
    if reply.code == 235 { Ok(()) } else { Err(format!("AUTH: {}", to_answer(&reply).line())) }
}
