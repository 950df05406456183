//! `Content-Disposition` (RFC 6266) and media types (RFC 9110 §8.3.1) of what is downloaded.

/// Octets of a name that are written.
const MAX_NAME_BYTES: usize = 512;

/// `attachment` with a name, in the old form and in that of RFC 8187; without one where the name is
/// empty.
///
/// The name is the one that was asked for (RFC 8620 §6.2), slashes too: whoever saves the file must
/// not let it lead out of a folder (RFC 6266 §4.3). The old form is ASCII and has `_` for what it
/// cannot say; neither holds anything that could end it, and control characters are left out.
#[must_use]
pub fn attachment(name: &str) -> String {
    let name: String = name.chars().filter(|letter| !letter.is_control()).collect();
    if name.is_empty() {
        return "attachment".to_owned();
    }
    let cut = (0..=MAX_NAME_BYTES.min(name.len()))
        .rev()
        .find(|at| name.is_char_boundary(*at))
        .unwrap_or(0);
    let name = name.get(..cut).unwrap_or_default();
    let plain: String =
        name.chars().map(|letter| if is_plain(letter) { letter } else { '_' }).collect();
    let mut out = format!("attachment; filename=\"{plain}\"; filename*=UTF-8''");
    for octet in name.bytes() {
        // attr-char of RFC 8187 §3.2.1.
        if octet.is_ascii_alphanumeric() || b"!#$&+-.^_`|~".contains(&octet) {
            out.push(char::from(octet));
        } else {
            out.push_str(&format!("%{octet:02X}"));
        }
    }
    out
}

/// Of a quoted text, and with no meaning of its own anywhere (RFC 6266, Appendix D: no percent sign
/// either).
fn is_plain(letter: char) -> bool {
    (letter == ' ' || letter.is_ascii_graphic()) && !['"', '\\', '%'].contains(&letter)
}

/// A media type that may stand in a header: `type/subtype` and parameters, ASCII, bounded. `None`
/// for anything else.
#[must_use]
pub fn media_type(text: &str) -> Option<&str> {
    let is_token = |text: &str| {
        !text.is_empty()
            && text
                .bytes()
                .all(|octet| octet.is_ascii_alphanumeric() || b"!#$&^_.+-".contains(&octet))
    };
    let essence = text.split(';').next().unwrap_or_default().trim_end();
    let (kind, subtype) = essence.split_once('/')?;
    let parameters = text.bytes().all(|octet| octet == b' ' || octet.is_ascii_graphic());
    (text.len() <= 255 && is_token(kind) && is_token(subtype) && parameters).then_some(text)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_of_downloads() {
        for (name, wanted) in [
            ("report.pdf", "filename=\"report.pdf\"; filename*=UTF-8''report.pdf"),
            (
                "Müller & Söhne.txt",
                "filename=\"M_ller & S_hne.txt\"; filename*=UTF-8''M%C3%BCller%20&%20S%C3%B6hne.txt",
            ),
            ("a\"b\\c%2e", "filename=\"a_b_c_2e\"; filename*=UTF-8''a%22b%5Cc%252e"),
            ("a/b", "filename=\"a/b\"; filename*=UTF-8''a%2Fb"),
            (
                "../../etc/passwd\r\nX: y",
                "filename=\"../../etc/passwdX: y\"; filename*=UTF-8''..%2F..%2Fetc%2FpasswdX%3A%20y",
            ),
        ] {
            assert_eq!(attachment(name), format!("attachment; {wanted}"), "{name}");
        }
        assert_eq!(
            (attachment(""), attachment("\r\n")),
            ("attachment".into(), "attachment".into())
        );
        assert!(attachment(&"é".repeat(5_000)).len() < 4 * MAX_NAME_BYTES);
    }

    #[test]
    fn media_types() {
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
            prop_assert!(field.bytes().all(|octet| octet == b' ' || octet.is_ascii_graphic()), "{}", field);
            prop_assert!([0, 2].contains(&field.matches('"').count()), "{}", field);
        }
    }
}
