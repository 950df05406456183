//! A mail address: local part and domain, as data.
//!
//! Reading an address out of an SMTP path is `wire::smtp::path`'s, out of a header field
//! `message`'s; here is what they give, how two are compared, and how one is written (RFC 5321
//! §4.1.2, RFC 6531 §3.3).

use std::fmt;

use super::limits;

/// Local part and domain. The local part is without quotes; the domain may be an address literal in
/// brackets, or empty (`<Postmaster>`, RFC 5321 §4.1.1.3).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    local: String,
    domain: String,
}

/// Why a text is no address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// No `@` with something on either side.
    #[error("an address has the form user@domain")]
    Shape,
    /// A control character.
    #[error("an address cannot hold control characters")]
    Control,
    /// Local part over 256 octets or domain over 255 (RFC 5321 §4.5.3.1).
    #[error("the address is too long")]
    Long,
    /// The domain is not one (RFC 1035 §2.3.1, RFC 5890).
    #[error("the domain is not well formed")]
    Domain,
}

impl Address {
    /// Puts an address together from parts already known to be well formed.
    #[must_use]
    pub fn from_parts(local: impl Into<String>, domain: impl Into<String>) -> Self {
        Self { local: local.into(), domain: domain.into() }
    }

    /// Reads `user@domain`, also with a quoted local part, as people and configuration files write
    /// it.
    ///
    /// # Errors
    /// Says what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, AddressError> {
        let text = text.trim();
        if text.chars().any(char::is_control) {
            return Err(AddressError::Control);
        }
        let (local, domain) = text.rsplit_once('@').ok_or(AddressError::Shape)?;
        let local = match local.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
            Some(quoted) => unescape(quoted).ok_or(AddressError::Shape)?,
            None if is_dot_atom(local) => local.to_owned(),
            None => return Err(AddressError::Shape),
        };
        if local.is_empty() || domain.is_empty() {
            return Err(AddressError::Shape);
        }
        if local.len() > limits::MAX_LOCAL_PART_BYTES || domain.len() > limits::MAX_DOMAIN_BYTES {
            return Err(AddressError::Long);
        }
        if !domain_is_well_formed(domain) {
            return Err(AddressError::Domain);
        }
        Ok(Self { local, domain: domain.to_owned() })
    }

    /// The local part, without quotes.
    #[must_use]
    pub fn local(&self) -> &str {
        &self.local
    }

    /// The domain as given; an address literal keeps its brackets.
    #[must_use]
    pub fn domain(&self) -> &str {
        &self.domain
    }

    /// The form in which addresses are compared: local part in lower case, domain in lower-case
    /// A-labels (RFC 5890).
    #[must_use]
    pub fn folded(&self) -> Self {
        Self { local: self.local.to_lowercase(), domain: fold_domain(&self.domain) }
    }

    /// Splits `user+detail` at the first `delimiter` (RFC 5233). A leading delimiter splits
    /// nothing.
    #[must_use]
    pub fn split_detail(&self, delimiter: char) -> (Self, Option<&str>) {
        match self.local.split_once(delimiter) {
            Some((user, detail)) if !user.is_empty() => {
                (Self::from_parts(user, &*self.domain), Some(detail))
            }
            _ => (self.clone(), None),
        }
    }

    /// `org.example@user`-like form with the domain's labels reversed, so that a prefix is a
    /// domain: for search tokens.
    #[must_use]
    pub fn reversed_domain(&self) -> String {
        let folded = self.folded();
        let mut labels: Vec<&str> = folded.domain.split('.').collect();
        labels.reverse();
        format!("{}@{}", labels.join("."), folded.local)
    }

    /// The form in which it travels: with the domain in A-labels where that makes it ASCII; as it
    /// stands where nothing but SMTPUTF8 can carry it.
    #[must_use]
    pub fn travelling(&self) -> Self {
        if self.needs_smtputf8() || self.domain.is_ascii() {
            return self.clone();
        }
        Self { local: self.local.clone(), domain: fold_domain(&self.domain) }
    }

    /// Whether it can only travel with SMTPUTF8 (RFC 6531).
    #[must_use]
    pub fn needs_smtputf8(&self) -> bool {
        !self.local.is_ascii() || !fold_domain(&self.domain).is_ascii()
    }
}

/// A domain in lower-case A-labels; as it stands in lower case where IDNA refuses it.
#[must_use]
pub fn fold_domain(domain: &str) -> String {
    if domain.is_ascii() && !domain.contains("xn--") {
        return domain.to_ascii_lowercase();
    }
    idna::domain_to_ascii(domain).unwrap_or_else(|_| domain.to_lowercase())
}

/// `Dot-string` of RFC 5321 §4.1.2, with RFC 6531 §3.3's UTF-8.
#[must_use]
pub fn is_dot_atom(local: &str) -> bool {
    local.split('.').all(|atom| !atom.is_empty() && atom.chars().all(is_atext))
}

fn is_atext(c: char) -> bool {
    !c.is_ascii() && !c.is_control()
        || c.is_ascii_alphanumeric()
        || "!#$%&'*+-/=?^_`{|}~".contains(c)
}

/// `Domain` or `address-literal` of RFC 5321 §4.1.2; underscores are let through, for they are out
/// there.
#[must_use]
pub fn domain_is_well_formed(domain: &str) -> bool {
    if let Some(literal) = domain.strip_prefix('[') {
        return literal.strip_suffix(']').is_some_and(|inner| {
            !inner.is_empty() && inner.bytes().all(|b| matches!(b, 33..=90 | 94..=126))
        });
    }
    let domain = fold_domain(domain);
    !domain.is_empty()
        && domain.is_ascii()
        && domain.split('.').all(|label| {
            !label.is_empty()
                && label.len() <= 63
                && !label.starts_with('-')
                && !label.ends_with('-')
                && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
        })
}

fn unescape(quoted: &str) -> Option<String> {
    let mut out = String::with_capacity(quoted.len());
    let mut chars = quoted.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => out.push(chars.next()?),
            '"' => return None,
            other => out.push(other),
        }
    }
    Some(out)
}

impl fmt::Display for Address {
    /// Writes it as a path holds it, the local part quoted where it must be (RFC 5321 §4.1.2).
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if is_dot_atom(&self.local) {
            out.write_str(&self.local)?;
        } else {
            out.write_str("\"")?;
            for c in self.local.chars() {
                if matches!(c, '"' | '\\') {
                    out.write_str("\\")?;
                }
                write!(out, "{c}")?;
            }
            out.write_str("\"")?;
        }
        if self.domain.is_empty() { Ok(()) } else { write!(out, "@{}", self.domain) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_and_writes() {
        for (text, local, domain) in [
            ("a@example.org", "a", "example.org"),
            ("\"a b\"@example.org", "a b", "example.org"),
            ("\"a\\\"b\"@example.org", "a\"b", "example.org"),
            ("a@[192.0.2.1]", "a", "[192.0.2.1]"),
            ("jürgen@bücher.example", "jürgen", "bücher.example"),
        ] {
            let address = Address::parse(text).unwrap();
            assert_eq!((address.local(), address.domain()), (local, domain));
            assert_eq!(address.to_string(), text);
        }
        for text in ["", "a", "@b", "a@", "a b@c", "a..b@c", "a@b..c", "a@-b", "a\r\n@b", "a@b c"] {
            assert!(Address::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn folding_compares() {
        let folded = Address::parse("Jo.E+Tag@BÜCHER.example").unwrap().folded();
        assert_eq!(folded.to_string(), "jo.e+tag@xn--bcher-kva.example");
        let (base, detail) = folded.split_detail('+');
        assert_eq!((base.local(), detail), ("jo.e", Some("tag")));
        assert_eq!(Address::from_parts("a", "b.example.org").reversed_domain(), "org.example.b@a");
        assert!(Address::parse("jürgen@example.org").unwrap().needs_smtputf8());
        let domain_alone = Address::parse("J@Bücher.example").unwrap();
        assert!(!domain_alone.needs_smtputf8());
        assert_eq!(domain_alone.travelling().to_string(), "J@xn--bcher-kva.example");
        assert_eq!(
            Address::parse("jü@bücher.example").unwrap().travelling().to_string(),
            "jü@bücher.example"
        );
    }
}
