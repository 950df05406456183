//! Tests of the verdict for each policy, and of the reason for it. The envelope sender is always
//! bob@mail.example.net.

use super::super::results::Payload;
use super::*;

fn reason_for(clauses: &str, policy: Policy) -> Option<String> {
    let payload = Payload::read(&format!("mx;{clauses}")).expect(clauses);
    judge(&payload.results, &Address::from_parts("bob", "mail.example.net"), policy)
}

#[test]
fn policy_decides_each_combination_of_results() {
    // Each line: the results, whether fail-only makes the sender a forger, and whether strict does.
    for (clauses, fail_only, strict) in [
        // No results, or none that count.
        ("none", false, true),
        ("auth=pass smtp.auth=bob", false, true),
        ("iprev=fail", false, true),
        ("arc=fail", false, true),
        // DMARC.
        ("dmarc=fail (p=reject) header.from=example.net", true, true),
        ("dmarc=fail", true, true),
        ("dmarc=fail header.from=example.com", true, true),
        ("dmarc=none header.from=example.net", false, true),
        ("dmarc=temperror header.from=example.net", false, true),
        ("dmarc=permerror header.from=example.net", false, true),
        ("dmarc=pass header.from=example.net", false, false),
        ("dmarc=pass header.from=news.EXAMPLE.net", false, false),
        ("dmarc=pass header.from=example.com", false, true),
        ("dmarc=pass", false, true),
        ("dmarc=failed", false, true),
        ("x-dmarc=fail", false, true),
        ("dmarc=pass header.from=example.net; dmarc=fail header.from=example.com", true, true),
        // SPF.
        ("spf=pass", false, false),
        ("spf=pass smtp.mailfrom=bob@mail.example.net", false, false),
        ("spf=pass smtp.mailfrom=MAIL.example.net", false, false),
        ("spf=pass smtp.mailfrom=example.com", false, true),
        ("spf=pass smtp.helo=mail.example.net", false, true),
        ("spf=fail", true, true),
        ("spf=hardfail smtp.mailfrom=mail.example.net", true, true),
        ("spf=fail smtp.mailfrom=\"b o b\"@mail.example.net", true, true),
        ("spf=fail smtp.mailfrom=<bob@mail.example.net>", true, true),
        ("spf=fail smtp.mailfrom=example.com", false, true),
        ("spf=fail smtp.helo=mail.example.net", false, true),
        ("spf=softfail smtp.mailfrom=mail.example.net", false, true),
        ("spf=neutral", false, true),
        ("spf=temperror", false, true),
        ("spf=permerror", false, true),
        ("spf=fail smtp.mailfrom=mail.example.net smtp.helo=x.example", true, true),
        // SPF and DKIM.
        ("spf=fail; dkim=pass header.d=example.net", false, false),
        ("spf=fail; dkim=pass (2048) header.i=@news.EXAMPLE.net", false, false),
        ("spf=fail; dkim=pass header.d=example.net header.i=bob@mail.example.net", false, false),
        ("spf=fail; dkim=pass header.d=example.com", true, true),
        ("spf=fail; dkim=pass header.d=net", true, true),
        ("spf=fail; dkim=pass header.d=notexample.net", true, true),
        ("spf=fail; dkim=pass header.s=example.net", true, true),
        ("spf=fail; dkim=pass", true, true),
        ("spf=fail; dkim=fail header.d=example.net", true, true),
        ("spf=fail; dkim=neutral header.d=example.net", true, true),
        ("spf=fail; dkim=temperror header.d=example.net", false, true),
        ("spf=fail; dkim=temperror", true, true),
        ("spf=fail; dkim=temperror header.s=s1", true, true),
        ("spf=fail; dkim=temperror header.d=", true, true),
        ("spf=fail; dkim=temperror header.i=@news.example.net", false, true),
        ("spf=fail; dkim=temperror header.d=example.com header.i=@example.net", true, true),
        ("spf=fail; dkim=temperror; dkim=temperror header.d=example.net", false, true),
        ("dmarc=fail; dkim=temperror header.d=example.net", true, true),
        ("spf=fail; dkim=temperror header.d=example.com", true, true),
        ("spf=fail; dkim=permerror header.d=example.net", true, true),
        ("spf=fail; dkim=pass header.d=example.com header.i=@example.net", true, true),
        ("spf=fail; dkim=pass header.d=example.com; dkim=pass header.d=example.net", false, false),
        ("spf=fail; dkim=fail header.d=example.net; dkim=pass header.d=example.net", false, false),
        ("spf=fail; domainkeys=pass header.d=example.net", true, true),
        ("spf=fail; dmarc=pass header.from=example.net", false, false),
        ("spf=fail; dmarc=pass header.from=example.com", true, true),
        ("dkim=pass header.d=example.net", false, false),
        ("dkim=pass header.d=example.com", false, true),
        // A failure of DMARC counts, whatever else passed.
        ("dkim=pass header.d=example.net; dmarc=fail header.from=example.com", true, true),
        ("spf=pass; dmarc=fail", true, true),
    ] {
        assert_eq!(
            reason_for(clauses, Policy::FailOnly).is_some(),
            fail_only,
            "fail-only: {clauses}"
        );
        assert_eq!(reason_for(clauses, Policy::Strict).is_some(), strict, "strict: {clauses}");
        assert_eq!(reason_for(clauses, Policy::Off), None);
    }
}

#[test]
fn reason_quotes_the_decisive_result() {
    let reason = reason_for(" dmarc=fail header.from=example.net", Policy::FailOnly).unwrap();
    assert_eq!(reason, "dmarc=fail header.from=example.net");
    let reason = reason_for(" spf=fail smtp.mailfrom=mail.example.net", Policy::FailOnly).unwrap();
    assert_eq!(reason, "spf=fail smtp.mailfrom=mail.example.net, no aligned dkim=pass");
    let long = format!(" dmarc=fail header.from=\"{}\u{1}\"", "x".repeat(5000));
    let reason = reason_for(&long, Policy::FailOnly).unwrap();
    assert!(reason.len() <= 200 && !reason.contains('\u{1}'), "{reason}");
}
