//! The messages and the keys of SCRAM-SHA-256 (RFC 5802, RFC 7677).

use std::num::NonZeroU32;

use aws_lc_rs::{constant_time, digest, hmac, pbkdf2};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::prepare::prepare;
use crate::model::ScramKeys;

/// The bytes that bind an exchange to its TLS connection: those of `tls-exporter` (RFC 9266 §3).
#[derive(Clone, PartialEq, Eq)]
pub struct ChannelBinding(pub [u8; 32]);

impl ChannelBinding {
    const NAME: &str = "tls-exporter";
}

impl std::fmt::Debug for ChannelBinding {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("ChannelBinding(..)")
    }
}

/// What the client says of channel binding (RFC 5802 §6).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Binding {
    /// `n`: the client knows none.
    Unsupported,
    /// `y`: the client knows it, and thinks that the server does not.
    NotOffered,
    /// `p=`, with the name of the kind.
    Used(String),
}

/// The head of a client's first message (RFC 5801 §4, `gs2-header`).
pub(super) struct Gs2Header {
    pub(super) binding: Binding,
    /// The name of the account that the client wants to act as, if it said so.
    pub(super) authorization: Option<String>,
    /// The header as it came, with both commas.
    text: String,
}

/// Splits the header from the rest of a message. `None` if there is no such header.
pub(super) fn gs2_header(message: &str) -> Option<(Gs2Header, &str)> {
    let (flag, rest) = message.split_once(',')?;
    let (authorization, rest) = rest.split_once(',')?;
    let binding = match flag {
        "n" => Binding::Unsupported,
        "y" => Binding::NotOffered,
        _ => {
            let name = flag.strip_prefix("p=")?;
            let is_name_byte = |byte: u8| byte.is_ascii_alphanumeric() || b".-".contains(&byte);
            if name.is_empty() || !name.bytes().all(is_name_byte) {
                return None;
            }
            Binding::Used(name.to_owned())
        }
    };
    let authorization = match authorization {
        "" => None,
        text => Some(sasl_name(text.strip_prefix("a=")?)?),
    };
    let text = message.strip_suffix(rest)?.to_owned();
    Some((Gs2Header { binding, authorization, text }, rest))
}

/// Decodes `=2C` and `=3D`. `None` for an empty name, a NUL, or another `=`.
fn sasl_name(text: &str) -> Option<String> {
    let mut pieces = text.split('=');
    let mut name = pieces.next()?.to_owned();
    for piece in pieces {
        let (c, rest) = match (piece.strip_prefix("2C"), piece.strip_prefix("3D")) {
            (Some(rest), _) => (',', rest),
            (_, Some(rest)) => ('=', rest),
            _ => return None,
        };
        name.push(c);
        name.push_str(rest);
    }
    (!name.is_empty() && !name.contains('\0')).then_some(name)
}

/// The first message of the client.
pub(super) struct ClientFirst {
    header: Gs2Header,
    /// The message without the header.
    bare: String,
    pub(super) name: String,
    nonce: String,
}

/// Why the client's first message was not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FirstError {
    Syntax,
    /// The client and the server do not agree on channel binding, or a third party changed the list
    /// of mechanisms.
    Binding,
}

impl ClientFirst {
    /// `binding` is the connection's channel binding. With one, SCRAM-SHA-256-PLUS is offered.
    /// `is_plus` tells whether the client chose that mechanism, which fails without `binding`.
    /// Attributes after the nonce are ignored.
    pub(super) fn parse(
        message: &str,
        binding: Option<&ChannelBinding>,
        is_plus: bool,
    ) -> Result<Self, FirstError> {
        let (header, bare) = gs2_header(message).ok_or(FirstError::Syntax)?;
        match &header.binding {
            Binding::Used(name) if is_plus && binding.is_some() && name == ChannelBinding::NAME => {
            }
            Binding::Unsupported if !is_plus => {}
            Binding::NotOffered if !is_plus && binding.is_none() => {}
            _ => return Err(FirstError::Binding),
        }
        let mut attributes = bare.split(',');
        // A mandatory extension, `m=`, stands before the name. None is known, so it is refused.
        let name = attributes.next().and_then(|text| text.strip_prefix("n="));
        let nonce = attributes.next().and_then(|text| text.strip_prefix("r="));
        let name = name.and_then(sasl_name).ok_or(FirstError::Syntax)?;
        let nonce = nonce.filter(|nonce| is_nonce(nonce)).ok_or(FirstError::Syntax)?;
        let (nonce, bare) = (nonce.to_owned(), bare.to_owned());
        Ok(Self { header, bare, name, nonce })
    }

    pub(super) fn authorization(&self) -> Option<String> {
        self.header.authorization.clone()
    }
}

fn is_nonce(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b',')
}

/// The keys of an account's passwords. All have the same salt and number of rounds, because the
/// client gets these before it shows which password it has.
#[derive(Clone, PartialEq, Eq)]
pub struct AccountKeys {
    pub salt: Vec<u8>,
    /// The rounds of PBKDF2; at least 4096 (RFC 7677 §4).
    pub iterations: u32,
    /// Empty if no password of the account can be used with SCRAM, or no account has the name.
    pub keys: Vec<ScramKeys>,
}

impl std::fmt::Debug for AccountKeys {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "AccountKeys({} keys)", self.keys.len())
    }
}

/// An exchange after the server's first message, the challenge, was made.
pub(super) struct Challenged {
    first: ClientFirst,
    /// The client's nonce, and the server's after it.
    nonce: String,
    server_first: String,
    keys: Vec<ScramKeys>,
    /// The connection's channel binding, if the client uses it.
    binding: Option<ChannelBinding>,
}

/// A proof that matches one of the keys.
pub(super) struct Proven {
    pub(super) name: String,
    pub(super) authorization: Option<String>,
    /// The keys that the proof matches.
    pub(super) keys: ScramKeys,
    /// The last message of the server.
    pub(super) server_final: Vec<u8>,
}

impl Challenged {
    /// Makes the challenge. `nonce` is the server's: random, and printable ASCII without a comma.
    pub(super) fn new(
        first: ClientFirst,
        nonce: &str,
        account: AccountKeys,
        binding: Option<ChannelBinding>,
    ) -> Self {
        let nonce = format!("{}{nonce}", first.nonce);
        let AccountKeys { salt, iterations, keys } = account;
        let server_first = format!("r={nonce},s={},i={iterations}", STANDARD.encode(salt));
        let is_bound = matches!(first.header.binding, Binding::Used(_));
        Self { first, nonce, server_first, keys, binding: binding.filter(|_| is_bound) }
    }

    /// Returns the challenge.
    pub(super) fn message(&self) -> Vec<u8> {
        self.server_first.clone().into_bytes()
    }

    /// Checks the client's last message. Returns `None` if it is malformed, has another nonce or
    /// other header, is bound to another connection, or has a proof of none of the keys.
    pub(super) fn prove(self, message: &str) -> Option<Proven> {
        let (without_proof, proof) = message.rsplit_once(",p=")?;
        let proof = <[u8; 32]>::try_from(STANDARD.decode(proof).ok()?).ok()?;
        let mut attributes = without_proof.split(',');
        let binding = STANDARD.decode(attributes.next()?.strip_prefix("c=")?).ok()?;
        let nonce = attributes.next()?.strip_prefix("r=")?;
        let mut expected = self.first.header.text.clone().into_bytes();
        expected.extend(self.binding.iter().flat_map(|binding| binding.0));
        if binding != expected || nonce != self.nonce {
            return None;
        }
        let signed = format!("{},{},{without_proof}", self.first.bare, self.server_first);
        // RFC 5802 §3: the proof is ClientKey XOR signature, and StoredKey the hash of ClientKey.
        let matches = |key: &ScramKeys| {
            let signature = hmac(&key.stored_key, signed.as_bytes());
            let mut client_key = proof;
            client_key.iter_mut().zip(signature).for_each(|(byte, mask)| *byte ^= mask);
            constant_time::verify_slices_are_equal(&sha256(&client_key), &key.stored_key).is_ok()
        };
        let keys = self.keys.iter().find(|keys| matches(keys))?.clone();
        let verifier = STANDARD.encode(hmac(&keys.server_key, signed.as_bytes()));
        let authorization = self.first.authorization();
        let server_final = format!("v={verifier}").into_bytes();
        Some(Proven { name: self.first.name, authorization, keys, server_final })
    }
}

/// Derives the keys of a password (RFC 5802 §3). The time that this takes grows with `iterations`.
#[must_use]
pub fn derive_keys(password: &str, salt: &[u8], iterations: NonZeroU32) -> ScramKeys {
    let mut salted = [0; 32];
    let password = prepare(password);
    let algorithm = pbkdf2::PBKDF2_HMAC_SHA256;
    pbkdf2::derive(algorithm, iterations, salt, password.as_bytes(), &mut salted);
    let stored_key = sha256(&hmac(&salted, b"Client Key"));
    ScramKeys { stored_key, server_key: hmac(&salted, b"Server Key") }
}

fn hmac(key: &[u8], data: &[u8]) -> [u8; 32] {
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), data);
    fixed(tag.as_ref())
}

fn sha256(data: &[u8]) -> [u8; 32] {
    fixed(digest::digest(&digest::SHA256, data).as_ref())
}

/// Copies the 32 bytes of an HMAC or a hash.
fn fixed(bytes: &[u8]) -> [u8; 32] {
    let mut out = [0; 32];
    out.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
    out
}
