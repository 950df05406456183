//! Values of header fields, parsed: text, addresses, dates. Each takes what stands after the colon, folded or not.
//!
//! No value that comes out holds a control character, but for tabs in a text: none can begin a header field.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::BTreeSet;

use mail_parser::{Charset, HeaderForm, Mailbox};
use unicode_normalization::UnicodeNormalization;

use crate::model::{Address, EmailAddress, SentAt, UtcMillis, limits};

/// A group of addresses (RFC 8621 §4.1.2.4), or a run of addresses outside of any group.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Group {
    /// Its name; none of a run outside of groups.
    pub name: Option<String>,
    /// Its addresses.
    pub addresses: Vec<EmailAddress>,
}

/// The addresses of a field's value, groups flattened.
#[must_use]
pub fn addresses(value: &[u8]) -> Vec<EmailAddress> {
    groups(value).into_iter().flat_map(|group| group.addresses).collect()
}

/// The addresses of a field's value in their groups, `limits::ADDRESSES` in all.
#[must_use]
pub fn groups(value: &[u8]) -> Vec<Group> {
    let value = unfold(value);
    let parsed = HeaderForm::Addresses.parse(&value);
    let Some(list) = parsed.value().as_address() else { return Vec::new() };
    let (mut left, bare) = (limits::ADDRESSES, BareWords::of(&value));
    let mut out = Vec::new();
    for (name, members) in list.groups() {
        let Some(rest) = left.checked_sub(1) else { break };
        left = rest;
        let addresses: Vec<EmailAddress> = members.take(left).filter_map(|mailbox| person(&mailbox, &bare)).collect();
        left = left.saturating_sub(addresses.len());
        let name = name.map(tidy);
        if name.is_some() || !addresses.is_empty() {
            out.push(Group { name, addresses });
        }
    }
    out
}

/// Items of a list of addresses that are one word and nothing else. The library takes them for
/// names.
struct BareWords<'v> {
    value: &'v [u8],
    found: OnceCell<BTreeSet<&'v [u8]>>,
}

impl<'v> BareWords<'v> {
    fn of(value: &'v [u8]) -> Self {
        Self { value, found: OnceCell::new() }
    }

    fn has(&self, word: &str) -> bool {
        let items = || self.value.split(|byte| b",;:".contains(byte)).map(<[u8]>::trim_ascii);
        self.found.get_or_init(|| items().take(limits::ADDRESSES.saturating_mul(2)).collect()).contains(word.as_bytes())
            && !word.contains(char::is_whitespace)
    }
}

fn person(mailbox: &Mailbox<'_>, bare: &BareWords<'_>) -> Option<EmailAddress> {
    let name = mailbox.name().map(tidy).filter(|name| !name.is_empty());
    let email = mailbox.address().map(tidy).unwrap_or_default();
    // A quoted local part (RFC 5322 §3.4.1) comes as a name before a bare domain.
    let (name, email) = match (name, email.strip_prefix('@')) {
        (Some(local), Some(domain)) => (None, Address::from_parts(local, domain).to_string()),
        // Half an address, as a draft may have it.
        (Some(word), None) if email.is_empty() && bare.has(&word) => (None, word),
        (name, _) => (name, email),
    };
    (!email.is_empty() || name.is_some()).then_some(EmailAddress { name, email })
}

/// A field's value as text (RFC 8621 §4.1.2.2): unfolded, without blanks before it, encoded words decoded where RFC 2047
/// lets them stand, NFC. Controls are dropped, but for tabs.
#[must_use]
pub fn text(value: &[u8]) -> String {
    let value = unfold(value);
    let text = String::from_utf8_lossy(&value);
    let text = decode_words(text.trim_start_matches(' '));
    let clean = text.chars().filter(|c| *c == '\t' || !c.is_control());
    if text.is_ascii() { clean.collect() } else { clean.nfc().collect() }
}

/// The media type of a Content-Type field's value, or the disposition of a Content-Disposition's, lower case, and what is
/// said with it. `None` where it cannot be read.
#[must_use]
pub fn media(value: &[u8]) -> Option<(String, Vec<(String, String)>)> {
    let value = unfold(value);
    let parsed = HeaderForm::ContentType.parse(&value);
    let kind = parsed.value().as_content_type()?;
    let name = match kind.subtype() {
        Some(subtype) => format!("{}/{subtype}", kind.ctype()),
        None => kind.ctype().to_owned(),
    };
    let said = kind.attributes().map(|(name, value)| (tidy(name), tidy(value))).collect();
    Some((tidy(&name).to_lowercase(), said))
}

/// The Date field's value; nothing where it is no date of the calendar. Forms that the library refuses (asctime, no
/// seconds with a named zone, hyphens) are read by `date`.
#[must_use]
pub fn date(value: &[u8]) -> Option<SentAt> {
    let parsed = HeaderForm::Date.parse(value);
    let Some(date) = parsed.value().as_datetime() else { return crate::message::date::obsolete(value) };
    if !date.is_valid() || date.day > crate::message::date::days(date.year.into(), date.month) {
        return None;
    }
    let minutes = i16::from(date.tz_hour).checked_mul(60)?.checked_add(i16::from(date.tz_minute))?;
    let offset_minutes = if date.tz_before_gmt { minutes.checked_neg()? } else { minutes };
    Some(SentAt { at: UtcMillis(date.to_timestamp().checked_mul(1000)?), offset_minutes })
}

/// Unfolded (RFC 5322 §2.2.3): line ends go, the blanks after them stay.
fn unfold(value: &[u8]) -> Cow<'_, [u8]> {
    if value.iter().any(|octet| matches!(octet, b'\r' | b'\n' | 0)) {
        Cow::Owned(value.iter().copied().filter(|octet| !matches!(octet, b'\r' | b'\n' | 0)).collect())
    } else {
        Cow::Borrowed(value)
    }
}

/// A name or an address: without controls, NFC, nothing blank around it.
fn tidy(text: &str) -> String {
    let spaced = text.chars().map(|c| if c == '\t' { ' ' } else { c }).filter(|c| !c.is_control());
    let tidy: String = if text.is_ascii() { spaced.collect() } else { spaced.nfc().collect() };
    tidy.trim().to_owned()
}

/// Decodes encoded words where they stand as words of their own (RFC 2047 §5 (1)); blanks between two of them go.
fn decode_words(text: &str) -> Cow<'_, str> {
    if !text.contains("=?") {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let (blank, word, after) = step(rest);
        out.push_str(blank);
        rest = after;
        if !is_encoded(word) {
            out.push_str(word);
            continue;
        }
        // A character may be cut in two between encoded words: those side by side are decoded together.
        let mut run = word.to_owned();
        loop {
            let (_, next, after) = step(rest);
            if !is_encoded(next) {
                break;
            }
            run.push(' ');
            run.push_str(next);
            rest = after;
        }
        let parsed = HeaderForm::Text.parse(run.as_bytes());
        out.push_str(parsed.value().as_text().unwrap_or(&run));
    }
    Cow::Owned(out)
}

/// The blanks before a word, the word, and what follows.
fn step(text: &str) -> (&str, &str, &str) {
    let blank = |c: char| matches!(c, ' ' | '\t');
    let start = text.find(|c| !blank(c)).unwrap_or(text.len());
    let (before, text) = text.split_at(start);
    let (word, after) = text.split_at(text.find(blank).unwrap_or(text.len()));
    (before, word, after)
}

/// RFC 2047 §2, of a charset that is known. Longer ones than the 75 octets there are decoded alike.
fn is_encoded(word: &str) -> bool {
    let Some(inner) = word.strip_prefix("=?").and_then(|word| word.strip_suffix("?=")) else { return false };
    let mut pieces = inner.split('?');
    let (Some(charset), Some(encoding), Some(text), None) =
        (pieces.next(), pieces.next(), pieces.next(), pieces.next())
    else {
        return false;
    };
    // RFC 2231 §5: a language may follow the charset.
    let charset = charset.split('*').next().unwrap_or_default();
    let known = Charset::from_label(charset.as_bytes()).is_some();
    let sound = match encoding {
        "Q" | "q" => text.bytes().all(|octet| octet.is_ascii_graphic()),
        "B" | "b" => text.bytes().all(|octet| octet.is_ascii_alphanumeric() || matches!(octet, b'+' | b'/' | b'=')),
        _ => false,
    };
    known && sound
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_what_was_written() {
        let of = |value: &str| text(value.as_bytes());
        assert_eq!(of("  a  b \r\n\tc \r\n"), "a  b \tc ");
        assert_eq!(of(" =?utf-8?q?J=C3?=\r\n =?utf-8?q?=BC_?= x"), "J\u{fc}  x");
        assert_eq!(of(" =?iso-8859-1?B?/A==?= =?utf-8*de?Q?u=CC=88?="), "\u{fc}\u{fc}");
        assert_eq!(of(" =?utf-8?q?a=0D=0ABcc:=00?=b"), "=?utf-8?q?a=0D=0ABcc:=00?=b");
        assert_eq!(of(" =?utf-8?q?a=0D=0ABcc:=00x?="), "aBcc:x");
        for literal in [
            "a=?utf-8?q?b?=",
            "=?utf-8?q?a b?=",
            "=?klingon?q?a?=",
            "=?utf-8?x?a?=",
            "=?utf-8?q?a?b?=",
            "=?utf-8?b?*?=",
        ] {
            assert_eq!(of(literal), literal);
        }
        assert_eq!(text(b" caf\xe9"), "caf\u{fffd}");
        assert_eq!(of(" u\u{308}"), "\u{fc}");
    }

    #[test]
    fn names_and_comments() {
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
        // One word is half an address, unless it is written as a name.
        assert_eq!(one(" Ann\r\n"), pair("", "Ann"));
        for name in [" Ann <>", " \"Ann\"", " =?utf-8?q?Ann?="] {
            assert_eq!(one(name), pair("Ann", ""), "{name}");
        }
    }

    /// The example of RFC 8621 §4.1.2.3 and §4.1.2.4.
    #[test]
    fn the_addresses_of_the_example() {
        let value = b" \"  James Smythe\" <james@example.com>, Friends:\r\n  jane@example.com, =?UTF-8?Q?John_Sm=C3=AEth?=\r\n  \
            <john@example.com>;\r\n";
        let person =
            |name: Option<&str>, email: &str| EmailAddress { name: name.map(str::to_owned), email: email.into() };
        let james = person(Some("James Smythe"), "james@example.com");
        let friends = [person(None, "jane@example.com"), person(Some("John Sm\u{ee}th"), "john@example.com")];
        assert_eq!(addresses(value), [std::slice::from_ref(&james), &friends[..]].concat());
        let wanted = [
            Group { name: None, addresses: vec![james] },
            Group { name: Some("Friends".into()), addresses: friends.to_vec() },
        ];
        assert_eq!(groups(value), wanted);
    }

    #[test]
    fn groups_are_kept() {
        let value = b" a@x, b@x, Team: c@x, D <d@x>;, nobody:;, e@x\r\n";
        let shown: Vec<String> = groups(value)
            .iter()
            .map(|group| {
                let emails: Vec<&str> = group.addresses.iter().map(|one| one.email.as_str()).collect();
                format!("{}[{}]", group.name.as_deref().unwrap_or("-"), emails.join(" "))
            })
            .collect();
        assert_eq!(shown.join(" "), "-[a@x b@x] Team[c@x d@x] nobody[] -[e@x]");
        assert!(groups(b"  \r\n").is_empty());
        assert!(groups("a:;,".repeat(5000).as_bytes()).len() <= limits::ADDRESSES);
    }

    #[test]
    fn types_and_dispositions() {
        let (kind, said) = media(b" Text/Plain; charset=\"utf-8\";\r\n name*=utf-8''J%C3%BC\r\n").unwrap();
        assert_eq!((kind.as_str(), said[0].1.as_str(), said[1].1.as_str()), ("text/plain", "utf-8", "J\u{fc}"));
        assert_eq!(media(b" attachment").map(|(kind, _)| kind).as_deref(), Some("attachment"));
        assert_eq!(media(b" "), None);
    }

    #[test]
    fn dates_that_are_none_are_none() {
        let at = |text: &str| date(text.as_bytes()).map(|sent| (sent.at.rfc3339(), sent.offset_minutes));
        assert_eq!(at(" Sat, 21 Nov 2026 10:00:00 +0100\r\n"), Some(("2026-11-21T09:00:00Z".into(), 60)));
        assert_eq!(at(" 21 Nov 26 10:00 -0330\r\n").map(|(_, zone)| zone), Some(-210));
        assert_eq!(at(" Tue, 31 Feb 2026 10:00:00 +0000\r\n"), None);
        assert_eq!(at(" Sun, 29 Feb 2026 10:00:00 +0000\r\n"), None);
        assert_eq!(at(" tomorrow\r\n"), None);
        assert_eq!(at(" Sat Nov 21 10:00:00 2026\r\n"), Some(("2026-11-21T10:00:00Z".into(), 0)));
        assert_eq!(at(" 20 Nov 26 10:00 EST\r\n"), Some(("2026-11-20T15:00:00Z".into(), -300)));
    }

    #[test]
    fn groups_are_flattened() {
        let people = addresses(b" Team: \"B, C\" <b@x.example>, d@x.example;, =?utf-8?q?J=C3=BC?= <j@x.example>\r\n");
        let emails: Vec<&str> = people.iter().map(|person| person.email.as_str()).collect();
        assert_eq!(emails, ["b@x.example", "d@x.example", "j@x.example"]);
        assert_eq!(people[0].name.as_deref(), Some("B, C"));
        assert_eq!(people[2].name.as_deref(), Some("Jü"));
        let quoted = addresses(b" \"a b\"@x.example, \"c\"@x.example, B <\"d\"@x.example>");
        let emails: Vec<&str> = quoted.iter().map(|person| person.email.as_str()).collect();
        assert_eq!(emails, ["\"a b\"@x.example", "c@x.example", "\"d\"@x.example"]);
    }
}
