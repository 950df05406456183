//! Fuzz bodies of MIME parts and of delivery and disposition reports.

use super::mail::check_sent;
use super::{Choices, InputRng, bounded};
use crate::message::decode::Decoder;
use crate::message::report::{self, Report, ReportContent, SendingMode};
use crate::message::{BodyValue, Message};
use crate::model::{EmailAddress, UtcMillis, limits};
use crate::outbox::Reporter;
use crate::outbox::mdn::{MdnDraft, MdnRequest, compose_notification};

/// The index is the number of the encoding for [`Decoder`]. The last has no number: its bytes are
/// not decoded.
const ENCODINGS: [&str; 5] = ["8bit", "quoted-printable", "base64", "x-uuencode", "x-odd"];
const CHARSETS: [&str; 22] = [
    "us-ascii",
    "utf-8",
    "iso-8859-1",
    "iso-8859-15",
    "windows-1252",
    "koi8-r",
    "iso-2022-jp",
    "shift_jis",
    "euc-kr",
    "gb18030",
    "big5",
    "utf-16",
    "utf-16le",
    "utf-7",
    "x-unknown",
    "",
    "iso-2022-jp-2",
    "iso-2022-kr",
    "hz-gb-2312",
    "johab",
    "cp437",
    "cp932",
];
const TYPES: [&str; 4] = ["text/plain", "text/html", "text/x-odd", "application/byte-stream"];

/// Decodes any bytes as the body of a part. Decoding in pieces gives the same bytes, and no more
/// than went in. The text is bounded, and truncated exactly if `is_truncated` says so.
pub fn decode(data: &[u8]) {
    let mut choices = Choices(bounded(data));
    let (encoding, charset, kind) =
        (choices.below(ENCODINGS.len()), choices.below(CHARSETS.len()), choices.below(TYPES.len()));
    let body = choices.0;
    let number = if encoding < 4 { encoding } else { 0 };
    let decoder = || Decoder::new(u8::try_from(number).unwrap());
    let in_pieces = |pieces: &[&[u8]]| {
        let (mut decoder, mut out) = (decoder(), Vec::new());
        let mut fed = 0;
        for piece in pieces {
            decoder.feed(piece, &mut out);
            fed += piece.len();
            assert!(out.len() <= fed, "{} bytes of {fed}", out.len());
        }
        decoder.finish(&mut out);
        assert!(out.len() <= fed, "{} bytes of {fed}", out.len());
        out
    };
    let whole = in_pieces(&[body]);
    let mut rng = InputRng::of(data);
    let about = 1 + rng.upto(40);
    assert_eq!(in_pieces(&rng.pieces(body, about)), whole, "in pieces");
    if number == 0 {
        assert_eq!(whole, body);
    }

    let (encoding, charset, kind) = (ENCODINGS[encoding], CHARSETS[charset], TYPES[kind]);
    let header = format!(
        "Content-Type: {kind}; charset=\"{charset}\"\r\n\
         Content-Transfer-Encoding: {encoding}\r\nSubject: x\r\n\r\n"
    );
    let raw = [header.as_bytes(), body].concat();
    let message = Message::parse(&raw);
    let parts = message.parts();
    assert_eq!(parts.len(), 1);
    assert_eq!((parts[0].body as usize, parts[0].end as usize), (header.len(), raw.len()));
    assert_eq!(usize::from(parts[0].encoding), number);
    assert_eq!(message.decoded(0).as_deref(), Some(whole.as_slice()), "as the parser has it");
    let structure = message.structure();
    assert_eq!(structure.root.size, whole.len());
    let Some(BodyValue { value, is_encoding_problem, is_truncated }) = message.body_value(0, 0)
    else {
        assert!(!kind.starts_with("text/"));
        return;
    };
    assert!(kind.starts_with("text/") && !is_truncated);
    // This bound and those of `texts` below are loose: they find text that grows without a bound.
    assert!(
        value.len() <= 4 * whole.len() + 16,
        "{} bytes of text of {}",
        value.len(),
        whole.len()
    );
    assert!(!value.contains("\r\n"));
    if charset == "utf-8" && number == 0 && !is_encoding_problem {
        assert!(std::str::from_utf8(body).is_ok(), "invalid UTF-8 is not reported");
    }
    let max = 1 + rng.upto(value.len());
    let cut = message.body_value(0, max).unwrap();
    assert!(cut.value.len() <= max && value.starts_with(&cut.value));
    assert_eq!(cut.is_truncated, value.len() > max);
    assert_eq!(cut.is_encoding_problem, is_encoding_problem);
    // A character that does not fit has up to 4 bytes. HTML may be cut earlier.
    if kind != "text/html" && cut.is_truncated {
        assert!(cut.value.len() + 4 > max, "cut short: {} of {max}", cut.value.len());
    }
    assert!(message.texts(max).iter().map(|text| text.len()).sum::<usize>() <= 8 * max + 64);
    assert!(message.preview().chars().count() <= limits::MAX_PREVIEW_CHARS);
}

/// Parses any bytes as a report. Its values are bounded and have no control characters, and a
/// disposition notification reads the same after it is composed again.
pub fn report(data: &[u8]) {
    let data = bounded(data);
    check_request(data);
    let parsed = Message::parse(data);
    let Some(found) = report::report(&parsed) else { return };
    assert!(report::claims_to_be_report(parsed.header()), "a report that does not claim to be one");
    let Report { text, original_id, content, .. } = &found;
    assert!(text.as_ref().is_none_or(|text| text.len() <= 64 * 1024));
    let returned = found.to_returned_report();
    for id in [original_id, &returned.message_id].into_iter().flatten() {
        assert!(id.len() <= limits::MAX_MESSAGE_ID_BYTES && !id.chars().any(char::is_control));
    }
    assert!(!returned.recipients.is_empty() && returned.recipients.len() <= limits::MAX_RECIPIENTS);
    for one in &returned.recipients {
        assert!(one.addresses.len() <= 2);
        let reply = one.delivered.as_ref().map_or("250 ", |(_, reply)| reply);
        assert!(
            reply.len() <= report::MAX_VALUE_BYTES + 40 && !reply.chars().any(char::is_control)
        );
        assert!(
            reply.get(..3).is_some_and(|code| code.bytes().all(|byte| byte.is_ascii_digit())),
            "{reply}"
        );
    }
    let ReportContent::Disposition(disposition) = content else { return };
    let person = |email: &str| EmailAddress { name: None, email: email.into() };
    let draft = MdnDraft {
        from: person("ann@example.org"),
        to: vec![person("bob@example.net")],
        subject: String::from_utf8_lossy(data).into_owned(),
        text: text.clone().unwrap_or_default(),
        disposition: disposition.clone(),
        original: None,
    };
    let reporter =
        Reporter { hostname: "mx.example", message_id: "d.1@mx.example", now: UtcMillis(0) };
    let raw = compose_notification(draft, &reporter);
    check_sent(&raw, "");
    let again = report::report(&Message::parse(&raw)).expect("a report");
    assert_eq!(again.content, *content);
    let whole = MdnDraft { original: Some(data.to_vec()), ..draft_of(&again) };
    let raw = compose_notification(whole, &reporter);
    assert!(report::report(&Message::parse(&raw)).is_some_and(|back| back.content == *content));
}

/// Returns the draft of a notification with the disposition of a parsed one.
fn draft_of(found: &Report) -> MdnDraft {
    let ReportContent::Disposition(disposition) = &found.content else { panic!("a disposition") };
    let person = EmailAddress { name: None, email: "ann@example.org".into() };
    let (from, to) = (person.clone(), vec![person]);
    MdnDraft {
        from,
        to,
        subject: String::new(),
        text: String::new(),
        disposition: disposition.clone(),
        original: None,
    }
}

/// Checks the request for a disposition notification that a message makes, if it makes one.
fn check_request(data: &[u8]) {
    let Some(request) = MdnRequest::of(data) else { return };
    // The request has at most one address more than `outbox::mdn::MAX_NOTIFIED`.
    assert!((1..=11).contains(&request.to.len()));
    let (manual_reason, automatic_reason) = (
        request.reason_not_to_send(SendingMode::Manual),
        request.reason_not_to_send(SendingMode::Automatic),
    );
    assert!(manual_reason.is_none() || automatic_reason.is_some());
    assert!(automatic_reason.is_some() || request.to.len() == 1);
    for line in [&request.original_recipient, &request.message_id].into_iter().flatten() {
        assert!(!line.chars().any(char::is_control));
    }
}
