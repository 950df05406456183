//! Writes `Content-Disposition` (RFC 6266) and checks media types (RFC 9110 §8.3.1) for downloads.

use crate::model::limits;

const MAX_NAME_BYTES: usize = 512;

/// Returns `attachment` with a file name in two forms: `filename` in ASCII, and `filename*` in
/// UTF-8 (RFC 8187). An empty name is left out.
///
/// - The name may contain slashes: the client must not let it lead out of a folder (RFC 6266 §4.3).
/// - Control characters are removed, and the name is cut to `MAX_NAME_BYTES`. In `filename`, `_`
///   replaces `"`, `\`, `%` and characters that are not ASCII.
#[must_use]
pub fn attachment(name: &str) -> String {
    let name: String = name.chars().filter(|char| !char.is_control()).collect();
    if name.is_empty() {
        return "attachment".to_owned();
    }
    let end = (0..=MAX_NAME_BYTES.min(name.len()))
        .rev()
        .find(|index| name.is_char_boundary(*index))
        .unwrap_or(0);
    let name = name.get(..end).unwrap_or_default();
    let ascii: String = name.chars().map(|char| if is_plain(char) { char } else { '_' }).collect();
    let mut out = format!("attachment; filename=\"{ascii}\"; filename*=UTF-8''");
    for byte in name.bytes() {
        // attr-char of RFC 8187 §3.2.1.
        if byte.is_ascii_alphanumeric() || b"!#$&+-.^_`|~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

/// Whether a character may be in a quoted string without an escape. A percent sign may not, because
/// some clients decode it (RFC 6266, Appendix D).
fn is_plain(char: char) -> bool {
    (char == ' ' || char.is_ascii_graphic()) && !['"', '\\', '%'].contains(&char)
}

/// Returns the text if it is a media type for a header field: `type/subtype`, perhaps with
/// parameters, of which only the characters are checked; at most `limits::MAX_MEDIA_TYPE_BYTES`.
#[must_use]
pub fn media_type(text: &str) -> Option<&str> {
    let is_token = |text: &str| {
        !text.is_empty()
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$&^_.+-".contains(&byte))
    };
    let essence = text.split(';').next().unwrap_or_default().trim_end();
    let (kind, subtype) = essence.split_once('/')?;
    let is_printable = text.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic());
    let fits = text.len() <= limits::MAX_MEDIA_TYPE_BYTES;
    (fits && is_token(kind) && is_token(subtype) && is_printable).then_some(text)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn writes_names_in_both_forms() {
        for (name, expected) in [
            ("report.pdf", "filename=\"report.pdf\"; filename*=UTF-8''report.pdf"),
            (
                "Müller & Söhne.txt",
                "filename=\"M_ller & S_hne.txt\"; \
                 filename*=UTF-8''M%C3%BCller%20&%20S%C3%B6hne.txt",
            ),
            ("a\"b\\c%2e", "filename=\"a_b_c_2e\"; filename*=UTF-8''a%22b%5Cc%252e"),
            ("a/b", "filename=\"a/b\"; filename*=UTF-8''a%2Fb"),
            (
                "../../etc/passwd\r\nX: y",
                "filename=\"../../etc/passwdX: y\"; \
                 filename*=UTF-8''..%2F..%2Fetc%2FpasswdX%3A%20y",
            ),
        ] {
            assert_eq!(attachment(name), format!("attachment; {expected}"), "{name}");
        }
        assert_eq!(
            (attachment(""), attachment("\r\n")),
            ("attachment".into(), "attachment".into())
        );
        assert!(attachment(&"é".repeat(5_000)).len() < 4 * MAX_NAME_BYTES);
    }

    #[test]
    fn accepts_only_media_types_for_a_field() {
        for good in [
            "text/plain",
            "text/html; charset=\"utf-8\"",
            "application/vnd.x+json",
            "image/svg+xml ; a=b",
        ] {
            assert_eq!(media_type(good), Some(good));
        }
        for bad in [
            "",
            "text",
            "text/",
            "/plain",
            "text/plain\r\nX: y",
            "te xt/plain",
            "text/plain/x",
            "text/é",
        ] {
            assert_eq!(media_type(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn no_name_ends_the_field(name in ".{0,100}") {
            let field = attachment(&name);
            let is_printable = field.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic());
            prop_assert!(is_printable, "{}", field);
            prop_assert!([0, 2].contains(&field.matches('"').count()), "{}", field);
        }
    }
}
