//! Compares domains: whether two are equal, or belong to one organisation.
//!
//! Relaxed alignment (RFC 7489 §3.1) compares the organisational domain (§3.2): one label more than
//! the public suffix. The public suffix list is the one of the build, with its private part, so
//! that two customers of one provider are two organisations. An address literal is an organisation
//! of its own.

use std::net::IpAddr;

use crate::model::address::fold_domain;

/// Returns a domain in the form in which domains are compared: lower-case A-labels, without the dot
/// of the root.
pub(super) fn normalize(domain: &str) -> String {
    fold_domain(domain.strip_suffix('.').unwrap_or(domain))
}

/// Whether two domains are the same.
pub(super) fn is_same(one: &str, other: &str) -> bool {
    !one.is_empty() && normalize(one) == normalize(other)
}

/// Whether two domains belong to the same organisation.
pub(super) fn is_same_organisation(one: &str, other: &str) -> bool {
    let (one, other) = (normalize(one), normalize(other));
    !one.is_empty() && organisation(&one) == organisation(&other)
}

fn organisation(folded: &str) -> &str {
    if folded.starts_with('[') || folded.parse::<IpAddr>().is_ok() {
        return folded;
    }
    // A public suffix, or a name of one label, is an organisation of its own.
    psl::domain_str(folded).unwrap_or(folded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn domains_are_compared_by_organisation() {
        for (one, other, related) in [
            ("example.net", "EXAMPLE.NET.", true),
            ("news.example.net", "mail.example.net", true),
            ("a.b.c.example.net", "example.net", true),
            ("example.net", "example.com", false),
            ("myexample.net", "example.net", false),
            ("example.net.evil.example", "example.net", false),
            // Below a public suffix of two labels (RFC 7489 §3.2).
            ("x.a.co.uk", "a.co.uk", true),
            ("a.co.uk", "b.co.uk", false),
            ("co.uk", "a.co.uk", false),
            ("co.uk", "co.uk", true),
            ("a.abc.com", "abc.com", true),
            ("a.github.io", "b.github.io", false),
            ("bücher.example", "mail.xn--bcher-kva.example", true),
            ("[192.0.2.1]", "[192.0.2.1]", true),
            ("[192.0.2.1]", "[198.51.2.1]", false),
            ("192.0.2.1", "198.51.2.1", false),
            ("localhost", "localhost", true),
            ("", "", false),
            (".", ".", false),
        ] {
            assert_eq!(is_same_organisation(one, other), related, "{one} {other}");
            assert_eq!(is_same_organisation(other, one), related, "{other} {one}");
        }
        assert!(
            is_same("Bücher.example", "xn--bcher-kva.example.")
                && !is_same("a.example.net", "example.net")
        );
        assert!(!is_same("", ""));
    }
}
