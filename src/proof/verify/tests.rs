//! Verifies messages against a name server on loopback, with each result of SPF (RFC 7208 §2.6),
//! and with results of DKIM (RFC 6376 §6), DMARC (RFC 9989) and ARC (RFC 8617). That server
//! (`tests/it/dns.rs`) fails for names that begin with `servfail.`, and does not answer those that
//! begin with `silent.`.

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

/// Whether the sender counts as a forger: first by fail-only, then by strict.
async fn is_forger(zone: &Zone, mail: &TestMessage) -> [bool; 2] {
    mail.forgery_reasons(&zone.settings()).await.map(|reason| reason.is_some())
}

/// No forger by either policy.
const PASSES: [bool; 2] = [false, false];
/// A forger by strict alone.
const UNPROVED: [bool; 2] = [false, true];
const FORGER: [bool; 2] = [true, true];

#[tokio::test]
async fn spf_results_decide_about_the_sender() {
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
        ("pass.example", PASSES),
        ("include.example", PASSES),
        ("a.example", PASSES),
        ("mx.example", PASSES),
        ("macro.example", PASSES),
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
        let mail = TestMessage::from("bob@example.net").with_sender(&format!("bob@{domain}"));
        assert_eq!(is_forger(&zone, &mail).await, wanted, "{domain}");
    }
    let reasons = TestMessage::from("bob@example.net")
        .with_sender("bob@fail.example")
        .forgery_reasons(&zone.settings())
        .await;
    assert_eq!(
        reasons[0].as_deref(),
        Some("spf=fail smtp.mailfrom=fail.example, no aligned dkim=pass")
    );
}

#[tokio::test]
async fn spf_client_is_read_from_received_without_xforward() {
    let zone = Zone::new();
    zone.dns.txt("mail.example.net", "v=spf1 ip4:192.0.2.0/24 -all");
    let received = |address: &str| {
        format!("Received: from h (h [{address}]) by mx.example.org (Postfix); date\r\n")
    };
    let mail = |fields: String| {
        TestMessage::from("bob@example.net").with_client(None).with_fields_above(fields.as_bytes())
    };
    assert_eq!(is_forger(&zone, &mail(received("192.0.2.7"))).await, PASSES);
    assert_eq!(is_forger(&zone, &mail(received("198.51.100.7"))).await, FORGER);
    assert_eq!(
        is_forger(&zone, &mail(received("127.0.0.1") + &received("198.51.100.7"))).await,
        FORGER
    );
    assert_eq!(is_forger(&zone, &mail(String::new())).await, UNPROVED);
}

#[tokio::test]
async fn aligned_signature_outweighs_failed_spf() {
    let zone = Zone::new();
    zone.dns.txt("mail.example.net", "v=spf1 -all");
    let signer = zone.signer("example.net", "s");
    let signed = || TestMessage::from("bob@example.net").signed(&signer);
    assert_eq!(is_forger(&zone, &signed()).await, PASSES);
    assert_eq!(is_forger(&zone, &TestMessage::from("bob@example.net")).await, FORGER);
    for (from, to) in [
        ("Are you", "Were you"),
        ("Subject: hello", "Subject: bye"),
        ("d=example.net", "d=mail.example.net"),
    ] {
        assert_eq!(is_forger(&zone, &signed().replaced(from, to)).await, FORGER, "{from}");
    }
    let other = zone.signer("example.com", "s");
    assert_eq!(
        is_forger(&zone, &TestMessage::from("eve@example.com").signed(&other)).await,
        FORGER
    );
    // A field that is not signed, and a signature that does not verify, do no harm.
    let with_field = signed().replaced("\r\nFrom: ", "\r\nX: y\r\nFrom: ");
    let stale = signer.sign(b"From: bob@example.net\r\n\r\nold\r\n").unwrap().unwrap();
    assert_eq!(is_forger(&zone, &with_field.with_fields_above(&stale)).await, PASSES);
    // The key does not exist, or the name server fails.
    let absent = SigningKey::new(
        "absent.example.net",
        "s",
        generate(Algorithm::Ed25519, 0).unwrap().as_bytes(),
    )
    .unwrap();
    let absent = Signer::new(vec![absent]);
    assert_eq!(
        is_forger(&zone, &TestMessage::from("bob@absent.example.net").signed(&absent)).await,
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
        is_forger(&zone, &TestMessage::from("bob@example.net").signed(&trouble)).await,
        UNPROVED
    );
}

#[tokio::test]
async fn key_longer_than_a_udp_answer_is_fetched_by_tcp() {
    let zone = Zone::new();
    zone.dns.txt("mail.example.net", "v=spf1 -all");
    let key =
        SigningKey::new("example.net", "big", generate(Algorithm::Rsa, 4096).unwrap().as_bytes())
            .unwrap();
    assert!(key.record().len() > 512);
    zone.publish(&key);
    let mail = TestMessage::from("bob@example.net").signed(&Signer::new(vec![key]));
    assert_eq!(is_forger(&zone, &mail).await, PASSES);
}

#[tokio::test]
async fn dmarc_failure_makes_a_forger() {
    let zone = Zone::new();
    zone.dns
        .txt("mail.example.net", "v=spf1 ip4:192.0.2.0/24 -all")
        .txt("_dmarc.example.net", "v=DMARC1; p=none")
        .txt("_dmarc.strict.example", "v=DMARC1; p=reject; aspf=s; adkim=s")
        .txt("mail.strict.example", "v=spf1 ip4:192.0.2.0/24 -all")
        .txt("bank.example", "v=spf1 -all")
        .txt("_dmarc.bank.example", "v=DMARC1; p=reject");
    assert_eq!(is_forger(&zone, &TestMessage::from("bob@example.net")).await, PASSES);
    assert_eq!(is_forger(&zone, &TestMessage::from("bob@news.example.net")).await, PASSES);
    // Strict alignment fails, whatever passed.
    let strict = || TestMessage::from("bob@strict.example").with_sender("bob@mail.strict.example");
    assert_eq!(is_forger(&zone, &strict()).await, FORGER);
    assert_eq!(
        is_forger(&zone, &strict().signed(&zone.signer("strict.example", "s"))).await,
        PASSES
    );
    // The name of somebody else in From.
    let bank = TestMessage::from("Your Bank <service@bank.example>");
    assert_eq!(is_forger(&zone, &bank).await, FORGER);
    assert_eq!(
        bank.forgery_reasons(&zone.settings()).await[0].as_deref(),
        Some("dmarc=fail header.from=bank.example")
    );
    // Without a client SPF is unknown, and DMARC does not fail for that.
    assert_eq!(
        is_forger(&zone, &TestMessage::from("bob@example.net").with_client(None)).await,
        UNPROVED
    );
    // The domain in From has no DMARC record.
    let without_record = TestMessage::from("bob@other.example");
    assert_eq!(is_forger(&zone, &without_record).await, PASSES, "SPF of the sender passed");
}

#[tokio::test]
async fn silent_name_servers_are_timed_out_and_prove_nothing() {
    let zone = Zone::new();
    let settings = VerifySettings { timeout: Duration::from_secs(1), ..zone.settings() };
    #[allow(clippy::disallowed_methods, reason = "a test that measures")]
    let begun = Instant::now();
    let reasons = TestMessage::from("bob@silent.example")
        .with_sender("bob@silent.example")
        .forgery_reasons(&settings)
        .await;
    // Each of the two policies takes up to a second.
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    assert_eq!(reasons[0], None);
    assert!(reasons[1].is_some());
    let no_server =
        VerifySettings { nameservers: vec!["127.0.0.1:1".parse().unwrap()], ..settings };
    assert_eq!(
        TestMessage::from("bob@x.example")
            .forgery_reasons(&no_server)
            .await
            .map(|reason| reason.is_some()),
        UNPROVED
    );
}

/// Makes a signature of `domain` with this selector for the body of `TestMessage::from`, and
/// publishes its key.
fn foreign_signature(zone: &Zone, domain: &str, selector: &str) -> Vec<u8> {
    let mail = TestMessage::from(&format!("eve@{domain}"));
    zone.signer(domain, selector).sign(&mail.raw).unwrap().unwrap()
}

#[tokio::test]
async fn silent_key_server_hides_no_failure() {
    let zone = Zone::new();
    zone.dns.txt("mail.example.net", "v=spf1 -all");
    let silent = foreign_signature(&zone, "evil.example", "silent");
    let forged = TestMessage::from("bob@example.net").with_fields_above(&silent);
    let reasons = forged.forgery_reasons(&zone.settings()).await;
    assert_eq!(
        reasons[0].as_deref(),
        Some("spf=fail smtp.mailfrom=mail.example.net, no aligned dkim=pass")
    );
    // A valid signature is found even below many whose keys get no answer.
    let keys = (0..20).map(|n| foreign_signature(&zone, &format!("evil{n}.example"), "silent"));
    let keys: Vec<u8> = keys.flatten().collect();
    let signer = zone.signer("example.net", "s");
    assert_eq!(
        is_forger(
            &zone,
            &TestMessage::from("bob@example.net").signed(&signer).with_fields_above(&keys)
        )
        .await,
        PASSES
    );
    // If the sender's own key gets no answer, nothing is proved.
    let own = foreign_signature(&zone, "example.net", "silent");
    assert_eq!(
        is_forger(&zone, &TestMessage::from("bob@example.net").with_fields_above(&own)).await,
        UNPROVED
    );
}

#[tokio::test]
async fn silent_arc_key_server_hides_no_failure() {
    let zone = Zone::new();
    zone.dns.txt("mail.example.net", "v=spf1 -all");
    let sealed =
        forwarded(&zone, TestMessage::from("bob@example.net"), "evil.example", "x\r\n").await;
    let keys = zone.dns.txt_records();
    let key = keys.keys().find(|name| name.ends_with("_domainkey.evil.example")).unwrap();
    zone.dns.silence(key);
    assert_eq!(is_forger(&zone, &sealed).await, FORGER);
}

#[tokio::test]
async fn message_without_a_header_is_judged_by_spf() {
    let zone = Zone::new();
    zone.dns.txt("mail.example.net", "v=spf1 -all").txt("pass.example", "v=spf1 +all");
    let bare =
        || TestMessage { raw: b"\r\nhello\r\n".to_vec(), ..TestMessage::from("bob@example.net") };
    assert_eq!(is_forger(&zone, &bare()).await, FORGER);
    assert_eq!(is_forger(&zone, &bare().with_sender("bob@pass.example")).await, PASSES);
}

#[tokio::test]
async fn results_of_trusted_servers_replace_verification() {
    let zone = Zone::new();
    zone.dns.txt("mail.example.net", "v=spf1 -all");
    let pass =
        b"Authentication-Results: mx.example.org; spf=pass smtp.mailfrom=mail.example.net\r\n";
    assert_eq!(
        is_forger(&zone, &TestMessage::from("bob@example.net").with_fields_above(pass)).await,
        PASSES
    );
    // Without an envelope sender there is nothing to judge.
    assert_eq!(
        is_forger(&zone, &TestMessage::from("bob@example.net").with_sender("<>")).await,
        PASSES
    );
    assert!(zone.dns.queries().is_empty(), "{:?}", zone.dns.queries());
    // Results about other methods, or of other servers, do not replace it.
    for fields in [
        "mx.example.org; none",
        "mx.example.org; iprev=pass",
        "evil.example; spf=pass; dkim=pass header.d=example.net",
    ] {
        let mail = TestMessage::from("bob@example.net")
            .with_fields_above(format!("Authentication-Results: {fields}\r\n").as_bytes());
        assert_eq!(is_forger(&zone, &mail).await, FORGER, "{fields}");
    }
}

#[tokio::test]
async fn resolver_that_could_not_be_made_is_tried_again() {
    let zone = Zone::new();
    let verifier = Verifier::new(zone.settings());
    let failed = verifier.resolver_or_make(|_| Err("/etc/resolv.conf: not there".into()));
    assert_eq!(failed.err().as_deref(), Some("/etc/resolv.conf: not there"));
    assert!(verifier.resolver_or_make(make_resolver).is_ok());
    assert!(verifier.resolver_or_make(|_| Err("made again".into())).is_ok());
}

#[tokio::test]
async fn dns_answers_are_cached() {
    let zone = Zone::new();
    zone.dns.txt("mail.example.net", "v=spf1 -all");
    let verifier = Some(Verifier::new(zone.settings()).into());
    let settings = Settings { verifier, ..Settings::default() };
    let mail = TestMessage::from("bob@example.net");
    for _ in 0..3 {
        assert!(examine(&Header::split(&mail.raw), &mail.envelope, &settings).await.is_some());
    }
    // 16 is the type of TXT records.
    let asked = zone.dns.queries();
    assert_eq!(asked.iter().filter(|name| *name == "mail.example.net 16").count(), 1, "{asked:?}");
}

#[tokio::test]
async fn oversized_headers_count_as_unsigned() {
    let zone = Zone::new();
    zone.dns.txt("mail.example.net", "v=spf1 -all");
    let signer = zone.signer("example.net", "s");
    let signed = || TestMessage::from("bob@example.net").signed(&signer);
    let stale = signer.sign(b"From: bob@example.net\r\n\r\nold\r\n").unwrap().unwrap();
    assert_eq!(
        is_forger(&zone, &signed().with_fields_above(&stale.repeat(limits::MAX_SIGNATURES - 1)))
            .await,
        PASSES
    );
    assert_eq!(
        is_forger(&zone, &signed().with_fields_above(&stale.repeat(limits::MAX_SIGNATURES))).await,
        FORGER
    );
    assert_eq!(
        is_forger(
            &zone,
            &signed().with_fields_above(&b"X: y\r\n".repeat(limits::MAX_VERIFIED_FIELDS))
        )
        .await,
        FORGER
    );
    assert_eq!(
        is_forger(
            &zone,
            &signed().with_fields_above(
                &[b"X: ", &[b'y'; limits::MAX_VERIFIED_HEADER_BYTES][..], b"\r\n"].concat()
            )
        )
        .await,
        FORGER
    );
    let wide = format!("DKIM-Signature: v=1; h={}\r\n", "a:".repeat(limits::MAX_SIGNATURE_BYTES));
    assert_eq!(is_forger(&zone, &signed().with_fields_above(wide.as_bytes())).await, FORGER);
}

/// Forwards a message: verifies it, appends a footer, and seals the result.
async fn forwarded(zone: &Zone, mail: TestMessage, sealer: &str, footer: &str) -> TestMessage {
    let resolver = zone.resolver();
    let der = Ed25519Key::generate_pkcs8().unwrap();
    let key = Ed25519Key::from_pkcs8_der(&der).unwrap();
    let record = format!("v=DKIM1; k=ed25519; p={}", STANDARD.encode(key.public_key()));
    let selector = format!("arc{}", zone.dns.txt_records().len());
    zone.dns.txt(&format!("{selector}._domainkey.{sealer}"), &record);
    let changed = [&mail.raw, footer.as_bytes()].concat();
    let sealed = {
        let (before, after) =
            (AuthenticatedMessage::parse(&mail.raw), AuthenticatedMessage::parse(&changed));
        let (before, after) = (before.unwrap(), after.unwrap());
        let outputs = resolver.verify_dkim(&before).await;
        let chain = resolver.verify_arc(&before).await;
        let results = AuthenticationResults::new(sealer).with_dkim_results(&outputs, "example.net");
        let sealer = ArcSealer::from_key(key)
            .domain(sealer)
            .selector(selector)
            .headers(["From", "To", "Subject"]);
        sealer.seal(&after, &results, &chain).unwrap().to_header()
    };
    let mut mail = TestMessage { raw: changed, envelope: mail.envelope };
    mail.envelope.client.addr = Some("203.0.113.9".into());
    mail.with_fields_above(sealed.as_bytes())
}

#[tokio::test]
async fn trusted_arc_seal_makes_up_for_a_broken_signature() {
    let zone = Zone::new();
    zone.dns
        .txt("mail.example.net", "v=spf1 ip4:192.0.2.0/24 -all")
        .txt("_dmarc.example.net", "v=DMARC1; p=reject");
    let signer = zone.signer("example.net", "s");
    let signed = || TestMessage::from("bob@example.net").signed(&signer);
    let footer = "-- \r\nThe list\r\n";
    assert_eq!(is_forger(&zone, &signed()).await, PASSES);
    // Without ARC, forwarding looks like a forgery.
    let plain = TestMessage { raw: [&signed().raw, footer.as_bytes()].concat(), ..signed() }
        .with_client(Some("203.0.113.9"));
    assert_eq!(is_forger(&zone, &plain).await, FORGER);
    // With a trusted seal it does not, with another one it does.
    assert_eq!(
        is_forger(&zone, &forwarded(&zone, signed(), "sealer.example", footer).await).await,
        PASSES
    );
    assert_eq!(
        is_forger(&zone, &forwarded(&zone, signed(), "other.example", footer).await).await,
        FORGER
    );
    // A message without a pass at the forwarder is not healed.
    let unsigned =
        forwarded(&zone, TestMessage::from("bob@example.net"), "sealer.example", footer).await;
    assert_eq!(is_forger(&zone, &unsigned).await, FORGER);
    // The message was changed after it was sealed.
    let sealed = forwarded(&zone, signed(), "sealer.example", footer).await;
    assert_eq!(is_forger(&zone, &sealed.replaced("Are you", "Were you")).await, FORGER);
    // Two seals in a row: both sealers must be trusted. By the settings of the zone only the first
    // one is, and the second one could have written anything.
    let settings = VerifySettings {
        sealers: vec!["sealer.example".into(), "second.example".into()],
        ..zone.settings()
    };
    let one = forwarded(&zone, signed(), "sealer.example", footer).await;
    let two = forwarded(&zone, one, "second.example", footer).await;
    assert_eq!(two.forgery_reasons(&settings).await.map(|reason| reason.is_some()), PASSES);
    assert_eq!(two.forgery_reasons(&zone.settings()).await.map(|reason| reason.is_some()), FORGER);
}

#[test]
fn results_in_a_seal_are_read() {
    let read = |value: &[u8]| sealed_results(value).len();
    assert_eq!(read(b" i=1; a.example;\r\n dkim=pass header.d=b;\r\n\tspf=fail\r\n"), 2);
    assert_eq!(read(b" i=1; a.example; none"), 0);
    assert_eq!((read(b""), read(b"i=1"), read(b"\xff;\xfe;\xfd")), (0, 0, 0));
}

#[tokio::test]
async fn panic_of_the_library_is_caught() {
    async fn panicking() -> u8 {
        tokio::task::yield_now().await;
        panic!("a bug");
    }
    assert_eq!(catch_panic(panicking()).await, None);
    assert_eq!(catch_panic(async { 7 }).await, Some(7));
}
