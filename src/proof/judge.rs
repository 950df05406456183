//! Decides from the results of SPF, DKIM and DMARC whether the envelope sender is a forger.
//!
//! - A reply goes to the envelope sender, whatever From says. So a pass of DMARC (about From) or of
//!   DKIM (about the signer) counts only if it names the organisation of the sender: an *aligned*
//!   pass. SPF counts only if it is about the sender, and not about HELO (RFC 7208 §2.3) or another
//!   address.
//! - An error, temporary or permanent, is no failure. A signature of the sender's organisation that
//!   cannot be verified for now (`dkim=temperror`) hides a failure of SPF, like an aligned pass.
//!
//! | policy | who is a forger |
//! |---|---|
//! | off | nobody |
//! | fail-only | a sender who fails DMARC, or who fails SPF and has no aligned pass |
//! | strict | as fail-only, and a sender who has neither an aligned pass nor a pass of SPF |

use super::domain::{is_same, is_same_organisation};
use super::results::MethodResult;
use crate::model::Address;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Policy {
    Off,
    /// Failures of DMARC, and failures of SPF unless DKIM or DMARC has an aligned pass, or a
    /// signature of the sender's organisation cannot be verified for now.
    #[default]
    FailOnly,
    /// As `FailOnly`, and also the lack of any pass: of SPF, or an aligned one of DKIM or DMARC.
    Strict,
}

/// Returns why the results make the sender a forger, by the policy; `None` if they do not.
pub(super) fn judge(results: &[MethodResult], sender: &Address, policy: Policy) -> Option<String> {
    if policy == Policy::Off {
        return None;
    }
    let has_aligned_pass = results.iter().any(|result| is_aligned_pass(result, sender));
    let failure = results
        .iter()
        .find(|result| result.is("dmarc", "fail"))
        .map(|result| reason(result, "header.from", ""))
        .or_else(|| {
            let spf =
                results.iter().find(|result| fails_spf(result) && is_about(result, sender))?;
            let is_unverified =
                results.iter().any(|result| is_unverified_signature(result, sender));
            (!has_aligned_pass && !is_unverified)
                .then(|| reason(spf, "smtp.mailfrom", ", no aligned dkim=pass"))
        });
    if failure.is_some() || policy == Policy::FailOnly {
        return failure;
    }
    let has_pass = has_aligned_pass
        || results.iter().any(|result| result.is("spf", "pass") && is_about(result, sender));
    (!has_pass).then(|| "no pass of spf, and no aligned one of dkim or dmarc".into())
}

/// Whether a result is a pass of DKIM or DMARC that names the organisation of the sender, and no
/// other.
fn is_aligned_pass(result: &MethodResult, sender: &Address) -> bool {
    let names: &[&str] = match result.method.as_str() {
        "dkim" => &["header.d", "header.i"],
        "dmarc" => &["header.from"],
        _ => return false,
    };
    result.result == "pass" && names_organisation(result, names, sender)
}

/// Whether a result is a signature of the organisation of the sender that cannot be verified for
/// now. A signature that names no domain may be of anybody.
fn is_unverified_signature(result: &MethodResult, sender: &Address) -> bool {
    result.is("dkim", "temperror") && names_organisation(result, &["header.d", "header.i"], sender)
}

/// Whether a result has one of the properties, and all of them name the organisation of the sender.
fn names_organisation(result: &MethodResult, properties: &[&str], sender: &Address) -> bool {
    let mut domains =
        properties.iter().flat_map(|name| result.values(name)).map(domain_of).peekable();
    domains.peek().is_some() && domains.all(|domain| is_same_organisation(domain, sender.domain()))
}

/// Whether a result is a failure of SPF. RFC 5451 called it `hardfail`.
fn fails_spf(result: &MethodResult) -> bool {
    result.is("spf", "fail") || result.is("spf", "hardfail")
}

/// Whether a result of SPF is about the envelope sender: `smtp.mailfrom` names the sender's domain.
/// A result without `smtp.mailfrom` is about the sender, too, but not if it has `smtp.helo`.
fn is_about(result: &MethodResult, sender: &Address) -> bool {
    let mut domains = result.values("smtp.mailfrom").map(domain_of).peekable();
    if domains.peek().is_none() {
        return result.values("smtp.helo").next().is_none();
    }
    domains.all(|domain| is_same(domain, sender.domain()))
}

/// Returns what follows the last `@` of an address, without angle brackets, or the whole value if
/// it has no `@`.
fn domain_of(value: &str) -> &str {
    let unbracketed = value.trim_start_matches('<').trim_end_matches('>');
    unbracketed.rsplit('@').next().unwrap_or(unbracketed)
}

/// Describes a result for the owner, with the first value of `property`: at most 200 characters and
/// no control characters, and then `suffix`.
fn reason(result: &MethodResult, property: &str, suffix: &str) -> String {
    let value = result
        .values(property)
        .next()
        .map(|value| format!(" {property}={value}"))
        .unwrap_or_default();
    let text = format!("{}={}{value}", result.method, result.result);
    let text: String = text.chars().filter(|c| !c.is_control()).take(200).collect();
    format!("{text}{suffix}")
}

#[cfg(test)]
mod tests;
