//! The relay as the site configures it: address, protocol, TLS, login and limits.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// The server to which everything is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Relay {
    pub address: RelayAddress,
    pub protocol: Protocol,
    pub tls: Tls,
    /// Certificates (DER) of the authorities to trust. If empty, those of the machine are trusted.
    pub authorities: Vec<Vec<u8>>,
    /// The name that the relay's certificate must hold. `None` is the host of `address`, or
    /// `localhost` for a Unix socket.
    pub tls_name: Option<String>,
    /// `None`: no login is tried.
    pub login: Option<RelayCredentials>,
    /// The name that this server gives in EHLO.
    pub hostname: String,
    /// The longest wait for one answer to a command. The answer to a message may take ten times as
    /// long, and the whole opening of a connection four times.
    pub timeout: Duration,
    /// How many recipients one transaction may have; 0 counts as 1.
    pub max_recipients: usize,
    /// How many messages one connection may carry; 0 counts as 1.
    pub max_messages: u32,
    /// How long an idle connection is kept; with 0, none is.
    pub idle_timeout: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RelayAddress {
    Tcp {
        /// A name or an IP address.
        host: String,
        port: u16,
    },
    /// The path of a Unix socket.
    Unix(PathBuf),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// SMTP (RFC 5321).
    Smtp,
    /// LMTP (RFC 2033): the relay answers for each recipient.
    Lmtp,
}

/// TLS to the relay (RFC 3207, RFC 8314 §3.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tls {
    None,
    /// STARTTLS with any certificate if the relay offers it, else no TLS. If the handshake fails,
    /// nothing is sent.
    Opportunistic,
    /// STARTTLS with a valid certificate. Without it, nothing is sent.
    Required,
    /// TLS from the first byte, with a valid certificate.
    Implicit,
}

/// The login at the relay (RFC 4954).
#[derive(Clone, PartialEq, Eq)]
pub struct RelayCredentials {
    pub user: String,
    pub password: String,
    /// Whether the password may be sent unencrypted to another machine. To this machine it always
    /// may.
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
