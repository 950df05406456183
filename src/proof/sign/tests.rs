//! Tests of DKIM keys and signatures. The signatures are verified with keys in the DNS zone of a
//! test.

use std::sync::LazyLock;

use mail_auth::{AuthenticatedMessage, DkimResult};
use proptest::prelude::*;

use super::*;
use crate::proof::tests::Zone;

const MESSAGE: &str = "From: Ann <ann@Example.ORG>\r\nTo: bob@example.net\r\n\
                       Subject: Away\r\nDate: Thu, 01 Jan 2026 00:00:00 +0000\r\n\
                       Message-ID: <1@example.org>\r\nMIME-Version: 1.0\r\n\
                       Content-Type: text/plain\r\n\
                       Auto-Submitted: auto-replied\r\n\r\nI am away.\r\n\r\n.\r\n";

fn key(domain: &str, selector: &str, algorithm: Algorithm) -> SigningKey {
    SigningKey::new(domain, selector, generate(algorithm, 2048).unwrap().as_bytes()).unwrap()
}

/// Made once, since an RSA key takes long.
static SIGNER_OF_BOTH: LazyLock<Signer> = LazyLock::new(signer_of_both);

fn signer_of_both() -> Signer {
    Signer::new(vec![
        key("example.org", "r", Algorithm::Rsa),
        key("Example.org", "e", Algorithm::Ed25519),
    ])
}

/// Verifies the signatures of a message. Returns for each, topmost first, whether it passes.
async fn verify(zone: &Zone, message: &[u8]) -> Vec<bool> {
    let resolver = zone.resolver();
    let message = AuthenticatedMessage::parse(message).unwrap();
    resolver
        .verify_dkim(&message)
        .await
        .iter()
        .map(|one| one.result() == &DkimResult::Pass)
        .collect()
}

fn sign(signer: &Signer, message: &str) -> Vec<u8> {
    [signer.sign(message.as_bytes()).unwrap().unwrap(), message.as_bytes().to_vec()].concat()
}

#[tokio::test]
async fn signatures_break_if_signed_fields_or_the_body_change() {
    let (signer, zone) = (&SIGNER_OF_BOTH, Zone::new());
    signer.keys().for_each(|key| zone.publish(key));
    let signed = sign(signer, MESSAGE);
    assert_eq!(verify(&zone, &signed).await, [true, true]);
    let text = String::from_utf8(signed).unwrap();
    for wanted in
        ["a=rsa-sha256", "a=ed25519-sha256", "d=example.org", "s=r", "s=e", "c=relaxed/relaxed"]
    {
        assert!(text.contains(wanted), "{wanted} in {text}");
    }
    assert!(!text.contains("l="), "the length of the body is not signed (RFC 6376 §8.2): {text}");
    for (from, to, holds) in [
        // Servers on the way may change these.
        ("DKIM-Signature", "Received: from a by b\r\nDKIM-Signature", true),
        ("Subject: Away", "Subject:   Away  ", true),
        ("I am away.", "I  am away. ", true),
        // Nobody may change these (RFC 6376 §8.15).
        ("From:", "From: eve@example.com\r\nFrom:", false),
        ("\r\nTo:", "\r\nCc: eve@example.com\r\nTo:", false),
        ("\r\nTo:", "\r\nReply-To: eve@example.com\r\nTo:", false),
        ("\r\nTo:", "\r\nSubject: Buy\r\nTo:", false),
        ("Subject: Away", "Subject: Aweigh", false),
        ("bob@", "eve@", false),
        ("auto-replied", "no", false),
        ("I am away.", "I am here.", false),
        ("\r\n.\r\n", "\r\n.\r\nBuy.\r\n", false),
    ] {
        let changed = text.replacen(from, to, 1);
        assert_ne!(changed, text, "{from}");
        assert_eq!(verify(&zone, changed.as_bytes()).await, [holds, holds], "{from:?} to {to:?}");
    }
}

#[test]
fn mail_is_signed_if_from_has_a_domain_with_a_key() {
    let signer = signer_of_both();
    for (from, signed) in [
        ("From: ann@example.org", true),
        ("from:\r\n \"a, b <x@evil.example>\" <ann@EXAMPLE.org>", true),
        ("From: eve@evil.example, ann@example.org", true),
        ("From: ann@sub.example.org", false),
        ("From: ann@example.com", false),
        ("From: example.org", false),
        ("From: ann@example.org\r\nFrom: eve@evil.example", false),
        ("From:", false),
        ("Subject: x", false),
        ("Sender: ann@example.org", false),
    ] {
        let message = format!("{from}\r\nTo: b@example.net\r\n\r\nx\r\n");
        assert_eq!(signer.sign(message.as_bytes()).unwrap().is_some(), signed, "{from}");
    }
    // If the header has more lines than are read, nothing is signed, since the rest may have
    // another From. The empty line at its end counts, too.
    for (lines, signed) in
        [(limits::MAX_HEADER_FIELDS - 2, true), (limits::MAX_HEADER_FIELDS - 1, false)]
    {
        let junk = "junk\r\n".repeat(lines);
        let message = format!("From: ann@example.org\r\n{junk}\r\nx\r\n");
        assert_eq!(signer.sign(message.as_bytes()).unwrap().is_some(), signed, "{lines}");
    }
    assert_eq!(Signer::default().sign(MESSAGE.as_bytes()), Ok(None));
    let international = Signer::new(vec![key("bücher.example", "s", Algorithm::Ed25519)]);
    assert!(international.sign(b"From: a@xn--bcher-kva.example\r\n\r\nx").unwrap().is_some());
    assert!(international.sign("From: a@BÜCHER.example\r\n\r\nx".as_bytes()).unwrap().is_some());
}

#[test]
fn signers_are_equal_by_their_keys() {
    let pem = generate(Algorithm::Ed25519, 0).unwrap();
    let signer = |selector: &str| {
        Signer::new(vec![SigningKey::new("example.org", selector, pem.as_bytes()).unwrap()])
    };
    assert_eq!(signer("a"), signer("a"));
    assert_ne!(signer("a"), signer("b"));
    assert_ne!(signer_of_both(), signer_of_both());
}

#[test]
fn keys_are_parsed_and_give_their_dns_record() {
    let rsa = key("Example.org", "S1", Algorithm::Rsa);
    assert_eq!(
        (rsa.name().as_str(), rsa.algorithm()),
        ("s1._domainkey.example.org", Algorithm::Rsa)
    );
    let record = rsa.record();
    // The SubjectPublicKeyInfo of 2048 bits, as every tool writes it.
    assert!(
        record.starts_with("v=DKIM1; k=rsa; p=MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEA"),
        "{record}"
    );
    // A raw key of 32 bytes has 44 characters in Base64.
    let record = key("example.org", "e", Algorithm::Ed25519).record();
    assert_eq!(record.strip_prefix("v=DKIM1; k=ed25519; p=").unwrap().len(), 44, "{record}");
    assert!(generate(Algorithm::Rsa, 1024).unwrap_err().contains("2048, 3072 or 4096"));
    // An elliptic curve key of TLS, a certificate, or an empty file is no key for DKIM.
    let curve = include_bytes!("../../../tests/tls/one.key.pem");
    assert!(
        SigningKey::new("example.org", "s", curve)
            .unwrap_err()
            .contains("an RSA key of at least 2048 bits")
    );
    let certificate = include_bytes!("../../../tests/tls/one.cert.pem");
    assert!(
        SigningKey::new("example.org", "s", certificate).unwrap_err().contains("no private key")
    );
    assert!(SigningKey::new("example.org", "s", b"").is_err());
    assert!(!format!("{rsa:?}").contains("PRIVATE"), "{rsa:?}");
}

#[test]
fn der_lengths_are_encoded() {
    for (length, wanted) in [
        (0, &[0x04, 0][..]),
        (127, &[0x04, 127]),
        (128, &[0x04, 0x81, 128]),
        (300, &[0x04, 0x82, 1, 44]),
    ] {
        let encoded = der(0x04, &vec![7; length]);
        assert_eq!(
            (encoded.get(..wanted.len()).unwrap(), encoded.len()),
            (wanted, wanted.len() + length)
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// The signatures of any message are valid, and are header lines.
    #[test]
    fn any_message_gets_valid_signatures(
        subject in "[ -~]{0,100}",
        body in "([ -~\t]{0,30}\r\n){0,5}[ -~]{0,9}",
    ) {
        let (signer, zone) = (&SIGNER_OF_BOTH, Zone::new());
        signer.keys().for_each(|key| zone.publish(key));
        let message = format!("From: ann@example.org\r\nSubject: {subject}\r\n\r\n{body}");
        let signed = sign(signer, &message);
        let fields = signer.sign(message.as_bytes()).unwrap().unwrap();
        prop_assert!(fields.ends_with(b"\r\n"));
        prop_assert!(fields.split(|byte| *byte == b'\n').all(|line| line.len() <= 998));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        prop_assert_eq!(runtime.block_on(verify(&zone, &signed)), [true, true]);
    }
}
