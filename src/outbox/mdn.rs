//! The refusal that a person reads: a message disposition notification (RFC 8098) of "deleted", as Sieve's `reject` sends
//! it where the message was taken already (RFC 5429 §2.2). From `<>` to the envelope sender, and never to `<>`.

use super::kind::Queued;
use super::report::{Reporter, head, queued, recipient as named};
use crate::message::compose::{Report, ReportKind, one_line};
use crate::message::header::fields;
use crate::model::{ActionKind, Address, EmailAddress, EmailId, Envelope, Recipient};

/// The refusal of a message for one recipient; `own` is who he is to its sender.
#[must_use]
pub fn rejected(
    envelope: &Envelope,
    recipient: &Recipient,
    own: &Address,
    reason: &str,
    raw: &[u8],
    email: Option<EmailId>,
    reporter: &Reporter<'_>,
) -> Option<Queued> {
    let to = envelope.sender.as_ref()?;
    let Reporter { hostname, message_id, now } = *reporter;
    let head = head(raw);
    let original_id = fields(head).find(|field| field.is("Message-ID")).map(|field| one_line(&field.unfolded()));
    let address = one_line(&recipient.address.to_string());
    let mut status = format!("Reporting-UA: {}; Restante\r\n", one_line(hostname));
    status.push_str(&named(recipient.original.as_ref(), &recipient.address));
    if let Some(id) = original_id {
        status.push_str(&format!("Original-Message-ID: {id}\r\n"));
    }
    status.push_str("Disposition: automatic-action/MDN-sent-automatically; deleted\r\n");
    let made = Report {
        from: EmailAddress { name: None, email: own.to_string() },
        to: EmailAddress { name: None, email: to.to_string() },
        subject: "Rejected: your message was not taken".into(),
        date: now,
        message_id: message_id.to_owned(),
        text: format!("Your message was refused by {address}:\n\n{reason}\n"),
        kind: ReportKind::Disposition,
        status,
        original_header: String::from_utf8_lossy(head).into_owned(),
    };
    Some(queued(ActionKind::Reject, to, email, reporter, &made))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::auto::Facts;
    use crate::model::UtcMillis;

    #[test]
    fn a_rejection_is_a_disposition_notification() {
        let envelope = Envelope { sender: Some(Address::from_parts("bob", "example.net")), ..Envelope::default() };
        let ann = Recipient::plain(Address::from_parts("ann", "example.org"));
        let raw = b"Subject: x\r\nMessage-ID: <1@x>\r\n\r\nsecret\r\n";
        let reporter = Reporter { hostname: "mx.example", message_id: "r1@mx.example", now: UtcMillis(0) };
        let own = Address::from_parts("ann", "example.org");
        let made = rejected(&envelope, &ann, &own, "I take no\nlunches.", raw, Some(EmailId(1)), &reporter).unwrap();
        let text = String::from_utf8(made.octets.clone()).unwrap();
        for line in [
            "Disposition: automatic-action/MDN-sent-automatically; deleted",
            "Final-Recipient: rfc822; ann@example.org",
            "Original-Message-ID: <1@x>",
            "lunches.",
            "From: <ann@example.org>",
        ] {
            assert!(text.lines().any(|known| known == line), "{line}\n---\n{text}");
        }
        assert!(text.contains("disposition-notification") && !text.contains("secret"), "{text}");
        let facts = Facts::of(&made.octets);
        assert!(facts.report.is_some() && facts.auto_submitted.is_some());
        let nobody = Envelope { sender: None, ..envelope };
        assert_eq!(rejected(&nobody, &ann, &own, "no", raw, None, &reporter), None);
    }
}
