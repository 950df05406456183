use proptest::prelude::*;

use super::*;

fn decode(label: &str, bytes: &[u8]) -> (String, bool) {
    let (text, is_broken) = CharsetCodec::of_label(label)
        .unwrap_or_else(|| panic!("{label} is not known"))
        .decode(bytes);
    (text.into_owned(), is_broken)
}

/// Python's codecs, some of them under other names, decode these bytes to the same texts. They lack
/// only `iso-2022-cn`, and do not end the pairs of HZ with the line (RFC 1843).
#[test]
fn charsets_are_found_by_their_names_and_decoded() {
    let johab = b"\xd0\x65\x8b\x69 \xc9\x41\xaf\x61\xcb\x61 \x88\x41\x84\x61 \xf7\xdb\xe2\xd0 \
        \xd9\x6a\xdc\xe7 \xd3\xbd";
    for (label, bytes, wanted) in [
        ("iso-2022-jp", &b"\x1b$BF|K\\8l%F%9%H\x1b(B."[..], "日本語テスト."),
        ("ISO-2022-JP", b"\x1b$B\x1b(B\x1b$BF|\x1b(B\x1b$BK\\\x1b(B\x1b(B", "日本"),
        ("csISO2022JP", b"\x1b(J\\~\x1b(I1\x1b(B", "¥‾ｱ"),
        (
            "iso-2022-jp-2",
            b"\x1b$(D+1\x1b(B \x1b$BCf\x1b(B \x1b$(CGQ\x1b(B \x1b$AVP\x1b(B \x1b.A\x1bNi",
            "é 中 한 中 é",
        ),
        ("iso-2022-jp-2", b"\x1b.F\x1bNa", "α"),
        ("cp50221", b"\x1b$BF|\x1b(B", "日"),
        ("iso-2022-kr", b"\x1b$)C\x0eGQ19>n\x0f x", "한국어 x"),
        ("iso-2022-cn", b"\x1b$)A\x0eVPND\x0f x", "中文 x"),
        ("hz-gb-2312", b"~{VPND~} ~~ a~\nb", "中文 ~ ab"),
        ("HZ", b"~{VP\nplain", "中\nplain"),
        ("cp932", b"\x93\xfa\x96\x7b\x8c\xea\xc3\xbd\xc4\x87\x40", "日本語ﾃｽﾄ①"),
        ("johab", johab, "한글 테스트 ㄱㅏ 韓國 ★① 힣"),
        ("cp437", b"caf\x82 \xe1 \xfd", "café ß ²"),
        ("IBM437", b"\x82", "é"),
        ("cp852", b"\xa9", "ę"),
        ("unicode-1-1-utf-7", b"Gr+APwA3w-e", "Grüße"),
        ("us-ascii", b"plain", "plain"),
        ("latin1", b"\xfc", "ü"),
    ] {
        assert_eq!(decode(label, bytes), (wanted.to_owned(), false), "{label}");
    }
    assert_eq!(CharsetCodec::of_label("klingon"), None);
    assert_eq!(CharsetCodec::of_label(&"x".repeat(1000)), None);
}

/// An invalid byte, and a pair of bytes that means no character, becomes U+FFFD, except katakana
/// without an escape.
#[test]
fn invalid_bytes_are_reported_and_replaced() {
    assert_eq!(decode("iso-2022-jp", b"a\x1bZb\x1b$BF"), ("a\u{fffd}Zb\u{fffd}".into(), true));
    // Katakana without an escape are decoded, but reported.
    assert_eq!(decode("iso-2022-jp", b"\xb1 x"), ("ｱ x".into(), true));
    assert_eq!(decode("hz-gb-2312", b"a\xff~{V"), ("a\u{fffd}\u{fffd}".into(), true));
    assert_eq!(decode("johab", b"\xff\x20a\x88"), ("\u{fffd} a\u{fffd}".into(), true));
    // CNS 11643 of RFC 1922 is not supported.
    assert_eq!(decode("iso-2022-cn", b"\x1b$)G\x0e!!\x0f x"), ("\u{fffd} x".into(), true));
}

/// A byte that cannot be the second one of a character is a character of its own.
#[test]
fn blanks_and_line_ends_after_the_first_byte_of_a_pair_stay() {
    for (label, bytes, expected) in [
        ("johab", &b"\x88 x"[..], "\u{fffd} x"),
        ("johab", b"\x84\nx", "\u{fffd}\nx"),
        ("johab", b"\x88\x00\xd9 \xff\n", "\u{fffd}\0\u{fffd} \u{fffd}\n"),
        ("iso-2022-jp-2", b"\x1b.A\x1bN\nx", "\u{fffd}N\nx"),
        ("iso-2022-jp-2", b"\x1b.F\x1bN\x1b(B", "\u{fffd}N"),
        ("iso-2022-jp", b"\x1b$BF\nF|", "\u{fffd}\n日"),
        ("hz", b"~{V\nx", "\u{fffd}\nx"),
    ] {
        assert_eq!(decode(label, bytes), (expected.to_owned(), true), "{label} {bytes:?}");
    }
    assert_eq!(decode("iso-2022-jp", b"\x1b$B\x7fF|"), ("\u{7f}日".into(), false));
}

#[test]
fn ascii_with_other_bytes_is_decoded_and_reported() {
    for label in ["us-ascii", "ASCII", "ANSI_X3.4-1968"] {
        assert_eq!(decode(label, "Grüße".as_bytes()), ("Grüße".into(), true), "{label}");
        assert_eq!(decode(label, b"Gr\xfc\xdfe \x80"), ("Grüße €".into(), true), "{label}");
    }
}

#[test]
fn raw_header_bytes_are_utf_8_then_the_declared_charset_then_windows_1252() {
    let koi8 = CharsetCodec::of_label("koi8-r");
    assert_eq!(of_header("Привет".as_bytes(), koi8), "Привет");
    assert_eq!(of_header(b"\xf0\xd2\xc9\xd7\xc5\xd4", koi8), "Привет");
    assert_eq!(of_header(b"caf\xe9", None), "café");
    assert_eq!(of_header(b"caf\xe9", CharsetCodec::of_label("utf-8")), "café");
    assert_eq!(of_header(b"\xe9x", CharsetCodec::of_label("euc-jp")), "éx");
}

proptest! {
    #[test]
    fn any_bytes_decode_to_a_bounded_text(
        bytes in proptest::collection::vec(prop_oneof![
            3 => proptest::sample::select(b"\x1b$()@ABCDNIJ.~{}\x0e\x0f\n!0Fz".to_vec()),
            1 => any::<u8>(),
        ], 0..80),
    ) {
        for label in ["iso-2022-jp-2", "hz", "johab", "cp437", "us-ascii", "cp869"] {
            let (text, _) = decode(label, &bytes);
            prop_assert!(text.len() <= bytes.len().saturating_mul(4), "{}", label);
        }
    }
}
