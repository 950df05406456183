//! From verdicts to a decision: is the envelope sender a forger?
//!
//! It is the envelope sender that is judged, since a reply goes there, whoever the message says it
//! is from. So DMARC's pass, which speaks of the From field, and DKIM's, which speaks of the
//! signer, count for the sender only where they are of the same organisation; and SPF's word counts
//! where it is about the sender and not about HELO (RFC 7208 §2.3) or somebody else.
//!
//! | policy | a forger is |
//! |---|---|
//! | off | nobody |
//! | fail-only | who fails DMARC, or fails SPF without an aligned pass of DKIM |
//! | strict | the same, and whoever has no pass: of aligned DKIM or DMARC, or of SPF |
//!
//! An error, temporary or for good, is no failure: nobody is called a forger because a name server
//! was down. But it hides no failure of another method: only a signature that names the sender's
//! organisation can do so (`dkim=temperror`).

use super::domain::{same, same_organisation};
use super::results::MethodResult;
use crate::model::Address;

/// What makes a sender a forger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Policy {
    Off,
    /// A failure: of DMARC, or of SPF without an aligned DKIM pass.
    #[default]
    FailOnly,
    /// A failure, and also that there is no pass: of DMARC, of SPF, or of aligned DKIM.
    Strict,
}

/// Returns why `sender` is taken for forged, if that is so.
pub(super) fn judge(verdicts: &[MethodResult], sender: &Address, policy: Policy) -> Option<String> {
    if policy == Policy::Off {
        return None;
    }
    let aligned = verdicts.iter().any(|one| aligned_pass(one, sender));
    let failure = verdicts
        .iter()
        .find(|one| one.is("dmarc", "fail"))
        .map(|one| said(one, "header.from", ""))
        .or_else(|| {
            let spf = verdicts.iter().find(|one| fails_spf(one) && is_about(one, sender))?;
            let open = verdicts.iter().any(|one| open_signature(one, sender));
            (!aligned && !open).then(|| said(spf, "smtp.mailfrom", ", no aligned dkim=pass"))
        });
    if failure.is_some() || policy == Policy::FailOnly {
        return failure;
    }
    let passed =
        aligned || verdicts.iter().any(|one| one.is("spf", "pass") && is_about(one, sender));
    (!passed).then(|| "no pass of dmarc, spf or aligned dkim".into())
}

/// A pass of DKIM or DMARC that speaks of the sender's organisation, with no other one named beside
/// it.
fn aligned_pass(one: &MethodResult, sender: &Address) -> bool {
    let names: &[&str] = match one.method.as_str() {
        "dkim" => &["header.d", "header.i"],
        "dmarc" => &["header.from"],
        _ => return false,
    };
    one.result == "pass" && names_organisation(one, names, sender)
}

/// A signature of the sender's organisation that could not be verified for now. One that names no
/// domain may be anybody's, and says nothing for the sender.
fn open_signature(one: &MethodResult, sender: &Address) -> bool {
    one.is("dkim", "temperror") && names_organisation(one, &["header.d", "header.i"], sender)
}

/// Whether a verdict names the sender's organisation in these properties, and no other one beside
/// it.
fn names_organisation(one: &MethodResult, properties: &[&str], sender: &Address) -> bool {
    let mut named = properties.iter().flat_map(|name| one.values(name)).map(domain_of).peekable();
    named.peek().is_some() && named.all(|domain| same_organisation(domain, sender.domain()))
}

/// `hardfail` is what RFC 5451 called it.
fn fails_spf(one: &MethodResult) -> bool {
    one.is("spf", "fail") || one.is("spf", "hardfail")
}

/// Whether a result of SPF is about the envelope sender.
fn is_about(one: &MethodResult, sender: &Address) -> bool {
    let mut named = one.values("smtp.mailfrom").map(domain_of).peekable();
    if named.peek().is_none() {
        return one.values("smtp.helo").next().is_none();
    }
    named.all(|domain| same(domain, sender.domain()))
}

/// The domain of an address, or the domain.
fn domain_of(value: &str) -> &str {
    let bare = value.trim_start_matches('<').trim_end_matches('>');
    bare.rsplit('@').next().unwrap_or(bare)
}

/// A verdict as the owner reads it, of bounded length.
fn said(one: &MethodResult, property: &str, more: &str) -> String {
    let value =
        one.values(property).next().map(|value| format!(" {property}={value}")).unwrap_or_default();
    let text = format!("{}={}{value}", one.method, one.result);
    let text: String = text.chars().filter(|c| !c.is_control()).take(200).collect();
    format!("{text}{more}")
}

#[cfg(test)]
mod tests;
