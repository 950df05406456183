use super::super::Message;
use super::*;
use crate::message::corpus_tests::files;
use crate::needs::corpus;

/// Returns the text, HTML and attachment lists, separated by blanks, with the Content-ID of each
/// part.
fn lists(structure: &Structure<'_>) -> String {
    let name = |number: &u32| {
        let part = structure.root.flat().into_iter().find(|part| part.number == *number).unwrap();
        part.cid.clone().unwrap_or_else(|| number.to_string())
    };
    let list = |numbers: &[u32]| numbers.iter().map(name).collect::<String>();
    format!("{} {} {}", list(&structure.text), list(&structure.html), list(&structure.attachments))
}

/// Builds a message from a description of its parts, such as `[mixed text/plain:A text/html:B ]`:
/// of each part the media type, the Content-ID and perhaps, after a colon, the disposition.
fn built(shape: &str) -> String {
    let (mut out, mut open): (String, Vec<usize>) = (String::new(), Vec::new());
    for (at, word) in shape.split(' ').enumerate() {
        if word == "]" {
            let name = open.pop().unwrap();
            out += &format!("\r\n--b{name}--\r\n");
            continue;
        }
        if let Some(name) = open.last() {
            out += &format!("\r\n--b{name}\r\n");
        }
        if let Some(kind) = word.strip_prefix('[') {
            out += &format!("Content-Type: multipart/{kind}; boundary=b{at}\r\n\r\n");
            open.push(at);
        } else {
            let mut pieces = word.split(':');
            let (kind, name) = (pieces.next().unwrap(), pieces.next().unwrap());
            let dispositions: String =
                pieces.map(|field| format!("Content-Disposition: {field}\r\n")).collect();
            out += &format!("Content-Type: {kind}\r\nContent-ID: <{name}>\r\n{dispositions}\r\nx");
        }
    }
    out
}

fn lists_of(shape: &str) -> String {
    let raw = built(shape);
    lists(&Message::parse(raw.as_bytes()).structure())
}

/// The example of RFC 8621 §4.1.4.
#[test]
fn body_lists_of_the_rfc_example() {
    let shape = "[mixed text/plain:A [mixed [alternative \
                 [mixed text/plain:B image/jpeg:C text/plain:D ] \
                 [related text/html:E image/jpeg:F ] ] image/jpeg:G:attachment \
                 application/x-excel:H message/rfc822:J ] text/plain:K ]";
    assert_eq!(lists_of(shape), "ABCDK AEK CFGHJ");
}

#[test]
fn parts_are_listed_as_text_or_attachments() {
    for (shape, wanted) in [
        ("text/plain:A", "A A "),
        ("text/html:A", "A A "),
        ("application/pdf:A", "  A"),
        ("image/png:A", "A A "),
        ("text/plain:A:attachment", "  A"),
        ("[alternative text/plain:A text/html:B ]", "A B "),
        ("[alternative text/html:B ]", "B B "),
        ("[alternative text/plain:A text/calendar:C ]", "A A C"),
        ("[alternative text/plain:A [related text/html:B image/png:C ] ]", "A B C"),
        ("[related text/html:B text/plain:C ]", "B B C"),
        ("[mixed text/plain:A text/plain:B:inline;filename=x text/plain:C ]", "AC AC B"),
        ("[mixed text/plain:A:inline;filename=x text/plain:C ]", "AC AC "),
        ("[mixed text/plain:A image/png:B:inline;filename=x ]", "AB AB "),
        ("[mixed [alternative text/plain:A text/html:B ] image/png:C ]", "AC BC "),
        (
            "[alternative [mixed text/plain:A image/png:B ] [mixed text/html:C image/png:D ] ]",
            "AB CD BD",
        ),
    ] {
        assert_eq!(lists_of(shape), wanted, "{shape}");
    }
}

#[test]
fn part_has_the_properties_of_its_header() {
    let raw = b"Content-Type: Text/HTML; charset=UTF-8; name=\"=?utf-8?q?J=C3=BC.html?=\"\r\n\
        Content-Disposition: Attachment; filename*=utf-8''J%C3%BCrgen.html\r\n\
        Content-ID: (c) <1@x> \r\nContent-Language: de, en (English)\r\n\
        Content-Location: http://x.example/\r\n a\r\n\
        Content-Transfer-Encoding: base64\r\n\r\nPHA+\r\nR3I8L3A+\r\n";
    let message = Message::parse(raw);
    let root = message.structure().root;
    let text_of = |text: &Option<String>| text.clone().unwrap_or_default();
    assert_eq!((root.number, root.size, root.media_type.as_str()), (0, 9, "text/html"));
    assert_eq!(
        [text_of(&root.name), text_of(&root.charset), text_of(&root.disposition)],
        ["Jürgen.html", "UTF-8", "attachment"]
    );
    assert_eq!([text_of(&root.cid), text_of(&root.location)], ["1@x", "http://x.example/a"]);
    assert_eq!(root.language, Some(vec!["de".to_owned(), "en".to_owned()]));
    assert_eq!(message.decoded(0).as_deref(), Some(&b"<p>Gr</p>"[..]));
    let name = b"Content-Type: application/pdf; name=\"=?utf-8?q?J=C3=BC.pdf?=\"\r\n\r\n";
    let message = Message::parse(name);
    assert_eq!(message.structure().root.name.as_deref(), Some("Jü.pdf"));
}

#[test]
fn missing_types_and_charsets_have_defaults() {
    let type_and_charset = |head: &str| {
        let raw = format!("{head}\r\n\r\nx");
        let message = Message::parse(raw.as_bytes());
        let root = message.structure().root;
        format!("{} {}", root.media_type, root.charset.unwrap_or_default())
    };
    assert_eq!(type_and_charset("Subject: x"), "text/plain us-ascii");
    assert_eq!(type_and_charset("Content-Type: text/html"), "text/html us-ascii");
    assert_eq!(type_and_charset("Content-Type: text/x; charset=latin1"), "text/x latin1");
    assert_eq!(type_and_charset("Content-Type: image/png"), "image/png ");
    assert_eq!(type_and_charset("Content-Type: text"), "text/plain us-ascii");
    assert_eq!(type_and_charset("Content-Type: multipart/mixed"), "text/plain us-ascii");
    let raw = b"Content-Type: multipart/digest; boundary=b\r\n\r\n\
        --b\r\n\r\nSubject: y\r\n\r\nz\r\n--b--\r\n";
    let message = Message::parse(raw);
    let root = message.structure().root;
    assert_eq!((root.is_multipart, root.children[0].media_type.as_str()), (true, "message/rfc822"));
    assert_eq!((root.children[0].charset.clone(), root.charset), (None, None));
    assert_eq!(message.decoded(1).as_deref(), Some(&b"Subject: y\r\n\r\nz"[..]));
    assert_eq!(
        (message.decoded(0), message.decoded(2), message.body_value(1, 0)),
        (None, None, None)
    );
}

#[test]
fn values_are_cut_between_characters_and_outside_tags() {
    let value = |head: &str, body: &[u8], max: usize| {
        let raw = [head.as_bytes(), b"\r\n\r\n", body].concat();
        let value = Message::parse(&raw).body_value(0, max).unwrap();
        (value.value, value.is_encoding_problem, value.is_truncated)
    };
    let plain = "Content-Type: text/plain; charset=utf-8";
    assert_eq!(value(plain, b"a\r\nb\r\n", 0), ("a\nb\n".into(), false, false));
    assert_eq!(value(plain, "aü".as_bytes(), 2), ("a".into(), false, true));
    assert_eq!(value(plain, "aü".as_bytes(), 3), ("aü".into(), false, false));
    assert_eq!(value(plain, b"a\xff", 0), ("a\u{fffd}".into(), true, false));
    assert_eq!(value(plain, b"a <b c", 5), ("a <b ".into(), false, true));
    let html = "Content-Type: text/html; charset=utf-8";
    assert_eq!(value(html, b"<p>a</p><b>c", 10), ("<p>a</p>".into(), false, true));
    assert_eq!(value(html, b"<p>a</p><b>c", 11), ("<p>a</p><b>".into(), false, true));
    assert_eq!(value(html, b"1 < 2 and more", 8), ("1 < 2 an".into(), false, true));
    assert!(value("Content-Type: text/plain; charset=klingon", b"a", 0).1);
    assert!(value("Content-Type: text/plain\r\nContent-Transfer-Encoding: x-uue", b"a", 0).1);
    assert_eq!(
        value("Content-Type: text/plain; charset=latin1", b"\xfc", 0),
        ("ü".into(), false, false)
    );
}

#[test]
fn depth_and_number_of_parts_are_bounded() {
    let deep: String = (0..200)
        .map(|at| format!("Content-Type: multipart/mixed; boundary=b{at}\r\n\r\n--b{at}\r\n"))
        .collect();
    let raw = format!("{deep}\r\nx");
    let message = Message::parse(raw.as_bytes());
    let structure = message.structure();
    assert!(
        structure.root.flat().len() <= limits::MAX_MIME_DEPTH + 1,
        "{}",
        structure.root.flat().len()
    );
    let last = *structure.root.flat().last().unwrap();
    assert!(
        !last.is_multipart
            && !last.media_type.starts_with("multipart/")
            && message.decoded(last.number).is_some()
    );
    let wide = format!(
        "Content-Type: multipart/mixed; boundary=b\r\n\r\n{}",
        "--b\r\n\r\nx\r\n".repeat(3000)
    );
    let message = Message::parse(wide.as_bytes());
    assert_eq!(message.structure().root.flat().len(), limits::MAX_MIME_PARTS);
    // The last of `limits::MAX_MIME_PARTS`, and the next one.
    assert_eq!((message.decoded(999).is_some(), message.decoded(1000)), (true, None));
    for raw in [&b""[..], b"\r\n", b"x"] {
        let message = Message::parse(raw);
        assert_eq!(message.parts().len(), 1);
        let structure = message.structure();
        assert_eq!((structure.text, structure.root.is_multipart), (vec![0], false));
    }
}

fn value(raw: &[u8]) -> (String, bool) {
    let value = Message::parse(raw).body_value(0, 0).unwrap();
    (value.value, value.is_encoding_problem)
}

#[test]
fn texts_in_odd_charsets_are_the_same_in_value_texts_and_preview() {
    for (charset, body, wanted) in [
        ("us-ascii", "Grüße".as_bytes(), ("Grüße", true)),
        ("ANSI_X3.4-1968", b"Gr\xfc\xdfe", ("Grüße", true)),
        ("\"\"", b"Gr\xfc\xdfe", ("Grüße", true)),
        ("klingon", "Grüße".as_bytes(), ("Grüße", true)),
        ("klingon", b"plain", ("plain", true)),
        ("us-ascii", b"plain", ("plain", false)),
        ("hz-gb-2312", b"~{VPND~}", ("中文", false)),
        ("iso-2022-kr", b"\x1b$)C\x0eGQ\x0f", ("한", false)),
        ("iso-2022-jp", b"\x1b$B%9\x1b(B\x1b$B%Q%`\x1b(B", ("スパム", false)),
        ("cp437", b"caf\x82", ("café", false)),
    ] {
        let raw =
            [b"Content-Type: text/plain; charset=", charset.as_bytes(), b"\r\n\r\n", body].concat();
        assert_eq!(value(&raw), (wanted.0.to_owned(), wanted.1), "{charset}");
        let message = Message::parse(&raw);
        assert_eq!(
            (message.texts(100).concat().as_str(), message.preview().as_str()),
            (wanted.0, wanted.0)
        );
    }
    assert_eq!(value(b"Subject: x\r\n\r\nGr\xfc\xdfe"), ("Grüße".into(), true));
    assert_eq!(value("Subject: x\r\n\r\nGrüße".as_bytes()), ("Grüße".into(), true));
}

/// The beginning of a long text equals the beginning of the whole text: no character is cut or
/// misread.
#[test]
fn beginning_of_a_long_text_is_decoded_as_in_the_whole() {
    for (charset, unit) in [
        ("us-ascii", "Grüße ".as_bytes()),
        ("utf-8", "日本語".as_bytes()),
        ("utf-16le", b"a\0\xfc\0"),
        ("iso-2022-jp", b"\x1b$B%9%Q%`\x1b(B"),
        ("euc-jp", b"a\xa5\xb9"),
    ] {
        for encoding in ["8bit", "base64", "quoted-printable"] {
            let text = unit.repeat(200_000 / unit.len());
            let body = match encoding {
                "base64" => base64_lines(&text),
                "quoted-printable" => {
                    let mut out = Vec::new();
                    crate::message::encode::quoted_printable(&text, &mut out);
                    out
                }
                _ => text,
            };
            let head = format!(
                "Content-Type: text/plain; charset={charset}\r\n\
                 Content-Transfer-Encoding: {encoding}\r\n\r\n"
            );
            let raw = [head.as_bytes(), &body].concat();
            let message = Message::parse(&raw);
            let whole = message.body_value(0, 0).unwrap().value;
            for max in [1, 7, 100, 1001, 50_000] {
                let text = message.texts(max).concat();
                assert!(
                    whole.starts_with(&text) && text.len() <= max,
                    "{charset} {encoding} {max}"
                );
                // At most the three bytes of a character that was cut are missing.
                assert!(
                    text.len() + 3 >= max.min(whole.len()),
                    "{charset} {encoding} {max}: {}",
                    text.len()
                );
            }
        }
    }
}

fn base64_lines(bytes: &[u8]) -> Vec<u8> {
    use base64::Engine as _;
    let text = base64::engine::general_purpose::STANDARD.encode(bytes);
    text.as_bytes().chunks(76).collect::<Vec<_>>().join(&b"\r\n"[..])
}

#[test]
fn broken_encodings_are_decoded_and_reported() {
    let decode = |encoding: &str, body: &str| {
        let raw = format!(
            "Content-Type: text/plain\r\nContent-Transfer-Encoding: {encoding}\r\n\r\n{body}"
        );
        let message = Message::parse(raw.as_bytes());
        assert_eq!(message.decoded(0).unwrap().len(), message.structure().root.size, "{raw}");
        value(raw.as_bytes())
    };
    assert_eq!(decode("base64", "SGVsbG8=\r\n____\r\nlist footer\r\n"), ("Hello".into(), true));
    assert_eq!(decode("quoted-printable", "one\rtwo\r\nthree"), ("one\ntwo\nthree".into(), false));
    let coded = "begin 644 cat.txt\r\n#0V%T\r\n`\r\nend\r\n";
    for encoding in ["x-uuencode", "UUENCODE (c)", "x-uue"] {
        assert_eq!(decode(encoding, coded), ("Cat".into(), false), "{encoding}");
    }
    // Uuencode in a part without that encoding is text.
    assert_eq!(decode("7bit", coded), (coded.replace('\r', ""), false));
    assert_eq!(decode("x-odd", "a"), ("a".into(), true));
    let raw = b"Content-Transfer-Encoding: x-uuencode\r\n\r\nx";
    assert_eq!(Message::parse(raw).parts()[0].encoding, decode::UUENCODE);
}

#[test]
fn file_names_are_decoded() {
    let file_name = |field: &[u8]| {
        let raw = [field, b"\r\n\r\nx"].concat();
        let message = Message::parse(&raw);
        let name = message.structure().root.name;
        let listed = message.attachments().first().and_then(|one| one.name.clone());
        assert!(listed.is_none() || listed == name);
        name.unwrap_or_default()
    };
    // Blanks between encoded words are dropped, on one line and across two (RFC 2047 §6.2).
    assert_eq!(
        file_name(
            b"Content-Type: application/pdf; name=\"=?utf-8?q?J=C3=BC?= =?utf-8?q?rgen.pdf?=\""
        ),
        "Jürgen.pdf"
    );
    let folded = b"Content-Type: application/pdf;\r\n \
        name=\"=?utf-8?q?J=C3=BC?=\r\n =?utf-8?q?r.pdf?=\"";
    assert_eq!(file_name(folded), "Jür.pdf");
    let words = b"=?iso-2022-jp?B?GyRCJTkbKEI=?= =?iso-2022-jp?B?GyRCJVElYBsoQg==?=";
    let field = [b"Content-Disposition: attachment; filename=\"", &words[..], b".txt\""].concat();
    assert_eq!(file_name(&field), "スパム.txt");
    assert_eq!(file_name(b"Content-Disposition: attachment; filename=\"caf\xe9.txt\""), "café.txt");
    assert_eq!(
        file_name("Content-Disposition: attachment; filename=Grüße.txt".as_bytes()),
        "Grüße.txt"
    );
    assert_eq!(
        file_name(b"Content-Disposition: attachment; filename*=iso-2022-kr''%1B$)C%0EGQ%0F.txt"),
        "한.txt"
    );
}

#[test]
fn header_and_body_are_found_after_a_preamble() {
    let multipart = "Subject: x\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n\
                     --b\r\n\r\nHello\r\n--b\r\n\
                     Content-Type: text/html\r\n\r\n<p>you\r\n--b--\r\n";
    for before in ["", "\u{feff}", "\r\n", "   \r\n", "From a@x Sat Jan  1\r\n", ">From a@x\n"] {
        let raw = format!("{before}{multipart}");
        let message = Message::parse(raw.as_bytes());
        let structure = message.structure();
        assert_eq!(
            (structure.root.is_multipart, structure.root.flat().len()),
            (true, 3),
            "{before:?}"
        );
        assert_eq!(message.body_value(1, 0).unwrap().value, "Hello", "{before:?}");
        assert_eq!(
            structure.root.header,
            &multipart.as_bytes()[..multipart.find("--b").unwrap()],
            "{before:?}"
        );
        for (part, offsets) in structure.root.flat().into_iter().zip(message.parts()) {
            assert_eq!(
                part.header,
                &raw.as_bytes()[offsets.header as usize..offsets.body as usize],
                "{before:?}"
            );
        }
        let plain = format!("{before}Subject: x\r\nContent-Type: text/html\r\n\r\n<p>body\r\n");
        assert_eq!(Message::parse(plain.as_bytes()).preview(), "body", "{before:?}");
    }
}

/// Regression test: a header of 30 MB took 830 MB of memory.
#[test]
fn library_is_given_a_bounded_header() {
    let kind = "Content-Type: multipart/mixed; boundary=b\r\n";
    let body = "--b\r\n\r\nHello\r\n--b--\r\n";
    for part in ["g:;", "=?utf-8?q?a?= ", "<a@x> ", "(", "\r\nX: y", "\r\nX-Odd: y"] {
        let many = part.repeat(3 * limits::MAX_PARSED_HEADER_BYTES / part.len());
        for name in ["To", "Subject", "References", "Received"] {
            let raw = format!("{kind}{name}: {many}\r\n\r\n{body}");
            let message = Message::parse(raw.as_bytes());
            let parsed = message.library.parsed().unwrap();
            // MIME-Version and Content-Type.
            assert!(parsed.root().root_part().headers().iter().count() <= 2, "{name} {part:?}");
            let structure = message.structure();
            assert_eq!(structure.root.flat().len(), 2, "{name} {part:?}");
            assert_eq!(structure.root.header.len(), raw.len() - body.len(), "the header is kept");
            assert_eq!(message.body_value(1, 0).unwrap().value, "Hello");
            assert_eq!(message.preview(), "Hello");
        }
    }
    // The headers of parts are bounded too.
    let fields = "a:\n".repeat(limits::MAX_PART_FIELDS + 1000);
    let raw = format!("{kind}\r\n--b\n{fields}\n--b\n\nHello\n--b--\n");
    let message = Message::parse(raw.as_bytes());
    let headers =
        message.library.parsed().unwrap().root().parts().map(|part| part.headers().iter().count());
    assert!(headers.sum::<usize>() <= limits::MAX_PART_FIELDS);
    assert!(message.parts().iter().all(|part| part.end as usize <= raw.len()));
    let plain = format!("{kind}\r\n--b\n\n{fields}end of it");
    let text = Message::parse(plain.as_bytes()).body_value(1, 0).unwrap().value;
    assert!(text.ends_with("end of it"), "the rest that is not parsed belongs to the last part");
}

/// For the corpus, the lists of the library equal those made here; and a number means the same part
/// here and in `parts`.
#[test]
fn body_lists_of_the_corpus_match_the_library() {
    let Some(dir) = corpus() else { return };
    let (mut seen, mut problems) = (0, Vec::new());
    for file in files(&dir) {
        let raw = std::fs::read(&file).unwrap();
        let message = Message::parse(&raw);
        let structure = message.structure();
        let parts = message.parts();
        for part in structure.root.flat() {
            let offsets = &parts[part.number as usize];
            assert_eq!(
                part.header,
                &raw[offsets.header as usize..offsets.body as usize],
                "{}",
                file.display()
            );
            assert_eq!(
                message.decoded(part.number).map(|bytes| bytes.len()),
                (!part.is_multipart).then_some(part.size)
            );
        }
        let root = message.library.parsed().unwrap().root();
        let part_ids: Vec<u32> = root.parts().map(|part| part.id()).collect();
        let numbers = |ids: Vec<u32>| -> Vec<u32> {
            ids.iter()
                .map(|id| u32::try_from(part_ids.binary_search(id).unwrap()).unwrap())
                .collect()
        };
        let listed = [
            message.listed(|root| Box::new(root.text_body()), |structure| structure.text),
            message.listed(|root| Box::new(root.html_body()), |structure| structure.html),
            message.listed(|root| Box::new(root.attachments()), |structure| structure.attachments),
        ];
        let theirs = listed.map(|list| numbers(list.iter().map(MessagePart::id).collect()));
        let ours = [structure.text, structure.html, structure.attachments];
        if theirs != ours {
            problems.push(format!("{}: library {theirs:?}, ours {ours:?}", file.display()));
        }
        seen += 1;
    }
    eprintln!("{seen} messages");
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}
