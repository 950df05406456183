//! Returns the `alt` and `title` attributes of HTML, which are searched together with its text (RFC
//! 8621 §4.4.1), in linear time.

/// Elements whose content is skipped, but not their own attributes.
const INVISIBLE_ELEMENTS: [&str; 3] = ["head", "script", "style"];

/// Returns the values with entities decoded, up to the first with which they would have more than
/// `max` bytes in all. Comments and `INVISIBLE_ELEMENTS` are skipped.
pub(super) fn titles(html: &str, max: usize) -> Vec<String> {
    let (mut out, mut left, mut rest) = (Vec::new(), max, html);
    while let Some((_, tag)) = rest.split_once('<') {
        if let Some(comment) = tag.strip_prefix("!--") {
            rest = comment.split_once("-->").map_or("", |(_, after)| after);
            continue;
        }
        rest = tag;
        let end = tag.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(tag.len());
        let (name, mut attributes) = tag.split_at_checked(end).unwrap_or_default();
        if name.is_empty() {
            continue;
        }
        while let Some((attribute, value, after)) = attribute(attributes) {
            attributes = after;
            if ["alt", "title"].iter().any(|wanted| attribute.eq_ignore_ascii_case(wanted)) {
                let text = mail_parser::html_to_text(value);
                let Some(room) = left.checked_sub(text.len()) else { return out };
                left = room;
                out.push(text);
            }
        }
        rest = attributes;
        if let Some(element) =
            INVISIBLE_ELEMENTS.iter().find(|element| name.eq_ignore_ascii_case(element))
        {
            rest = after_end(rest, element);
        }
    }
    out
}

/// Parses the next attribute of a tag: its name, its value, and the rest. `None` at the end.
fn attribute(text: &str) -> Option<(&str, &str, &str)> {
    let text = text.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '/');
    let end = text
        .find(|c: char| c.is_ascii_whitespace() || matches!(c, '=' | '>' | '/'))
        .unwrap_or(text.len());
    let (name, rest) = text.split_at_checked(end)?;
    let Some(value) = rest.trim_ascii_start().strip_prefix('=') else {
        return (!name.is_empty()).then_some((name, "", rest));
    };
    let value = value.trim_ascii_start();
    for mark in ['"', '\''] {
        if let Some(quoted) = value.strip_prefix(mark) {
            let (value, after) = quoted.split_once(mark).unwrap_or((quoted, ""));
            return Some((name, value, after));
        }
    }
    let end = value.find(|c: char| c.is_ascii_whitespace() || c == '>').unwrap_or(value.len());
    let (value, after) = value.split_at_checked(end)?;
    Some((name, value, after))
}

/// Returns what follows the name of the element in its end tag; nothing if no end tag follows.
fn after_end<'a>(text: &'a str, name: &str) -> &'a str {
    let mut rest = text;
    while let Some((_, after)) = rest.split_once("</") {
        if after.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name)) {
            return after.get(name.len()..).unwrap_or_default();
        }
        rest = after;
    }
    ""
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn titles_in_comments_and_invisible_elements_are_skipped() {
        let joined = |html: &str| titles(html, 1000).join("|");
        assert_eq!(
            joined("<img src=x alt=\"A red&amp;blue ball\" title='Big ball'>text"),
            "A red&blue ball|Big ball"
        );
        assert_eq!(
            joined("<a TITLE = plain href=y>alt=no</a><br/><img alt=one/two>"),
            "plain|one/two"
        );
        assert_eq!(
            joined("<head><title lang=de>t</title><meta alt=no></head><i title=yes>"),
            "yes"
        );
        assert_eq!(
            joined("<script title=in>'<img alt=no>'</SCRIPT><!-- <img alt=no> --><img alt=yes>"),
            "in|yes"
        );
        assert_eq!(joined("1 < 2 alt=no <p data-alt=no alternative=no hidden alt>"), "");
        assert_eq!(joined("<img alt=\"a > b\" title=\"not closed"), "a > b|not closed");
        assert_eq!(titles("<i title=abc><i title=defg><i title=h>", 6), ["abc"]);
    }

    proptest! {
        #[test]
        fn titles_of_any_text_are_bounded(html in "[<>=\"'/a-z! -]{0,60}|.{0,40}") {
            prop_assert!(titles(&html, 1000).iter().map(String::len).sum::<usize>() <= 1000);
        }
    }
}
