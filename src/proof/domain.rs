//! Compares domains: whether two are equal, or belong to one organisation.
//!
//! - Case, A-labels or U-labels, and a dot at the end make no difference.
//! - An empty domain equals no domain, not even another empty one.
//! - Two domains belong to one organisation if they have the same organisational domain (RFC 7489
//!   §3.1, §3.2). A public suffix, a domain of one label, and an IP address are organisations of
//!   their own.
//! - The public suffix list (`psl`) includes its private part, so that two customers of one
//!   provider are two organisations.

use std::net::IpAddr;

use crate::model::address::fold_domain;

/// Returns a domain in lower-case A-labels, without a dot at the end, to compare it.
pub(super) fn normalize(domain: &str) -> String {
    fold_domain(domain.strip_suffix('.').unwrap_or(domain))
}

pub(super) fn is_same(one: &str, other: &str) -> bool {
    let (one, other) = (normalize(one), normalize(other));
    !one.is_empty() && one == other
}

pub(super) fn is_same_organisation(one: &str, other: &str) -> bool {
    let (one, other) = (normalize(one), normalize(other));
    !one.is_empty() && organisational_domain(&one) == organisational_domain(&other)
}

/// Returns the organisational domain of a normalized domain, or the domain itself if it has none.
fn organisational_domain(domain: &str) -> &str {
    if domain.starts_with('[') || domain.parse::<IpAddr>().is_ok() {
        return domain;
    }
    // `psl` finds none for a public suffix, or for a domain of one label.
    psl::domain_str(domain).unwrap_or(domain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn domains_with_one_organisational_domain_belong_together() {
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
        assert!(!is_same("", "") && !is_same(".", "."));
        assert!(
            is_same("Bücher.example", "xn--bcher-kva.example.")
                && !is_same("a.example.net", "example.net")
        );
    }
}
