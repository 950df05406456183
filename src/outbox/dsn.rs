//! Delivery status notifications (RFC 3464): the success that a sender asked for by NOTIFY=SUCCESS (RFC 3461 §4.1). Once DSN
//! is announced Postfix leaves it to us.

use crate::message::compose::{Report, one_line, report};
use crate::message::header;
use crate::model::{EmailAddress, Envelope, Recipient, UtcMillis};

/// A finished notification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notification {
    /// Its Message-ID, without angle brackets.
    pub message_id: String,
    /// Its octets.
    pub message: Vec<u8>,
}

/// Octets of the original's header that are returned.
const HEADER: usize = 16 * 1024;

/// "Delivered": for the recipients that asked for it. From us, to the envelope sender.
#[must_use]
pub fn delivered(
    envelope: &Envelope,
    recipients: &[&Recipient],
    raw: &[u8],
    hostname: &str,
    message_id: &str,
    now: UtcMillis,
) -> Notification {
    let mut status = format!("Reporting-MTA: dns; {}\r\n", one_line(hostname));
    if let Some(envid) = &envelope.envid {
        status.push_str(&format!("Original-Envelope-Id: {}\r\n", one_line(envid)));
    }
    status.push_str(&format!("Arrival-Date: {}\r\n", now.rfc5322()));
    let mut text = String::from("Your message was delivered to\n\n");
    for recipient in recipients {
        status.push_str("\r\n");
        if let Some(original) = &recipient.original {
            let (kind, address) = (one_line(&original.kind), one_line(&original.address));
            status.push_str(&format!("Original-Recipient: {kind}; {address}\r\n"));
        }
        let address = recipient.address.to_string();
        let kind = if address.is_ascii() { "rfc822" } else { "utf-8" };
        status.push_str(&format!(
            "Final-Recipient: {kind}; {}\r\nAction: delivered\r\nStatus: 2.0.0\r\n",
            one_line(&address)
        ));
        text.push_str(&format!("    {}\n", one_line(&address)));
    }
    text.push_str("\nYou asked to be told.\n");
    let end = header::body_offset(raw).min(HEADER);
    let message = report(&Report {
        from: EmailAddress { name: Some("Mail Delivery".into()), email: format!("postmaster@{hostname}") },
        to: EmailAddress { name: None, email: envelope.sender.as_ref().map(ToString::to_string).unwrap_or_default() },
        subject: "Delivered: your message has arrived".into(),
        date: now,
        message_id: message_id.to_owned(),
        text,
        status,
        original_header: String::from_utf8_lossy(raw.get(..end).unwrap_or_default()).into_owned(),
    });
    Notification { message_id: message_id.to_owned(), message }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::auto::Facts;
    use crate::model::{Address, OriginalRecipient};

    #[test]
    fn a_success_is_reported_and_never_answered() {
        let envelope = Envelope {
            sender: Some(Address::from_parts("bob", "example.net")),
            envid: Some("QQ1\r\nEvil: 1".into()),
            ..Envelope::default()
        };
        let original = OriginalRecipient { kind: "rfc822".into(), address: "team@example.org".into() };
        let recipient =
            Recipient { original: Some(original), ..Recipient::plain(Address::from_parts("ann", "example.org")) };
        let raw = b"Subject: Lunch\r\nMessage-ID: <1@x>\r\n\r\nsecret\r\n";
        let made = delivered(&envelope, &[&recipient], raw, "mx.example.org", "d1@mx.example.org", UtcMillis(0));
        let text = String::from_utf8(made.message.clone()).unwrap();
        for line in [
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
        ] {
            assert!(text.lines().any(|known| known == line), "{line}\n---\n{text}");
        }
        assert!(text.contains("report-type=") && !text.contains("secret"));
        let facts = Facts::of(&made.message);
        assert!(facts.report.is_some() && facts.auto_submitted.is_some());
    }
}
