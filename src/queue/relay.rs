//! The configuration of the relay.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// The server to which everything is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Relay {
    pub address: RelayAddress,
    pub protocol: Protocol,
    pub tls: Tls,
    /// Trusted authorities (DER). If empty, those of the machine are trusted. `Tls::Opportunistic`
    /// uses neither.
    pub authorities: Vec<Vec<u8>>,
    /// The name in the relay's certificate. `None` is the host of `address`, or `localhost` for a
    /// Unix socket.
    pub tls_name: Option<String>,
    /// `None`: no login.
    pub login: Option<RelayCredentials>,
    /// The name of this server, for EHLO and for the reports to senders.
    pub hostname: String,
    /// The longest wait for one answer. The answer to a message may take ten times as long, and
    /// opening a connection four times.
    pub timeout: Duration,
    /// The most recipients of one transaction; 0 counts as 1.
    pub max_recipients: usize,
    /// The most messages of one connection; 0 counts as 1.
    pub max_messages: u32,
    /// How long an idle connection is kept for the next message. With 0, none is kept.
    pub idle_timeout: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RelayAddress {
    Tcp { host: String, port: u16 },
    Unix(PathBuf),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    Smtp,
    /// RFC 2033: the relay answers for each recipient.
    Lmtp,
}

/// TLS to the relay (RFC 3207, RFC 8314 §3.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tls {
    None,
    /// STARTTLS with any certificate if the relay offers and accepts it, else no TLS. If the
    /// handshake fails, nothing is sent.
    Opportunistic,
    /// STARTTLS with a valid certificate. Without it, nothing is sent.
    Required,
    /// TLS from the first byte, with a valid certificate.
    Implicit,
}

#[derive(Clone, PartialEq, Eq)]
pub struct RelayCredentials {
    pub user: String,
    pub password: String,
    /// Whether the password may be sent unencrypted to another machine. If not, such a login fails.
    pub in_the_clear: bool,
}

impl fmt::Debug for RelayCredentials {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("RelayCredentials").field("user", &self.user).finish_non_exhaustive()
    }
}

impl fmt::Display for RelayAddress {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } if host.contains(':') => write!(out, "[{host}]:{port}"),
            Self::Tcp { host, port } => write!(out, "{host}:{port}"),
            Self::Unix(path) => write!(out, "{}", path.display()),
        }
    }
}
