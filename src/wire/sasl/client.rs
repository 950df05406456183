//! A client of SCRAM-SHA-256 for tests, written apart from the server: only the code of the crypto
//! library is common to both.

use std::num::NonZeroU32;

use aws_lc_rs::{digest, hmac, pbkdf2};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Always sends the same nonce, does not prepare its password, and does not check the server.
pub(crate) struct Client {
    /// The gs2-header of RFC 5801 §4.
    pub(super) header: &'static str,
    /// The first message without the header.
    pub(super) bare: String,
    /// The bytes of the channel binding; empty without one.
    pub(super) binding: Vec<u8>,
    pub(super) password: &'static str,
}

impl Client {
    pub(crate) fn new(name: &str, password: &'static str) -> Self {
        Self::with_header("n,,", name, password)
    }

    /// Uses the channel binding `tls-exporter` (RFC 9266) with these bytes.
    pub(crate) fn with_exporter(binding: &[u8], name: &str, password: &'static str) -> Self {
        let binding = binding.to_vec();
        Self { binding, ..Self::with_header("p=tls-exporter,,", name, password) }
    }

    /// Uses `header`, which may name a channel binding, but binds no bytes of one.
    pub(super) fn with_header(header: &'static str, name: &str, password: &'static str) -> Self {
        let name = name.replace('=', "=3D").replace(',', "=2C");
        let bare = format!("n={name},r=fyko+d2lbbFgONRv9qkxdawL");
        Self { header, bare, binding: Vec::new(), password }
    }

    /// Returns the first message.
    pub(crate) fn first(&self) -> Vec<u8> {
        format!("{}{}", self.header, self.bare).into_bytes()
    }

    /// Returns the second and last message, which answers the challenge.
    pub(crate) fn last(&self, challenge: &[u8]) -> Vec<u8> {
        let challenge = std::str::from_utf8(challenge).unwrap();
        let attribute = |name: &str| {
            let mut parts = challenge.split(',');
            parts.find_map(|part| part.strip_prefix(name)).unwrap().to_owned()
        };
        let salt = STANDARD.decode(attribute("s=")).unwrap();
        let iterations = attribute("i=").parse::<NonZeroU32>().unwrap();
        let mut salted = [0; 32];
        let (algorithm, secret) = (pbkdf2::PBKDF2_HMAC_SHA256, self.password.as_bytes());
        pbkdf2::derive(algorithm, iterations, &salt, secret, &mut salted);
        let sign = |key: &[u8], data: &[u8]| {
            hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), data).as_ref().to_vec()
        };
        let client_key = sign(&salted, b"Client Key");
        let stored_key = digest::digest(&digest::SHA256, &client_key);
        let bound = [self.header.as_bytes(), &self.binding].concat();
        let without_proof = format!("c={},r={}", STANDARD.encode(bound), attribute("r="));
        let signed = format!("{},{challenge},{without_proof}", self.bare);
        let signature = sign(stored_key.as_ref(), signed.as_bytes());
        let proof: Vec<u8> = client_key.iter().zip(signature).map(|(a, b)| a ^ b).collect();
        format!("{without_proof},p={}", STANDARD.encode(proof)).into_bytes()
    }
}
