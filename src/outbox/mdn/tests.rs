//! Tests of reading requests for notifications, and of composing notifications.

use super::*;
use crate::message::Message;
use crate::message::report::{ReportContent, report as read};
use crate::message::seven_bit::to_seven_bit;
use crate::model::UtcMillis;

fn reporter() -> Reporter<'static> {
    Reporter { hostname: "mx.example", message_id: "r1@mx.example", now: UtcMillis(0) }
}

#[test]
fn rejection_is_a_disposition_notification() {
    let envelope =
        Envelope { sender: Some(Address::from_parts("bob", "example.net")), ..Envelope::default() };
    let ann = Recipient::plain(Address::from_parts("ann", "example.org"));
    let raw = b"Subject: x\r\nMessage-ID: <1@x>\r\n\r\nsecret\r\n";
    let own = Address::from_parts("ann", "example.org");
    let made = compose_rejection(
        &envelope,
        &ann,
        &own,
        "I take no\nlunches.",
        raw,
        Some(EmailId(1)),
        &reporter(),
    )
    .unwrap();
    let text = String::from_utf8(made.bytes.clone()).unwrap();
    for line in [
        "Disposition: automatic-action/MDN-sent-automatically; deleted",
        "Final-Recipient: rfc822; ann@example.org",
        "Original-Message-ID: <1@x>",
        "Your message was refused by a mail filter of ann@example.org:",
        "lunches.",
        "From: <ann@example.org>",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n---\n{text}");
    }
    assert!(text.contains("disposition-notification") && !text.contains("secret"), "{text}");
    let facts = AutoReplyFacts::of(&made.bytes);
    assert!(facts.report.is_some() && facts.auto_submitted.is_some());
    let nobody = Envelope { sender: None, ..envelope };
    assert_eq!(compose_rejection(&nobody, &ann, &own, "no", raw, None, &reporter()), None);
}

fn request(header: &str) -> Option<MdnRequest> {
    MdnRequest::of(
        format!("{header}\r\n\r\nbody\r\n").replace("\r\n", "\n").replace('\n', "\r\n").as_bytes(),
    )
}

/// RFC 8098 §2.1.
#[test]
fn only_the_envelope_sender_is_notified_without_asking_the_owner() {
    let manual = |header: &str| {
        request(header).map(|request| request.reason_not_to_send(SendingMode::Manual).is_none())
    };
    let automatic = |header: &str| {
        request(header).map(|request| request.reason_not_to_send(SendingMode::Automatic).is_none())
    };
    assert_eq!(manual("Subject: x"), None);
    assert_eq!(manual("Disposition-Notification-To: <>"), None);
    assert_eq!(manual("Disposition-Notification-To: nobody"), None);
    let both = "Return-Path: <Bob@example.net>\nDisposition-Notification-To: Bob <Bob@EXAMPLE.net>";
    assert_eq!((manual(both), automatic(both)), (Some(true), Some(true)));
    // Each replaces a text of `both`, so that the owner must be asked.
    for (from, to) in [
        ("<Bob@example.net>\n", "<bob@example.net>\n"),
        ("<Bob@example.net>\n", "<>\n"),
        ("Return-Path", "X-Path"),
        ("<Bob@example.net>\n", "<Bob@example.net>\nReturn-Path: <Bob@example.net>\n"),
        ("<Bob@EXAMPLE.net>", "<Bob@EXAMPLE.net>, eve@example.net"),
        ("Return-Path", "List-Id: <l.example>\nReturn-Path"),
        ("Return-Path", "Precedence: bulk\nReturn-Path"),
        ("Return-Path", "Auto-Submitted: auto-generated\nReturn-Path"),
    ] {
        let header = both.replacen(from, to, 1);
        assert_ne!(header, both, "{from}");
        assert_eq!((manual(&header), automatic(&header)), (Some(true), Some(false)), "{header}");
    }
    for never in [
        "Content-Type: multipart/report; boundary=x",
        "Disposition-Notification-Options: signed-receipt-protocol = optional, x; Odd=Required,y",
    ] {
        assert_eq!(manual(&format!("{both}\n{never}")), Some(false), "{never}");
    }
    assert_eq!(
        manual(&format!("{both}\nDisposition-Notification-Options: a=optional,required")),
        Some(true)
    );
    let many: Vec<String> = (0..300).map(|n| format!("{n}@example.net")).collect();
    let flood = request(&format!("Disposition-Notification-To: {}", many.join(", "))).unwrap();
    assert!(
        flood.reason_not_to_send(SendingMode::Manual).is_some()
            && flood.to.len() <= MAX_NOTIFIED + 1
    );
}

#[test]
fn request_has_original_recipient_message_id_and_subject() {
    let request = request(
        "Disposition-Notification-To: b@x.example, B <b@X.example>\n\
         Original-Recipient: rfc822;team@example.org (us)\n\
         Message-ID: <1@x>\nSubject: =?utf-8?q?Gr=C3=BC=C3=9Fe?=",
    )
    .unwrap();
    assert_eq!(request.to.len(), 1, "an address that is named twice counts once");
    assert_eq!(request.original_recipient.as_deref(), Some("rfc822; team@example.org"));
    assert_eq!(
        (request.message_id.as_deref(), request.subject.as_deref()),
        (Some("<1@x>"), Some("Gr\u{fc}\u{df}e"))
    );
}

/// RFC 2046 §5.2.1, RFC 6532 §3.7.
#[test]
fn returned_original_is_unchanged() {
    let disposition = DispositionReport {
        reporting_ua: None,
        gateway: None,
        original_recipient: None,
        final_recipient: "rfc822; ann@example.org".into(),
        original_message_id: Some("<1@x>".into()),
        action: ActionMode::Manual,
        sending: SendingMode::Manual,
        kind: DispositionType::Displayed,
        errors: Vec::new(),
        extensions: vec![("X-Y".into(), "z".into())],
    };
    let person = |email: &str| EmailAddress { name: None, email: email.into() };
    let draft = |original: Option<&str>| MdnDraft {
        from: person("ann@example.org"),
        to: vec![person("bob@example.net"), person("cy@example.net")],
        subject: "Read: x\r\nBcc: eve@example.net".into(),
        text: "Gr\u{fc}\u{df}e".into(),
        disposition: disposition.clone(),
        original: original.map(|text| text.as_bytes().to_vec()),
    };
    let compose = |original| compose_notification(draft(original), &reporter());
    for (original, kind) in [
        ("Subject: x\r\n\r\nplain\r\n", "message/rfc822"),
        ("Subject: x\r\n\r\nGr\u{fc}\u{df}e\r\n", "message/rfc822"),
        ("Subject: Gr\u{fc}\u{df}e\r\n\r\nGr\u{fc}\u{df}e\r\n", "message/global"),
    ] {
        let raw = compose(Some(original));
        let message = Message::parse(&raw);
        let whole = read(&message).unwrap();
        assert_eq!(whole.content, ReportContent::Disposition(disposition.clone()));
        assert_eq!(whole.text.as_deref().map(str::trim), Some("Gr\u{fc}\u{df}e"));
        assert!(whole.has_original);
        let structure = message.structure();
        let third = structure.root.children.get(2).unwrap();
        assert_eq!(third.media_type, kind);
        assert_eq!(message.decoded(third.number).unwrap().as_ref(), original.as_bytes());
        let seven = to_seven_bit(&raw).unwrap();
        assert!(seven.is_ascii() && read(&Message::parse(&seven)).is_some());
        let names: Vec<String> =
            fields(&raw).map(|field| String::from_utf8_lossy(field.name).into_owned()).collect();
        assert!(
            !names.contains(&"Bcc".to_owned())
                && !names.iter().any(|name| name.starts_with("Disposition-"))
        );
        assert_eq!(AutoReplyFacts::of(&raw).destinations.len(), 2);
        assert!(
            MdnRequest::of(&raw).is_none(),
            "a notification does not ask for one (RFC 8098 §2.1)"
        );
    }
    let without = compose(None);
    assert!(!read(&Message::parse(&without)).unwrap().has_original && without.is_ascii());
}
