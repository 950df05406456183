//! Own verification against a name server on loopback: each result of SPF (RFC 7208 §2.6), DKIM
//! (RFC 6376 §6), DMARC (RFC 9989) and ARC (RFC 8617) with what it comes to.

use std::net::Ipv4Addr;
use std::time::Instant;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mail_auth::AuthenticationResults;
use mail_auth::arc::ArcSealer;
use mail_auth::crypto::Ed25519Key;
use mail_auth::headers::HeaderWriter as _;

use super::*;
use crate::proof::sign::{Algorithm, Signer, SigningKey, generate};
use crate::proof::tests::{TestMessage, Zone};
use crate::proof::{Settings, examine};

/// Whether it is a forger, by fail-only and by strict.
async fn forger(zone: &Zone, mail: &TestMessage) -> [bool; 2] {
    mail.judged(&zone.settings()).await.map(|why| why.is_some())
}

const NOBODY: [bool; 2] = [false, false];
const UNPROVED: [bool; 2] = [false, true];
const FORGER: [bool; 2] = [true, true];

#[tokio::test]
async fn spf() {
    let zone = Zone::new();
    zone.dns
        .txt("pass.example", "v=spf1 ip4:192.0.2.0/24 -all")
        .txt("fail.example", "v=spf1 ip4:198.51.100.0/24 -all")
        .txt("softfail.example", "v=spf1 ip4:198.51.100.0/24 ~all")
        .txt("neutral.example", "v=spf1 ?all")
        .txt("none.example", "hello")
        .txt("bad.example", "v=spf1 ip4:192.0.2 -all")
        .txt("include.example", "v=spf1 include:pass.example -all")
        .txt("include2.example", "v=spf1 include:fail.example -all")
        .txt("absent.example", "v=spf1 include:nobody.example -all")
        .txt("redirect.example", "v=spf1 redirect=fail.example")
        .txt("a.example", "v=spf1 a mx -all")
        .a("a.example", Ipv4Addr::new(192, 0, 2, 7))
        .txt("mx.example", "v=spf1 mx -all")
        .mx("mx.example", "mail.mx.example")
        .a("mail.mx.example", Ipv4Addr::new(192, 0, 2, 7))
        .txt("macro.example", "v=spf1 exists:%{i}.%{l}.allowed.example -all")
        .a("192.0.2.7.bob.allowed.example", Ipv4Addr::new(127, 0, 0, 2))
        .txt("loop.example", "v=spf1 include:loop.example -all")
        .txt("trouble.example", "v=spf1 include:servfail.trouble.example -all");
    for (domain, wanted) in [
        ("pass.example", NOBODY),
        ("include.example", NOBODY),
        ("a.example", NOBODY),
        ("mx.example", NOBODY),
        ("macro.example", NOBODY),
        ("fail.example", FORGER),
        ("include2.example", FORGER),
        ("redirect.example", FORGER),
        ("softfail.example", UNPROVED),
        ("neutral.example", UNPROVED),
        ("none.example", UNPROVED),
        ("nobody.example", UNPROVED),
        ("bad.example", UNPROVED),
        ("absent.example", UNPROVED),
        ("loop.example", UNPROVED),
        ("servfail.example", UNPROVED),
        ("trouble.example", UNPROVED),
    ] {
        let mail = TestMessage::from("bob@example.net").by(&format!("bob@{domain}"));
        assert_eq!(forger(&zone, &mail).await, wanted, "{domain}");
    }
    let why =
        TestMessage::from("bob@example.net").by("bob@fail.example").judged(&zone.settings()).await;
    assert_eq!(
        why[0].as_deref(),
        Some("spf=fail smtp.mailfrom=fail.example, no aligned dkim=pass")
    );
}

#[tokio::test]
async fn the_client_is_taken_from_received_where_nobody_said_it() {
    let zone = Zone::new();
    zone.dns.txt("mail.example.net", "v=spf1 ip4:192.0.2.0/24 -all");
    let received = |address: &str| {
        format!("Received: from h (h [{address}]) by mx.example.org (Postfix); date\r\n")
    };
    let mail =
        |fields: String| TestMessage::from("bob@example.net").client(None).below(fields.as_bytes());
    assert_eq!(forger(&zone, &mail(received("192.0.2.7"))).await, NOBODY);
    assert_eq!(forger(&zone, &mail(received("198.51.100.7"))).await, FORGER);
    assert_eq!(
        forger(&zone, &mail(received("127.0.0.1") + &received("198.51.100.7"))).await,
        FORGER
    );
    assert_eq!(forger(&zone, &mail(String::new())).await, UNPROVED);
}

#[tokio::test]
async fn dkim() {
    let zone = Zone::new();
    // SPF fails: it is DKIM that matters.
    zone.dns.txt("mail.example.net", "v=spf1 -all");
    let signer = zone.signer("example.net", "s");
    let signed = || TestMessage::from("bob@example.net").signed(&signer);
    assert_eq!(forger(&zone, &signed()).await, NOBODY);
    assert_eq!(forger(&zone, &TestMessage::from("bob@example.net")).await, FORGER);
    for (from, to) in [
        ("Are you", "Were you"),
        ("Subject: hello", "Subject: bye"),
        ("d=example.net", "d=mail.example.net"),
    ] {
        assert_eq!(forger(&zone, &signed().changed(from, to)).await, FORGER, "{from}");
    }
    // Of another organisation: it says nothing about the envelope sender.
    let other = zone.signer("example.com", "s");
    assert_eq!(forger(&zone, &TestMessage::from("eve@example.com").signed(&other)).await, FORGER);
    // Several of them, one of which is the sender's.
    let two = TestMessage::from("bob@example.net")
        .signed(&signer)
        .changed("\r\nFrom: ", "\r\nX: y\r\nFrom: ");
    let stale = signer.sign(b"From: bob@example.net\r\n\r\nold\r\n").unwrap().unwrap();
    assert_eq!(forger(&zone, &two.below(&stale)).await, NOBODY);
    // The key is not there, or the name server is out of order, or dumb.
    let absent = SigningKey::new(
        "absent.example.net",
        "s",
        generate(Algorithm::Ed25519, 0).unwrap().as_bytes(),
    )
    .unwrap();
    let absent = Signer::new(vec![absent]);
    assert_eq!(
        forger(&zone, &TestMessage::from("bob@absent.example.net").signed(&absent)).await,
        FORGER
    );
    let trouble = SigningKey::new(
        "example.net",
        "servfail",
        generate(Algorithm::Ed25519, 0).unwrap().as_bytes(),
    )
    .unwrap();
    let trouble = Signer::new(vec![trouble]);
    assert_eq!(
        forger(&zone, &TestMessage::from("bob@example.net").signed(&trouble)).await,
        UNPROVED
    );
}

#[tokio::test]
async fn a_key_that_wants_tcp() {
    let zone = Zone::new();
    zone.dns.txt("mail.example.net", "v=spf1 -all");
    let key =
        SigningKey::new("example.net", "big", generate(Algorithm::Rsa, 4096).unwrap().as_bytes())
            .unwrap();
    assert!(key.record().len() > 512);
    zone.key(&key);
    let mail = TestMessage::from("bob@example.net").signed(&Signer::new(vec![key]));
    assert_eq!(forger(&zone, &mail).await, NOBODY);
}

#[tokio::test]
async fn dmarc() {
    let zone = Zone::new();
    zone.dns
        .txt("mail.example.net", "v=spf1 ip4:192.0.2.0/24 -all")
        .txt("_dmarc.example.net", "v=DMARC1; p=none")
        .txt("_dmarc.strict.example", "v=DMARC1; p=reject; aspf=s; adkim=s")
        .txt("mail.strict.example", "v=spf1 ip4:192.0.2.0/24 -all")
        .txt("bank.example", "v=spf1 -all")
        .txt("_dmarc.bank.example", "v=DMARC1; p=reject");
    // SPF passes and is aligned, relaxed.
    assert_eq!(forger(&zone, &TestMessage::from("bob@example.net")).await, NOBODY);
    assert_eq!(forger(&zone, &TestMessage::from("bob@news.example.net")).await, NOBODY);
    // Strict alignment is not met, whatever passed.
    let strict = || TestMessage::from("bob@strict.example").by("bob@mail.strict.example");
    assert_eq!(forger(&zone, &strict()).await, FORGER);
    assert_eq!(forger(&zone, &strict().signed(&zone.signer("strict.example", "s"))).await, NOBODY);
    // Somebody else's name in From.
    let bank = TestMessage::from("Your Bank <service@bank.example>");
    assert_eq!(forger(&zone, &bank).await, FORGER);
    assert_eq!(
        bank.judged(&zone.settings()).await[0].as_deref(),
        Some("dmarc=fail header.from=bank.example")
    );
    // Without a client SPF is not known, and DMARC has not failed for that.
    assert_eq!(forger(&zone, &TestMessage::from("bob@example.net").client(None)).await, UNPROVED);
    // An organisation whose name server is out of order.
    let trouble = TestMessage::from("bob@servfail.example");
    zone.dns.txt("_dmarc.x.example", "v=DMARC1; p=none");
    assert_eq!(forger(&zone, &trouble).await, NOBODY, "its own SPF passed");
}

#[tokio::test]
async fn time_is_bounded_and_makes_nobody_a_forger() {
    let zone = Zone::new();
    let settings = VerifySettings { timeout: Duration::from_secs(1), ..zone.settings() };
    #[allow(clippy::disallowed_methods, reason = "a test that measures")]
    let begun = Instant::now();
    let why =
        TestMessage::from("bob@silent.example").by("bob@silent.example").judged(&settings).await;
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    assert_eq!(why[0], None);
    assert!(why[1].is_some());
    // A name server that is not there at all.
    let nobody = VerifySettings { nameservers: vec!["127.0.0.1:1".parse().unwrap()], ..settings };
    assert_eq!(
        TestMessage::from("bob@x.example").judged(&nobody).await.map(|why| why.is_some()),
        UNPROVED
    );
}

/// A signature by `domain` under this selector, whose body hash is that of `TestMessage::from`. Its
/// key is published.
fn foreign_signature(zone: &Zone, domain: &str, selector: &str) -> Vec<u8> {
    let mail = TestMessage::from(&format!("eve@{domain}"));
    zone.signer(domain, selector).sign(&mail.raw).unwrap().unwrap()
}

#[tokio::test]
async fn a_key_that_is_never_answered_hides_no_failure() {
    let zone = Zone::new();
    zone.dns.txt("mail.example.net", "v=spf1 -all");
    let silent = foreign_signature(&zone, "evil.example", "silent");
    let forged = TestMessage::from("bob@example.net").below(&silent);
    let why = forged.judged(&zone.settings()).await;
    assert_eq!(
        why[0].as_deref(),
        Some("spf=fail smtp.mailfrom=mail.example.net, no aligned dkim=pass")
    );
    // A true signature beneath many such is found all the same.
    let keys = (0..20).map(|n| foreign_signature(&zone, &format!("evil{n}.example"), "silent"));
    let keys: Vec<u8> = keys.flatten().collect();
    let signer = zone.signer("example.net", "s");
    assert_eq!(
        forger(&zone, &TestMessage::from("bob@example.net").signed(&signer).below(&keys)).await,
        NOBODY
    );
    // Where it is the sender's own key that is not told, nobody knows.
    let own = foreign_signature(&zone, "example.net", "silent");
    assert_eq!(forger(&zone, &TestMessage::from("bob@example.net").below(&own)).await, UNPROVED);
}

#[tokio::test]
async fn a_chain_of_seals_that_is_never_answered_hides_no_failure() {
    let zone = Zone::new();
    zone.dns.txt("mail.example.net", "v=spf1 -all");
    let sealed =
        forwarded(&zone, TestMessage::from("bob@example.net"), "evil.example", "x\r\n").await;
    let keys = zone.dns.texts();
    let key = keys.keys().find(|name| name.ends_with("_domainkey.evil.example")).unwrap();
    zone.dns.silence(key);
    assert_eq!(forger(&zone, &sealed).await, FORGER);
}

#[tokio::test]
async fn a_message_without_a_header_is_judged_by_spf() {
    let zone = Zone::new();
    zone.dns.txt("mail.example.net", "v=spf1 -all").txt("pass.example", "v=spf1 +all");
    let bare =
        || TestMessage { raw: b"\r\nhello\r\n".to_vec(), ..TestMessage::from("bob@example.net") };
    assert_eq!(forger(&zone, &bare()).await, FORGER);
    assert_eq!(forger(&zone, &bare().by("bob@pass.example")).await, NOBODY);
}

#[tokio::test]
async fn written_results_spare_the_questions() {
    let zone = Zone::new();
    zone.dns.txt("mail.example.net", "v=spf1 -all");
    let pass =
        b"Authentication-Results: mx.example.org; spf=pass smtp.mailfrom=mail.example.net\r\n";
    assert_eq!(forger(&zone, &TestMessage::from("bob@example.net").below(pass)).await, NOBODY);
    assert_eq!(forger(&zone, &TestMessage::from("bob@example.net").by("<>")).await, NOBODY);
    assert!(zone.dns.asked().is_empty(), "{:?}", zone.dns.asked());
    // They say nothing about it, or are not ours.
    for fields in [
        "mx.example.org; none",
        "mx.example.org; iprev=pass",
        "evil.example; spf=pass; dkim=pass header.d=example.net",
    ] {
        let mail = TestMessage::from("bob@example.net")
            .below(format!("Authentication-Results: {fields}\r\n").as_bytes());
        assert_eq!(forger(&zone, &mail).await, FORGER, "{fields}");
    }
}

#[tokio::test]
async fn answers_are_kept() {
    let zone = Zone::new();
    zone.dns.txt("mail.example.net", "v=spf1 -all");
    let verifier = Some(Verifier::new(zone.settings()).into());
    let settings = Settings { verifier, ..Settings::default() };
    let mail = TestMessage::from("bob@example.net");
    for _ in 0..3 {
        assert!(examine(&Header::split(&mail.raw), &mail.envelope, &settings).await.is_some());
    }
    let asked = zone.dns.asked();
    assert_eq!(asked.iter().filter(|name| *name == "mail.example.net 16").count(), 1, "{asked:?}");
}

#[tokio::test]
async fn work_is_bounded() {
    let zone = Zone::new();
    zone.dns.txt("mail.example.net", "v=spf1 -all");
    let signer = zone.signer("example.net", "s");
    let signed = || TestMessage::from("bob@example.net").signed(&signer);
    let stale = signer.sign(b"From: bob@example.net\r\n\r\nold\r\n").unwrap().unwrap();
    assert_eq!(
        forger(&zone, &signed().below(&stale.repeat(limits::MAX_SIGNATURES - 1))).await,
        NOBODY
    );
    assert_eq!(forger(&zone, &signed().below(&stale.repeat(limits::MAX_SIGNATURES))).await, FORGER);
    assert_eq!(
        forger(&zone, &signed().below(&b"X: y\r\n".repeat(limits::MAX_VERIFIED_FIELDS))).await,
        FORGER
    );
    assert_eq!(
        forger(
            &zone,
            &signed()
                .below(&[b"X: ", &[b'y'; limits::MAX_VERIFIED_HEADER_BYTES][..], b"\r\n"].concat())
        )
        .await,
        FORGER
    );
    let wide = format!("DKIM-Signature: v=1; h={}\r\n", "a:".repeat(limits::MAX_SIGNATURE_BYTES));
    assert_eq!(forger(&zone, &signed().below(wide.as_bytes())).await, FORGER);
}

/// A forwarder: it verifies, writes a footer under the mail, and seals what it made of it.
async fn forwarded(zone: &Zone, mail: TestMessage, sealer: &str, footer: &str) -> TestMessage {
    let asks = zone.asks();
    let der = Ed25519Key::generate_pkcs8().unwrap();
    let key = Ed25519Key::from_pkcs8_der(&der).unwrap();
    let record = format!("v=DKIM1; k=ed25519; p={}", STANDARD.encode(key.public_key()));
    let selector = format!("arc{}", zone.dns.texts().len());
    zone.dns.txt(&format!("{selector}._domainkey.{sealer}"), &record);
    let changed = [&mail.raw, footer.as_bytes()].concat();
    let sealed = {
        let (before, after) =
            (AuthenticatedMessage::parse(&mail.raw), AuthenticatedMessage::parse(&changed));
        let (before, after) = (before.unwrap(), after.unwrap());
        let found = asks.verify_dkim(&before).await;
        let chain = asks.verify_arc(&before).await;
        let results = AuthenticationResults::new(sealer).with_dkim_results(&found, "example.net");
        let sealer = ArcSealer::from_key(key)
            .domain(sealer)
            .selector(selector)
            .headers(["From", "To", "Subject"]);
        sealer.seal(&after, &results, &chain).unwrap().to_header()
    };
    let mut mail = TestMessage { raw: changed, envelope: mail.envelope };
    mail.envelope.client.addr = Some("203.0.113.9".into());
    mail.below(sealed.as_bytes())
}

#[tokio::test]
async fn a_trusted_forwarder_heals_what_it_broke() {
    let zone = Zone::new();
    zone.dns
        .txt("mail.example.net", "v=spf1 ip4:192.0.2.0/24 -all")
        .txt("_dmarc.example.net", "v=DMARC1; p=reject");
    let signer = zone.signer("example.net", "s");
    let signed = || TestMessage::from("bob@example.net").signed(&signer);
    let footer = "-- \r\nThe list\r\n";
    assert_eq!(forger(&zone, &signed()).await, NOBODY);
    // Without ARC the way over a forwarder looks like a forgery.
    let plain = TestMessage { raw: [&signed().raw, footer.as_bytes()].concat(), ..signed() }
        .client(Some("203.0.113.9"));
    assert_eq!(forger(&zone, &plain).await, FORGER);
    // By one whose seal is believed, it does not; by another one, it does.
    assert_eq!(
        forger(&zone, &forwarded(&zone, signed(), "sealer.example", footer).await).await,
        NOBODY
    );
    assert_eq!(
        forger(&zone, &forwarded(&zone, signed(), "other.example", footer).await).await,
        FORGER
    );
    // What it did not find well it does not heal.
    let unsigned =
        forwarded(&zone, TestMessage::from("bob@example.net"), "sealer.example", footer).await;
    assert_eq!(forger(&zone, &unsigned).await, FORGER);
    // Changed after the seal.
    let sealed = forwarded(&zone, signed(), "sealer.example", footer).await;
    assert_eq!(forger(&zone, &sealed.changed("Are you", "Were you")).await, FORGER);
    let again = forwarded(&zone, signed(), "sealer.example", footer).await;
    assert_eq!(forger(&zone, &again).await, NOBODY);
    // Two trusted ones in a row; and a stranger's seal behind a trusted one, whose word is then
    // only the stranger's.
    let settings = VerifySettings {
        sealers: vec!["sealer.example".into(), "second.example".into()],
        ..zone.settings()
    };
    let one = forwarded(&zone, signed(), "sealer.example", footer).await;
    let two = forwarded(&zone, one, "second.example", footer).await;
    assert_eq!(two.judged(&settings).await.map(|why| why.is_some()), NOBODY);
    assert_eq!(two.judged(&zone.settings()).await.map(|why| why.is_some()), FORGER);
}

#[test]
fn results_within_a_seal() {
    let read = |value: &[u8]| sealed_results(value).len();
    assert_eq!(read(b" i=1; a.example;\r\n dkim=pass header.d=b;\r\n\tspf=fail\r\n"), 2);
    assert_eq!(read(b" i=1; a.example; none"), 0);
    assert_eq!((read(b""), read(b"i=1"), read(b"\xff;\xfe;\xfd")), (0, 0, 0));
}

#[tokio::test]
async fn a_fault_of_the_library_is_none_of_the_message() {
    async fn fault() -> u8 {
        tokio::task::yield_now().await;
        panic!("a fault");
    }
    assert_eq!(catch_panic(fault()).await, None);
    assert_eq!(catch_panic(async { 7 }).await, Some(7));
}
