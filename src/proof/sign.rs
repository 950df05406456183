//! Signs outgoing mail with DKIM (RFC 6376; Ed25519 by RFC 8463), for the domain of From.
//!
//! - Each key of a domain makes a signature of its own: so verifiers that know only RSA are served
//!   as well as those that know Ed25519, and a key can be changed while two of them are in the
//!   zone.
//! - Each signed field is signed at least once more than it occurs: adding a second From or a
//!   Subject breaks the signature (RFC 6376 §5.4.1, §8.15).
//! - Only `SIGNED_FIELDS` are signed: not those that servers on the way change (Received,
//!   Return-Path).
//! - The length of the body is not signed: it would let others append to the body (§8.2).
//! - Both canonicalisations are relaxed.

use std::collections::BTreeMap;
use std::fmt;

use aws_lc_rs::encoding::{AsDer as _, Pkcs8V1Der};
use aws_lc_rs::rsa;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mail_auth::crypto::{DkimKey, Ed25519Key, RsaKey, Sha256};
use mail_auth::dkim::DkimSigner;
use mail_auth::headers::HeaderWriter as _;
use mail_auth::signer::Ready;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;

use super::domain::normalize;
use crate::message::header::{body_offset, fields};
use crate::message::parse::addresses;
use crate::model::limits;

const SIGNED_FIELDS: [&str; 13] = [
    "From",
    "Reply-To",
    "Subject",
    "Date",
    "To",
    "Cc",
    "Message-ID",
    "In-Reply-To",
    "References",
    "MIME-Version",
    "Content-Type",
    "Content-Transfer-Encoding",
    "Auto-Submitted",
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    /// `rsa-sha256`: every verifier knows it.
    Rsa,
    /// `ed25519-sha256` (RFC 8463), which some verifiers do not know.
    Ed25519,
}

impl fmt::Display for Algorithm {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Rsa => "rsa",
            Self::Ed25519 => "ed25519",
        })
    }
}

/// Generates a private key in PEM (PKCS #8). `bits` is for RSA, and ignored for Ed25519.
///
/// # Errors
/// If RSA keys of `bits` are not made, or the system has no randomness.
pub fn generate(algorithm: Algorithm, bits: u32) -> Result<String, String> {
    let failed = |_| "the key could not be generated".to_owned();
    let der = match algorithm {
        Algorithm::Ed25519 => Ed25519Key::generate_pkcs8().map_err(|error| error.to_string())?,
        Algorithm::Rsa => {
            let size = match bits {
                2048 => rsa::KeySize::Rsa2048,
                3072 => rsa::KeySize::Rsa3072,
                4096 => rsa::KeySize::Rsa4096,
                _ => return Err(format!("{bits} bits: an RSA key has 2048, 3072 or 4096 bits")),
            };
            let pair = rsa::KeyPair::generate(size).map_err(failed)?;
            let der: Pkcs8V1Der<'_> = pair.as_der().map_err(failed)?;
            der.as_ref().to_vec()
        }
    };
    let text = STANDARD.encode(der);
    let lines: Vec<&str> =
        text.as_bytes().chunks(64).filter_map(|line| std::str::from_utf8(line).ok()).collect();
    Ok(format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n", lines.join("\n")))
}

pub struct SigningKey {
    domain: String,
    selector: String,
    algorithm: Algorithm,
    /// As in the DNS record: RSA in the form of X.509, Ed25519 raw.
    public: Vec<u8>,
    signer: DkimSigner<DkimKey, Ready>,
}

impl SigningKey {
    /// Parses a key from PEM: PKCS #8, or PKCS #1 for RSA.
    ///
    /// # Errors
    /// Why the key is not accepted.
    pub fn new(domain: &str, selector: &str, pem: &[u8]) -> Result<Self, String> {
        let (domain, selector) = (normalize(domain), normalize(selector));
        let der = PrivateKeyDer::from_pem_slice(pem)
            .map_err(|error| format!("no private key in PEM: {error}"))?;
        let ed25519 = match &der {
            PrivateKeyDer::Pkcs8(der) => {
                Ed25519Key::from_pkcs8_maybe_unchecked_der(der.secret_pkcs8_der()).ok()
            }
            _ => None,
        };
        let (algorithm, public, key) = if let Some(key) = ed25519 {
            (Algorithm::Ed25519, key.public_key(), DkimKey::from(key))
        } else {
            let key = RsaKey::<Sha256>::from_key_der(der).map_err(|error| {
                format!(
                    "neither an Ed25519 key (PKCS #8) nor an RSA key of at least 2048 bits (PKCS \
                     #8 or #1): {error}"
                )
            })?;
            let public = key.public_key();
            (Algorithm::Rsa, subject_public_key_info(&public), DkimKey::from(key))
        };
        // Each name is given twice: the first signs all occurrences of the field, and the second
        // signs that there is no further one.
        let signer = DkimSigner::from_key(key)
            .domain(domain.clone())
            .selector(selector.clone())
            .headers(SIGNED_FIELDS.into_iter().chain(SIGNED_FIELDS));
        Ok(Self { domain, selector, algorithm, public, signer })
    }

    #[must_use]
    pub fn domain(&self) -> &str {
        &self.domain
    }

    #[must_use]
    pub fn selector(&self) -> &str {
        &self.selector
    }

    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// The name of the DNS record (RFC 6376 §3.6.2.1), without the dot of the root.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}._domainkey.{}", self.selector, self.domain)
    }

    /// The text of the DNS record (RFC 6376 §3.6.1).
    #[must_use]
    pub fn record(&self) -> String {
        format!("v=DKIM1; k={}; p={}", self.algorithm, STANDARD.encode(&self.public))
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "SigningKey({} {})", self.name(), self.algorithm)
    }
}

/// Encodes an `RSAPublicKey` as `SubjectPublicKeyInfo` (RFC 5280 §4.1), the usual form in DNS.
fn subject_public_key_info(public: &[u8]) -> Vec<u8> {
    // The object identifier `rsaEncryption`, and NULL. 0x30 is a SEQUENCE, and 0x03 a BIT STRING,
    // which begins with the number of its unused bits.
    const RSA_ENCRYPTION: [u8; 13] =
        [0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01, 0x05, 0x00];
    let bits = [&[0], public].concat();
    der(0x30, &[der(0x30, &RSA_ENCRYPTION), der(0x03, &bits)].concat())
}

/// Encodes an element of DER: tag, length and content.
fn der(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len().to_be_bytes();
    let length_bytes: Vec<u8> = length.into_iter().skip_while(|byte| *byte == 0).collect();
    let mut out = vec![tag];
    match (length_bytes.as_slice(), content.len()) {
        ([one], ..128) => out.push(*one),
        ([], _) => out.push(0),
        (many, _) => {
            out.push(0x80 | u8::try_from(many.len()).unwrap_or_default());
            out.extend(many);
        }
    }
    out.extend(content);
    out
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{selector}._domainkey.{domain}: {problem}")]
pub struct SignError {
    pub domain: String,
    pub selector: String,
    pub problem: String,
}

#[derive(Debug, Default)]
pub struct Signer {
    /// By domain in lower-case A-labels.
    keys: BTreeMap<String, Vec<SigningKey>>,
}

/// Two signers are equal if their keys have the same names and the same public keys, in the same
/// order.
impl PartialEq for Signer {
    fn eq(&self, other: &Self) -> bool {
        self.keys()
            .map(|key| (key.name(), &key.public))
            .eq(other.keys().map(|key| (key.name(), &key.public)))
    }
}

impl Eq for Signer {}

impl Signer {
    #[must_use]
    pub fn new(keys: Vec<SigningKey>) -> Self {
        let mut signer = Self::default();
        for key in keys {
            signer.keys.entry(key.domain.clone()).or_default().push(key);
        }
        signer
    }

    pub fn keys(&self) -> impl Iterator<Item = &SigningKey> {
        self.keys.values().flatten()
    }

    /// Returns the DKIM-Signature fields to put above a message, one for each key of the domain of
    /// From; of several authors, the first one whose domain has keys. `None` if there is no such
    /// key, if there is not exactly one From, or if the header is beyond the limits of
    /// `limits::all_fields_are_seen`: another From may be among the fields that are not read.
    ///
    /// # Errors
    /// `SignError` of the first key that could not sign.
    pub fn sign(&self, message: &[u8]) -> Result<Option<Vec<u8>>, SignError> {
        if !limits::all_fields_are_seen(message.get(..body_offset(message)).unwrap_or(message)) {
            return Ok(None);
        }
        let mut from = fields(message).filter(|field| field.is("From"));
        let (Some(author), None) = (from.next(), from.next()) else { return Ok(None) };
        let authors = addresses(author.readable().as_bytes());
        let domains = authors.iter().filter_map(|author| {
            author.email.rsplit_once('@').map(|(_, domain)| normalize(domain))
        });
        let Some(keys) = domains.filter_map(|domain| self.keys.get(&domain)).next() else {
            return Ok(None);
        };
        let mut signatures = String::new();
        for key in keys {
            let signature = key.signer.sign(message).map_err(|error| SignError {
                domain: key.domain.clone(),
                selector: key.selector.clone(),
                problem: error.to_string(),
            })?;
            signatures.push_str(&signature.to_header());
        }
        Ok(Some(signatures.into_bytes()))
    }
}

#[cfg(test)]
mod tests;
