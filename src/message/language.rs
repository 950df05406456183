//! Reads which languages the sender of a message understands (RFC 3282): those of `Accept-Language`
//! by weight, then those of `Content-Language`, in which the sender writes.

use super::header::{Field, Header};
use crate::model::limits;

/// Returns language tags in lower case, each once, the most wanted first; `*` stands for any
/// language. A tag to which `Accept-Language` gives the weight 0 is left out. Of each of the two
/// kinds of field, the first `limits::MAX_LANGUAGES` tags are read.
#[must_use]
pub fn languages(header: &Header<'_>) -> Vec<String> {
    let (mut accepted, mut written) = (Vec::new(), Vec::new());
    for field in header.fields() {
        if field.is("Accept-Language") {
            accepted.extend(weighted_tags(&field));
        } else if field.is("Content-Language") {
            written.extend(weighted_tags(&field));
        }
        accepted.truncate(limits::MAX_LANGUAGES);
        written.truncate(limits::MAX_LANGUAGES);
    }
    accepted.sort_by_key(|(_, weight)| std::cmp::Reverse(*weight));
    let unwanted: Vec<String> =
        accepted.iter().filter(|(_, weight)| *weight == 0).map(|(tag, _)| tag.clone()).collect();
    let mut out: Vec<String> = Vec::new();
    for (tag, _) in accepted.into_iter().chain(written) {
        if !unwanted.contains(&tag) && !out.contains(&tag) {
            out.push(tag);
        }
    }
    out
}

/// The valid tags of a field, with their weights in thousandths; 1000 without a weight.
fn weighted_tags(field: &Field<'_>) -> Vec<(String, u16)> {
    let value = field.without_comments().to_ascii_lowercase();
    let parse_item = |item: &str| {
        let mut parts = item.split(';').map(str::trim);
        let tag = parts.next().filter(|tag| is_tag(tag))?.to_owned();
        let weight = parts.find_map(|part| part.strip_prefix('q')?.trim_start().strip_prefix('='));
        Some((tag, weight.map_or(1000, thousandths)))
    };
    value.split(',').filter_map(parse_item).take(limits::MAX_LANGUAGES).collect()
}

fn is_tag(tag: &str) -> bool {
    let subtag =
        |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric());
    tag == "*" || (tag.len() <= limits::MAX_LANGUAGE_TAG_BYTES && tag.split('-').all(subtag))
}

/// Parses a weight: `0.8` is 800. `1`, and whatever begins with `1.`, is 1000, even if it is
/// invalid, as `1.5`. Any other invalid weight is 0. Only three digits of a fraction are read.
fn thousandths(text: &str) -> u16 {
    let (whole, fraction) = text.trim().split_once('.').unwrap_or((text.trim(), ""));
    // `parse` would take a sign.
    let is_valid = fraction.bytes().all(|byte| byte.is_ascii_digit());
    let digits: String = fraction.chars().chain("000".chars()).take(3).collect();
    match whole {
        "0" if is_valid => digits.parse().unwrap_or(0),
        "1" => 1000,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn languages_are_sorted_by_weight_then_content_language() {
        let parse =
            |header: &str| languages(&Header::split(format!("{header}\r\n\r\nx").as_bytes()));
        assert_eq!(parse("Accept-Language: da, en-GB;q=0.8, en;q=0.7"), ["da", "en-gb", "en"]);
        assert_eq!(
            parse("accept-language: en;q=0.5, de (deutsch) ; q=0.9,\r\n fr"),
            ["fr", "de", "en"]
        );
        assert_eq!(parse("Content-Language: de\r\nAccept-Language: en"), ["en", "de"]);
        assert_eq!(
            parse("Accept-Language: de;q=0, en, *;q=0.1\r\nContent-Language: de"),
            ["en", "*"]
        );
        assert_eq!(parse("Accept-Language: , ;q=1, x y, de_DE, \u{fc}, en;q=2, fr;q=x"), [""; 0]);
        for weight in ["0.+5", "0.-5", "0.5x", "0.1234+", "+0.5", "0."] {
            assert_eq!(parse(&format!("Accept-Language: de;q={weight}")), [""; 0], "{weight}");
        }
        assert_eq!(parse("Accept-Language: de;q=0.0009, en;q=0.0011"), ["en"]);
        assert_eq!(parse("Subject: x"), [""; 0]);
        let many: String = (0..500).map(|n| format!("x-{n},")).collect();
        assert_eq!(
            parse(&format!("Accept-Language: {many}\r\nAccept-Language: {many}")).len(),
            limits::MAX_LANGUAGES
        );
    }
}
