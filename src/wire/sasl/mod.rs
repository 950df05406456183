//! SASL (RFC 4422): the server's side of the mechanisms by which a client logs in.
//!
//! - An exchange reads no socket, no clock and no account. It is given the client's responses and
//!   what it asked for, and returns the next step.
//! - Responses are given without the encoding of the protocol, which is base64 mostly.
//! - The name of a client that logs in with SCRAM is answered alike whether or not an account has
//!   it: the caller gives keys that match nothing for other names.
//! - Names are passed on as they came. Passwords for SCRAM are prepared with `SASLprep` (RFC 4013).

#[cfg(test)]
pub(crate) mod client;
mod exchange;
mod oauth;
mod prepare;
mod scram;

pub use exchange::{Exchange, Question, SaslFailure, Step};
pub use scram::{AccountKeys, ChannelBinding, derive_keys};

/// Longest response of a client, decoded.
pub const MAX_RESPONSE_BYTES: usize = 8 * 1024;

/// A mechanism that this server knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mechanism {
    /// RFC 5802, RFC 7677, with `tls-exporter` (RFC 9266) as channel binding.
    ScramSha256Plus,
    /// RFC 5802, RFC 7677.
    ScramSha256,
    /// RFC 7628, with an access token of this server.
    OAuthBearer,
    /// Name and password, RFC 4616.
    Plain,
    /// The name and the password in two responses; obsolete, but some clients know no other.
    Login,
}

impl Mechanism {
    /// In the order in which they are offered, the safest first.
    pub const ALL: [Self; 5] =
        [Self::ScramSha256Plus, Self::ScramSha256, Self::OAuthBearer, Self::Plain, Self::Login];

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::ScramSha256Plus => "SCRAM-SHA-256-PLUS",
            Self::ScramSha256 => "SCRAM-SHA-256",
            Self::OAuthBearer => "OAUTHBEARER",
            Self::Plain => "PLAIN",
            Self::Login => "LOGIN",
        }
    }

    /// Finds a mechanism by its name, in any case.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mechanism| mechanism.name().eq_ignore_ascii_case(name))
    }

    /// Returns the mechanisms to offer on an encrypted connection. SCRAM-SHA-256-PLUS needs the
    /// connection's channel binding.
    pub fn offered(binding: Option<&ChannelBinding>) -> impl Iterator<Item = Self> {
        let is_bound = binding.is_some();
        Self::ALL.into_iter().filter(move |one| is_bound || *one != Self::ScramSha256Plus)
    }
}

#[cfg(test)]
mod tests;
