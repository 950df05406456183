//! What the tests of this room share: a zone that a name server on loopback serves, and mail that
//! is signed for it.

use std::time::Duration;

use mail_auth::MessageAuthenticator;

use super::sign::SigningKey;
use super::verify::{VerifySettings, asks};
use super::{Algorithm, Policy, Settings, Signer, Verifier, examine, generate};
use crate::message::header::Header;
use crate::model::{Address, Envelope};

#[path = "../../tests/it/dns.rs"]
mod dns;

/// A zone and its server.
pub(super) struct Zone {
    pub(super) dns: dns::Dns,
}

impl Zone {
    pub(super) fn new() -> Self {
        Self { dns: dns::Dns::start() }
    }

    pub(super) fn settings(&self) -> VerifySettings {
        VerifySettings {
            nameservers: vec![self.dns.address],
            timeout: Duration::from_secs(6),
            cache: 1000,
            sealers: vec!["Sealer.example".into()],
            hostname: "mx.example.org".into(),
        }
    }

    pub(super) fn asks(&self) -> MessageAuthenticator {
        asks(&self.settings()).unwrap()
    }

    /// Publishes a key.
    pub(super) fn key(&self, key: &SigningKey) {
        self.dns.txt(&key.name(), &key.record());
    }

    /// A signer with a new key, published.
    pub(super) fn signer(&self, domain: &str, selector: &str) -> Signer {
        let key =
            SigningKey::new(domain, selector, generate(Algorithm::Ed25519, 0).unwrap().as_bytes())
                .unwrap();
        self.key(&key);
        Signer::new(vec![key])
    }
}

/// A message as it came in.
pub(super) struct TestMessage {
    pub(super) raw: Vec<u8>,
    pub(super) envelope: Envelope,
}

impl TestMessage {
    /// From `from`, by the envelope of bob@mail.example.net, by a client at 192.0.2.7.
    pub(super) fn from(from: &str) -> Self {
        let raw = format!(
            "From: {from}\r\nTo: ann@example.org\r\nSubject: hello\r\n\r\nAre you there?\r\n"
        )
        .into_bytes();
        let mut envelope = Envelope {
            sender: Some(Address::from_parts("bob", "mail.example.net")),
            ..Envelope::default()
        };
        envelope.client.addr = Some("192.0.2.7".into());
        envelope.client.helo = Some("out.example.net".into());
        Self { raw, envelope }
    }

    pub(super) fn by(mut self, sender: &str) -> Self {
        self.envelope.sender = Address::parse(sender).ok();
        self
    }

    pub(super) fn client(mut self, address: Option<&str>) -> Self {
        self.envelope.client.addr = address.map(str::to_owned);
        self
    }

    pub(super) fn below(mut self, fields: &[u8]) -> Self {
        self.raw = [fields, &self.raw].concat();
        self
    }

    pub(super) fn signed(self, signer: &Signer) -> Self {
        let signature = signer.sign(&self.raw).unwrap().unwrap();
        self.below(&signature)
    }

    pub(super) fn changed(mut self, from: &str, to: &str) -> Self {
        let text = String::from_utf8(self.raw).unwrap();
        assert!(text.contains(from), "{text}");
        self.raw = text.replacen(from, to, 1).into_bytes();
        self
    }

    /// Why it is forged, by these settings and each policy: fail-only, strict.
    pub(super) async fn judged(&self, settings: &VerifySettings) -> [Option<String>; 2] {
        let mut found = [None, None];
        for (place, policy) in found.iter_mut().zip([Policy::FailOnly, Policy::Strict]) {
            let verifier = Some(Verifier::new(settings.clone()).into());
            let settings =
                Settings { authserv_ids: vec!["mx.example.org".into()], policy, verifier };
            *place = examine(&Header::split(&self.raw), &self.envelope, &settings).await;
        }
        found
    }
}
