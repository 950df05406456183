//! To whom which words are said: people of the organisation and others, each in a language that
//! they read.
//!
//! Where there are words for the sender's own circle, only those are said: what is meant for the
//! organisation never reaches a stranger, nor the other way round. Of these the first in a language
//! that the sender reads (RFC 4647 §3.4), else the first of all.

use super::sender::layers;
use crate::model::address::fold_domain;
use crate::model::{Address, Circle, Identity, VacationResponse};

/// What is said to one sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct ReplyText<'a> {
    /// The language that it is in, where that is known.
    pub(super) language: Option<&'a str>,
    pub(super) subject: Option<&'a str>,
    pub(super) text: Option<&'a str>,
    pub(super) html: Option<&'a str>,
}

/// Where a sender stands: in the organisation are the domains of the account's own addresses, those
/// that stand for them, and those that the response names; not those below them.
///
/// The reply goes to the sender's own domain, so it must be one of these; and where the sender is a
/// forwarder's address (SRS), so must be the domain of whom the forwarder sends it on to.
#[must_use]
pub fn circle(sender: &Address, identity: &Identity, response: &VacationResponse) -> Circle {
    let is_inside = |domain: &str| {
        let mut addresses = identity.addresses.iter().chain([&identity.primary]);
        let stands_for = |(alias, real): &(String, String)| {
            alias == domain && identity.addresses.iter().any(|address| address.domain() == real)
        };
        addresses.any(|address| fold_domain(address.domain()) == domain)
            || identity.alias_domains.iter().any(stands_for)
            || response.organisation.iter().any(|known| known == domain)
    };
    if layers(sender).all(|one| is_inside(one.domain())) {
        Circle::Organisation
    } else {
        Circle::Outside
    }
}

/// The words for somebody of a circle who reads these languages, the best first.
pub(super) fn words<'a>(
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
        let words = ReplyText {
            language: variant.language.as_deref(),
            subject: variant.subject.as_deref(),
            text: variant.text_body.as_deref(),
            html: variant.html_body.as_deref(),
        };
        (variant.circle, words)
    });
    let all: Vec<(Option<Circle>, ReplyText<'_>)> =
        std::iter::once((None, own)).chain(variants).collect();
    let special = all.iter().any(|(of, _)| *of == Some(circle));
    let wanted = if special { Some(circle) } else { None };
    let fitting: Vec<ReplyText<'_>> =
        all.into_iter().filter(|(of, _)| *of == wanted).map(|(_, words)| words).collect();
    let read = languages.iter().find_map(|range| {
        fitting.iter().find(|words| matches_language_range(words.language, range))
    });
    read.or(fitting.first()).copied().unwrap_or_default()
}

/// Whether a tag is of a language range: the range is cut at its end until they are the same (RFC
/// 4647 §3.4); and a tag that says more than the range serves, too.
fn matches_language_range(tag: Option<&str>, range: &str) -> bool {
    let Some(tag) = tag.map(str::to_ascii_lowercase) else { return false };
    is_start(&tag, range) || is_start(range, &tag)
}

fn is_start(start: &str, whole: &str) -> bool {
    whole.strip_prefix(start).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
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
        let languages: Vec<String> = languages.iter().map(|one| (*one).to_owned()).collect();
        words(response, circle, &languages).text.unwrap_or_default()
    }

    #[test]
    fn in_a_language_that_is_read_else_in_the_first() {
        let mut response =
            VacationResponse { text_body: Some("away".into()), ..VacationResponse::default() };
        response.variants =
            vec![variant(Some("de"), None, "weg"), variant(Some("pt-br"), None, "fora")];
        for (languages, text) in [
            (&[][..], "away"),
            (&["de"], "weg"),
            (&["de-ch"], "weg"),
            (&["den"], "away"),
            (&["pt"], "fora"),
            // Who reads another Portuguese has no word for it here.
            (&["pt-pt"], "away"),
            (&["fr", "de"], "weg"),
            (&["*", "de"], "weg"),
            (&["en", "de"], "weg"),
        ] {
            assert_eq!(chosen_text(&response, Circle::Outside, languages), text, "{languages:?}");
        }
        // The first words are in a language, too, once it is said which.
        response.language = Some("en".into());
        assert_eq!(chosen_text(&response, Circle::Outside, &["en-gb", "de"]), "away");
    }

    #[test]
    fn what_is_for_one_circle_never_reaches_the_other() {
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
    fn the_organisation_is_its_domains() {
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
