//! Parses values of header fields: text, addresses, dates. Each function takes the bytes after the
//! colon, folded or not.
//!
//! Values longer than `limits::MAX_FIELD_BYTES` are cut. The public functions return no control
//! characters, except for tabs in a text.

use std::borrow::Cow;

use mail_parser::{DateTime, HeaderForm};
use unicode_normalization::UnicodeNormalization;

use super::address::{self, Group};
use super::charset::{self, CharsetCodec};
use super::encoded;
use crate::model::{EmailAddress, SentAt, UtcMillis, limits};

/// Bytes before the bound in which a place to cut is looked for.
const CUT_SEARCH_BYTES: usize = 4096;

/// Parses a list of addresses, those of groups included, as `groups` does.
#[must_use]
pub fn addresses(value: &[u8]) -> Vec<EmailAddress> {
    groups(value).into_iter().flat_map(|group| group.addresses).collect()
}

/// Parses a list of addresses with its groups. At most `limits::MAX_FIELD_ADDRESSES` addresses and
/// groups in all, where a run of addresses outside of groups is not counted as a group.
#[must_use]
pub fn groups(value: &[u8]) -> Vec<Group> {
    address::groups(&readable(value, None)).0
}

/// Parses a list of addresses as `addresses` does. `None` if the list has more than that returns:
/// it is longer than `limits::MAX_FIELD_BYTES`, or has too many addresses and groups.
#[must_use]
pub fn all_addresses(value: &[u8]) -> Option<Vec<EmailAddress>> {
    let (groups, is_whole) = address::groups(&readable(value, None));
    let is_whole = is_whole && value.len() <= limits::MAX_FIELD_BYTES;
    is_whole.then(|| groups.into_iter().flat_map(|group| group.addresses).collect())
}

/// Returns a value as text (RFC 8621 §4.1.2.2): without the spaces at its beginning, then with
/// encoded words decoded, in NFC, and without controls other than tabs.
#[must_use]
pub fn text(value: &[u8]) -> String {
    let text = readable(value, None);
    let text = encoded::words(text.trim_start_matches(' '));
    let clean = text.chars().filter(|c| *c == '\t' || !c.is_control());
    if text.is_ascii() { clean.collect() } else { clean.nfc().collect() }
}

/// Returns a value as the text that a filter compares (RFC 5228 §2.7.2, §5.7): encoded words
/// decoded, without blanks around it and without controls other than tabs.
///
/// Unlike in `text`, encoded words may touch other text, since the field may be structured: in a
/// comment they touch its parentheses (RFC 2047 §5 (2)), and against the RFC they stand in quoted
/// names. The characters are not composed (NFC), because those in the keys of a script are not.
#[must_use]
pub fn comparable_text(value: &[u8]) -> Cow<'_, str> {
    let is_dropped = |c: char| c != '\t' && c.is_control();
    let blanks = [' ', '\t'];
    match readable(value, None) {
        Cow::Borrowed(text) if !text.contains("=?") && !text.contains(is_dropped) => {
            Cow::Borrowed(text.trim_matches(blanks))
        }
        text => {
            let decoded = encoded::anywhere(&text);
            let clean: String = decoded.chars().filter(|c| !is_dropped(*c)).collect();
            Cow::Owned(clean.trim_matches(blanks).to_owned())
        }
    }
}

/// Decodes a value to characters: unfolded (RFC 5322 §2.2.3), up to `limits::MAX_FIELD_BYTES`. A
/// value that is not UTF-8 is read in the declared charset if all bytes belong to it, or else in
/// windows-1252.
pub(in crate::message) fn readable(value: &[u8], declared: Option<CharsetCodec>) -> Cow<'_, str> {
    let value = bounded(value);
    if !value.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)) {
        return charset::of_header(value, declared);
    }
    let unfolded: Vec<u8> =
        value.iter().copied().filter(|byte| !matches!(byte, b'\r' | b'\n' | 0)).collect();
    Cow::Owned(charset::of_header(&unfolded, declared).into_owned())
}

/// Returns the part of a value that is parsed. One longer than `limits::MAX_FIELD_BYTES` is cut at
/// the end of an item, or else of a word, if one ends near the bound.
fn bounded(value: &[u8]) -> &[u8] {
    let Some(cut) = value.get(..limits::MAX_FIELD_BYTES).filter(|cut| cut.len() < value.len())
    else {
        return value;
    };
    let tail = cut.len().saturating_sub(CUT_SEARCH_BYTES);
    let last_bytes = cut.get(tail..).unwrap_or_default();
    let end = |is_end: fn(&u8) -> bool| last_bytes.iter().rposition(is_end);
    let at = end(|byte| matches!(byte, b',' | b';')).or_else(|| end(u8::is_ascii_whitespace));
    cut.get(..at.map_or(cut.len(), |at| tail.saturating_add(at))).unwrap_or(cut)
}

/// Returns the media type of a Content-Type value, or the disposition of a Content-Disposition
/// value, in lower case, with the parameters. `None` if it cannot be parsed.
#[must_use]
pub fn media(value: &[u8]) -> Option<(String, Vec<(String, String)>)> {
    let value = readable(value, None);
    let parsed = HeaderForm::ContentType.parse(value.as_bytes());
    let kind = parsed.value().as_content_type()?;
    let name = match kind.subtype() {
        Some(subtype) => format!("{}/{subtype}", kind.ctype()),
        None => kind.ctype().to_owned(),
    };
    let params = kind.attributes().map(|(name, value)| (tidy(name), tidy(value))).collect();
    Some((tidy(&name).to_lowercase(), params))
}

/// Returns the value of a Date field, also in an obsolete form; `None` if it cannot be read, or
/// names a day that the calendar does not have.
#[must_use]
pub fn date(value: &[u8]) -> Option<SentAt> {
    let value = bounded(value);
    let parsed = HeaderForm::Date.parse(value);
    // To the library, a leap second and a year of three digits are not valid, either.
    let Some(date) = parsed.value().as_datetime().filter(DateTime::is_valid) else {
        return crate::message::date::parse_obsolete(value);
    };
    if date.day > crate::message::date::days_in_month(date.year.into(), date.month) {
        return None;
    }
    let minutes =
        i16::from(date.tz_hour).checked_mul(60)?.checked_add(i16::from(date.tz_minute))?;
    let offset_minutes = if date.tz_before_gmt { minutes.checked_neg()? } else { minutes };
    Some(SentAt { at: UtcMillis(date.to_timestamp().checked_mul(1000)?), offset_minutes })
}

/// Returns a name or an address without controls, with tabs as blanks, in NFC, trimmed.
pub(super) fn tidy(text: &str) -> String {
    let spaced = text.chars().map(|c| if c == '\t' { ' ' } else { c }).filter(|c| !c.is_control());
    let tidy: String = if text.is_ascii() { spaced.collect() } else { spaced.nfc().collect() };
    tidy.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_form_decodes_encoded_words() {
        let decoded = |value: &str| text(value.as_bytes());
        assert_eq!(decoded("  a  b \r\n\tc \r\n"), "a  b \tc ");
        assert_eq!(decoded(" =?utf-8?q?J=C3?=\r\n =?utf-8?q?=BC_?= x"), "J\u{fc}  x");
        assert_eq!(decoded(" =?iso-8859-1?B?/A==?= =?utf-8*de?Q?u=CC=88?="), "\u{fc}\u{fc}");
        assert_eq!(decoded(" =?utf-8?q?a=0D=0ABcc:=00?=b"), "=?utf-8?q?a=0D=0ABcc:=00?=b");
        assert_eq!(decoded(" =?utf-8?q?a=0D=0ABcc:=00x?="), "aBcc:x");
        for literal in [
            "a=?utf-8?q?b?=",
            "=?utf-8?q?a b?=",
            "=?klingon?q?a?=",
            "=?utf-8?x?a?=",
            "=?utf-8?q?a?b?=",
            "=?utf-8?b?*?=",
        ] {
            assert_eq!(decoded(literal), literal);
        }
        assert_eq!(text(b" caf\xe9"), "caf\u{e9}");
        assert_eq!(decoded(" u\u{308}"), "\u{fc}");
    }

    #[test]
    fn comparable_text_is_decoded_and_has_no_blanks_around_it() {
        for (value, wanted) in [
            ("  a  b \t\r\n", "a  b"),
            ("\ta\r\n \tb \r\n", "a \tb"),
            (" =?utf-8?q?_a_?= ", "a"),
            (" \"=?utf-8?q?J=C3=BC?=\" <a@x>", "\"J\u{fc}\" <a@x>"),
            (" a@x (Ann =?iso-8859-1?q?K=FC?=)", "a@x (Ann K\u{fc})"),
            (" =?utf-8?q?a?=. =?klingon?q?b?=", "a. =?klingon?q?b?="),
            (" u\u{308}", "u\u{308}"),
            ("", ""),
        ] {
            assert_eq!(comparable_text(value.as_bytes()), wanted, "{value:?}");
        }
        assert_eq!(comparable_text(b" caf\xe9 "), "caf\u{e9}");
    }

    #[test]
    fn names_are_read_from_phrases_and_comments() {
        let one = |value: &str| {
            let mut people = addresses(value.as_bytes());
            let one = people.remove(0);
            assert!(people.is_empty(), "{people:?}");
            (one.name.unwrap_or_default(), one.email)
        };
        let pair = |name: &str, email: &str| (name.to_owned(), email.to_owned());
        assert_eq!(one(" \"A  \\\"B\\\"\" <a@x>"), pair("A  \"B\"", "a@x"));
        assert_eq!(one(" \" A\r\n B \" <a@x>"), pair("A B", "a@x"));
        assert_eq!(one(" a@x (Ann B)"), pair("Ann B", "a@x"));
        assert_eq!(one(" =?utf-8?q?J=C3=BC?= =?utf-8?q?_B?= <a@x>"), pair("J\u{fc} B", "a@x"));
        assert_eq!(one(" A B"), pair("A B", ""));
        // A single word is an address without a domain, unless it is written as a name.
        assert_eq!(one(" Ann\r\n"), pair("", "Ann"));
        for name in [" Ann <>", " \"Ann\"", " =?utf-8?q?Ann?="] {
            assert_eq!(one(name), pair("Ann", ""), "{name}");
        }
    }

    /// The example of RFC 8621 §4.1.2.3 and §4.1.2.4.
    #[test]
    fn addresses_of_the_rfc_example() {
        let value = b" \"  James Smythe\" <james@example.com>, Friends:\r\n  \
            jane@example.com, =?UTF-8?Q?John_Sm=C3=AEth?=\r\n  \
            <john@example.com>;\r\n";
        let person = |name: Option<&str>, email: &str| EmailAddress {
            name: name.map(str::to_owned),
            email: email.into(),
        };
        let james = person(Some("James Smythe"), "james@example.com");
        let friends =
            [person(None, "jane@example.com"), person(Some("John Sm\u{ee}th"), "john@example.com")];
        assert_eq!(addresses(value), [std::slice::from_ref(&james), &friends[..]].concat());
        let wanted = [
            Group { name: None, addresses: vec![james] },
            Group { name: Some("Friends".into()), addresses: friends.to_vec() },
        ];
        assert_eq!(groups(value), wanted);
    }

    #[test]
    fn groups_are_parsed() {
        let value = b" a@x, b@x, Team: c@x, D <d@x>;, nobody:;, e@x\r\n";
        let shown: Vec<String> = groups(value)
            .iter()
            .map(|group| {
                let emails: Vec<&str> =
                    group.addresses.iter().map(|one| one.email.as_str()).collect();
                format!("{}[{}]", group.name.as_deref().unwrap_or("-"), emails.join(" "))
            })
            .collect();
        assert_eq!(shown.join(" "), "-[a@x b@x] Team[c@x d@x] nobody[] -[e@x]");
        assert!(groups(b"  \r\n").is_empty());
        assert!(groups("a:;,".repeat(5000).as_bytes()).len() <= limits::MAX_FIELD_ADDRESSES);
    }

    /// Regression test: the run of addresses outside of groups took the room of one address.
    #[test]
    fn as_many_addresses_are_read_as_may_be_written_and_more_are_noticed() {
        let max = limits::MAX_FIELD_ADDRESSES;
        let list = |count: usize| {
            (0..count).map(|n| format!("a{n}@x")).collect::<Vec<String>>().join(", ")
        };
        for (value, count, is_whole) in [
            (String::new(), 0, true),
            (list(max), max, true),
            (format!("{}, ; (c)\r\n", list(max)), max, true),
            (list(max + 1), max, false),
            ("<a@x> <b@x>".repeat(max / 2), max, true),
            (format!("{}<c@x>", "<a@x> <b@x>".repeat(max / 2)), max, false),
            (format!("Team: {};", list(max - 1)), max - 1, true),
            (format!("Team: {};", list(max)), max - 1, false),
            (format!("{}, Nobody:;", list(max)), max, false),
            ("a:;".repeat(max), 0, true),
            ("a:;".repeat(max + 1), 0, false),
            (":;".repeat(max + 1), 0, false),
            (format!("a@x{}", " ".repeat(limits::MAX_FIELD_BYTES)), 1, false),
        ] {
            let shown = &value[..value.len().min(40)];
            assert_eq!(addresses(value.as_bytes()).len(), count, "{shown}");
            let all = all_addresses(value.as_bytes());
            assert_eq!(all.map(|all| all.len()), is_whole.then_some(count), "{shown}");
        }
    }

    /// Regression test: a header of 30 MB took 830 MB of memory.
    #[test]
    fn values_are_parsed_up_to_their_bound() {
        let pad = |part: &str| part.repeat(limits::MAX_FIELD_BYTES / part.len() + 1);
        for part in ["g:;", "(", " =?utf-8?q?a?=", "a, ", "\"", "<"] {
            let value = format!("first@x, {}, last@x", pad(part));
            assert!(readable(value.as_bytes(), None).len() <= limits::MAX_FIELD_BYTES);
            let people = addresses(value.as_bytes());
            assert_eq!(people[0].email, "first@x", "{part}");
            assert!(people.iter().all(|person| person.email != "last@x"), "{part}");
            assert!(text(value.as_bytes()).len() <= limits::MAX_FIELD_BYTES);
        }
        // The item at the bound is not cut in two.
        let value = "someone@x.example, ".repeat(limits::MAX_FIELD_BYTES / 10);
        assert!(readable(value.as_bytes(), None).ends_with("someone@x.example"));
        let whole = "x".repeat(limits::MAX_FIELD_BYTES);
        assert_eq!(text(whole.as_bytes()), whole);
        assert_eq!(text(pad("x").as_bytes()).len(), limits::MAX_FIELD_BYTES);
    }

    #[test]
    fn media_types_and_dispositions_are_parsed() {
        let (kind, params) =
            media(b" Text/Plain; charset=\"utf-8\";\r\n name*=utf-8''J%C3%BC\r\n").unwrap();
        assert_eq!(
            (kind.as_str(), params[0].1.as_str(), params[1].1.as_str()),
            ("text/plain", "utf-8", "J\u{fc}")
        );
        assert_eq!(media(b" attachment").map(|(kind, _)| kind).as_deref(), Some("attachment"));
        assert_eq!(media(b" "), None);
    }

    #[test]
    fn invalid_dates_are_refused() {
        let at =
            |text: &str| date(text.as_bytes()).map(|sent| (sent.at.rfc3339(), sent.offset_minutes));
        assert_eq!(
            at(" Sat, 21 Nov 2026 10:00:00 +0100\r\n"),
            Some(("2026-11-21T09:00:00Z".into(), 60))
        );
        assert_eq!(at(" 21 Nov 26 10:00 -0330\r\n").map(|(_, zone)| zone), Some(-210));
        assert_eq!(at(" Tue, 31 Feb 2026 10:00:00 +0000\r\n"), None);
        assert_eq!(at(" Sun, 29 Feb 2026 10:00:00 +0000\r\n"), None);
        assert_eq!(at(" tomorrow\r\n"), None);
        assert_eq!(at(" Sat Nov 21 10:00:00 2026\r\n"), Some(("2026-11-21T10:00:00Z".into(), 0)));
        assert_eq!(at(" 20 Nov 26 10:00 EST\r\n"), Some(("2026-11-20T15:00:00Z".into(), -300)));
        // RFC 5322 §3.3: a leap second; §4.3: 1900 is added to a year of three digits.
        assert_eq!(
            at(" Sat, 31 Dec 2016 23:59:60 +0000\r\n"),
            Some(("2017-01-01T00:00:00Z".into(), 0))
        );
        assert_eq!(at(" 21 Nov 126 10:00:00 +0000\r\n"), Some(("2026-11-21T10:00:00Z".into(), 0)));
        for bad in [
            "31 Feb 126 10:00:00 +0000",
            "21 Nov 1899 10:00:00 +0000",
            "21 Nov 2026 24:00:00 +0000",
            "21 Nov 2026 10:60:00 +0000",
            "21 Nov 2026 10:00:61 +0000",
        ] {
            assert_eq!(at(bad), None, "{bad}");
        }
    }

    #[test]
    fn groups_are_flattened() {
        let people = addresses(
            b" Team: \"B, C\" <b@x.example>, d@x.example;, =?utf-8?q?J=C3=BC?= <j@x.example>\r\n",
        );
        let emails: Vec<&str> = people.iter().map(|person| person.email.as_str()).collect();
        assert_eq!(emails, ["b@x.example", "d@x.example", "j@x.example"]);
        assert_eq!(people[0].name.as_deref(), Some("B, C"));
        assert_eq!(people[2].name.as_deref(), Some("Jü"));
        let quoted = addresses(b" \"a b\"@x.example, \"c\"@x.example, B <\"d\"@x.example>");
        let emails: Vec<&str> = quoted.iter().map(|person| person.email.as_str()).collect();
        assert_eq!(emails, ["\"a b\"@x.example", "c@x.example", "d@x.example"]);
    }
}
