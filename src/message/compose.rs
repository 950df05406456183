//! Builds the messages that this server writes itself: replies, notifications and reports.
//!
//! - No value can begin a header field: control characters are removed, and message ids are
//!   filtered. Only the values of `Draft::fields` are written as they are.
//! - The message is in CRLF lines of ASCII, with three exceptions: an address may be UTF-8 (RFC
//!   6532 §3.2); an entity that could not be encoded whole (`entity`), and a report that returns an
//!   8-bit original, are 8-bit.

use std::borrow::Cow;

use mail_builder::MessageBuilder;
use mail_builder::headers::HeaderType;
use mail_builder::headers::address::Address;
use mail_builder::headers::content_type::ContentType;
use mail_builder::headers::date::Date;
use mail_builder::headers::message_id::MessageId;
use mail_builder::headers::raw::Raw;
use mail_builder::headers::text::Text;

use mail_builder::mime::MimePart;

use super::entity::entity;
use super::header::body_offset;
use super::line::one_line;
use super::refs::is_writable;
use crate::model;
use crate::model::{EmailAddress, UtcMillis};

/// A reply, a notification, or the report on an absence.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Draft {
    pub from: EmailAddress,
    pub to: EmailAddress,
    pub reply_to: Option<EmailAddress>,
    pub subject: String,
    pub date: UtcMillis,
    /// Without angle brackets. An invalid id becomes empty.
    pub message_id: String,
    /// Without angle brackets, as in `references`. Invalid ids are left out.
    pub in_reply_to: Vec<String>,
    pub references: Vec<String>,
    /// Further fields. Their values must be ASCII on one line.
    pub fields: Vec<(&'static str, Cow<'static, str>)>,
    pub text: String,
    pub html: Option<String>,
    /// The language of the text and the HTML (RFC 3282). What is no language tag is left out.
    pub language: Option<String>,
    /// A MIME entity (fields, an empty line, content) that is sent instead of the text and the
    /// HTML.
    pub entity: Option<String>,
}

/// Longer subjects are cut between characters.
const MAX_SUBJECT_BYTES: usize = 400;

/// Returns the bytes of a message that is no `multipart/report`; `report` writes those.
#[must_use]
pub fn build(draft: &Draft) -> Vec<u8> {
    let mut builder = MessageBuilder::new()
        .header("Date", HeaderType::Date(Date::new(draft.date.0.div_euclid(1000))))
        .header("Message-ID", MessageId::new(clean_id(&draft.message_id)))
        .from(person(&draft.from))
        .to(person(&draft.to))
        .header("Subject", Text::new(cut(&one_line(&draft.subject), MAX_SUBJECT_BYTES)));
    if let Some(reply_to) = &draft.reply_to {
        builder = builder.reply_to(person(reply_to));
    }
    for (name, ids) in [("In-Reply-To", &draft.in_reply_to), ("References", &draft.references)] {
        let ids: Vec<String> =
            ids.iter().map(|id| clean_id(id)).filter(|id| !id.is_empty()).collect();
        if !ids.is_empty() {
            builder = builder.header(name, MessageId::new_list(ids.into_iter()));
        }
    }
    for (name, value) in &draft.fields {
        builder = builder.header(*name, Raw::new(value.clone()));
    }
    if let Some(language) = draft.language.as_deref().filter(|language| is_tag(language)) {
        builder = builder.header("Content-Language", Raw::new(language.to_owned()));
    }
    builder = match &draft.entity {
        Some(entity) => builder.body(entity_part(entity)),
        None => builder.text_body(crlf_lines(&draft.text)),
    };
    if let (Some(html), None) = (&draft.html, &draft.entity) {
        builder = builder.html_body(crlf_lines(html));
    }
    // Writing to a vector cannot fail.
    builder.write_to_vec().unwrap_or_default()
}

fn entity_part(text: &str) -> MimePart<'static> {
    let (fields, content) = entity(&crlf_lines(text));
    let part = MimePart::raw(content);
    fields.into_iter().fold(part, |part, (name, value)| part.header(name, Raw::new(value)))
}

/// Whether a text has the characters of a language tag, and the length of the usual ones (RFC 5646
/// §2.1 and §4.4.1).
fn is_tag(tag: &str) -> bool {
    !tag.is_empty()
        && tag.len() <= 35
        && tag.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReportDraft {
    pub from: EmailAddress,
    pub to: Vec<EmailAddress>,
    pub subject: String,
    pub date: UtcMillis,
    /// Without angle brackets.
    pub message_id: String,
    pub text: String,
    pub kind: ReportKind,
    /// The part for programs: CRLF lines, each value on one line.
    pub status: String,
    pub original: Original,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Original {
    #[default]
    Nothing,
    Header(String),
    Whole(Vec<u8>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReportKind {
    /// The delivery of a message (RFC 3464).
    #[default]
    Delivery,
    /// What a recipient, or a program in place of the recipient, did with a message (RFC 8098).
    Disposition,
}

/// Returns the bytes of a report: a `multipart/report` of the text, the status and the original.
#[must_use]
pub fn report(report: &ReportDraft) -> Vec<u8> {
    // A status that is not ASCII may be encoded, so that it passes servers without 8BITMIME (RFC
    // 6533 §3 and 4).
    let (name, plain, global) = match report.kind {
        ReportKind::Delivery => {
            ("delivery-status", "message/delivery-status", "message/global-delivery-status")
        }
        ReportKind::Disposition => (
            "disposition-notification",
            "message/disposition-notification",
            "message/global-disposition-notification",
        ),
    };
    let status = report.status.as_bytes().to_vec();
    let status = if report.status.is_ascii() {
        MimePart::new(plain, status).transfer_encoding("7bit")
    } else {
        MimePart::new(global, status)
    };
    let mut parts = vec![MimePart::new("text/plain", crlf_lines(&report.text)), status];
    let mut encoding = "7bit";
    match &report.original {
        Original::Nothing => {}
        Original::Header(header) => {
            let header = crlf_lines(header);
            let kind =
                if header.is_ascii() { "text/rfc822-headers" } else { "message/global-headers" };
            parts.push(MimePart::new(kind, header.into_bytes()));
        }
        // A `message/rfc822` must not be encoded (RFC 2046 §5.2.1); a `message/global` may be (RFC
        // 6532 §3.7).
        Original::Whole(raw) if raw.get(..body_offset(raw)).is_some_and(<[u8]>::is_ascii) => {
            encoding = if raw.is_ascii() { "7bit" } else { "8bit" };
            parts.push(MimePart::new("message/rfc822", raw.clone()).transfer_encoding(encoding));
        }
        Original::Whole(raw) => parts.push(MimePart::new("message/global", raw.clone())),
    }
    let kind = ContentType::new("multipart/report").attribute("report-type", name);
    let whole = MimePart::new(kind, parts);
    let whole = if encoding == "8bit" { whole.transfer_encoding(encoding) } else { whole };
    let builder = MessageBuilder::new()
        .header("Date", HeaderType::Date(Date::new(report.date.0.div_euclid(1000))))
        .header("Message-ID", MessageId::new(clean_id(&report.message_id)))
        .from(person(&report.from))
        .to(Address::new_list(report.to.iter().map(person).collect()))
        .header("Subject", Text::new(cut(&one_line(&report.subject), MAX_SUBJECT_BYTES)))
        .header("Auto-Submitted", Raw::new("auto-replied"))
        .body(whole);
    builder.write_to_vec().unwrap_or_default()
}

fn person(person: &EmailAddress) -> Address<'static> {
    let name = person.name.as_deref().map(one_line).filter(|name| !name.is_empty());
    Address::new_address(name, addr_spec(&person.email))
}

/// Returns an address for angle brackets. A valid one keeps the blanks of a quoted local part; any
/// other loses its blanks and brackets.
fn addr_spec(email: &str) -> String {
    match model::Address::parse(email) {
        Ok(address) => address.to_string(),
        Err(_) => one_line(email).replace(['<', '>', ' '], ""),
    }
}

/// Returns a message id if it can be written; otherwise the empty text.
fn clean_id(id: &str) -> String {
    if is_writable(id) { id.to_owned() } else { String::new() }
}

fn cut(text: &str, max: usize) -> String {
    let mut cut = text.to_owned();
    while cut.len() > max {
        cut.pop();
    }
    cut
}

/// Returns a text in CRLF lines, without controls other than tabs.
fn crlf_lines(text: &str) -> String {
    let plain = text.replace("\r\n", "\n").replace('\r', "\n");
    let mut out: String =
        plain.chars().filter(|c| matches!(c, '\n' | '\t') || !c.is_control()).collect();
    out = out.replace('\n', "\r\n");
    if !out.ends_with("\r\n") {
        out.push_str("\r\n");
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::message::header::fields;
    use crate::message::strict_addresses::strict_addresses;

    fn names(draft: &Draft) -> Vec<String> {
        fields(&build(draft))
            .map(|field| String::from_utf8_lossy(field.name).to_ascii_lowercase())
            .collect()
    }

    fn plain() -> Draft {
        Draft {
            from: EmailAddress { name: Some("Ann".into()), email: "ann@example.org".into() },
            to: EmailAddress { name: None, email: "bob@example.net".into() },
            subject: "Away".into(),
            message_id: "1@example.org".into(),
            in_reply_to: vec!["0@example.net".into()],
            references: vec!["a@example.net".into(), "0@example.net".into()],
            fields: vec![("Auto-Submitted", "auto-replied (vacation)".into())],
            text: "Grüße\nAnn".into(),
            ..Draft::default()
        }
    }

    #[test]
    fn built_message_has_each_field_once_and_is_ascii() {
        let mut found = names(&plain());
        found.sort();
        assert_eq!(
            found,
            [
                "auto-submitted",
                "content-transfer-encoding",
                "content-type",
                "date",
                "from",
                "in-reply-to",
                "message-id",
                "mime-version",
                "references",
                "subject",
                "to"
            ]
        );
        assert!(build(&plain()).is_ascii());
        assert!(
            !String::from_utf8(build(&plain())).unwrap().replace("\r\n", "").contains(['\r', '\n'])
        );
    }

    #[test]
    fn entity_is_kept_and_encoded_where_needed() {
        let built = |entity: &str| {
            let draft =
                Draft { entity: Some(entity.into()), html: Some("<p>no</p>".into()), ..plain() };
            String::from_utf8(build(&draft)).unwrap()
        };
        let alternative = "MIME-Version: 1.0\nContent-Type: multipart/alternative;\n \
                           boundary=\"b\"\nBcc: eve@example.com\n\n\
                           --b\nContent-Type: text/plain\n\naway\n\
                           --b\nContent-Type: text/html\n\n<p>away</p>\n--b--\n";
        let text = built(alternative);
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains("Content-Type: multipart/alternative; boundary=\"b\""), "{head}");
        assert!(!head.contains("Bcc") && head.matches("MIME-Version").count() == 1, "{head}");
        assert!(
            body.starts_with("--b\r\nContent-Type: text/plain\r\n\r\naway\r\n--b")
                && !body.contains("<p>no")
        );
        // Text outside ASCII and long lines are encoded, even if the entity names 8bit.
        let long = format!(
            "Content-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: 8bit\n\n\
             Gr\u{fc}\u{df}e {}\n",
            "x".repeat(5000)
        );
        let text = built(&long);
        assert!(text.is_ascii() && text.lines().all(|line| line.len() <= 78), "{text}");
        let parsed = crate::message::Message::parse(text.as_bytes()).texts(10_000).join("");
        assert!(
            parsed.starts_with("Gr\u{fc}\u{df}e xxx") && parsed.trim_end().len() == 5008,
            "{parsed}"
        );
        // Content that is base64 already is kept, and an entity without a header is plain text.
        assert!(
            built("Content-Type: text/plain\nContent-Transfer-Encoding: base64\n\nYXdheQ==\n")
                .ends_with("\r\n\r\nYXdheQ==\r\n")
        );
        assert!(
            built("Just away: back soon\n").contains("Content-Type: text/plain; charset=utf-8")
        );
        assert!(built("Just away: back soon\n").ends_with("\r\n\r\nJust away: back soon\r\n"));
        // A name in lower case and a comment (RFC 2045 §6.1) do not hide the encoding.
        for value in ["base64", "BASE64 (MIME)"] {
            let text = built(&format!("content-transfer-encoding: {value}\n\nYXdheQ==\n"));
            let head = text.split_once("\r\n\r\n").unwrap().0.to_ascii_lowercase();
            assert!(head.ends_with("\r\ncontent-transfer-encoding: base64"), "{text}");
            assert_eq!(head.matches("content-transfer-encoding").count(), 1, "{text}");
            let read = crate::message::Message::parse(text.as_bytes()).texts(99).join("");
            assert_eq!(read, "away", "{text}");
        }
        // Each blank of a boundary counts (RFC 2046 §5.1.1), also where the field is folded.
        let folded = format!("x=\"{}\"; boundary=\"a  b\"", "y".repeat(40));
        for params in ["boundary=\"a  b\"", &folded] {
            let text = built(&format!(
                "Content-Type: multipart/mixed; {params}\n\n\
                 --a  b\n\none\n--a  b\n\ntwo\n--a  b--\n"
            ));
            assert_eq!(crate::message::Message::parse(text.as_bytes()).parts().len(), 3, "{text}");
        }
        // A value of the entity cannot begin another field.
        let evil = built(
            "Content-Type: text/plain; x=\"a\rBcc: eve@example.com\"\nContent-X: \u{fc}\n\nx\n",
        );
        let head = evil.split_once("\r\n\r\n").unwrap().0;
        assert!(!head.contains("\nBcc") && !head.contains("Content-X"), "{head}");
    }

    /// RFC 5322 §2.1.1: a line has at most 998 bytes.
    #[test]
    fn long_ids_are_written_in_lines_that_are_not_too_long() {
        for length in [900, 901, 998] {
            let ids = vec!["x".repeat(length); 2];
            let message_id = ids.concat()[..length].to_owned();
            let draft = Draft { message_id, in_reply_to: ids.clone(), references: ids, ..plain() };
            let raw = String::from_utf8(build(&draft)).unwrap();
            assert!(raw.split("\r\n").all(|line| line.len() <= 998), "{raw}");
            assert_eq!(raw.matches("xxx>").count(), if length == 900 { 5 } else { 0 }, "{raw}");
        }
    }

    #[test]
    fn content_language_is_written_for_valid_tags_only() {
        let has_language = |language: &str| {
            let draft = Draft { language: Some(language.into()), ..plain() };
            names(&draft).contains(&"content-language".to_owned())
        };
        assert!(has_language("de-ch") && !has_language("de\r\nBcc: x") && !has_language(""));
    }

    proptest! {
        #[test]
        fn addresses_are_written_so_that_they_parse_unchanged(
            local in "[ -~]{1,40}|[a-z.+=]{1,200}|[a-zé ]{1,20}",
            domain in "[a-z]{1,20}(\\.[a-z]{1,20}){0,5}|\\[192\\.0\\.2\\.[1-9]\\]",
            name in "[ -~é]{0,40}",
        ) {
            let address = model::Address::from_parts(local, domain);
            let person = EmailAddress { name: Some(name), email: address.to_string() };
            let draft = Draft {
                from: person.clone(),
                to: person.clone(),
                reply_to: Some(person.clone()),
                ..plain()
            };
            let raw = build(&draft);
            for field in ["From", "To", "Reply-To"] {
                prop_assert_eq!(strict_addresses(&raw, field), std::slice::from_ref(&address));
            }
            let draft =
                ReportDraft { from: person.clone(), to: vec![person], ..ReportDraft::default() };
            let raw = report(&draft);
            for field in ["From", "To"] {
                prop_assert_eq!(strict_addresses(&raw, field), std::slice::from_ref(&address));
            }
        }

        #[test]
        fn values_cannot_begin_a_header_field(value in "[a-z<>@: \r\n\0\u{85}\u{2028}é]{0,60}") {
            let evil = format!("{value}\r\nBcc: evil@example.com\r\n\r\nbody");
            let draft = Draft {
                from: EmailAddress { name: Some(evil.clone()), email: evil.clone() },
                to: EmailAddress { name: Some(evil.clone()), email: evil.clone() },
                reply_to: Some(EmailAddress { name: Some(evil.clone()), email: evil.clone() }),
                subject: evil.clone(),
                message_id: evil.clone(),
                in_reply_to: vec![evil.clone()],
                references: vec![evil.clone(), evil],
                ..plain()
            };
            prop_assert!(!names(&draft).contains(&"bcc".to_owned()));
        }
    }
}
