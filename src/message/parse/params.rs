//! Decodes parameters of Content-Type and Content-Disposition (RFC 2045 §5.1) that the library does
//! not: in sections and in any charset (RFC 2231 §3 and §4), and with encoded words, which no RFC
//! allows here.

use crate::model::limits;
use std::collections::BTreeMap;

use super::charset::{self, CharsetCodec};
use super::encoded::anywhere;
use crate::model::hex::hex_byte;

struct Section {
    is_encoded: bool,
    value: String,
}

/// Returns the value of a parameter in an unfolded field: its sections up to the first gap
/// (`name*=`, `name*0=`), or else the first value without sections and charset (`name=`), which
/// senders add for readers that do not know sections (RFC 6266 §4.3). The value without sections
/// also counts if the sections are in an unknown charset, or empty. A repeated section is ignored.
/// Only the first `limits::MAX_PARAMETER_SECTIONS` parameters of the field are read.
pub(super) fn parameter(field: &str, name: &str) -> Option<String> {
    let mut sections: BTreeMap<usize, Section> = BTreeMap::new();
    let mut plain = None;
    for (attribute, value) in FieldParameters::of(field).take(limits::MAX_PARAMETER_SECTIONS) {
        let mut parts = attribute.split('*');
        if !parts.next().is_some_and(|base| base.eq_ignore_ascii_case(name)) {
            continue;
        }
        let (number, is_encoded) = match (parts.next(), parts.next()) {
            (None, _) => {
                plain.get_or_insert(value);
                continue;
            }
            (Some(""), _) => (0, true),
            (Some(number), last) => match number.parse() {
                Ok(number) => (number, last.is_some()),
                Err(_) => continue,
            },
        };
        sections.entry(number).or_insert(Section { is_encoded, value });
    }
    let plain = plain.map(|value| anywhere(&value).into_owned());
    match (joined(&sections), plain) {
        (Some((_, is_doubtful)), Some(plain)) if is_doubtful => Some(plain),
        (Some((value, _)), _) => Some(value),
        (None, plain) => plain,
    }
}

/// Joins sections up to the first gap. Returns the value, and whether it is in an unknown charset
/// or empty; `None` if there are no sections, or if the first one is missing.
fn joined(sections: &BTreeMap<usize, Section>) -> Option<(String, bool)> {
    sections.get(&0)?;
    let (mut coding, mut has_unknown_charset) = (None, false);
    let mut bytes: Vec<u8> = Vec::new();
    for (wanted, (number, section)) in sections.iter().enumerate() {
        if wanted != *number {
            break;
        }
        let mut value = section.value.as_str();
        if *number == 0 && section.is_encoded {
            let mut parts = value.splitn(3, '\'');
            if let (Some(label), Some(_language), Some(rest)) =
                (parts.next(), parts.next(), parts.next())
            {
                coding = CharsetCodec::of_label(label);
                has_unknown_charset = coding.is_none() && !label.is_empty();
                value = rest;
            }
        }
        if section.is_encoded {
            percent_decode(value, &mut bytes);
        } else {
            bytes.extend_from_slice(value.as_bytes());
        }
    }
    let text = coding.map_or_else(|| charset::guessed(&bytes).0, |coding| coding.decode(&bytes).0);
    // Some programs cut encoded words into sections.
    let is_encoded = sections.values().any(|section| section.is_encoded);
    let value = if is_encoded { text.into_owned() } else { anywhere(&text).into_owned() };
    let is_doubtful = has_unknown_charset || value.is_empty();
    Some((value, is_doubtful))
}

fn percent_decode(text: &str, out: &mut Vec<u8>) {
    let mut rest = text.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        match after
            .first_chunk::<2>()
            .filter(|_| *byte == b'%')
            .and_then(|digits| hex_byte(*digits))
        {
            Some(byte) => {
                out.push(byte);
                rest = after.get(2..).unwrap_or_default();
            }
            None => out.push(*byte),
        }
    }
}

/// The parameters of a field: names, such as `name*0*`, and values without quotes.
struct FieldParameters<'f> {
    rest: &'f str,
}

impl<'f> FieldParameters<'f> {
    fn of(field: &'f str) -> Self {
        Self { rest: field.split_once(';').map_or("", |(_, rest)| rest) }
    }
}

impl Iterator for FieldParameters<'_> {
    type Item = (String, String);

    fn next(&mut self) -> Option<(String, String)> {
        loop {
            let text = self.rest.trim_start_matches([' ', '\t', ';']);
            if text.is_empty() {
                return None;
            }
            let end = text.find(['=', ';']).unwrap_or(text.len());
            let (name, after) = text.split_at_checked(end)?;
            let Some(value) = after.strip_prefix('=') else {
                self.rest = after;
                continue;
            };
            let value = value.trim_start_matches([' ', '\t']);
            let (value, rest) = match value.strip_prefix('"') {
                Some(quoted) => unquoted(quoted),
                None => {
                    let (value, rest) =
                        value.split_at_checked(value.find(';').unwrap_or(value.len()))?;
                    (value.trim_end().to_owned(), rest)
                }
            };
            self.rest = rest;
            return Some((name.trim().to_owned(), value));
        }
    }
}

/// Reads a quoted string after its opening quote. Returns it without escapes, and the rest after
/// the next semicolon.
fn unquoted(text: &str) -> (String, &str) {
    let (mut out, mut chars) = (String::new(), text.char_indices());
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => out.extend(chars.next().map(|(_, c)| c)),
            '"' => {
                let rest = text.get(at..).unwrap_or_default();
                return (out, rest.split_once(';').map_or("", |(_, rest)| rest));
            }
            c => out.push(c),
        }
    }
    (out, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_decoded_in_every_form() {
        let name = |field: &str| parameter(field, "name").unwrap_or_else(|| "none".into());
        for (field, wanted) in [
            ("a/b; name=x.pdf", "x.pdf"),
            ("a/b; NAME = \"x \\\"y\\\".pdf\" ; z=1", "x \"y\".pdf"),
            ("a/b; name=my file.pdf; x=y", "my file.pdf"),
            // RFC 2047 §6.2.
            ("a/b; name=\"=?utf-8?q?J=C3=BC?= =?utf-8?q?rgen.pdf?=\"", "Jürgen.pdf"),
            ("a/b; name=\"=?utf-8?q?J?=  \t=?iso-8859-1?q?=FC.pdf?=\"", "Jü.pdf"),
            ("a/b; name==?utf-8?q?J=C3=BC?=.pdf", "Jü.pdf"),
            (
                "a/b; name=\"=?iso-2022-jp?B?GyRCJTkbKEI=?= =?iso-2022-jp?B?GyRCJVElYBsoQg==?=\"",
                "スパム",
            ),
            ("a/b; name*=utf-8'de'J%C3%BC.pdf", "Jü.pdf"),
            ("a/b; name*=iso-2022-kr''%1B$)C%0EGQ%0F", "한"),
            ("a/b; name*1=c; name*0*=latin1''a%FC; name*2=d; name*4=no", "aücd"),
            ("a/b; name*=%FC", "ü"),
            // RFC 6266 §4.3: the extended form counts, wherever it stands.
            ("a/b; name=\"Jurgen.pdf\"; name*=utf-8''J%C3%BCrgen.pdf", "Jürgen.pdf"),
            ("a/b; name*=utf-8''J%C3%BCrgen.pdf; name=\"Jurgen.pdf\"", "Jürgen.pdf"),
            ("a/b; name=short.pdf; name*0=a; name*1=\" long.pdf\"", "a long.pdf"),
            ("a/b; name=plain.pdf; name=other.pdf; name*1*=no", "plain.pdf"),
            ("a/b; name=plain.pdf; name*=nothing''%FC.pdf", "plain.pdf"),
            ("a/b; name=plain.pdf; name*=", "plain.pdf"),
            ("a/b; name=\"=?UTF-8?Q?Rechnung M=C3=A4rz.pdf?=\"", "Rechnung März.pdf"),
            ("a/b; name*0=\"=?utf-8?q?M=C3=A4?= =?utf-8?\"; name*1=\"q?rz.pdf?=\"", "März.pdf"),
            ("a/b; name*0*=utf-8''=?utf-8?q?a?=; name*1=b", "=?utf-8?q?a?=b"),
            ("a/b; name*x=no; name*0=a.pdf; name*-1=no", "a.pdf"),
            ("a/b; x; ; =; name=y", "y"),
            ("a/b; name=\"open", "open"),
            ("a/b; rename=no", "none"),
            ("a/b", "none"),
        ] {
            assert_eq!(name(field), wanted, "{field}");
        }
        let many: String = (0..100_000).map(|n| format!("; name*{n}=x")).collect();
        assert_eq!(name(&format!("a/b{many}")).len(), limits::MAX_PARAMETER_SECTIONS);
    }
}
