use proptest::prelude::*;

use super::*;
use crate::message::Message;
use crate::message::forms::{Form, FormValue};
use crate::message::header::fields;
use crate::message::parse::Group;
use crate::message::strict_addresses::strict_addresses;
use crate::model::{Address, EmailAddress, SentAt, UtcMillis, limits};

fn person(name: Option<&str>, email: &str) -> EmailAddress {
    EmailAddress { name: name.map(str::to_owned), email: email.to_owned() }
}

/// Writes a value, and reads it back in a form.
fn read(name: &str, value: &FieldValue, form: Form) -> FormValue {
    let field = EncodedField::new(name, value).unwrap();
    let bytes = [field.bytes(), b"\r\n"].concat();
    let text = String::from_utf8(bytes.clone()).unwrap();
    assert!(
        text.split("\r\n").all(|line| line.len() <= 998 && !line.contains(['\r', '\n'])),
        "{text:?}"
    );
    let mut all = fields(&bytes);
    let field = all.next().unwrap();
    assert!(all.next().is_none() && field.is(name), "{text:?}");
    form.evaluate(&field)
}

fn text(value: &str) -> String {
    match read("Subject", &FieldValue::Text(value.into()), Form::Text) {
        FormValue::Text(text) => text,
        other => panic!("{other:?}"),
    }
}

#[test]
fn text_fields_read_back() {
    let long = "word ".repeat(400);
    for value in [
        "",
        "Hello",
        "a  b\tc",
        " leading",
        "trailing ",
        "J\u{fc}rgen",
        "=?utf-8?q?no?=",
        "\u{1f600}".repeat(60).as_str(),
        &"x".repeat(3000),
        long.trim(),
        "a=?b",
        "?= =?",
    ] {
        assert_eq!(text(value), value);
    }
    assert_eq!(
        EncodedField::new("Subject", &FieldValue::Text("a\r\nBcc: x".into())),
        Err(BadFieldValue("a control character is not allowed"))
    );
    for line in String::from_utf8_lossy(
        EncodedField::new("Subject", &FieldValue::Text(long)).unwrap().bytes(),
    )
    .split("\r\n")
    {
        assert!(line.len() <= 78, "{line}");
    }
}

#[test]
fn a_long_run_of_blanks_before_a_long_word_stays_within_998_bytes() {
    // Up to `word::MAX_WORD_BYTES` (900), a word and the blanks before it are written unencoded.
    for (blanks, letters) in [(898, 898), (1, 899), (1, 900), (899, 1), (900, 1)] {
        let value = format!("a{}{}", " ".repeat(blanks), "b".repeat(letters));
        // `read` checks the length of the lines.
        text(&value);
    }
}

#[test]
fn address_fields_read_back() {
    let people = vec![
        person(None, "a@x.example"),
        person(Some("Ann B"), "a@x.example"),
        person(Some("B, \"Bob\" \\ C."), "b@x.example"),
        person(
            Some(
                "J\u{fc}rgen \u{1f600} von und zu Hohenstein auf und davon in einer sehr \
                 langen Zeile",
            ),
            "j@x.example",
        ),
        person(Some("=?utf-8?q?literal?="), "l@x.example"),
        person(Some("(comment)"), "c@x.example"),
        person(None, "\"a b\"@x.example"),
        person(None, "j\u{fc}@x.example"),
        person(Some("A  B"), "two@x.example"),
        person(None, "bob"),
    ];
    assert_eq!(
        read("To", &FieldValue::Addresses(people.clone()), Form::Addresses),
        FormValue::Addresses(people.clone())
    );
    let many = vec![person(Some("Somebody"), "somebody@some.example"); 100];
    assert_eq!(
        read("To", &FieldValue::Addresses(many.clone()), Form::Addresses),
        FormValue::Addresses(many)
    );
    // As many as may be written are read.
    let most: Vec<EmailAddress> =
        (0..limits::MAX_FIELD_ADDRESSES).map(|n| person(None, &format!("{n}@x"))).collect();
    assert_eq!(
        read("To", &FieldValue::Addresses(most.clone()), Form::Addresses),
        FormValue::Addresses(most.clone())
    );
    let run = vec![Group { name: None, addresses: most }];
    assert_eq!(
        read("To", &FieldValue::Groups(run.clone()), Form::GroupedAddresses),
        FormValue::Groups(run)
    );
    assert_eq!(
        read("To", &FieldValue::Addresses(vec![]), Form::Addresses),
        FormValue::Addresses(vec![])
    );
    for email in ["", "a>b@x", "a\r\nBcc: x@y", "<a@x>", " a@x"] {
        assert!(
            EncodedField::new("To", &FieldValue::Addresses(vec![person(None, email)])).is_err(),
            "{email:?}"
        );
    }
    let groups = vec![
        Group { name: None, addresses: people[..2].to_vec() },
        Group { name: Some("Team \u{fc}".into()), addresses: people[1..4].to_vec() },
        Group { name: Some("Nobody".into()), addresses: vec![] },
        Group { name: None, addresses: people[5..6].to_vec() },
    ];
    assert_eq!(
        read("To", &FieldValue::Groups(groups.clone()), Form::GroupedAddresses),
        FormValue::Groups(groups)
    );
}

#[test]
fn fields_of_other_forms_read_back() {
    let list =
        |items: &[&str]| items.iter().map(|item| (*item).to_owned()).collect::<Vec<String>>();
    let ids = list(&["a@x", "b.c+d@y.example"]);
    assert_eq!(
        read("References", &FieldValue::MessageIds(ids.clone()), Form::MessageIds),
        FormValue::Strings(Some(ids))
    );
    let urls = list(&["mailto:a@x?subject=b", "https://x.example/a?b,(c)"]);
    assert_eq!(
        read("List-Help", &FieldValue::Urls(urls.clone()), Form::Urls),
        FormValue::Strings(Some(urls))
    );
    for zone in [0, 60, -210, 840] {
        let date = SentAt { at: UtcMillis(1_795_251_600_000), offset_minutes: zone };
        assert_eq!(read("Date", &FieldValue::Date(date), Form::Date), FormValue::Date(Some(date)));
        assert_eq!(SentAt::parse_rfc3339(&date.rfc3339()), Some(date));
    }
    let raw = " a\r\n b\t=?x";
    assert_eq!(read("X-A", &FieldValue::Raw(raw.into()), Form::Raw), FormValue::Text(raw.into()));
    for bad in ["a\r\nBcc: x", "a\r\n \r\n b", "a\rb", "\u{fc}", "a\0", "a\n\n b"] {
        assert!(EncodedField::new("X-A", &FieldValue::Raw(bad.into())).is_err(), "{bad:?}");
    }
    for (name, value) in [("X A", "x"), ("X:", "x"), ("", "x"), ("X\r\nBcc", "x")] {
        assert!(EncodedField::new(name, &FieldValue::Raw(value.into())).is_err(), "{name:?}");
    }
    for id in ["a b", "<a@x>", "", "\u{fc}@x", "a\n"] {
        assert!(
            EncodedField::new("Message-ID", &FieldValue::MessageIds(list(&[id]))).is_err(),
            "{id:?}"
        );
    }
}

fn leaf(media_type: &str, content: PartContent) -> PartDraft {
    PartDraft { media_type: media_type.into(), content, ..PartDraft::default() }
}

fn built(body: PartDraft) -> Vec<u8> {
    let subject = EncodedField::new("Subject", &FieldValue::Text("x".into())).unwrap();
    let raw = build(&MessageTree { fields: vec![subject], body }, "seed");
    for line in raw.split_inclusive(|byte| *byte == b'\n') {
        // 998 bytes and CRLF.
        assert!(line.len() <= 1000 && !line.contains(&0), "{}", line.escape_ascii());
    }
    raw
}

#[test]
fn parts_read_back() {
    let name = "Angebot f\u{fc}r J\u{fc}rgen und alle anderen, \
                die noch eines haben wollen \u{1f600} (2).pdf";
    let mut file =
        leaf("application/pdf", PartContent::Bytes((0..=255).cycle().take(5000).collect()));
    file.name = Some(name.into());
    file.disposition = Some("attachment".into());
    file.cid = Some("1@x".into());
    file.language = vec!["de".into(), "en-GB".into()];
    file.location = Some("http://x.example/a".into());
    let unnamed = PartDraft { disposition: None, ..file.clone() };
    let plain = PartDraft {
        name: Some("a b.txt".into()),
        disposition: Some("inline".into()),
        ..leaf("text/plain", PartContent::Bytes(b"a\nb\0\xff".to_vec()))
    };
    let mut calendar = leaf("text/calendar", PartContent::Text("BEGIN\n".into()));
    calendar.params = vec![("method".into(), "REQUEST".into())];
    let inner = b"Subject: inner\r\n\r\nGr\xc3\xbc\xc3\x9fe\r\n".to_vec();
    let odd = b"Subject: inner\n\nodd\n".to_vec();
    let parts = vec![
        leaf("text/plain", PartContent::Text("Gr\u{fc}\u{df}e\n--=_\nFrom x\n.\n  \nend".into())),
        file,
        unnamed,
        plain,
        calendar,
        leaf("message/rfc822", PartContent::Bytes(inner.clone())),
        leaf("message/rfc822", PartContent::Bytes(odd.clone())),
        leaf(
            "multipart/mixed",
            PartContent::Parts(vec![leaf("text/html", PartContent::Text("<p>".repeat(2000)))]),
        ),
    ];
    for part in &parts {
        assert_eq!(part.check(), Ok(()));
    }
    let raw = built(leaf("multipart/mixed", PartContent::Parts(parts)));
    let message = Message::parse(&raw);
    let structure = message.structure();
    let kinds: Vec<&str> =
        structure.root.children.iter().map(|part| part.media_type.as_str()).collect();
    assert_eq!(
        kinds.join(" "),
        "text/plain application/pdf application/pdf text/plain text/calendar message/rfc822 \
        message/rfc822 multipart/mixed"
    );
    let child = |at: usize| &structure.root.children[at];
    assert_eq!(
        message.body_value(child(0).number, 0).unwrap().value,
        "Gr\u{fc}\u{df}e\n--=_\nFrom x\n.\n  \nend"
    );
    for at in [1, 2] {
        assert_eq!(child(at).name.as_deref(), Some(name));
        assert_eq!((child(at).size, child(at).cid.as_deref()), (5000, Some("1@x")));
        assert_eq!(child(at).language, Some(vec!["de".to_owned(), "en-GB".to_owned()]));
        assert_eq!(child(at).location.as_deref(), Some("http://x.example/a"));
    }
    assert_eq!(
        (child(1).disposition.as_deref(), child(2).disposition.as_deref()),
        (Some("attachment"), None)
    );
    assert_eq!(message.decoded(child(3).number).as_deref(), Some(&b"a\nb\0\xff"[..]));
    assert_eq!(
        (child(3).name.as_deref(), child(3).charset.as_deref()),
        (Some("a b.txt"), Some("us-ascii"))
    );
    assert!(String::from_utf8_lossy(child(4).header).contains("method=REQUEST"));
    assert_eq!(message.decoded(child(5).number).as_deref(), Some(inner.as_slice()));
    assert_eq!(message.decoded(child(6).number).as_deref(), Some(odd.as_slice()));
    assert_eq!(
        message.body_value(child(7).children[0].number, 0).unwrap().value,
        "<p>".repeat(2000)
    );
    // The file name is written in both ways.
    let head = String::from_utf8_lossy(child(1).header).into_owned();
    assert!(
        head.contains(" name=\"=?utf-8?q?Angebot")
            && head.contains(" filename*0*=utf-8''Angebot%20f%C3%BC"),
        "{head}"
    );
}

#[test]
fn bad_values_of_parts_are_refused() {
    let part = || leaf("text/plain", PartContent::Text(String::new()));
    let bad_property = |part: PartDraft| part.check().unwrap_err().0;
    assert_eq!(bad_property(leaf("text", PartContent::default())), "type");
    assert_eq!(bad_property(leaf("text/plain\r\nX: y", PartContent::default())), "type");
    assert_eq!(bad_property(leaf("multipart/mixed", PartContent::default())), "type");
    assert_eq!(bad_property(leaf("text/plain", PartContent::Parts(vec![]))), "type");
    assert_eq!(bad_property(PartDraft { name: Some("a\nb".into()), ..part() }), "name");
    assert_eq!(
        bad_property(PartDraft { disposition: Some("a b".into()), ..part() }),
        "disposition"
    );
    assert_eq!(bad_property(PartDraft { cid: Some("a>\r\n".into()), ..part() }), "cid");
    assert_eq!(bad_property(PartDraft { language: vec!["a b".into()], ..part() }), "language");
    assert_eq!(bad_property(PartDraft { location: Some("a b".into()), ..part() }), "location");
    assert_eq!(
        bad_property(PartDraft { params: vec![("a=".into(), "b".into())], ..part() }),
        "type"
    );
}

proptest! {
    #[test]
    fn any_text_reads_back(value in "[ -~\t\u{a0}-\u{17f}\u{1f600}=?]{0,200}") {
        use unicode_normalization::UnicodeNormalization;
        let without_controls = value.chars().filter(|c| *c == '\t' || !c.is_control());
        let wanted: String = without_controls.nfc().collect();
        // Only such a text can read back unchanged: parsing removes controls, and composes (NFC).
        if wanted == value {
            prop_assert_eq!(text(&value), value);
        }
    }

    /// An address with an angle bracket is refused.
    #[test]
    fn any_address_is_written_unchanged_or_refused(
        local in "[ -~]{1,40}|[a-z. ]{1,40}",
        name in "[ -~\u{c0}-\u{17f}]{0,40}",
        count in 1..4usize,
    ) {
        let address = Address::from_parts(local, "x.example");
        let one = person(Some(name.trim()).filter(|name| !name.is_empty()), &address.to_string());
        let written = EncodedField::new("To", &FieldValue::Addresses(vec![one; count]));
        prop_assert_eq!(written.is_err(), address.to_string().contains(['<', '>']));
        if let Ok(field) = written {
            let raw = [field.bytes(), b"\r\n"].concat();
            prop_assert_eq!(strict_addresses(&raw, "To"), vec![address; count]);
        }
    }

    #[test]
    fn any_name_reads_back(
        name in "[ -~\u{c0}-\u{17f}]{0,90}",
        email in "[a-z0-9.+]{1,20}@[a-z]{1,10}",
    ) {
        let person = person(Some(name.trim()).filter(|name| !name.is_empty()), &email);
        let value = FieldValue::Addresses(vec![person.clone(), person.clone()]);
        let wanted = FormValue::Addresses(vec![person.clone(), person]);
        prop_assert_eq!(read("To", &value, Form::Addresses), wanted);
    }

    #[test]
    fn any_body_reads_back(
        text in "[ -~\n\t\r\u{fc}\0]{0,400}",
        bytes in proptest::collection::vec(any::<u8>(), 0..400),
        name in "[ -~\u{fc}]{0,120}",
    ) {
        let name = Some(name.trim()).filter(|name| !name.is_empty()).map(str::to_owned);
        let file = |kind: &str| PartDraft {
            name: name.clone(),
            disposition: Some("attachment".into()),
            ..leaf(kind, PartContent::Bytes(bytes.clone()))
        };
        let parts = vec![
            leaf("text/plain", PartContent::Text(text.clone())),
            file("image/png"),
            file("text/csv"),
            file("message/rfc822"),
        ];
        let raw = built(leaf("multipart/mixed", PartContent::Parts(parts)));
        let message = Message::parse(&raw);
        let lines: Vec<&str> = text.split('\n').collect();
        let (last, lines) = lines.split_last().unwrap();
        let lines = lines.iter().map(|line| format!("{}\n", line.trim_end_matches('\r')));
        let wanted: String = lines.chain([(*last).to_owned()]).collect();
        prop_assert_eq!(message.body_value(1, 0).unwrap().value, wanted);
        for number in 2..5 {
            let decoded = message.decoded(number);
            prop_assert_eq!(decoded.as_deref(), Some(bytes.as_slice()));
        }
        let structure = message.structure();
        prop_assert_eq!(&structure.root.children[1].name, &name);
        // Without a disposition, only Content-Type has the name.
        let alone = built(PartDraft { disposition: None, ..file("image/png") });
        let message = Message::parse(&alone);
        prop_assert_eq!(message.structure().root.name, name);
    }
}
