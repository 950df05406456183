//! Reads `Authorization` (RFC 9110 §11.6.2): Basic (RFC 7617) and Bearer (RFC 6750 §2.1).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Longest value of an `Authorization` field that is read.
const MAX_FIELD_BYTES: usize = 4096;

/// `Debug` does not show the credentials.
#[derive(Clone, PartialEq, Eq)]
pub enum Credentials {
    Basic { name: String, password: String },
    Bearer(String),
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Basic { .. } => out.write_str("Basic(..)"),
            Self::Bearer(_) => out.write_str("Bearer(..)"),
        }
    }
}

/// Reads the value of an `Authorization` field. Returns `None` for another scheme, and for a value
/// that is malformed, is too long, or has an empty name or password. Whitespace around the value is
/// ignored. The case of the scheme does not matter.
///
/// ```abnf
/// credentials = auth-scheme 1*SP token68
/// Basic       = base64(user-id ":" password), UTF-8, without control characters (RFC 7617 §2)
/// Bearer      = 1*( ALPHA / DIGIT / "-" / "." / "_" / "~" / "+" / "/" ) *"="
/// ```
#[must_use]
pub fn credentials(field: &[u8]) -> Option<Credentials> {
    if field.len() > MAX_FIELD_BYTES {
        return None;
    }
    let (scheme, rest) = std::str::from_utf8(field).ok()?.trim().split_once(' ')?;
    let rest = rest.trim_start_matches(' ');
    if scheme.eq_ignore_ascii_case("basic") {
        let pair = String::from_utf8(STANDARD.decode(rest).ok()?).ok()?;
        let (name, password) = pair.split_once(':')?;
        let is_valid = !name.is_empty() && !password.is_empty() && !pair.contains(char::is_control);
        is_valid
            .then(|| Credentials::Basic { name: name.to_owned(), password: password.to_owned() })
    } else if scheme.eq_ignore_ascii_case("bearer") {
        let token = rest.trim_end_matches('=');
        let is_valid =
            token.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~+/".contains(&byte));
        (is_valid && !token.is_empty()).then(|| Credentials::Bearer(rest.to_owned()))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn basic(pair: &str) -> Option<Credentials> {
        credentials(format!("Basic {}", STANDARD.encode(pair)).as_bytes())
    }

    #[test]
    fn reads_basic_credentials_of_rfc_7617() {
        let expected = |name: &str, password: &str| {
            Some(Credentials::Basic { name: name.into(), password: password.into() })
        };
        assert_eq!(
            credentials(b"Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="),
            expected("Aladdin", "open sesame")
        );
        // RFC 7617 §2.1: the pound sign in UTF-8.
        assert_eq!(credentials("bASIC   dGVzdDoxMjPCow==".as_bytes()), expected("test", "123£"));
        assert_eq!(basic("ann@example.org:a:b"), expected("ann@example.org", "a:b"));
        for pair in ["", ":", "ann", "ann:", ":secret", "ann:a\u{7f}", "an\nn:x"] {
            assert_eq!(basic(pair), None, "{pair:?}");
        }
        // The first is `test:123` and a pound sign in Latin-1, the second has no padding.
        for field in [
            "Basic dGVzdDoxMjOj",
            "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ",
            "Basic !",
            "Basic",
            "Basic ",
            "",
        ] {
            assert_eq!(credentials(field.as_bytes()), None, "{field}");
        }
    }

    #[test]
    fn reads_bearer_tokens_of_rfc_6750() {
        assert_eq!(
            credentials(b"Bearer mF_9.B5f-4.1JqM"),
            Some(Credentials::Bearer("mF_9.B5f-4.1JqM".into()))
        );
        assert_eq!(credentials(b"bearer a+/~=="), Some(Credentials::Bearer("a+/~==".into())));
        for field in ["Bearer ", "Bearer =", "Bearer a b", "Bearer a=b", "Digest a", "Bearer\ta"] {
            assert_eq!(credentials(field.as_bytes()), None, "{field}");
        }
        let long = format!("Bearer {}", "a".repeat(MAX_FIELD_BYTES));
        assert_eq!(credentials(long.as_bytes()), None);
    }

    proptest! {
        #[test]
        fn any_name_and_password_are_read(name in "[^:\\pC]{1,40}", password in "[^\\pC]{1,40}") {
            let read = basic(&format!("{name}:{password}"));
            prop_assert_eq!(read, Some(Credentials::Basic { name, password }));
        }

        #[test]
        fn any_bytes_are_read_without_panic(
            field in proptest::collection::vec(any::<u8>(), 0..100),
        ) {
            drop(credentials(&field));
        }
    }
}
