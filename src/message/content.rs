//! Reads what a list of emails shows (RFC 8621 §4.1) from the header and the text of a message, for
//! storing it with the email.

use super::header::{Field, Header};
use super::parse::{self, Message};
use super::refs::message_ids;
use crate::model::{EmailAddress, EmailContent, limits};

const STORED_FIELDS: [&str; 11] = [
    "From",
    "To",
    "Cc",
    "Bcc",
    "Sender",
    "Reply-To",
    "Message-ID",
    "In-Reply-To",
    "References",
    "Subject",
    "Date",
];

/// Returns the content of a message, and where its parts are. The last occurrence of a repeated
/// field counts (RFC 8621 §4.1.2).
#[must_use]
pub fn content(message: &Message<'_>) -> EmailContent {
    let mut content = EmailContent {
        preview: message.preview(),
        has_attachment: message.has_attachment(),
        parts: message.parts(),
        ..EmailContent::default()
    };
    for field in last_fields(message.header()) {
        set_field(&mut content, &field);
    }
    content
}

fn last_fields<'a>(header: &Header<'a>) -> impl Iterator<Item = Field<'a>> + use<'a> {
    let mut last = [None; STORED_FIELDS.len()];
    for field in header.fields() {
        let slot = STORED_FIELDS.iter().zip(&mut last).find(|(name, _)| field.is(name));
        if let Some((_, slot)) = slot {
            *slot = Some(field);
        }
    }
    last.into_iter().flatten()
}

fn set_field(content: &mut EmailContent, field: &Field<'_>) {
    let address_fields: [(&str, &mut Vec<EmailAddress>); 6] = [
        ("From", &mut content.from),
        ("To", &mut content.to),
        ("Cc", &mut content.cc),
        ("Bcc", &mut content.bcc),
        ("Sender", &mut content.sender),
        ("Reply-To", &mut content.reply_to),
    ];
    for (index, (name, list)) in address_fields.into_iter().enumerate() {
        if field.is(name) {
            *list = parse::addresses(field.readable().as_bytes());
            // A bit tells that a field has no address. The bits are in the order of
            // `address_fields`.
            let bit = 1u8 << index;
            content.empty_fields = if list.is_empty() {
                content.empty_fields | bit
            } else {
                content.empty_fields & !bit
            };
            return;
        }
    }
    let id_fields = [
        ("Message-ID", &mut content.message_id),
        ("In-Reply-To", &mut content.in_reply_to),
        ("References", &mut content.references),
    ];
    for (name, list) in id_fields {
        if field.is(name) {
            *list = message_ids(field.value);
            list.truncate(limits::MAX_FIELD_ADDRESSES);
            return;
        }
    }
    if field.is("Subject") {
        content.subject = Some(parse::text(field.readable().as_bytes()));
    } else if field.is("Date") {
        content.sent_at = parse::date(field.value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_in_any_case() {
        let raw = b"FROM: Ann <ann@x.example>\r\nto: b@x.example\r\ncC: c@x.example\r\n\
            Bcc: d@x.example\r\nSender: s@x.example\r\nreply-to: r@x.example\r\n\
            SUBJECT: =?iso-8859-1?q?Gr=FC=DFe?=\r\ndate: Sat, 21 Nov 2026 09:00:00 +0000\r\n\
            MESSAGE-ID: <1@x>\r\nin-reply-to: <0@x>\r\nREFERENCES: <a@x> <0@x>\r\n\
            \r\nHello\r\n  there\r\n";
        let content = content(&Message::parse(raw));
        let first_email = |people: &[EmailAddress]| {
            people.first().map(|person| person.email.clone()).unwrap_or_default()
        };
        let people = [
            &content.from,
            &content.to,
            &content.cc,
            &content.bcc,
            &content.sender,
            &content.reply_to,
        ];
        let emails: Vec<String> = people.into_iter().map(|people| first_email(people)).collect();
        assert_eq!(
            emails.join(" "),
            "ann@x.example b@x.example c@x.example d@x.example s@x.example r@x.example"
        );
        assert_eq!(content.subject.as_deref(), Some("Grüße"));
        assert_eq!(
            (content.message_id, content.in_reply_to),
            (vec!["1@x".to_owned()], vec!["0@x".to_owned()])
        );
        assert_eq!((content.references.len(), content.preview.as_str()), (2, "Hello there"));
        assert!(content.sent_at.is_some() && !content.has_attachment);
    }

    /// Regression test: every occurrence of a repeated field was parsed, though only the last
    /// counts.
    #[test]
    fn of_a_repeated_field_only_the_last_is_parsed() {
        let raw = b"To: a@x\r\nCC: \r\nSubject: 1\r\nDate: x\r\nto: b@x\r\nX: y\r\nCc: c@x\r\n\
            Subject: 2\r\nTO: \r\n\r\n";
        assert_eq!(last_fields(&Header::split(raw)).count(), 4);
        let many =
            [&raw[..raw.len() - 2], &b"To: d@x\r\nMessage-Id: <1@x>\r\n".repeat(1000)[..], b"\r\n"]
                .concat();
        assert_eq!(last_fields(&Header::split(&many)).count(), 5);
        let read = |raw: &[u8]| content(&Message::parse(raw));
        let found = read(raw);
        // In `empty_fields`, 2 is the bit of To.
        assert_eq!(
            (found.to.len(), found.cc.len(), found.empty_fields, found.subject.as_deref()),
            (0, 1, 2, Some("2"))
        );
        let found = read(&many);
        assert_eq!((found.to[0].email.as_str(), found.to.len(), found.empty_fields), ("d@x", 1, 0));
    }
}
