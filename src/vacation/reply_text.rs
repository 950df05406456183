//! Chooses the text of a reply by the sender's circle and languages.
//!
//! - If the response has texts for the sender's circle, only these are used, else only the texts
//!   for no circle in particular.
//! - Of these, one in a language that the sender reads is used, in the order in which the sender
//!   prefers the languages (`text_in_language`), else the first of all.
//! - The response's own text is for no circle in particular, and comes first.

use super::sender::layers;
use crate::model::{Address, Circle, Identity, VacationResponse};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct ReplyText<'a> {
    /// `None`, in each field: the owner set none.
    pub(super) language: Option<&'a str>,
    pub(super) subject: Option<&'a str>,
    pub(super) text: Option<&'a str>,
    pub(super) html: Option<&'a str>,
}

/// The circle of a sender.
///
/// The organisation has the domains of the account's own addresses, their alias domains, and the
/// domains that the response names; not their subdomains. An address within a tag (as in SRS) must
/// be in one of these domains, too.
///
/// All domains that are compared here are folded (`Identity`, `VacationResponse`, `layers`). If the
/// directory's row of the primary address is damaged, this address is missing in
/// `Identity::addresses`. Its domain is inside even then, but an alias domain of it is inside only
/// if another address of the account is in its domain.
#[must_use]
pub fn circle(sender: &Address, identity: &Identity, response: &VacationResponse) -> Circle {
    let is_inside = |domain: &str| {
        let mut addresses = identity.addresses.iter().chain([&identity.primary]);
        let is_alias_of_own = |(alias, real): &(String, String)| {
            alias == domain && identity.addresses.iter().any(|address| address.domain() == real)
        };
        addresses.any(|address| address.domain() == domain)
            || identity.alias_domains.iter().any(is_alias_of_own)
            || response.organisation.iter().any(|named| named == domain)
    };
    if layers(sender).all(|address| is_inside(address.domain())) {
        Circle::Organisation
    } else {
        Circle::Outside
    }
}

/// Returns the text for a sender of `circle` who reads `languages`: language ranges in lower case,
/// the preferred one first.
pub(super) fn reply_text<'a>(
    response: &'a VacationResponse,
    circle: Circle,
    languages: &[String],
) -> ReplyText<'a> {
    let own = ReplyText {
        language: response.language.as_deref(),
        subject: response.subject.as_deref(),
        text: response.text_body.as_deref(),
        html: response.html_body.as_deref(),
    };
    let variants = response.variants.iter().map(|variant| {
        let text = ReplyText {
            language: variant.language.as_deref(),
            subject: variant.subject.as_deref(),
            text: variant.text_body.as_deref(),
            html: variant.html_body.as_deref(),
        };
        (variant.circle, text)
    });
    let texts: Vec<(Option<Circle>, ReplyText<'_>)> =
        std::iter::once((None, own)).chain(variants).collect();
    let has_text_for_circle = texts.iter().any(|(for_circle, _)| *for_circle == Some(circle));
    let wanted_circle = if has_text_for_circle { Some(circle) } else { None };
    let candidates: Vec<ReplyText<'_>> = texts
        .into_iter()
        .filter(|(for_circle, _)| *for_circle == wanted_circle)
        .map(|(_, text)| text)
        .collect();
    let in_language_read = languages.iter().find_map(|range| text_in_language(&candidates, range));
    in_language_read.or(candidates.first()).copied().unwrap_or_default()
}

/// Returns the text whose language is the range, or else the range without as few of its last
/// subtags as possible (lookup, RFC 4647 §3.4): for `de-CH` a text in `de-CH`, else one in `de`.
/// Without such a text, returns the first in a variety of the language: for `pt` one in `pt-BR`.
/// `*` finds nothing.
fn text_in_language<'t, 'a>(texts: &'t [ReplyText<'a>], range: &str) -> Option<&'t ReplyText<'a>> {
    let tag = |text: &ReplyText<'_>| text.language.unwrap_or_default().to_ascii_lowercase();
    let with_language = || texts.iter().filter(|text| text.language.is_some());
    // Of several maxima, `max_by_key` returns the last.
    with_language()
        .rev()
        .filter(|text| is_subtag_prefix(&tag(text), range))
        .max_by_key(|text| tag(text).len())
        .or_else(|| with_language().find(|text| is_subtag_prefix(range, &tag(text))))
}

fn is_subtag_prefix(prefix: &str, tag: &str) -> bool {
    tag.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Variant;

    fn variant(language: Option<&str>, circle: Option<Circle>, text: &str) -> Variant {
        let language = language.map(str::to_owned);
        Variant { language, circle, text_body: Some(text.into()), ..Variant::default() }
    }

    fn chosen_text<'a>(
        response: &'a VacationResponse,
        circle: Circle,
        languages: &[&str],
    ) -> &'a str {
        let languages: Vec<String> = languages.iter().map(|range| (*range).to_owned()).collect();
        reply_text(response, circle, &languages).text.unwrap_or_default()
    }

    #[test]
    fn text_is_in_a_language_that_the_sender_reads_else_the_first() {
        let mut response =
            VacationResponse { text_body: Some("away".into()), ..VacationResponse::default() };
        response.variants =
            vec![variant(Some("de"), None, "weg"), variant(Some("pt-br"), None, "fora")];
        response.variants.push(variant(Some("de-AT-1996"), None, "furt"));
        response.variants.push(variant(Some("de-AT"), None, "fort"));
        for (languages, text) in [
            (&[][..], "away"),
            (&["de"], "weg"),
            (&["de-ch"], "weg"),
            // The text that is nearest to the range is used, wherever it stands.
            (&["de-at"], "fort"),
            (&["de-at-1901"], "fort"),
            (&["de-at-1996"], "furt"),
            (&["den"], "away"),
            (&["pt"], "fora"),
            // A reader of pt-pt is not sent a text in pt-br.
            (&["pt-pt"], "away"),
            (&["fr", "de"], "weg"),
            (&["*", "de"], "weg"),
            (&["en", "de"], "weg"),
        ] {
            assert_eq!(chosen_text(&response, Circle::Outside, languages), text, "{languages:?}");
        }
        // The first text has a language, too, if the response names it.
        response.language = Some("en".into());
        assert_eq!(chosen_text(&response, Circle::Outside, &["en-gb", "de"]), "away");
    }

    #[test]
    fn text_for_one_circle_never_reaches_the_other() {
        let mut response =
            VacationResponse { text_body: Some("all".into()), ..VacationResponse::default() };
        response.variants = vec![
            variant(None, Some(Circle::Outside), "out"),
            variant(Some("de"), Some(Circle::Outside), "aus"),
            variant(Some("fr"), None, "tous"),
        ];
        assert_eq!(chosen_text(&response, Circle::Outside, &["fr"]), "out");
        assert_eq!(chosen_text(&response, Circle::Outside, &["de"]), "aus");
        assert_eq!(chosen_text(&response, Circle::Organisation, &["de"]), "all");
        assert_eq!(chosen_text(&response, Circle::Organisation, &["fr"]), "tous");
    }

    #[test]
    fn organisation_is_own_alias_and_named_domains() {
        let identity = Identity {
            primary: Address::from_parts("ann", "example.org"),
            name: None,
            addresses: vec![Address::from_parts("ann", "example.org")],
            alias_domains: vec![
                ("example.com".into(), "example.org".into()),
                ("x.example".into(), "y.example".into()),
            ],
            delimiter: Some('+'),
            zone: None,
        };
        let response = VacationResponse {
            organisation: vec!["xn--bcher-kva.example".into()],
            ..Default::default()
        };
        let of = |text: &str| circle(&Address::parse(text).unwrap(), &identity, &response);
        for inside in ["bob@example.org", "bob@EXAMPLE.com", "bob@b\u{fc}cher.example"] {
            assert_eq!(of(inside), Circle::Organisation, "{inside}");
        }
        for outside in
            ["bob@sub.example.org", "bob@example.net", "bob@x.example", "bob@notexample.org"]
        {
            assert_eq!(of(outside), Circle::Outside, "{outside}");
        }
    }
}
