//! Authentication-Results (RFC 8601), read and trusted.
//!
//! A result counts if its authserv-id is one that the site names, and if it stands above the first Received field that is not
//! the site's own: the topmost one is Postfix's, and further ones whose `by` is such a name. The site's border must strip our
//! authserv-id from incoming mail (RFC 8601 §5); what stands further down is the sender's own writing and is not looked at.

use crate::message::header::{Field, fields};
use crate::model::{Address, address::fold_domain};

/// Whose results are believed, and what they must say.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settings {
    /// The authserv-ids; none: nothing is believed, and nobody is taken for a forger.
    pub authserv_ids: Vec<String>,
    /// What they must say.
    pub policy: Policy,
}

/// What makes a sender a forger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Policy {
    /// Nothing.
    Off,
    /// A failure: of DMARC, or of SPF without an aligned DKIM pass.
    #[default]
    FailOnly,
    /// Anything but a pass: of DMARC, of SPF, or of aligned DKIM.
    Strict,
}

/// One method's result.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Verdict {
    method: String,
    result: String,
    properties: Vec<(String, String)>,
}

/// Why the envelope sender is taken for forged, if it is: for that is where a reply would go.
#[must_use]
pub fn forged(raw: &[u8], sender: Option<&Address>, settings: &Settings) -> Option<String> {
    let sender = sender?;
    if settings.authserv_ids.is_empty() || settings.policy == Policy::Off {
        return None;
    }
    let verdicts = trusted(raw, &settings.authserv_ids);
    let of = |method: &str, result: &str| verdicts.iter().find(|one| one.method == method && one.result == result);
    let aligned = verdicts.iter().any(|one| {
        one.method == "dkim"
            && one.result == "pass"
            && one.properties.iter().any(|(name, value)| match name.as_str() {
                "header.d" => same_organisation(value, sender.domain()),
                "header.i" => same_organisation(value.rsplit('@').next().unwrap_or_default(), sender.domain()),
                _ => false,
            })
    });
    match settings.policy {
        Policy::FailOnly if of("dmarc", "fail").is_some() => Some("dmarc=fail".into()),
        Policy::FailOnly if of("spf", "fail").is_some() && !aligned => Some("spf=fail, no aligned dkim=pass".into()),
        Policy::FailOnly | Policy::Off => None,
        Policy::Strict => {
            let passed = aligned || of("dmarc", "pass").is_some() || of("spf", "pass").is_some();
            (!passed).then(|| "no pass of dmarc, spf or aligned dkim".into())
        }
    }
}

/// All verdicts that count.
fn trusted(raw: &[u8], ids: &[String]) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    let mut first = true;
    for field in fields(raw) {
        if field.is("Received") {
            if !first && !received_by(&field, ids) {
                break;
            }
            first = false;
        } else if field.is("Authentication-Results") {
            verdicts.extend(read(&field.without_comments(), ids));
        }
    }
    verdicts
}

fn received_by(field: &Field<'_>, ids: &[String]) -> bool {
    let value = field.without_comments();
    let mut words = value.split_whitespace();
    words.by_ref().any(|word| word.eq_ignore_ascii_case("by"))
        && words.next().is_some_and(|host| ids.iter().any(|id| id.eq_ignore_ascii_case(host.trim_end_matches(';'))))
}

/// `authserv-id [version] *( ";" method "=" result *( ptype "." property "=" value ) )`; comments are out already.
fn read(value: &str, ids: &[String]) -> Vec<Verdict> {
    let mut clauses = split(value).into_iter();
    let id = clauses.next().unwrap_or_default();
    let id = id.split_whitespace().next().unwrap_or_default().trim_matches('"');
    if !ids.iter().any(|known| known.eq_ignore_ascii_case(id)) {
        return Vec::new();
    }
    clauses.take(100).filter_map(|clause| verdict(&clause)).collect()
}

/// Splits at semicolons outside quotes.
fn split(value: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut quoted = false;
    for c in value.chars() {
        match c {
            ';' if !quoted => parts.push(String::new()),
            _ => {
                quoted ^= c == '"';
                if let Some(part) = parts.last_mut() {
                    part.push(c);
                }
            }
        }
    }
    parts
}

fn verdict(clause: &str) -> Option<Verdict> {
    // Blanks around `=` are allowed.
    let squeezed = clause.split('=').map(str::trim).collect::<Vec<_>>().join("=");
    let mut pairs = squeezed.split_whitespace().filter_map(|word| word.split_once('='));
    let (method, result) = pairs.next()?;
    let method = method.split('/').next().unwrap_or(method);
    let properties =
        pairs.map(|(name, value)| (name.to_ascii_lowercase(), value.trim_matches('"').to_owned())).collect();
    Some(Verdict { method: method.to_ascii_lowercase(), result: result.to_ascii_lowercase(), properties })
}

/// Relaxed alignment (RFC 7489 §3.1): the same organisational domain. Approximated without a list of public suffixes: the
/// last two labels, or three where the one before the last is as short as those of public suffixes (`co.uk`).
fn same_organisation(one: &str, other: &str) -> bool {
    let organisation = |domain: &str| {
        let folded = fold_domain(domain.trim_end_matches('.'));
        let labels: Vec<String> = folded.split('.').map(str::to_owned).collect();
        let short = labels.len() >= 3 && labels.get(labels.len() - 2).is_some_and(|label| label.len() <= 3);
        let keep = if short { 3 } else { 2 };
        labels.get(labels.len().saturating_sub(keep)..).unwrap_or_default().join(".")
    };
    !one.is_empty() && organisation(one) == organisation(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why(header: &str, policy: Policy) -> Option<String> {
        let settings = Settings { authserv_ids: vec!["mx.example.org".into()], policy };
        let sender = Address::from_parts("bob", "mail.example.net");
        forged(format!("{header}\r\n\r\nx").as_bytes(), Some(&sender), &settings)
    }

    #[test]
    fn only_trusted_results_count() {
        let fail = "Authentication-Results: mx.example.org; dmarc=fail (p=none) header.from=example.net";
        assert!(why(fail, Policy::FailOnly).is_some());
        assert!(why(&format!("Received: by mx\r\n{fail}"), Policy::FailOnly).is_some());
        assert!(
            why(&format!("Received: from a by mx\r\nReceived: from b by mx.example.org;\r\n{fail}"), Policy::FailOnly)
                .is_some()
        );
        // Below a stranger's Received it is the sender's own writing.
        assert!(why(&format!("Received: by mx\r\nReceived: from x by evil\r\n{fail}"), Policy::FailOnly).is_none());
        assert!(why(&fail.replace("mx.example.org;", "mx.example.com;"), Policy::FailOnly).is_none());
        assert!(why(fail, Policy::Off).is_none());
        assert!(forged(fail.as_bytes(), None, &Settings::default()).is_none());
    }

    #[test]
    fn policies() {
        let results = |clauses: &str| format!("authentication-results: \"MX.example.org\" 1;\r\n {clauses}");
        for (clauses, fail_only, strict) in [
            ("none", false, true),
            ("spf=fail smtp.mailfrom=x", true, true),
            ("spf=softfail", false, true),
            ("spf=pass", false, false),
            ("spf=fail; dkim=pass header.d=example.net", false, false),
            ("spf=fail; dkim = pass (2048) header.i=@news.EXAMPLE.net", false, false),
            ("spf=fail; dkim=pass header.d=example.com", true, true),
            ("dmarc=pass; spf=fail; dkim=pass header.d=example.net", false, false),
            ("dkim=pass reason=\"a;b\" header.d=example.net; dmarc=fail", true, false),
        ] {
            assert_eq!(why(&results(clauses), Policy::FailOnly).is_some(), fail_only, "{clauses}");
            assert_eq!(why(&results(clauses), Policy::Strict).is_some(), strict, "{clauses}");
        }
        assert!(same_organisation("a.co.uk", "b.a.co.uk") && !same_organisation("a.co.uk", "b.co.uk"));
    }
}
