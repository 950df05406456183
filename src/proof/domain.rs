//! Domains as identities: equal, or of one organisation.
//!
//! Relaxed alignment (RFC 7489 §3.1) asks for the organisational domain (§3.2): one label more than
//! the public suffix, by the public suffix list as it was when the program was built, its private
//! part included, so that two customers of one provider of domains are two organisations. An
//! address literal is nobody's organisation but its own.

use std::net::IpAddr;

use crate::model::address::fold_domain;

/// A domain in the form in which it is compared: lower-case A-labels, without the root's dot.
pub(super) fn folded(domain: &str) -> String {
    fold_domain(domain.strip_suffix('.').unwrap_or(domain))
}

/// Whether two are the same domain.
pub(super) fn same(one: &str, other: &str) -> bool {
    !one.is_empty() && folded(one) == folded(other)
}

/// Whether two are of the same organisation.
pub(super) fn same_organisation(one: &str, other: &str) -> bool {
    let (one, other) = (folded(one), folded(other));
    !one.is_empty() && organisation(&one) == organisation(&other)
}

fn organisation(folded: &str) -> &str {
    if folded.starts_with('[') || folded.parse::<IpAddr>().is_ok() {
        return folded;
    }
    // A public suffix, and a name of one label, stand for themselves alone.
    psl::domain_str(folded).unwrap_or(folded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_organisation_or_two() {
        for (one, other, related) in [
            ("example.net", "EXAMPLE.NET.", true),
            ("news.example.net", "mail.example.net", true),
            ("a.b.c.example.net", "example.net", true),
            ("example.net", "example.com", false),
            ("myexample.net", "example.net", false),
            ("example.net.evil.example", "example.net", false),
            // RFC 7489 §3.2: below a public suffix of two labels.
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
            assert_eq!(same_organisation(one, other), related, "{one} {other}");
            assert_eq!(same_organisation(other, one), related, "{other} {one}");
        }
        assert!(
            same("Bücher.example", "xn--bcher-kva.example.")
                && !same("a.example.net", "example.net")
        );
        assert!(!same("", ""));
    }
}
