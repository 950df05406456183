//! Tests of reading and deriving the envelope of a submission.

use super::*;

const NOW: UtcMillis = UtcMillis(1_795_251_600_000); // 2026-11-21T09:00:00Z
const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

fn address(email: &str, parameters: &[(&str, Option<&str>)]) -> EnvelopeAddress {
    let parameters =
        parameters.iter().map(|(name, value)| ((*name).to_owned(), value.map(str::to_owned)));
    EnvelopeAddress { email: email.into(), parameters: Some(parameters.collect()) }
}

fn from(parameters: &[(&str, Option<&str>)]) -> Result<SubmissionOrder, BadEnvelope> {
    parse_envelope(
        &address("ann@example.org", parameters),
        &[address("bob@example.net", &[])],
        NOW,
        9,
        YEAR,
    )
}

fn to(parameters: &[(&str, Option<&str>)]) -> Result<Target, BadEnvelope> {
    let order =
        parse_envelope(&address("", &[]), &[address("bob@example.net", parameters)], NOW, 9, YEAR);
    order.map(|mut order| order.recipients.remove(0))
}

fn path(error: &BadEnvelope) -> &str {
    match error {
        BadEnvelope::Property(path, why) => {
            assert!(!why.is_empty());
            path
        }
        other => panic!("{other:?}"),
    }
}

/// RFC 3461 §4, RFC 4865 §4.
#[test]
fn sender_parameters_are_accepted_or_refused_with_their_path() {
    let good = from(&[
        ("ret", Some("hdrs")),
        ("ENVID", Some("QQ 314+x")),
        ("BODY", Some("8BITMIME")),
        ("SMTPUTF8", None),
    ]);
    let good = good.unwrap();
    assert_eq!(
        (good.ret, good.envid.as_deref(), good.send_at),
        (Some(DsnReturn::Headers), Some("QQ 314+x"), NOW)
    );
    let at = |parameter| from(&[parameter]).map(|order| order.send_at);
    assert_eq!(at(("HOLDFOR", Some("3600"))), Ok(NOW.after(Duration::from_secs(3600))));
    assert_eq!(at(("HOLDFOR", Some("0"))), Ok(NOW));
    assert_eq!(at(("HOLDFOR", Some("31536000"))), Ok(NOW.after(YEAR)));
    assert_eq!(
        at(("HOLDUNTIL", Some("2026-11-21T12:00:00Z"))),
        Ok(UtcMillis::parse_rfc3339("2026-11-21T12:00:00Z").unwrap())
    );
    assert_eq!(
        at(("HOLDUNTIL", Some("2020-01-01T00:00:00Z"))),
        Ok(NOW),
        "a time in the past means now"
    );
    let long = "x".repeat(limits::MAX_ENVID_BYTES + 1);
    for (name, value) in [
        ("HOLDFOR", Some("31536001")),
        ("HOLDFOR", Some("1000000000")),
        ("HOLDFOR", Some("-1")),
        ("HOLDFOR", Some("+1")),
        ("HOLDFOR", Some("")),
        ("HOLDFOR", None),
        ("HOLDUNTIL", Some("2030-01-01T00:00:00Z")),
        ("HOLDUNTIL", Some("tomorrow")),
        ("RET", Some("SOME")),
        ("RET", None),
        ("ENVID", Some("")),
        ("ENVID", Some("a\nb")),
        ("ENVID", Some(&long)),
        ("BODY", Some("BINARYMIME")),
        ("SMTPUTF8", Some("1")),
        ("SIZE", Some("many")),
        ("MT-PRIORITY", Some("1")),
    ] {
        let refused = from(&[(name, value)]).unwrap_err();
        assert_eq!(path(&refused), format!("envelope/mailFrom/parameters/{name}"), "{value:?}");
    }
    let both =
        from(&[("HOLDFOR", Some("1")), ("HOLDUNTIL", Some("2026-11-21T12:00:00Z"))]).unwrap_err();
    assert!(path(&both).ends_with("HOLDUNTIL"));
    assert!(
        path(&from(&[("RET", Some("FULL")), ("ret", Some("FULL"))]).unwrap_err()).ends_with("ret")
    );
    assert!(
        path(&from(&[("a/b~", None)]).unwrap_err()).ends_with("/a~1b~0"),
        "a JSON pointer (RFC 6901)"
    );
}

#[test]
fn recipient_parameters_are_accepted_or_refused_with_their_path() {
    let good =
        to(&[("NOTIFY", Some("success,FAILURE")), ("ORCPT", Some("RFC822;bob+x@example.net"))])
            .unwrap();
    let notify = DsnNotify { success: true, failure: true, ..DsnNotify::default() };
    let original = OriginalRecipient { kind: "rfc822".into(), address: "bob+x@example.net".into() };
    assert_eq!((good.notify, good.original), (Some(notify), Some(original)));
    for (name, value) in [
        ("NOTIFY", Some("NEVER,DELAY")),
        ("NOTIFY", Some("")),
        ("NOTIFY", None),
        ("ORCPT", Some("bob@example.net")),
        ("ORCPT", Some("rfc822;")),
        ("ORCPT", Some("rf c;x")),
        ("ORCPT", Some("rfc822;a\r\nb")),
        ("ORCPT", None),
        ("RET", Some("FULL")),
    ] {
        assert_eq!(
            path(&to(&[(name, value)]).unwrap_err()),
            format!("envelope/rcptTo/0/parameters/{name}"),
            "{value:?}"
        );
    }
}

/// RFC 8621 §7.5: each mistake has an error of its own.
#[test]
fn missing_surplus_and_invalid_recipients_are_refused_and_duplicates_dropped() {
    let sender = address("ann@example.org", &[]);
    let to = |emails: &[&str]| {
        let to: Vec<EnvelopeAddress> = emails.iter().map(|email| address(email, &[])).collect();
        parse_envelope(&sender, &to, NOW, 3, YEAR).map(|order| order.recipients.len())
    };
    assert_eq!(to(&[]), Err(BadEnvelope::NoRecipients));
    assert_eq!(to(&["a@x.example", "b@x.example", "A@X.example"]), Ok(2));
    assert_eq!(to(&["a@x.example"; 4]), Err(BadEnvelope::TooMany(3)));
    assert_eq!(
        to(&["a@x.example", "b", "c\r\n@x.example"]),
        Err(BadEnvelope::Recipients(vec!["b".into(), "c\r\n@x.example".into()]))
    );
    let bad =
        parse_envelope(&address("ann", &[]), &[address("bob@example.net", &[])], NOW, 3, YEAR)
            .unwrap_err();
    assert_eq!(path(&bad), "envelope/mailFrom/email");
    assert_eq!(
        parse_envelope(&address("", &[]), &[address("bob@example.net", &[])], NOW, 3, YEAR)
            .unwrap()
            .sender,
        None
    );
}

#[test]
fn missing_envelope_is_derived_from_the_header() {
    let people = |emails: &[&str]| {
        emails
            .iter()
            .map(|email| EmailAddress { name: None, email: (*email).into() })
            .collect::<Vec<EmailAddress>>()
    };
    let content = EmailContent { from: people(&["ann@example.org"]), ..EmailContent::default() };
    let recipients = people(&[
        "bob@example.net",
        "eve@example.net",
        "no address",
        "BOB@example.net",
        "No address",
        "no address",
        "zoe@example.net",
    ]);
    let derive_envelope = |content: &EmailContent| derive_envelope(content, &recipients);
    let (from, to) = derive_envelope(&content).unwrap();
    let names: Vec<&str> = to.iter().map(|to| to.email.as_str()).collect();
    let wanted =
        ["bob@example.net", "eve@example.net", "no address", "No address", "zoe@example.net"];
    assert_eq!((from.email.as_str(), names), ("ann@example.org", wanted.to_vec()));
    assert_eq!((from.parameters, &to[0].parameters), (None, &None));
    let two_authors =
        EmailContent { from: people(&["ann@example.org", "lee@example.org"]), ..content.clone() };
    assert_eq!(path(&derive_envelope(&two_authors).unwrap_err()), "emailId");
    let with_sender = EmailContent { sender: people(&["lee@example.org"]), ..two_authors };
    assert_eq!(derive_envelope(&with_sender).unwrap().0.email, "lee@example.org");
    assert!(derive_envelope(&EmailContent::default()).is_err());
}

/// Regression test: the work grew with the square of the recipients. It would take minutes here.
#[test]
fn many_recipients_take_linear_time() {
    let person =
        |n: usize| EmailAddress { name: None, email: format!("{n}@b\u{fc}cher{n}.example") };
    let content = EmailContent { from: vec![person(0)], ..EmailContent::default() };
    // None is one too many, so all are looked at.
    let unique: Vec<EmailAddress> = (0..limits::MAX_RECIPIENTS).map(person).collect();
    let all = vec![unique; 10].concat();
    let (from, to) = derive_envelope(&content, &all).unwrap();
    assert_eq!(to.len(), limits::MAX_RECIPIENTS);
    let to = vec![to; 10].concat();
    let order = parse_envelope(&from, &to, NOW, to.len(), YEAR).unwrap();
    assert_eq!(order.recipients.len(), limits::MAX_RECIPIENTS);
    let more: Vec<EmailAddress> = (0..2 * limits::MAX_RECIPIENTS).map(person).collect();
    assert_eq!(derive_envelope(&content, &more).unwrap().1.len(), limits::MAX_RECIPIENTS + 1);
}
