//! Test tools: a DNS zone that a name server on loopback serves, and mail that is signed for it.

use std::time::Duration;

use mail_auth::MessageAuthenticator;

use super::sign::SigningKey;
use super::verify::{VerifySettings, make_resolver};
use super::{Algorithm, Policy, Settings, Signer, Verifier, examine, generate};
use crate::message::header::Header;
use crate::model::{Address, Envelope};

#[path = "../../tests/it/dns.rs"]
mod dns;

/// A query for a name that begins with `servfail.` fails, and one for a name that begins with
/// `silent.` gets no answer: see `tests/it/dns.rs`.
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

    pub(super) fn resolver(&self) -> MessageAuthenticator {
        make_resolver(&self.settings()).unwrap()
    }

    pub(super) fn publish(&self, key: &SigningKey) {
        self.dns.txt(&key.name(), &key.record());
    }

    /// Makes a signer with a new key, and publishes the key.
    pub(super) fn signer(&self, domain: &str, selector: &str) -> Signer {
        let key =
            SigningKey::new(domain, selector, generate(Algorithm::Ed25519, 0).unwrap().as_bytes())
                .unwrap();
        self.publish(&key);
        Signer::new(vec![key])
    }
}

pub(super) struct TestMessage {
    pub(super) raw: Vec<u8>,
    pub(super) envelope: Envelope,
}

impl TestMessage {
    /// Makes a message with this From. The envelope sender is bob@mail.example.net, the client
    /// 192.0.2.7.
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

    /// Sets the envelope sender. A text that is no address, such as `<>`, means no sender.
    pub(super) fn with_sender(mut self, sender: &str) -> Self {
        self.envelope.sender = Address::parse(sender).ok();
        self
    }

    /// Sets the address of the client; `None`: the envelope does not name it.
    pub(super) fn with_client(mut self, address: Option<&str>) -> Self {
        self.envelope.client.addr = address.map(str::to_owned);
        self
    }

    pub(super) fn with_fields_above(mut self, fields: &[u8]) -> Self {
        self.raw = [fields, &self.raw].concat();
        self
    }

    pub(super) fn signed(self, signer: &Signer) -> Self {
        let signature = signer.sign(&self.raw).unwrap().unwrap();
        self.with_fields_above(&signature)
    }

    pub(super) fn replaced(mut self, from: &str, to: &str) -> Self {
        let text = String::from_utf8(self.raw).unwrap();
        assert!(text.contains(from), "{text}");
        self.raw = text.replacen(from, to, 1).into_bytes();
        self
    }

    /// Returns why the sender counts as forged with these settings: first by fail-only, then by
    /// strict.
    pub(super) async fn forgery_reasons(&self, settings: &VerifySettings) -> [Option<String>; 2] {
        let mut reasons = [None, None];
        for (reason, policy) in reasons.iter_mut().zip([Policy::FailOnly, Policy::Strict]) {
            let verifier = Some(Verifier::new(settings.clone()).into());
            let settings =
                Settings { authserv_ids: vec!["mx.example.org".into()], policy, verifier };
            *reason = examine(&Header::split(&self.raw), &self.envelope, &settings).await;
        }
        reasons
    }
}
