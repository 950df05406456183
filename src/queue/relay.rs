//! The way out, as a site sets it.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// The next hop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Relay {
    /// Where it is.
    pub place: RelayAddress,
    /// What it speaks.
    pub protocol: Protocol,
    /// TLS or not.
    pub tls: Tls,
    /// Certificates (DER) that are believed in the place of the machine's own; empty: the
    /// machine's.
    pub authorities: Vec<Vec<u8>>,
    /// The name that its certificate must hold; `None` is its host.
    pub tls_name: Option<String>,
    /// Who we are to it.
    pub login: Option<RelayCredentials>,
    /// The name that we give in EHLO.
    pub hostname: String,
    /// Longest wait for one answer.
    pub patience: Duration,
    /// Recipients of one message in one go.
    pub recipients: usize,
    /// Messages of one connection.
    pub messages: u32,
    /// How long a connection is kept that nobody uses.
    pub idle: Duration,
}

/// Where a next hop is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RelayAddress {
    /// A host and port.
    Tcp {
        /// Its name or address.
        host: String,
        port: u16,
    },
    /// A Unix socket.
    Unix(PathBuf),
}

/// What a next hop speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// RFC 5321.
    Smtp,
    /// RFC 2033: an answer for each recipient.
    Lmtp,
}

/// TLS to the relay (RFC 3207, RFC 8314 §3.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tls {
    None,
    /// STARTTLS where it is offered, whatever the certificate says.
    Opportunistic,
    /// STARTTLS with a certificate that holds, or nothing is sent.
    Required,
    /// TLS from the first octet, with a certificate that holds.
    Implicit,
}

/// Who we are to the relay (RFC 4954).
#[derive(Clone, PartialEq, Eq)]
pub struct RelayCredentials {
    pub user: String,
    pub password: String,
    /// Whether it may go over a connection that is neither encrypted nor of this machine.
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
