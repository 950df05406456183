use super::super::Message;
use super::*;
use crate::message::corpus_tests::files;
use crate::needs::corpus;

fn lists(structure: &Structure<'_>) -> String {
    let name = |number: &u32| {
        let part = structure.root.flat().into_iter().find(|part| part.number == *number).unwrap();
        part.cid.clone().unwrap_or_else(|| number.to_string())
    };
    let list = |numbers: &[u32]| numbers.iter().map(name).collect::<String>();
    format!("{} {} {}", list(&structure.text), list(&structure.html), list(&structure.attachments))
}

/// A message of nested lists: `[mixed text/plain:A text/html:B]`.
fn built(shape: &str) -> String {
    let (mut out, mut open): (String, Vec<(usize, bool)>) = (String::new(), Vec::new());
    for (at, word) in shape.split(' ').enumerate() {
        if word == "]" {
            let (name, _) = open.pop().unwrap();
            out += &format!("\r\n--b{name}--\r\n");
            continue;
        }
        if let Some((name, _)) = open.last() {
            out += &format!("\r\n--b{name}\r\n");
        }
        if let Some(kind) = word.strip_prefix('[') {
            out += &format!("Content-Type: multipart/{kind}; boundary=b{at}\r\n\r\n");
            open.push((at, true));
        } else {
            let mut pieces = word.split(':');
            let (kind, name) = (pieces.next().unwrap(), pieces.next().unwrap());
            let more: String = pieces.map(|field| format!("Content-Disposition: {field}\r\n")).collect();
            out += &format!("Content-Type: {kind}\r\nContent-ID: <{name}>\r\n{more}\r\nx");
        }
    }
    out
}

fn shown(shape: &str) -> String {
    let raw = built(shape);
    lists(&Message::parse(raw.as_bytes()).structure())
}

/// The example of RFC 8621 §4.1.4.
#[test]
fn the_example_of_the_rfc() {
    let shape = "[mixed text/plain:A [mixed [alternative [mixed text/plain:B image/jpeg:C text/plain:D ] \
                 [related text/html:E image/jpeg:F ] ] image/jpeg:G:attachment application/x-excel:H \
                 message/rfc822:J ] text/plain:K ]";
    assert_eq!(shown(shape), "ABCDK AEK CFGHJ");
}

#[test]
fn what_is_text_and_what_is_attached() {
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
        ("[alternative [mixed text/plain:A image/png:B ] [mixed text/html:C image/png:D ] ]", "AB CD BD"),
    ] {
        assert_eq!(shown(shape), wanted, "{shape}");
    }
}

#[test]
fn a_part_is_described() {
    let raw = b"Content-Type: Text/HTML; charset=UTF-8; name=\"=?utf-8?q?J=C3=BC.html?=\"\r\n\
        Content-Disposition: Attachment; filename*=utf-8''J%C3%BCrgen.html\r\nContent-ID: (c) <1@x> \r\n\
        Content-Language: de, en (English)\r\nContent-Location: http://x.example/\r\n a\r\n\
        Content-Transfer-Encoding: base64\r\n\r\nPHA+\r\nR3I8L3A+\r\n";
    let message = Message::parse(raw);
    let root = message.structure().root;
    let of = |text: &Option<String>| text.clone().unwrap_or_default();
    assert_eq!((root.number, root.size, root.media_type.as_str()), (0, 9, "text/html"));
    assert_eq!([of(&root.name), of(&root.charset), of(&root.disposition)], ["Jürgen.html", "UTF-8", "attachment"]);
    assert_eq!([of(&root.cid), of(&root.location)], ["1@x", "http://x.example/a"]);
    assert_eq!(root.language, Some(vec!["de".to_owned(), "en".to_owned()]));
    assert_eq!(message.decoded(0).as_deref(), Some(&b"<p>Gr</p>"[..]));
    let name = b"Content-Type: application/pdf; name=\"=?utf-8?q?J=C3=BC.pdf?=\"\r\n\r\n";
    let message = Message::parse(name);
    assert_eq!(message.structure().root.name.as_deref(), Some("Jü.pdf"));
}

#[test]
fn types_and_charsets_that_are_not_said() {
    let of = |head: &str| {
        let raw = format!("{head}\r\n\r\nx");
        let message = Message::parse(raw.as_bytes());
        let root = message.structure().root;
        format!("{} {}", root.media_type, root.charset.unwrap_or_default())
    };
    assert_eq!(of("Subject: x"), "text/plain us-ascii");
    assert_eq!(of("Content-Type: text/html"), "text/html us-ascii");
    assert_eq!(of("Content-Type: text/x; charset=latin1"), "text/x latin1");
    assert_eq!(of("Content-Type: image/png"), "image/png ");
    assert_eq!(of("Content-Type: text"), "text/plain us-ascii");
    assert_eq!(of("Content-Type: multipart/mixed"), "text/plain us-ascii");
    let raw = b"Content-Type: multipart/digest; boundary=b\r\n\r\n--b\r\n\r\nSubject: y\r\n\r\nz\r\n--b--\r\n";
    let message = Message::parse(raw);
    let root = message.structure().root;
    assert_eq!((root.is_multipart, root.children[0].media_type.as_str()), (true, "message/rfc822"));
    assert_eq!((root.children[0].charset.clone(), root.charset), (None, None));
    assert_eq!(message.decoded(1).as_deref(), Some(&b"Subject: y\r\n\r\nz"[..]));
    assert_eq!((message.decoded(0), message.decoded(2), message.body_value(1, 0)), (None, None, None));
}

#[test]
fn values_are_cut_between_characters_and_outside_tags() {
    let value = |head: &str, body: &[u8], most: usize| {
        let raw = [head.as_bytes(), b"\r\n\r\n", body].concat();
        let value = Message::parse(&raw).body_value(0, most).unwrap();
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
    assert_eq!(value("Content-Type: text/plain; charset=latin1", b"\xfc", 0), ("ü".into(), false, false));
}

#[test]
fn the_bounds_stand() {
    let deep: String =
        (0..200).map(|at| format!("Content-Type: multipart/mixed; boundary=b{at}\r\n\r\n--b{at}\r\n")).collect();
    let raw = format!("{deep}\r\nx");
    let message = Message::parse(raw.as_bytes());
    let structure = message.structure();
    assert!(structure.root.flat().len() <= limits::MIME_DEPTH + 1, "{}", structure.root.flat().len());
    let last = *structure.root.flat().last().unwrap();
    assert!(!last.is_multipart && !last.media_type.starts_with("multipart/") && message.decoded(last.number).is_some());
    let wide = format!("Content-Type: multipart/mixed; boundary=b\r\n\r\n{}", "--b\r\n\r\nx\r\n".repeat(3000));
    let message = Message::parse(wide.as_bytes());
    assert_eq!(message.structure().root.flat().len(), limits::PARTS);
    assert_eq!((message.decoded(999).is_some(), message.decoded(1000)), (true, None));
    for raw in [&b""[..], b"\r\n", b"x"] {
        let message = Message::parse(raw);
        assert_eq!(message.parts().len(), 1);
        let structure = message.structure();
        assert_eq!((structure.text, structure.root.is_multipart), (vec![0], false));
    }
}

/// Of the corpus the lists that the library keeps are the same, where they are asked for; and a number says one part, here
/// and in `parts`.
#[test]
fn the_corpus_agrees() {
    let Some(dir) = corpus() else { return };
    let (mut seen, mut wrong) = (0, Vec::new());
    for file in files(&dir) {
        let raw = std::fs::read(&file).unwrap();
        let message = Message::parse(&raw);
        let structure = message.structure();
        let parts = message.parts();
        for part in structure.root.flat() {
            let place = &parts[part.number as usize];
            assert_eq!(part.header, &raw[place.header as usize..place.body as usize], "{}", file.display());
            assert_eq!(
                message.decoded(part.number).map(|octets| octets.len()),
                (!part.is_multipart).then_some(part.size)
            );
        }
        let root = message.parsed.as_ref().unwrap().root();
        let own: Vec<u32> = root.parts().map(|part| part.id()).collect();
        let numbers = |ids: Vec<u32>| -> Vec<u32> {
            ids.iter().map(|id| u32::try_from(own.binary_search(id).unwrap()).unwrap()).collect()
        };
        let listed = [
            message.listed(|root| Box::new(root.text_body()), |structure| structure.text),
            message.listed(|root| Box::new(root.html_body()), |structure| structure.html),
            message.listed(|root| Box::new(root.attachments()), |structure| structure.attachments),
        ];
        let theirs = listed.map(|list| numbers(list.iter().map(MessagePart::id).collect()));
        let ours = [structure.text, structure.html, structure.attachments];
        if theirs != ours {
            wrong.push(format!("{}: library {theirs:?}, ours {ours:?}", file.display()));
        }
        seen += 1;
    }
    eprintln!("{seen} messages");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
