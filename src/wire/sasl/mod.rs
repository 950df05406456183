//! SASL (RFC 4422): the server's side of the mechanisms by which a client logs in.
//!
//! - An exchange reads no socket, no clock and no account. It is given the client's responses and
//!   the answers to its own questions, and returns the next step.
//! - Responses are given, and challenges returned, without the encoding of the protocol, which is
//!   base64 mostly.
//! - A client that logs in with SCRAM gets the same kind of challenge whether or not an account has
//!   the name: for other names the caller gives a salt and no keys.
//! - Names and passwords are passed on without normalization. Only `derive_keys` prepares the
//!   password, with `SASLprep` (RFC 4013).

#[cfg(test)]
pub(crate) mod client;
mod exchange;
mod oauth;
mod prepare;
mod scram;

pub use exchange::{Exchange, Question, SaslFailure, Step};
pub use scram::{AccountKeys, ChannelBinding, derive_keys};

/// Longest response of a client, decoded. A longer one fails the login.
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

    /// Returns the mechanisms to offer on a connection on which clients may log in. Without
    /// `binding`, the connection's channel binding, SCRAM-SHA-256-PLUS is not among them.
    pub fn offered(binding: Option<&ChannelBinding>) -> impl Iterator<Item = Self> {
        let is_bound = binding.is_some();
        Self::ALL.into_iter().filter(move |one| is_bound || *one != Self::ScramSha256Plus)
    }
}

#[cfg(test)]
mod tests;
