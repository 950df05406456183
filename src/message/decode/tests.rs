use proptest::prelude::*;

use super::*;

/// Decodes by a `Decoder` that is fed everything in one piece.
fn whole(encoding: u8, bytes: &[u8]) -> Vec<u8> {
    in_pieces(encoding, &[bytes])
}

fn in_pieces(encoding: u8, pieces: &[&[u8]]) -> Vec<u8> {
    let (mut decoder, mut out) = (Decoder::new(encoding), Vec::new());
    pieces.iter().for_each(|piece| decoder.feed(piece, &mut out));
    decoder.finish(&mut out);
    out
}

/// Decodes by `decode`, and checks `decoded_len`.
fn at_once(encoding: u8, bytes: &[u8]) -> Vec<u8> {
    let decoded = decode(encoding, bytes).0.into_owned();
    assert_eq!(decoded_len(encoding, bytes), decoded.len(), "{}", bytes.escape_ascii());
    decoded
}

#[test]
fn broken_encodings_are_decoded_as_far_as_possible() {
    for (encoding, bytes, wanted) in [
        (BASE64, "SGVs\r\nbG8=", "Hello"),
        (BASE64, "SGVs-bG8=", "Hello"),
        (BASE64, "VGVzdA", "Test"),
        (BASE64, "SGVsbG8=\r\nSGVsbG8=", "HelloHello"),
        (QUOTED_PRINTABLE, "soft=\r\nbreak =  \r\nnext \t\r\nend", "softbreak next\r\nend"),
        (QUOTED_PRINTABLE, "caf=C3=A9 a=ZZb =4", "café a=ZZb =4"),
        (IDENTITY, "as is=", "as is="),
    ] {
        assert_eq!(String::from_utf8_lossy(&whole(encoding, bytes.as_bytes())), wanted, "{bytes}");
        assert_eq!(
            whole(encoding, bytes.as_bytes()),
            at_once(encoding, bytes.as_bytes()),
            "{bytes}"
        );
    }
}

/// Regression test: the footer that a mailing list puts after base64 was decoded, so that a text
/// ended with garbage and a picture had five bytes too many.
#[test]
fn base64_after_padding_is_decoded_only_if_it_is_valid() {
    for (bytes, wanted, is_broken) in [
        (
            "SGVsbG8=\r\n_______________\r\nlist mailing list\r\nhttps://x.example/a\r\n",
            "Hello",
            true,
        ),
        ("SGVsbG8=\n-- \nlistlist\n", "Hello", true),
        ("SGVsbG8= \r\n\r\n  \r\n", "Hello", false),
        ("VGVzdA==", "Test", false),
        ("VGVzdA=\r\n=\r\n", "Test", false),
        // Content that was encoded line by line, or in pieces.
        ("SGVsbG8=\r\nSGVsbG8=\r\nSGVs\r\nbG8=\r\n", "HelloHelloHello", false),
        ("SGVsbG8=SGVsbG8=", "HelloHello", false),
        // A `=` after a whole group of four symbols is no padding.
        ("SGVs=\r\nbG8", "Hello", true),
        ("SGVsbG8", "Hello", false),
    ] {
        let (decoded, was_broken) = decode(BASE64, bytes.as_bytes());
        assert_eq!((decoded.as_ref(), was_broken), (wanted.as_bytes(), is_broken), "{bytes}");
        assert_eq!(whole(BASE64, bytes.as_bytes()), at_once(BASE64, bytes.as_bytes()));
    }
    let long = format!("SGVsbG8=\n{}\n", "A".repeat(MAX_TAIL_BYTES + 4));
    assert_eq!(at_once(BASE64, long.as_bytes()), b"Hello");
}

#[test]
fn a_bare_cr_in_quoted_printable_is_a_line_break() {
    for (bytes, wanted) in [
        (
            "one\rtwo=\r three=\r\n four\r\nfive\r\r\nsix\r\r",
            "one\ntwo three four\r\nfive\r\nsix\n\n",
        ),
        ("one \rtwo", "one\ntwo"),
        ("=0D x", "\r x"),
    ] {
        assert_eq!(
            String::from_utf8_lossy(&whole(QUOTED_PRINTABLE, bytes.as_bytes())),
            wanted,
            "{bytes:?}"
        );
        assert_eq!(
            whole(QUOTED_PRINTABLE, bytes.as_bytes()),
            at_once(QUOTED_PRINTABLE, bytes.as_bytes())
        );
    }
}

#[test]
fn uuencode_is_decoded_between_begin_and_end() {
    // Encoded by Python's binascii.
    let coded = "begin 644 a b.txt\n'1W+\\WV4@/`  \n`\nend\n";
    for (bytes, wanted, is_broken) in [
        ("text\r\nbegin 644 x\r\n#0V%T\r\n`\r\nend\r\nfooter\r\n", &b"Cat"[..], false),
        (coded, b"Gr\xfc\xdfe <", false),
        ("begin 644 x\n#0V%T\n", b"Cat", true),
        ("begin 644 x\nM0V%T\n`\nend\n", b"Cat", true),
        // Mail servers strip blanks at the end of a line. They stand for zero bits, so that bytes
        // are missing; a line of three bytes that has its length only is left out.
        ("begin 644 x\n#1P\n#0V%T\n`\nend\n", b"G\0\0Cat", true),
        ("begin 644 x\n#\n#0V%T\n`\nend\n", b"Cat", true),
        ("no beginning\nat all", b"no beginning\nat all", true),
        ("begin anew\n", b"begin anew\n", true),
        ("begin 999 x\n", b"begin 999 x\n", true),
    ] {
        let (decoded, was_broken) = decode(UUENCODE, bytes.as_bytes());
        assert_eq!((decoded.as_ref(), was_broken), (wanted, is_broken), "{bytes}");
    }
    let long = "x\n".repeat(200_000);
    assert_eq!(whole(UUENCODE, long.as_bytes()), long.as_bytes());
    // A `begin` that reaches beyond the bound does not count, however the content is cut.
    let before = "x\n".repeat(crate::model::limits::MAX_UUENCODE_PREAMBLE_BYTES / 2);
    let late = format!("{before}{coded}");
    let bytes: Vec<&[u8]> = late.as_bytes().chunks(1).collect();
    assert_eq!(whole(UUENCODE, late.as_bytes()), late.as_bytes());
    assert_eq!(in_pieces(UUENCODE, &bytes), late.as_bytes());
}

#[test]
fn uuencode_line_begin_may_end_at_the_bound() {
    let (begin, rest) = ("begin 644 x\n", "#0V%T\n`\nend\n");
    let of_length = |length: usize| "x".repeat(length - begin.len() - 1) + "\n" + begin + rest;
    let bound = crate::model::limits::MAX_UUENCODE_PREAMBLE_BYTES;
    let (last, late) = (of_length(bound), of_length(bound + 1));
    for (bytes, wanted) in [(&last, &b"Cat"[..]), (&late, late.as_bytes())] {
        let pieces: Vec<&[u8]> = bytes.as_bytes().chunks(1).collect();
        assert!(whole(UUENCODE, bytes.as_bytes()) == wanted, "{}", bytes.len());
        assert!(in_pieces(UUENCODE, &pieces) == wanted, "{}", bytes.len());
    }
}

#[test]
fn long_quoted_printable_line_is_not_held_whole() {
    let line = "abc=41 ".repeat(100_000);
    let (mut decoder, mut out) = (Decoder::new(QUOTED_PRINTABLE), Vec::new());
    for piece in line.as_bytes().chunks(1000) {
        decoder.feed(piece, &mut out);
        let DecoderState::Quoted(held) = &decoder.state else { panic!("not quoted-printable") };
        assert!(held.line.len() < MAX_HELD_LINE_BYTES.saturating_mul(2));
    }
    decoder.finish(&mut out);
    assert_eq!(out, at_once(QUOTED_PRINTABLE, line.as_bytes()));
}

/// Regression test: every piece of 50 MB of blanks was searched together with all pieces before it.
#[test]
fn quoted_printable_line_of_blanks_is_searched_once() {
    for unit in ["=", " ", " =", "= \t"] {
        let line = unit.repeat(6 * MAX_HELD_LINE_BYTES / unit.len());
        // Each end, with whether the held line is cut after it with every `unit`. With `false` this
        // depends on the `unit`, and is not asserted.
        for (end, is_cut) in [("x", false), (" xyz", true), ("x\r\n", true), ("\rxyz", true)] {
            let (mut decoder, mut out) = (Decoder::new(QUOTED_PRINTABLE), Vec::new());
            for piece in line.as_bytes().chunks(MAX_HELD_LINE_BYTES) {
                decoder.feed(piece, &mut out);
                let DecoderState::Quoted(held) = &decoder.state else {
                    panic!("not quoted-printable")
                };
                assert_eq!((held.searched, out.len()), (held.line.len(), 0), "{unit:?}");
            }
            decoder.feed(end.as_bytes(), &mut out);
            let DecoderState::Quoted(held) = &decoder.state else { panic!("not quoted-printable") };
            assert!(!is_cut || (held.searched == 0 && held.line.len() <= 3), "{unit:?} {end:?}");
            decoder.finish(&mut out);
            assert_eq!(
                out,
                at_once(QUOTED_PRINTABLE, format!("{line}{end}").as_bytes()),
                "{unit:?} {end:?}"
            );
        }
    }
}

#[test]
fn corpus_decodes_alike_whole_and_in_pieces() {
    let Some(folder) = crate::needs::corpus() else { return };
    let mut files = Vec::new();
    let mut folders: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    while let Some(path) = folders.pop() {
        if path.is_dir() {
            folders.extend(std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
        } else if path.metadata().unwrap().len() < 100_000 {
            files.push(path);
        }
    }
    let (mut parts, mut seen) = (0, 0_usize);
    for file in &files {
        let raw = std::fs::read(file).unwrap();
        let message = crate::message::Message::parse(&raw);
        for part in message.parts() {
            let Some(body) = raw.get(part.body as usize..part.end as usize) else { continue };
            let wanted = at_once(part.encoding, body);
            // A long body is split in a few places to save time, a short one in every place.
            let splits: Vec<usize> = if body.len() < 200 {
                (0..=body.len()).collect()
            } else {
                vec![1, body.len() / 3, body.len().saturating_sub(1)]
            };
            for split in splits {
                let (first, rest) = body.split_at(split);
                assert_eq!(
                    in_pieces(part.encoding, &[first, rest]),
                    wanted,
                    "{} at {split}",
                    file.display()
                );
            }
            let bytes: Vec<&[u8]> = body.chunks(1).collect();
            assert_eq!(in_pieces(part.encoding, &bytes), wanted, "{} byte by byte", file.display());
            parts = usize::saturating_add(parts, usize::from(part.encoding != IDENTITY));
            seen = seen.saturating_add(body.len());
        }
    }
    assert!(parts > 100 && seen > 100_000, "{parts} encoded parts in {} files", files.len());
}

proptest! {
    #[test]
    fn any_split_decodes_alike(
        encoding in IDENTITY..=UUENCODE,
        bytes in proptest::collection::vec(prop_oneof![
            4 => proptest::sample::select(b"=A4f \t\r\n+/`#".to_vec()), 1 => any::<u8>()
        ], 0..60),
        split in any::<proptest::sample::Index>(),
    ) {
        let wanted = at_once(encoding, &bytes);
        prop_assert_eq!(&whole(encoding, &bytes), &wanted);
        let (first, rest) = bytes.split_at(split.index(bytes.len().saturating_add(1)));
        prop_assert_eq!(&in_pieces(encoding, &[first, rest]), &wanted);
        let one: Vec<&[u8]> = bytes.chunks(1).collect();
        prop_assert_eq!(&in_pieces(encoding, &one), &wanted);
        prop_assert!(wanted.len() <= bytes.len());
        let begun = [b"begin 644 x\n", bytes.as_slice()].concat();
        let one: Vec<&[u8]> = begun.chunks(1).collect();
        prop_assert_eq!(in_pieces(UUENCODE, &one), at_once(UUENCODE, &begun));
    }
}
