//! Mail addresses: how they are compared and written (RFC 5321 §4.1.2, RFC 6531 §3.3).

use std::borrow::Cow;
use std::fmt;

use super::limits;

/// A mail address. The local part is stored without quotes. The domain may be an address literal
/// in brackets, or empty (`<Postmaster>`, RFC 5321 §4.1.1.3). `parse` accepts no empty domain.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    local: String,
    domain: String,
}

/// Why a text is not a mail address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// There is no `@` with text on both sides, or the local part is not well formed.
    #[error("an address has the form user@domain")]
    Shape,
    #[error("an address cannot hold control characters")]
    Control,
    #[error("the address is too long")]
    Long,
    /// RFC 1035 §2.3.1, RFC 5890.
    #[error("the domain is not well formed")]
    Domain,
}

impl Address {
    /// Builds an address from parts that are known to be well formed.
    #[must_use]
    pub fn from_parts(local: impl Into<String>, domain: impl Into<String>) -> Self {
        Self { local: local.into(), domain: domain.into() }
    }

    /// Parses `user@domain` as people write it; the local part may be quoted. Blanks around the
    /// whole are ignored. Letter case and U-labels are kept.
    pub fn parse(text: &str) -> Result<Self, AddressError> {
        let (local, domain) = split(text)?;
        Ok(Self { local: local.into_owned(), domain: domain.to_owned() })
    }

    /// Parses as `parse` does, without bounds on the lengths: `folded` may make an address longer.
    pub fn parse_any_length(text: &str) -> Result<Self, AddressError> {
        let (local, domain) = split_any_length(text)?;
        Ok(Self { local: local.into_owned(), domain: domain.to_owned() })
    }

    /// Returns the folded form; `Long` if it goes beyond the bounds of `parse`.
    pub fn folded_within_bounds(&self) -> Result<Self, AddressError> {
        let folded = self.folded();
        check_lengths(&folded.local, &folded.domain)?;
        Ok(folded)
    }

    #[must_use]
    pub fn local(&self) -> &str {
        &self.local
    }

    #[must_use]
    pub fn domain(&self) -> &str {
        &self.domain
    }

    /// Returns the form in which addresses are compared: the local part in lower case, the domain
    /// in lower-case A-labels (RFC 5890). The directory has a form of its own (`stored_form` in
    /// `account`), because a site may distinguish case in local parts.
    #[must_use]
    pub fn folded(&self) -> Self {
        Self { local: self.local.to_lowercase(), domain: fold_domain(&self.domain) }
    }

    /// Splits `user+detail` at the first `delimiter` (RFC 5233). A delimiter at the start does not
    /// split.
    #[must_use]
    pub fn split_detail(&self, delimiter: char) -> (Self, Option<&str>) {
        match self.local.split_once(delimiter) {
            Some((user, detail)) if !user.is_empty() => {
                (Self::from_parts(user, &*self.domain), Some(detail))
            }
            _ => (self.clone(), None),
        }
    }

    /// Returns the form for search tokens, such as `org.example@user`: folded, with the labels of
    /// the domain reversed, so that a prefix of the token is a parent domain.
    #[must_use]
    pub fn reversed_domain(&self) -> String {
        let mut out = String::new();
        push_reversed(&self.local, &self.domain, &mut out);
        out
    }

    /// Parses an address, and appends its form for search tokens.
    pub fn push_reversed_domain(text: &str, out: &mut String) -> Result<(), AddressError> {
        split(text).map(|(local, domain)| push_reversed(&local, domain, out))
    }

    /// Returns the form that is sent: with the domain in A-labels if that makes the address ASCII,
    /// and unchanged if it needs SMTPUTF8.
    #[must_use]
    pub fn wire_form(&self) -> Self {
        if self.needs_smtputf8() || self.domain.is_ascii() {
            return self.clone();
        }
        Self { local: self.local.clone(), domain: fold_domain(&self.domain) }
    }

    /// Whether the address can only be sent with SMTPUTF8 (RFC 6531).
    #[must_use]
    pub fn needs_smtputf8(&self) -> bool {
        !self.local.is_ascii() || !fold_domain(&self.domain).is_ascii()
    }
}

/// Parses `user@domain` into the local part without quotes, and the domain.
fn split(text: &str) -> Result<(Cow<'_, str>, &str), AddressError> {
    let (local, domain) = split_any_length(text)?;
    check_lengths(&local, domain)?;
    Ok((local, domain))
}

/// Checks the lengths of the parts of an address.
///
/// # Errors
/// `Long`.
fn check_lengths(local: &str, domain: &str) -> Result<(), AddressError> {
    if local.len() > limits::MAX_LOCAL_PART_BYTES || domain.len() > limits::MAX_DOMAIN_BYTES {
        return Err(AddressError::Long);
    }
    Ok(())
}

fn split_any_length(text: &str) -> Result<(Cow<'_, str>, &str), AddressError> {
    let text = text.trim();
    if text.chars().any(char::is_control) {
        return Err(AddressError::Control);
    }
    let (local, domain) = text.rsplit_once('@').ok_or(AddressError::Shape)?;
    let local = match local.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        Some(quoted) => Cow::Owned(unescape(quoted).ok_or(AddressError::Shape)?),
        None if is_dot_atom(local) => Cow::Borrowed(local),
        None => return Err(AddressError::Shape),
    };
    if local.is_empty() || domain.is_empty() {
        return Err(AddressError::Shape);
    }
    if !domain_is_well_formed(domain) {
        return Err(AddressError::Domain);
    }
    Ok((local, domain))
}

/// Appends an address with the labels of its domain reversed, in the form of `Address::folded`.
fn push_reversed(local: &str, domain: &str, out: &mut String) {
    let start = out.len();
    let is_plain = is_plain_domain(domain) && local.is_ascii();
    let folded_domain = if is_plain { Cow::Borrowed(domain) } else { fold_domain(domain).into() };
    for (index, label) in folded_domain.rsplit('.').enumerate() {
        if index > 0 {
            out.push('.');
        }
        out.push_str(label);
    }
    out.push('@');
    if !is_plain {
        out.push_str(&local.to_lowercase());
        return;
    }
    out.push_str(local);
    if let Some(added) = out.get_mut(start..) {
        added.make_ascii_lowercase();
    }
}

/// Whether a domain only needs lower case, and no IDNA, to be compared.
fn is_plain_domain(domain: &str) -> bool {
    domain.is_ascii() && !domain.contains("xn--")
}

/// Returns a domain in lower-case A-labels, or in lower case if IDNA refuses the domain.
#[must_use]
pub fn fold_domain(domain: &str) -> String {
    if is_plain_domain(domain) {
        return domain.to_ascii_lowercase();
    }
    idna::domain_to_ascii(domain).unwrap_or_else(|_| domain.to_lowercase())
}

/// Whether a local part is a `Dot-string` of RFC 5321 §4.1.2, with the UTF-8 of RFC 6531 §3.3.
#[must_use]
pub fn is_dot_atom(local: &str) -> bool {
    local.split('.').all(|atom| !atom.is_empty() && atom.chars().all(is_atext))
}

fn is_atext(c: char) -> bool {
    (!c.is_ascii() && !c.is_control())
        || c.is_ascii_alphanumeric()
        || "!#$%&'*+-/=?^_`{|}~".contains(c)
}

/// Whether a text is a `Domain` of RFC 5321 §4.1.2, of any length, or an `address-literal`: any
/// printable ASCII but `[`, `\` and `]`, in brackets. U-labels (RFC 5890) are accepted too, and
/// underscores, because real domains have them.
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

/// Returns the content of a quoted string without escapes. `None` if a quote in it is not escaped,
/// or nothing follows a backslash.
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
    /// Writes the form of an SMTP path (RFC 5321 §4.1.2), without angle brackets.
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
    fn addresses_are_folded_split_and_prepared_for_sending() {
        let folded = Address::parse("Jo.E+Tag@BÜCHER.example").unwrap().folded();
        assert_eq!(folded.to_string(), "jo.e+tag@xn--bcher-kva.example");
        let (base, detail) = folded.split_detail('+');
        assert_eq!((base.local(), detail), ("jo.e", Some("tag")));
        assert_eq!(Address::from_parts("a", "b.example.org").reversed_domain(), "org.example.b@a");
        assert!(Address::parse("jürgen@example.org").unwrap().needs_smtputf8());
        let domain_alone = Address::parse("J@Bücher.example").unwrap();
        assert!(!domain_alone.needs_smtputf8());
        assert_eq!(domain_alone.wire_form().to_string(), "J@xn--bcher-kva.example");
        assert_eq!(
            Address::parse("jü@bücher.example").unwrap().wire_form().to_string(),
            "jü@bücher.example"
        );
    }
}
