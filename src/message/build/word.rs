//! Encoded words (RFC 2047), phrases, parameters (RFC 2231), and folding.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Bytes of a line that is folded where it can be (RFC 5322 §2.1.1).
pub(super) const FOLDED_LINE_BYTES: usize = 78;
/// Bytes of a word that stands as it is.
pub(super) const MAX_WORD_BYTES: usize = 900;
/// Bytes of the text of an encoded word: 75 (RFC 2047 §2) without `=?utf-8?q?` and `?=`.
const ENCODED_WORD_BYTES: usize = 63;
/// Bytes of the first encoded word of a field, however long the name of the field.
const FIRST_ENCODED_WORD_BYTES: usize = 16;
/// Where a name begins, at most, as a rule.
const MAX_NAME_COLUMN: usize = 12;
/// Bytes of a parameter's section (RFC 2231 §3).
const MAX_SECTION_BYTES: usize = 60;

/// The text as encoded words, each on a line of its own but the first, which begins at `column`.
pub(super) fn encoded(text: &str, column: usize) -> String {
    let wide = text.bytes().filter(|byte| q(*byte).is_none()).count();
    let letter = if wide.saturating_mul(3) > text.len() { 'b' } else { 'q' };
    let most = |column: usize| {
        let room = ENCODED_WORD_BYTES.saturating_sub(column).max(FIRST_ENCODED_WORD_BYTES);
        if letter == 'b' { (room / 4).saturating_mul(3) } else { room }
    };
    let mut room = most(column);
    let cost = |c: char| {
        let bytes = c.len_utf8();
        if letter == 'b'
            || (c.is_ascii() && c.encode_utf8(&mut [0; 4]).bytes().all(|byte| q(byte).is_some()))
        {
            bytes
        } else {
            bytes.saturating_mul(3)
        }
    };
    let mut words: Vec<String> = vec![String::new()];
    let mut width = 0usize;
    for c in text.chars() {
        if width.saturating_add(cost(c)) > room {
            words.push(String::new());
            (width, room) = (0, most(0));
        }
        width = width.saturating_add(cost(c));
        if let Some(word) = words.last_mut() {
            word.push(c);
        }
    }
    let write = |word: &String| {
        let text =
            if letter == 'b' { STANDARD.encode(word) } else { word.bytes().map(q_byte).collect() };
        format!("=?utf-8?{letter}?{text}?=")
    };
    words.iter().map(write).collect::<Vec<_>>().join("\r\n ")
}

/// What an byte is in the Q encoding, where it needs no escape anywhere (RFC 2047 §5 (3)).
fn q(byte: u8) -> Option<char> {
    match byte {
        b' ' => Some('_'),
        b'!' | b'*' | b'+' | b'-' | b'/' => Some(char::from(byte)),
        byte if byte.is_ascii_alphanumeric() => Some(char::from(byte)),
        _ => None,
    }
}

fn q_byte(byte: u8) -> String {
    q(byte).map_or_else(|| format!("={byte:02X}"), String::from)
}

/// A display name (RFC 5322 §3.2.5): as it is, quoted, or encoded.
pub(super) fn phrase(name: &str) -> String {
    let atom = |word: &str| {
        !word.is_empty()
            && word
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-/=?^_`{|}~".contains(&byte))
    };
    let plain = name.bytes().all(|byte| matches!(byte, b' '..=b'~'))
        && !name.contains("=?")
        && name.len() <= FOLDED_LINE_BYTES;
    if plain && name.split(' ').all(atom) {
        name.to_owned()
    } else if plain && name.trim() == name && !name.is_empty() {
        quoted(name)
    } else {
        encoded(name, MAX_NAME_COLUMN)
    }
}

/// A quoted string (RFC 5322 §3.2.4).
pub(super) fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// Text with line breaks before the blanks that are there, so that lines are short where they can
/// be. `column` is where it begins. The text must have no blank at its beginning.
pub(super) fn folded(text: &str, column: usize) -> String {
    let (mut out, mut column, mut rest) = (String::with_capacity(text.len()), column, text);
    let blank = |c: char| matches!(c, ' ' | '\t');
    while !rest.is_empty() {
        let word = rest.find(|c| !blank(c)).unwrap_or(rest.len());
        let length = rest
            .get(word..)
            .and_then(|after| after.find(blank))
            .unwrap_or(rest.len().saturating_sub(word));
        let (piece, after) =
            rest.split_at_checked(word.saturating_add(length)).unwrap_or((rest, ""));
        if word > 0 && column.saturating_add(piece.len()) > FOLDED_LINE_BYTES {
            out.push_str("\r\n");
            column = 0;
        }
        out.push_str(piece);
        column = column.saturating_add(piece.len());
        rest = after;
    }
    out
}

/// Items with a separator and a blank between them, broken there.
pub(super) fn listed(items: &[String], separator: &str, column: usize) -> String {
    let (mut out, mut column) = (String::new(), column);
    for (at, item) in items.iter().enumerate() {
        let first = item.split("\r\n").next().map_or(0, str::len);
        if at > 0 {
            out.push_str(separator);
            if column.saturating_add(first).saturating_add(2) > FOLDED_LINE_BYTES {
                out.push_str("\r\n");
                column = 0;
            }
            out.push(' ');
            column = column.saturating_add(1);
        }
        out.push_str(item);
        let last = item.rsplit("\r\n").next().map_or(0, str::len);
        column = if item.contains("\r\n") { last } else { column.saturating_add(item.len()) }
            .saturating_add(separator.len());
    }
    out
}

/// A parameter on a line of its own (RFC 2045 §5.1, RFC 2231 §3 and §4).
pub(super) fn parameter(name: &str, value: &str) -> String {
    if value.bytes().all(|byte| matches!(byte, b' '..=b'~'))
        && value.len() <= MAX_SECTION_BYTES
        && !value.contains("=?")
    {
        let token = |byte: u8| byte.is_ascii_graphic() && !b"()<>@,;:\\\"/[]?=".contains(&byte);
        let bare = !value.is_empty() && value.bytes().all(token);
        return format!(";\r\n {name}={}", if bare { value.to_owned() } else { quoted(value) });
    }
    let mut sections: Vec<String> = vec!["utf-8''".to_owned()];
    for byte in value.bytes() {
        let plain = byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
        let piece = if plain { String::from(char::from(byte)) } else { format!("%{byte:02X}") };
        if sections
            .last()
            .is_some_and(|last| last.len().saturating_add(piece.len()) > MAX_SECTION_BYTES)
        {
            sections.push(String::new());
        }
        if let Some(last) = sections.last_mut() {
            last.push_str(&piece);
        }
    }
    if let [only] = sections.as_slice() {
        return format!(";\r\n {name}*={only}");
    }
    sections
        .iter()
        .enumerate()
        .map(|(at, section)| format!(";\r\n {name}*{at}*={section}"))
        .collect()
}

/// A file name in Content-Type, as programs from before RFC 2231 read it.
pub(super) fn old_name(value: &str) -> String {
    let plain = value.bytes().all(|byte| matches!(byte, b' '..=b'~'))
        && value.len() <= MAX_SECTION_BYTES
        && !value.contains("=?");
    format!(
        ";\r\n name={}",
        if plain { quoted(value) } else { format!("\"{}\"", encoded(value, MAX_NAME_COLUMN)) }
    )
}
