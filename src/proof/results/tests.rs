//! Tests of reading Authentication-Results fields, and of which of them count.

use proptest::prelude::*;

use super::*;

fn read(value: &str) -> Vec<String> {
    let payload = Payload::read(value).unwrap_or_else(|| panic!("unread: {value}"));
    payload.results.iter().map(describe).collect()
}

fn describe(result: &MethodResult) -> String {
    let mut text = format!("{}={}", result.method, result.result);
    for (name, value) in &result.properties {
        text += &format!(" {name}={value}");
    }
    if let Some(reason) = &result.reason {
        text += &format!(" [{reason}]");
    }
    text
}

#[test]
fn examples_of_the_rfc_are_parsed() {
    // RFC 8601 appendix B.
    for (value, wanted) in [
        ("example.org 1; none", &[][..]),
        (
            "example.com;\r\n   spf=pass smtp.mailfrom=example.net",
            &["spf=pass smtp.mailfrom=example.net"],
        ),
        (
            "example.com;\r\n auth=pass (cram-md5) smtp.auth=sender@example.net;\r\n \
             spf=pass smtp.mailfrom=example.net",
            &["auth=pass smtp.auth=sender@example.net", "spf=pass smtp.mailfrom=example.net"],
        ),
        (
            "foo.example.net (foobar) 1 (baz);\r\n  \
             dkim (Because I like it) / 1 (One yay) = (wait for it) fail\r\n  \
             policy (A dot can go here) . (like that) expired\r\n  \
             (this surprised me) = (as I wasn't expecting it) 1362471462",
            &["dkim=fail policy.expired=1362471462"],
        ),
        (
            "mail-router.example.net;\r\n dkim=pass (good signature) header.d=example.com\r\n \
             header.i=@mail-router.example.net;\r\n \
             dkim=fail (bad signature) header.i=@newyork.example.com",
            &[
                "dkim=pass header.d=example.com header.i=@mail-router.example.net",
                "dkim=fail header.i=@newyork.example.com",
            ],
        ),
    ] {
        assert_eq!(read(&value.replace("\r\n", "")), wanted, "{value}");
    }
}

#[test]
fn unusual_fields_are_parsed() {
    for (value, wanted) in [
        ("a;", &[][..]),
        ("a ;;; spf=pass;", &["spf=pass"]),
        ("\"a.example\" 1; SPF=Pass SMTP.MailFrom=x", &["spf=pass smtp.mailfrom=x"]),
        ("a; dkim=pass header.b=Ab/+c= header.s=x", &["dkim=pass header.b=Ab/+c= header.s=x"]),
        // A word without a value takes nothing of what follows it.
        ("a; dkim=pass junk header.d=b", &["dkim=pass header.d=b"]),
        ("a; dkim=pass junk (x) header.d = b", &["dkim=pass header.d=b"]),
        ("a; dkim=pass junk. more header.d=b", &["dkim=pass header.d=b"]),
        ("a; dkim=pass junk header.d=b other reason=x", &["dkim=pass header.d=b [x]"]),
        ("a; dkim=pass junk/x header.d=b", &["dkim=pass header.d=b"]),
        ("a; dkim=pass junk \"x y\" header.d=b", &["dkim=pass header.d=b"]),
        ("a; dkim=pass a b c d header.d=b e", &["dkim=pass header.d=b"]),
        ("a; spf=pass smtp.remote-ip=2001:db8::1", &["spf=pass smtp.remote-ip=2001:db8::1"]),
        (
            "a; dmarc=pass action=none header.from=b.c;compauth=pass reason=100",
            &["dmarc=pass header.from=b.c", "compauth=pass [100]"],
        ),
        (
            "a; dkim=pass reason=\"a; dkim=fail (\" header.d=b",
            &["dkim=pass header.d=b [a; dkim=fail (]"],
        ),
        (
            "a; spf=pass smtp.mailfrom=\"x; dmarc=pass \\\" y\"@b.c",
            &["spf=pass smtp.mailfrom=x; dmarc=pass \" y@b.c"],
        ),
        (
            "a; spf=none (no (nested \\) \\( x) y) smtp.helo=[192.0.2.1]",
            &["spf=none smtp.helo=[192.0.2.1]"],
        ),
        ("a; dkim = pass header . d = b", &["dkim=pass header.d=b"]),
        ("a; dkim/1=pass; spf/01=fail", &["dkim=pass", "spf=fail"]),
        ("a; x_y=z @ = . / \" \" header.d=b", &["x_y=z header.d=b"]),
        ("a; spf=pass smtp.mailfrom=<>; iprev=pass", &["spf=pass smtp.mailfrom=<>", "iprev=pass"]),
        ("a; dkim=pass header.d=", &["dkim=pass"]),
        ("a; dkim=pass header.d=; spf=fail", &["dkim=pass", "spf=fail"]),
        (
            "bücher.example; spf=pass smtp.mailfrom=jürgen@bücher.example",
            &["spf=pass smtp.mailfrom=jürgen@bücher.example"],
        ),
    ] {
        assert_eq!(read(value), wanted, "{value}");
    }
}

#[test]
fn malformed_results_are_ignored() {
    for value in [
        "a; dkim=pass/2",
        "a; dkim=pass.x",
        "a; dkim=\"pass\"",
        "a; dkim/2=pass",
        "a; dkim/=pass /",
        "a; dkim pass",
        "a; =pass",
        "a; dkim==pass",
        "a; (dkim=pass)",
        "a; \"dkim=pass\"",
        "a; x \"y; dkim=pass\"",
        "a; none",
        "a (; dkim=pass)",
        "a; (dkim=pass",
        "a; \"; dkim=pass",
        "a",
    ] {
        let results = Payload::read(value).map(|payload| payload.results).unwrap_or_default();
        assert!(
            results.iter().all(|one| one.method != "dkim" || one.result != "pass"),
            "{value}: {results:?}"
        );
    }
    // RFC 8601 §2.2.
    for value in [
        "",
        ";",
        "a 2; dkim=pass",
        "a 12; dkim=pass",
        "a b; dkim=pass",
        "a (x; dkim=pass",
        "\"a; dkim=pass",
        "a 1 1; dkim=pass",
    ] {
        let read = Payload::read(value).filter(|payload| !payload.authserv_id.is_empty());
        assert_eq!(read, None, "{value}");
    }
    // Only the malformed clauses are ignored.
    assert_eq!(
        read("a; dkim=pass/2 header.d=b; ?? x; spf=fail smtp.mailfrom=c"),
        ["spf=fail smtp.mailfrom=c"]
    );
}

#[test]
fn work_is_bounded() {
    let long = format!("a{}", "; dkim=pass header.d=b".repeat(5000));
    assert_eq!(read(&long).len(), limits::MAX_RESULT_CLAUSES);
    let wide = format!("a; dkim=pass{}", " header.d=b".repeat(5000));
    assert_eq!(
        Payload::read(&wide).unwrap().results[0].properties.len(),
        limits::MAX_RESULT_PROPERTIES
    );
    let deep = format!("a; dkim=pass {}{} header.d=b", "(".repeat(100_000), ")".repeat(100_000));
    assert_eq!(read(&deep), ["dkim=pass header.d=b"]);
    let many =
        "Authentication-Results: mx.example.org".to_owned() + &"; dkim=pass".repeat(100) + "\r\n";
    assert_eq!(
        trusted_results(&Header::split(many.repeat(100).as_bytes()), &["mx.example.org".into()])
            .len(),
        limits::MAX_AUTHENTICATION_RESULTS
    );
}

/// Whether the results of a field count if it is below these lines. The site has the authserv-ids
/// `mx.example.org` and `xn--bcher-kva.example`.
fn counts(above: &str, field: &str) -> bool {
    let raw = format!(
        "{above}{field}\r\nSubject: x\r\n\r\nAuthentication-Results: mx.example.org; dmarc=fail\r\n"
    );
    !trusted_results(
        &Header::split(raw.as_bytes()),
        &["mx.example.org".into(), "xn--bcher-kva.example".into()],
    )
    .is_empty()
}

#[test]
fn only_a_plain_authserv_id_is_trusted() {
    for (id, ours) in [
        ("mx.example.org", true),
        ("MX.Example.ORG", true),
        ("mx.example.org (x) 1", true),
        ("mx.example.org(x)", true),
        ("\r\n\t\r\n mx.example.org\r\n ", true),
        ("xn--bcher-kva.example", true),
        // The border removes forged fields by a regular expression. It does not find the id after
        // comments, or in quoted strings, quoted pairs and other spellings.
        ("(of (the) border) mx.example.org (x) 1", false),
        ("()mx.example.org", false),
        ("\"mx.example.org\"", false),
        ("\"mx.example\\.org\"", false),
        ("mx\\.example.org", false),
        ("mx.exa\rmple.org", false),
        ("mx.example\r\n .org", false),
        ("\u{b}mx.example.org", false),
        ("\u{c}mx.example.org", false),
        ("\0mx.example.org", false),
        ("\u{a0}mx.example.org", false),
        ("mx.example.org\0", false),
        ("mx.example.org\r.evil.example", false),
        ("mx.example.org.", false),
        ("ｍx.example.org", false),
        ("mx。example.org", false),
        ("Bücher.example", false),
        ("mx.example.org.evil.example", false),
        ("evil.mx.example.org", false),
        ("mx.example.com", false),
        ("\"mx.example.org \"", false),
        ("mx.example.org/1", false),
        ("(mx.example.org) evil.example", false),
        ("mx.example.org evil.example", false),
        ("mx.example.org 2", false),
        ("", false),
    ] {
        assert_eq!(counts("", &format!("Authentication-Results: {id}; dmarc=fail")), ours, "{id}");
    }
    // For the border, a line that is no field ended the header. A line of blanks below a field is
    // not tested: it continues that field. A first line that begins with `From ` (mbox) is passed
    // over.
    for junk in [
        "x\r\n",
        "x y: z\r\n",
        ": x\r\n",
        "\u{fc}: x\r\n",
        " \r\n",
        "x\r\n : y\r\n",
        "\r\r\n",
        "From x\r\n",
    ] {
        let field = "Authentication-Results: mx.example.org; dmarc=fail";
        if junk != " \r\n" {
            assert!(!counts(&format!("X: y\r\n{junk}"), field), "{junk:?}");
        }
        assert_eq!(counts(junk, field), junk == "From x\r\n", "{junk:?}");
    }
    for name in
        ["Authentication-Results\r\n ", "Authentication-Results\u{c}", "Authentication-Results\r"]
    {
        assert!(!counts("", &format!("{name}: mx.example.org; dmarc=fail")), "{name:?}");
    }
    assert!(counts("", "Authentication-Results \t: mx.example.org; dmarc=fail"));
    assert!(counts("", "AUTHENTICATION-RESULTS :\r\n\tmx.example.org;\r\n\tdmarc\r\n =\r\n fail"));
    assert!(!counts("", "X-Authentication-Results: mx.example.org; dmarc=fail"));
    assert!(!counts("", "ARC-Authentication-Results: i=1; mx.example.org; dmarc=fail"));
}

#[test]
fn fields_below_a_foreign_received_do_not_count() {
    let fail = "Authentication-Results: mx.example.org; dmarc=fail";
    let top = "Received: from a by anything (Postfix) id x; date\r\n";
    assert!(counts(top, fail), "the topmost Received field is of Postfix");
    for (received, own) in [
        ("from b (b.example [192.0.2.1]) by mx.example.org (x) with ESMTP id y; date", true),
        ("by MX.EXAMPLE.ORG; date", true),
        ("(c) from (c) b (by evil) by (c) mx.example.org\r\n\t(Postfix)", true),
        ("from b by evil.example", false),
        ("from b by evil.example by mx.example.org", false),
        ("from by mx.example.org by evil.example", false),
        ("from b (by mx.example.org) by evil.example", false),
        ("from mx.example.org by evil.example", false),
        ("from b via mx by mx.example.org", false),
        ("(qmail 7 invoked by mx.example.org)", false),
        ("from b by", false),
        ("", false),
    ] {
        assert_eq!(counts(&format!("{top}Received: {received}\r\n"), fail), own, "{received}");
    }
    let own = "Received: from a by mx.example.org; date\r\n";
    assert!(counts(&format!("{top}{own}{own}"), fail));
    assert!(
        !counts(&format!("{top}Received: from x by evil\r\n{own}"), fail),
        "no field below it counts"
    );
}

#[test]
fn only_results_under_a_trusted_authserv_id_count() {
    let raw = "Authentication-Results: mx.example.org; spf=pass\r\n\
               Authentication-Results: evil.example; spf=softfail\r\n\
               Received: from a by b\r\n\
               Authentication-Results: mx.example.org; dkim=fail; dmarc=none\r\n\r\n";
    let found = trusted_results(&Header::split(raw.as_bytes()), &["mx.example.org".into()]);
    assert_eq!(
        found.iter().map(describe).collect::<Vec<_>>(),
        ["spf=pass", "dkim=fail", "dmarc=none"]
    );
}

fn cfws() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["", " ", "\t", "(c)", " (a (b) ; x=y \\) \") "])
        .prop_map(str::to_owned)
}

fn word() -> impl Strategy<Value = String> {
    "[a-z][a-z0-9-]{0,6}"
}

prop_compose! {
    fn clause()(
        method in word(),
        result in word(),
        reason in prop::option::of("[a-z;() ]{0,8}"),
        properties in
            prop::collection::vec((word(), word(), "[a-zA-Z0-9.@; ()\"\\\\=]{1,10}"), 0..4),
    ) -> MethodResult {
        let named = |(kind, name, value)| (format!("{kind}.{name}"), value);
        let properties = properties.into_iter().map(named).collect();
        MethodResult { method, result, reason, properties }
    }
}

fn quoted(value: &str) -> String {
    format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Results are parsed alike with blanks and comments wherever the grammar allows them.
    #[test]
    fn blanks_and_comments_do_not_change_results(
        clauses in prop::collection::vec(clause(), 0..4),
        gaps in prop::collection::vec(cfws(), 64),
    ) {
        let mut gaps = gaps.iter().cycle();
        let mut gap = || gaps.next().unwrap().clone();
        let mut text = format!("{}mx.example.org{}", gap(), gap());
        for one in &clauses {
            text += &format!(";{}{}{}={}{}", gap(), one.method, gap(), gap(), one.result);
            if let Some(reason) = &one.reason {
                text += &format!(" {}reason{}={}{}", gap(), gap(), gap(), quoted(reason));
            }
            for (name, value) in &one.properties {
                let (kind, name) = name.split_once('.').unwrap();
                text += &format!(" {}{kind}{}.{}{name}", gap(), gap(), gap());
                text += &format!("{}={}{}", gap(), gap(), quoted(value));
            }
            text += &gap();
        }
        let payload = Payload::read(&text);
        prop_assert_eq!(payload.map(|payload| payload.results), Some(clauses), "{}", text);
    }

    /// No text gives more results than it has clauses.
    #[test]
    fn any_text_gives_bounded_results(text in "[a-z=.;/(\"\\\\ )@12]{0,60}") {
        let clauses = text.matches(';').count();
        prop_assert!(Payload::read(&text).is_none_or(|payload| payload.results.len() <= clauses));
    }
}
