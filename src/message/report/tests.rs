use super::*;
use crate::model::{DeliveryState, ReturnedKind};

fn parse_report(text: &str) -> Option<Report> {
    report(&Message::parse(text.replace('\n', "\r\n").as_bytes()))
}

fn disposition(text: &str) -> DispositionReport {
    match parse_report(text).unwrap().content {
        ReportContent::Disposition(disposition) => disposition,
        ReportContent::Delivery(other) => panic!("{other:?}"),
    }
}

/// The example of RFC 8098 §9, with other letter case and more fields.
const DISPOSITION: &str = "From: Joe Recipient <Joe_Recipient@example.com>
Subject: Re: First draft of report
MIME-Version: 1.0
Content-Type: multipart/report; report-type=disposition-notification;
 boundary=\"RAA14128.773615765/example.com\"

--RAA14128.773615765/example.com

The message sent to Joe has been displayed.
This is no guarantee that it has been read.

--RAA14128.773615765/example.com
Content-Type: Message/Disposition-Notification

Reporting-UA: joes-pc.cs.example.com; Foomail 97.1
MDN-Gateway: dns; gate.example
Original-Recipient: rfc822;
 Joe_Recipient@example.com (the former name)
Final-Recipient: RFC822;Joe_Recipient@example.com
Original-Message-ID: <199509192301.23456@example.org>
Disposition: Manual-Action/MDN-Sent-Manually; Displayed/error,x
Error: one
error: two
X-Odd: 1
x-odd: 2

--RAA14128.773615765/example.com
Content-Type: message/rfc822

Message-ID: <inner@example.org>
Subject: First draft

text
--RAA14128.773615765/example.com--
";

#[test]
fn disposition_is_parsed_and_written() {
    let whole = parse_report(DISPOSITION).unwrap();
    assert!(whole.text.unwrap().starts_with("The message sent to Joe has been displayed.\nThis"));
    assert!(whole.has_original && claims_to_be_report(&Header::split(DISPOSITION.as_bytes())));
    assert_eq!(whole.original_id.as_deref(), Some("inner@example.org"));
    let found = disposition(DISPOSITION);
    assert_eq!(found.reporting_ua.as_deref(), Some("joes-pc.cs.example.com; Foomail 97.1"));
    assert_eq!(found.gateway.as_deref(), Some("dns; gate.example"));
    assert_eq!(found.original_recipient.as_deref(), Some("rfc822; Joe_Recipient@example.com"));
    assert_eq!(found.final_recipient, "RFC822; Joe_Recipient@example.com");
    assert_eq!(found.original_message_id.as_deref(), Some("<199509192301.23456@example.org>"));
    assert_eq!(
        (found.action, found.sending, found.kind),
        (ActionMode::Manual, SendingMode::Manual, DispositionType::Displayed)
    );
    assert_eq!(found.errors, ["one", "two"]);
    assert_eq!(found.extensions, [("X-Odd".to_owned(), "1".to_owned())]);
    // A written disposition is parsed again unchanged.
    let written = found.write();
    assert_eq!(disposition::parse(written.as_bytes()), Some(found));
    assert!(
        written.contains("Disposition: manual-action/MDN-sent-manually; displayed/error\r\n"),
        "{written}"
    );
}

#[test]
fn message_without_a_required_field_or_keyword_is_no_report() {
    for (from, to) in [
        ("Final-Recipient: RFC822;", "Final-Recipient: "),
        ("Final-Recipient:", "X-Recipient:"),
        ("Disposition: Manual", "X-Disposition: Manual"),
        ("Manual-Action", "manual"),
        ("MDN-Sent-Manually", "MDN-sent"),
        ("Displayed/error", "denied"),
        ("Message/Disposition-Notification", "text/plain"),
        ("multipart/report", "multipart/mixed"),
    ] {
        assert!(DISPOSITION.contains(from), "{from}");
        assert_eq!(parse_report(&DISPOSITION.replacen(from, to, 1)), None, "{from} -> {to}");
    }
    assert_eq!(report(&Message::parse(b"")), None);
    assert!(
        !claims_to_be_report(&Header::split(b"Content-Type: text/plain\r\n\r\n"))
            && claims_to_be_report(&Header::split(
                b"content-type: Multipart/REPORT (x) ; a=b\r\n\r\n"
            ))
    );
}

#[test]
fn values_are_one_line_and_cannot_begin_a_field() {
    let evil = DispositionReport {
        reporting_ua: Some("x\r\nError: forged".into()),
        extensions: vec![
            ("Disposition".into(), "x".into()),
            ("A B".into(), "x".into()),
            ("X-Y".into(), "é\n".into()),
        ],
        ..disposition(DISPOSITION)
    };
    let written = evil.write();
    assert!(
        written.contains("Reporting-UA: x Error: forged\r\n") && written.contains("X-Y: é\r\n"),
        "{written}"
    );
    assert_eq!(written.matches("Disposition:").count(), 1);
    assert!(!written.contains("A B"));
    let long =
        DispositionReport { reporting_ua: Some("é".repeat(2000)), ..disposition(DISPOSITION) };
    assert!(long.write().lines().all(|line| line.len() <= 998));
}

const DELIVERY: &str = "From: MAILER-DAEMON@mx.example
Content-Type: multipart/report; report-type=delivery-status; boundary=b

--b

I'm sorry.
--b
Content-Type: message/delivery-status

Reporting-MTA: dns; mx.example
Original-Envelope-Id: QQ 1

Original-Recipient: rfc822;team@example.net
Final-Recipient: rfc822; Bob@Example.net
Action: failed
Status: 5.1.1 (bad)
Diagnostic-Code: smtp; 550 5.1.1 <bob@example.net>: unknown
 (really)

Final-Recipient: utf-8; j\\x{FC}@example.net
Action: delivered
Status: 2.0.0

Final-Recipient: rfc822; slow@example.net
Action: delayed
Status: 4.4.1

Final-Recipient: x400; /C=de
Action: Failed
Status: 5.0.0
Diagnostic-Code: x-odd; no

Final-Recipient: rfc822; odd@example.net
Action: lost
Status: 5.0.0
--b
Content-Type: text/rfc822-headers

Message-ID: <1@example.org>
--b--
";

#[test]
fn delivery_is_parsed_for_each_recipient() {
    let found = parse_report(DELIVERY).unwrap();
    assert!(!found.has_original);
    let returned = found.to_returned_report();
    assert_eq!(
        (returned.kind, returned.message_id.as_deref()),
        (ReturnedKind::Delivery, Some("1@example.org"))
    );
    assert_eq!(returned.envid.as_deref(), Some("QQ 1"));
    let recipients: Vec<_> = returned
        .recipients
        .iter()
        .map(|one| {
            (
                one.addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "),
                one.delivered.clone(),
            )
        })
        .collect();
    let text = |text: &str| text.to_owned();
    assert_eq!(
        recipients,
        [
            (
                text("team@example.net Bob@Example.net"),
                Some((DeliveryState::No, text("550 5.1.1 <bob@example.net>: unknown (really)")))
            ),
            (text("jü@example.net"), Some((DeliveryState::Yes, text("250 2.0.0 delivered")))),
            (text("slow@example.net"), None),
            (text(""), Some((DeliveryState::No, text("550 5.0.0 failed")))),
        ]
    );
    for (from, to) in [
        ("Status: 2.0.0", "Status: 3.0.0"),
        ("Status: 2.0.0", "Status: 2.0"),
        ("Action: delivered", "X: y"),
    ] {
        let ReportContent::Delivery(fewer) =
            parse_report(&DELIVERY.replacen(from, to, 1)).unwrap().content
        else {
            panic!()
        };
        assert_eq!(fewer.recipients.len(), 3, "{to}");
    }
}

#[test]
fn disposition_names_its_message_and_whether_it_was_displayed() {
    let returned = parse_report(DISPOSITION).unwrap().to_returned_report();
    assert_eq!(returned.message_id.as_deref(), Some("199509192301.23456@example.org"));
    assert!(returned.recipients[0].displayed && returned.recipients[0].delivered.is_none());
    assert_eq!(returned.recipients[0].addresses.len(), 2);
    let deleted = parse_report(
        &DISPOSITION.replace("Displayed", "deleted").replace("Original-Message-ID", "X-Id"),
    )
    .unwrap()
    .to_returned_report();
    assert!(!deleted.recipients[0].displayed);
    assert_eq!(
        deleted.message_id.as_deref(),
        Some("inner@example.org"),
        "the id of the returned original"
    );
}

#[test]
fn number_of_recipients_is_bounded() {
    let one = "\nFinal-Recipient: rfc822; x@example.net\nAction: failed\nStatus: 5.0.0\n";
    let many = DELIVERY.replacen(
        "--b\nContent-Type: text",
        &format!("{}\n--b\nContent-Type: text", one.repeat(5000)),
        1,
    );
    let ReportContent::Delivery(found) = parse_report(&many).unwrap().content else { panic!() };
    assert!(found.recipients.len() <= limits::MAX_RECIPIENTS);
}
