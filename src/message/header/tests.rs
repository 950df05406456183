use proptest::prelude::*;

use super::*;

fn names(raw: &str) -> Vec<(String, String)> {
    let header = Header::split(raw.as_bytes());
    header
        .fields()
        .map(|field| (String::from_utf8_lossy(field.name).into_owned(), field.unfolded()))
        .collect()
}

#[test]
fn malformed_lines_are_skipped_and_the_body_is_found() {
    let raw = "From x@y Sat Jan  1\r\nSubject: a\r\n b\r\njunk line\r\nX-A :c\nTo:\td\r\n\
        \r\nBody: no\r\n";
    let wanted = [("Subject", "a b"), ("X-A", "c"), ("To", "d")];
    let wanted: Vec<_> = wanted.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
    // The mbox line has no colon, so it is no field. One with a time has a colon, but is no field
    // either: blanks stand in what is before the colon.
    assert_eq!(names(raw), wanted);
    assert_eq!(raw.get(body_offset(raw.as_bytes())..), Some("Body: no\r\n"));
    assert!(names("\r\nNote: body\r\n").is_empty());
    assert_eq!(names("Subject: no end").len(), 1);
    assert_eq!(body_offset(b"Subject: x"), 10);
}

#[test]
fn preamble_before_the_header_is_skipped() {
    let header = "Subject: a\r\nBcc: b@x\r\n";
    for before in [
        "",
        "\u{feff}",
        "\r\n",
        "\n\n",
        "  \t \r\n",
        "From a@x Sat Jan  1 10:00:00 2026\r\n",
        ">From a@x Sat Jan  1\n",
        "\u{feff}\r\n>>From a\r\n \r\n",
    ] {
        let raw = format!("{before}{header}\r\nBody: no\r\n");
        assert_eq!(names(&raw).len(), 2, "{before:?}");
        assert_eq!(raw.get(body_offset(raw.as_bytes())..), Some("Body: no\r\n"), "{before:?}");
        assert!(is_message(raw.as_bytes()), "{before:?}");
        assert_eq!(
            without_fields(raw.as_bytes(), &["Bcc"]).as_ref(),
            b"Subject: a\r\n\r\nBody: no\r\n",
            "{before:?}"
        );
    }
    // Without a common field after it, the preamble is the body.
    for body in ["\r\nHello there\r\n", "\r\nNote: x\r\n", "\u{feff}text", "", "\n\n"] {
        assert_eq!((start(body.as_bytes()), is_message(body.as_bytes())), (0, false), "{body:?}");
    }
    let far = format!("{}{header}", "\n".repeat(limits::MAX_PREAMBLE_BYTES + 1));
    assert_eq!(start(far.as_bytes()), 0);
}

#[test]
fn raw_bytes_are_decoded_from_the_charset_of_the_body() {
    let subject = |kind: &str, value: &[u8]| {
        let raw =
            [b"Subject: ", value, b"\r\nContent-Type: ", kind.as_bytes(), b"\r\n\r\n"].concat();
        first(&raw, "Subject").unwrap().decoded()
    };
    assert_eq!(subject("text/plain; charset=koi8-r", b"\xf0\xd2\xc9\xd7\xc5\xd4"), "Привет");
    assert_eq!(subject("text/plain; charset=\"koi8-r\"", "Grüße".as_bytes()), "Grüße");
    assert_eq!(subject("text/plain; charset=utf-8", b"caf\xe9"), "café");
    assert_eq!(subject("multipart/mixed; boundary=b", b"caf\xe9 \x80"), "café €");
}

/// Fields are looked for in a bounded part of the header, and in a bounded number of lines.
#[test]
fn fields_beyond_the_bounds_are_not_found_but_the_body_is() {
    let long = format!("To: {}\r\nSubject: x\r\n\r\nbody", "g:;".repeat(limits::MAX_HEADER_BYTES));
    assert_eq!(names(&long).len(), 1);
    assert!(fields(long.as_bytes()).all(|field| field.value.len() < limits::MAX_HEADER_BYTES));
    assert_eq!(long.get(body_offset(long.as_bytes())..), Some("body"));
    assert_eq!(long.get(Header::split(long.as_bytes()).body_offset()..), Some("body"));
    for line in ["a:\n", "junk\n"] {
        let many = format!("{}Subject: x\n\nbody", line.repeat(limits::MAX_HEADER_FIELDS));
        assert!(first(many.as_bytes(), "Subject").is_none());
        assert!(Header::split(many.as_bytes()).first("Subject").is_none());
        assert_eq!(many.get(body_offset(many.as_bytes())..), Some("body"));
        assert_eq!(many.get(Header::split(many.as_bytes()).body_offset()..), Some("body"));
    }
}

/// A sent message has no Bcc (RFC 8621 §7.5, RFC 5322 §3.6.3).
#[test]
fn fields_are_removed_with_their_folded_lines_only() {
    let raw = b"Bcc: a@x\r\nTo: b@x\r\nBCC :\r\n c@x,\r\n\td@x\r\nX-Bcc: 1\r\nbcc\r\n\
        Subject: s\r\n t\r\n\r\nBcc: body\r\n";
    let wanted = b"To: b@x\r\nX-Bcc: 1\r\nbcc\r\nSubject: s\r\n t\r\n\r\nBcc: body\r\n";
    assert_eq!(without_fields(raw, &["bcc", "Resent-Bcc"]).as_ref(), wanted);
    assert!(matches!(without_fields(wanted, &["Bcc"]), Cow::Borrowed(same) if same == wanted));
    assert_eq!(without_fields(b"Bcc: only", &["Bcc"]).as_ref(), b"");
    // The colon stands in a folded line.
    let folded = b"To: b@x\r\nBcc\r\n : c@x\r\nSubject: s\r\n\r\n";
    let wanted = b"To: b@x\r\nSubject: s\r\n\r\n";
    assert_eq!(without_fields(folded, &["Bcc"]).as_ref(), wanted);
    // The last field is removed, however many there are.
    let many =
        [b"X: y\r\n".repeat(limits::MAX_HEADER_FIELDS + 1), b"Bcc: z@x\n\nz@x".to_vec()].concat();
    assert!(without_fields(&many, &["Bcc"]).ends_with(b"X: y\r\n\nz@x"));
}

#[test]
fn values_are_read_without_comments_and_decoded() {
    let field = |value: &'static str| Field::new(b"X", value.as_bytes());
    assert_eq!(field(" no (a (b\\)) c)\r\n").without_comments(), "no");
    assert_eq!(field("\"a (b)\" (c) d").without_comments(), "\"a (b)\"  d");
    assert_eq!(field(" =?utf-8?q?J=C3=BCrgen?=\r\n =?utf-8?q?_x?=\r\n").decoded(), "Jürgen x");
    assert_eq!(field(" =?utf-8?q?a=0D=0ABcc:_x?=\r\n").decoded(), "aBcc: x");
}

/// Regression test: an empty line before the header counted as its end, if no common field was in
/// the beginning yet.
#[test]
fn preamble_is_not_taken_for_the_header() {
    let many = "X-A: y\r\n".repeat(100);
    for before in ["From x\r\n\r\n", "\u{feff}\r\n\r\n", ">From x\n\n", "\r\n\r\n"] {
        let raw = format!("{before}{many}Subject: s\r\n\r\nbody");
        let end = raw.len() - "body".len();
        assert!(!has_whole_header(&raw.as_bytes()[..end - 20]), "{before:?}");
        assert!(has_whole_header(&raw.as_bytes()[..end]), "{before:?}");
    }
}

proptest! {
    #[test]
    fn no_removed_field_is_left(
        raw in "To: b@x\r\n((Bcc|To|junk|\r\n|\n| |\t|From x)(:( c@x)?)?(\r?\n)?){0,12}",
    ) {
        let left = without_fields(raw.as_bytes(), &["Bcc"]);
        prop_assert!(!fields(&left).any(|field| field.is("Bcc")), "{:?}", left);
        let values = |raw: &[u8]| {
            let others = fields(raw).filter(|field| !field.is("Bcc"));
            others.map(|field| (field.name.to_vec(), field.unfolded())).collect::<Vec<_>>()
        };
        prop_assert_eq!(values(raw.as_bytes()), values(&left));
    }

    /// The beginning that is taken for the whole header has the fields of the message.
    #[test]
    fn beginning_with_the_whole_header_has_all_fields(
        raw in concat!(
            "(\u{feff})?(\r\n|\n|From a@x\r\n|>From b\n| \n){0,3}",
            "((From|X-A|Subject|\n|\r\n| |junk|From )(: ?(a@x)?)?(\r?\n)?){0,12}",
        ),
        length in 0usize..200,
    ) {
        let raw = raw.as_bytes();
        let beginning = raw.get(..length).unwrap_or(raw);
        if has_whole_header(beginning) {
            prop_assert!(fields(beginning).eq(fields(raw)));
            prop_assert_eq!(body_offset(beginning), body_offset(raw));
        }
    }

    /// A split header has the same fields as one that is walked over.
    #[test]
    fn split_header_has_the_fields_that_a_walk_finds(
        raw in concat!(
            "(\u{feff}|\r\n|From a@x\r\n|>From b\n| \n){0,2}",
            "((From|to|X-A ?|Content-Type|\n|\r\n| |\t|junk|From )",
            "(: ?(text/plain; charset=koi8-r|a@x|\u{e9})?)?(\r?\n)?){0,12}",
        ),
        cut in 0usize..80,
    ) {
        // Without its first byte, `é` is not UTF-8, so the charset of the body decodes it.
        let raw: Vec<u8> = raw.bytes().filter(|byte| *byte != 0xc3).collect();
        for raw in [&raw[..], raw.get(cut..).unwrap_or_default()] {
            let header = Header::split(raw);
            prop_assert!(header.fields().eq(fields(raw)));
            prop_assert!(header.leading_fields().eq(leading_fields(raw)));
            prop_assert_eq!((header.start(), header.body_offset()), (start(raw), body_offset(raw)));
            prop_assert_eq!(header.trimmed(), trimmed(raw));
            let message = IncomingMessage::new(raw.to_vec());
            prop_assert!(message.header().fields().eq(fields(raw)));
            prop_assert_eq!(message.trimmed_header().raw(), trimmed(raw));
            prop_assert!(message.trimmed_header().fields().eq(fields(trimmed(raw))));
            prop_assert_eq!(message.trimmed_header().body_offset(), body_offset(trimmed(raw)));
        }
    }
}
