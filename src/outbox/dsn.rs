//! Composes delivery status notifications (RFC 3464, RFC 6533).
//!
//! - A report is sent from `<>` to the envelope sender. There is none without a sender, or without
//!   a recipient to report.
//! - Only the header of the message (`raw`) is returned, never its body.
//! - Queue the action in the commit that causes the report.

use super::kind::NewAction;
use super::report::{
    Reporter, address_with_type, original_recipient, report_action, returned_header,
};
use super::schedule::wants_no_report;
use crate::message::compose::{Original, ReportDraft, ReportKind};
use crate::message::line::{one_line, without_controls};
use crate::model::{
    Action, ActionKind, Address, EmailAddress, EmailId, Envelope, OriginalRecipient, Recipient,
    RecipientState, Target, UtcMillis,
};

struct DsnRecipient<'a> {
    original: Option<&'a OriginalRecipient>,
    address: &'a Address,
    /// The value of the field Action (RFC 3464 §2.3.3).
    action: &'static str,
    status: [u8; 3],
    /// It is one line in the field Diagnostic-Code, and keeps its lines in the text for people.
    diagnostic: Option<&'a str>,
}

/// The message that a report is about.
struct ReportedMessage<'a> {
    sender: &'a Address,
    envid: Option<&'a str>,
    /// When this system took it (`Arrival-Date`, RFC 3464 §2.2.5).
    arrived: UtcMillis,
    raw: &'a [u8],
    email: Option<EmailId>,
}

/// Reports to the envelope sender that a message was delivered. Pass the recipients for which the
/// sender asked for this with NOTIFY=SUCCESS (RFC 3461 §4.1).
#[must_use]
pub fn compose_delivered(
    envelope: &Envelope,
    recipients: &[&Recipient],
    raw: &[u8],
    email: Option<EmailId>,
    reporter: &Reporter<'_>,
) -> Option<NewAction> {
    let reported = recipients.iter().map(|recipient| DsnRecipient {
        original: recipient.original.as_ref(),
        address: &recipient.address,
        action: "delivered",
        status: [2, 0, 0],
        diagnostic: None,
    });
    let text = ["Your message was delivered to", "You asked to be told."];
    let subject = "Delivered: your message has arrived";
    let envid = envelope.envid.as_deref();
    compose(
        &ReportedMessage {
            sender: envelope.sender.as_ref()?,
            envid,
            arrived: reporter.now,
            raw,
            email,
        },
        &reported.collect::<Vec<_>>(),
        (subject, text),
        reporter,
    )
}

/// Reports to the sender of an action which of these recipients were given up. Pass those that no
/// earlier report named. Recipients about whose failure the sender wants no report are left
/// out.
#[must_use]
pub fn compose_failed(
    action: &Action,
    targets: &[Target],
    raw: &[u8],
    reporter: &Reporter<'_>,
) -> Option<NewAction> {
    let reported: Vec<DsnRecipient<'_>> = targets
        .iter()
        .filter(|target| !wants_no_report(action, target))
        .filter_map(|target| match &target.state {
            RecipientState::Failed { status, text } => Some(DsnRecipient {
                original: target.original.as_ref(),
                address: &target.address,
                action: "failed",
                status: *status,
                diagnostic: Some(text),
            }),
            _ => None,
        })
        .collect();
    let text = ["Your message could not be delivered to", "Nothing more will be tried."];
    let subject = "Not delivered: your message came back";
    compose(
        &ReportedMessage {
            sender: action.sender.as_ref()?,
            envid: action.envid.as_deref(),
            arrived: action.created,
            raw,
            email: action.email,
        },
        &reported,
        (subject, text),
        reporter,
    )
}

/// Reports to the envelope sender that a script refuses a message that is accepted (RFC 5429 §2.1,
/// `ereject`; `deliver::refuse` says when). The report does not depend on the sender's NOTIFY.
#[must_use]
pub fn compose_rejected(
    envelope: &Envelope,
    recipient: &Recipient,
    reason: &str,
    raw: &[u8],
    email: Option<EmailId>,
    reporter: &Reporter<'_>,
) -> Option<NewAction> {
    let reported = [DsnRecipient {
        original: recipient.original.as_ref(),
        address: &recipient.address,
        action: "failed",
        status: [5, 7, 1],
        diagnostic: Some(reason),
    }];
    let text = ["Your message was refused by a mail filter of", "The reason is given above."];
    let subject = "Refused: your message was not taken";
    compose(
        &ReportedMessage {
            sender: envelope.sender.as_ref()?,
            envid: envelope.envid.as_deref(),
            arrived: reporter.now,
            raw,
            email,
        },
        &reported,
        (subject, text),
        reporter,
    )
}

/// Composes a report to the sender of a message about these recipients.
fn compose(
    message: &ReportedMessage<'_>,
    recipients: &[DsnRecipient<'_>],
    (subject, [before, after]): (&str, [&str; 2]),
    reporter: &Reporter<'_>,
) -> Option<NewAction> {
    if recipients.is_empty() {
        return None;
    }
    let Reporter { hostname, message_id, now } = *reporter;
    let mut status = format!("Reporting-MTA: dns; {}\r\n", one_line(hostname));
    if let Some(envid) = message.envid {
        status.push_str(&format!("Original-Envelope-Id: {}\r\n", one_line(envid)));
    }
    status.push_str(&format!("Arrival-Date: {}\r\n", message.arrived.rfc5322()));
    let mut text = format!("{before}\n\n");
    for recipient in recipients {
        let address = without_controls(&recipient.address.to_string());
        let [class, subject, detail] = recipient.status;
        status.push_str("\r\n");
        if let Some(original) = recipient.original {
            status.push_str(&format!("Original-Recipient: {}\r\n", original_recipient(original)));
        }
        status.push_str(&format!("Final-Recipient: {}\r\n", address_with_type(recipient.address)));
        status.push_str(&format!("Action: {}\r\n", recipient.action));
        status.push_str(&format!("Status: {class}.{subject}.{detail}\r\n"));
        text.push_str(&format!("    {address}\n"));
        if let Some(diagnostic) = recipient.diagnostic {
            status.push_str(&format!("Diagnostic-Code: smtp; {}\r\n", one_line(diagnostic)));
            for line in diagnostic.lines() {
                let line = format!("        {}", one_line(line));
                text.push_str(&format!("{}\n", line.trim_end()));
            }
        }
    }
    text.push_str(&format!("\n{after}\n"));
    let draft = ReportDraft {
        from: EmailAddress {
            name: Some("Mail Delivery".into()),
            email: format!("postmaster@{hostname}"),
        },
        to: vec![EmailAddress { name: None, email: message.sender.to_string() }],
        subject: subject.into(),
        date: now,
        message_id: message_id.to_owned(),
        text,
        kind: ReportKind::Delivery,
        status,
        original: Original::Header(
            String::from_utf8_lossy(returned_header(message.raw)).into_owned(),
        ),
    };
    Some(report_action(ActionKind::Report, message.sender, message.email, reporter, &draft))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::auto::AutoReplyFacts;
    use crate::outbox::SubmissionAction;

    const RAW: &[u8] = b"Subject: Lunch\r\nMessage-ID: <1@x>\r\n\r\nsecret\r\n";

    fn reporter() -> Reporter<'static> {
        Reporter { hostname: "mx.example.org", message_id: "d1@mx.example.org", now: UtcMillis(0) }
    }

    fn envelope() -> Envelope {
        Envelope {
            sender: Some(Address::from_parts("bob", "example.net")),
            envid: Some("QQ1\r\nEvil: 1".into()),
            ..Envelope::default()
        }
    }

    fn ann() -> Recipient {
        let original =
            OriginalRecipient { kind: "rfc822".into(), address: "team@example.org".into() };
        Recipient {
            original: Some(original),
            ..Recipient::plain(Address::from_parts("ann", "example.org"))
        }
    }

    fn assert_has_lines(report: &NewAction, lines: &[&str]) -> String {
        let text = String::from_utf8(report.bytes.clone()).unwrap();
        for line in lines {
            assert!(text.lines().any(|found| found == *line), "{line}\n---\n{text}");
        }
        assert!(text.contains("report-type=") && !text.contains("secret"), "{text}");
        let facts = AutoReplyFacts::of(&report.bytes);
        assert!(facts.report.is_some() && facts.auto_submitted.is_some());
        assert_eq!((&report.action.sender, report.action.kind), (&None, ActionKind::Report));
        text
    }

    #[test]
    fn success_is_reported_unless_there_is_no_sender() {
        let report = compose_delivered(&envelope(), &[&ann()], RAW, None, &reporter()).unwrap();
        assert_has_lines(
            &report,
            &[
                "To: <bob@example.net>",
                "Message-ID: <d1@mx.example.org>",
                "Auto-Submitted: auto-replied",
                "Reporting-MTA: dns; mx.example.org",
                "Original-Envelope-Id: QQ1 Evil: 1",
                "Original-Recipient: rfc822; team@example.org",
                "Final-Recipient: rfc822; ann@example.org",
                "Action: delivered",
                "Status: 2.0.0",
                "Subject: Lunch",
            ],
        );
        let nobody = Envelope { sender: None, ..envelope() };
        assert_eq!(compose_delivered(&nobody, &[&ann()], RAW, None, &reporter()), None);
    }

    #[test]
    fn refusal_has_the_reason() {
        let report =
            compose_rejected(&envelope(), &ann(), "no more\r\nlunches", RAW, None, &reporter())
                .unwrap();
        // RFC 5429 §2.1.2: the text says that a filter refused the message.
        assert_has_lines(
            &report,
            &[
                "Action: failed",
                "Status: 5.7.1",
                "Diagnostic-Code: smtp; no more lunches",
                "Your message was refused by a mail filter of",
                "        no more",
                "        lunches",
            ],
        );
    }

    /// RFC 3461 §4.1, §6.1; RFC 5321 §4.5.5.
    #[test]
    fn failure_is_reported_unless_the_sender_asked_for_no_report() {
        let target = |name: &str, notify| Target {
            notify,
            state: RecipientState::Failed {
                status: [5, 1, 1],
                text: format!("550 5.1.1 no {name}"),
            },
            ..Target::plain(Address::from_parts(name, "example.net"))
        };
        let never = crate::model::DsnNotify { never: true, ..Default::default() };
        let success = crate::model::DsnNotify { success: true, ..Default::default() };
        let targets =
            [target("plain", None), target("never", Some(never)), target("success", Some(success))];
        let submission = SubmissionAction {
            sender: Some(Address::from_parts("ann", "example.org")),
            recipients: targets.to_vec(),
            ret: None,
            envid: None,
            email: EmailId(1),
            not_before: None,
            after: None,
            message_id: "1@x".into(),
            prefix: Vec::new(),
            blob: crate::model::BlobHash([7; 32]),
        };
        let action = submission.into_action(UtcMillis(0)).action;
        let reporter = || Reporter { now: UtcMillis(3 * 86_400_000), ..reporter() };
        let text = assert_has_lines(
            &compose_failed(&action, &targets, RAW, &reporter()).unwrap(),
            &[
                "To: <ann@example.org>",
                "Date: Sun, 4 Jan 1970 00:00:00 +0000",
                "Arrival-Date: Thu, 01 Jan 1970 00:00:00 +0000",
                "Final-Recipient: rfc822; plain@example.net",
                "Diagnostic-Code: smtp; 550 5.1.1 no plain",
            ],
        );
        assert!(!text.contains("never@") && !text.contains("success@"), "{text}");
        assert_eq!(compose_failed(&action, &targets[1..], RAW, &reporter()), None);
        assert_eq!(
            compose_failed(&Action { sender: None, ..action }, &targets, RAW, &reporter()),
            None
        );
    }

    /// RFC 6533 §3.
    #[test]
    fn report_of_a_non_ascii_address_is_ascii() {
        let recipient = Recipient::plain(Address::from_parts("jürgen", "bücher.example"));
        let raw = "Subject: Grüße\r\n\r\n".as_bytes();
        let report = compose_delivered(&envelope(), &[&recipient], raw, None, &reporter()).unwrap();
        let text = String::from_utf8(report.bytes).unwrap();
        assert!(text.is_ascii() && text.contains("message/global-delivery-status"), "{text}");
        assert!(text.contains("message/global-headers"), "{text}");
    }
}
