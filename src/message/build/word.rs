//! Writes encoded words (RFC 2047), phrases and parameters (RFC 2231), and folds lines.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Longest line, if it can be folded (RFC 5322 §2.1.1).
pub(super) const FOLDED_LINE_BYTES: usize = 78;
/// Longest word that is written unencoded, with the blanks before it.
pub(super) const MAX_WORD_BYTES: usize = 900;
/// 75 bytes (RFC 2047 §2) without `=?utf-8?q?` and `?=`.
const ENCODED_WORD_BYTES: usize = 63;
/// The least room for the text of the first encoded word, however far to the right it begins.
const FIRST_ENCODED_WORD_BYTES: usize = 16;
/// The column in which a display name, or a file name in Content-Type, is assumed to begin.
const NAME_COLUMN: usize = 12;
/// Longest value of a parameter in one piece, and longest section of a longer one (RFC 2231 §3).
const MAX_SECTION_BYTES: usize = 60;

/// Returns the text as encoded words, one a line. The first begins at `column`.
pub(super) fn encode(text: &str, column: usize) -> String {
    let escaped_count = text.bytes().filter(|byte| q_char(*byte).is_none()).count();
    // An escaped byte takes three bytes, so base64 is used if more than a third of the bytes would
    // be escaped.
    let letter = if escaped_count.saturating_mul(3) > text.len() { 'b' } else { 'q' };
    let room_after = |column: usize| {
        let room = ENCODED_WORD_BYTES.saturating_sub(column).max(FIRST_ENCODED_WORD_BYTES);
        if letter == 'b' { (room / 4).saturating_mul(3) } else { room }
    };
    let mut room = room_after(column);
    let cost = |c: char| {
        let length = c.len_utf8();
        if letter == 'b'
            || (c.is_ascii()
                && c.encode_utf8(&mut [0; 4]).bytes().all(|byte| q_char(byte).is_some()))
        {
            length
        } else {
            length.saturating_mul(3)
        }
    };
    let mut words: Vec<String> = vec![String::new()];
    let mut width = 0usize;
    for c in text.chars() {
        if width.saturating_add(cost(c)) > room {
            words.push(String::new());
            (width, room) = (0, room_after(0));
        }
        width = width.saturating_add(cost(c));
        if let Some(word) = words.last_mut() {
            word.push(c);
        }
    }
    let write = |word: &String| {
        let text = if letter == 'b' {
            STANDARD.encode(word)
        } else {
            word.bytes().map(q_encoded).collect()
        };
        format!("=?utf-8?{letter}?{text}?=")
    };
    words.iter().map(write).collect::<Vec<_>>().join("\r\n ")
}

/// Returns the character for a byte in the Q encoding, or `None` if the byte must be escaped in a
/// phrase, where the fewest characters are allowed (RFC 2047 §5 (3)).
fn q_char(byte: u8) -> Option<char> {
    match byte {
        b' ' => Some('_'),
        b'!' | b'*' | b'+' | b'-' | b'/' => Some(char::from(byte)),
        byte if byte.is_ascii_alphanumeric() => Some(char::from(byte)),
        _ => None,
    }
}

fn q_encoded(byte: u8) -> String {
    q_char(byte).map_or_else(|| format!("={byte:02X}"), String::from)
}

/// Writes a display name: as words, as a quoted string, or as encoded words.
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
        quote(name)
    } else {
        encode(name, NAME_COLUMN)
    }
}

pub(super) fn quote(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// Folds a text that begins at `column`, at its blanks. The text must not begin with a blank.
pub(super) fn fold(text: &str, column: usize) -> String {
    let (mut out, mut column, mut rest) = (String::with_capacity(text.len()), column, text);
    let blank = |c: char| matches!(c, ' ' | '\t');
    while !rest.is_empty() {
        let word_start = rest.find(|c| !blank(c)).unwrap_or(rest.len());
        let length = rest
            .get(word_start..)
            .and_then(|after| after.find(blank))
            .unwrap_or(rest.len().saturating_sub(word_start));
        let (piece, after) =
            rest.split_at_checked(word_start.saturating_add(length)).unwrap_or((rest, ""));
        if word_start > 0 && column.saturating_add(piece.len()) > FOLDED_LINE_BYTES {
            out.push_str("\r\n");
            column = 0;
        }
        out.push_str(piece);
        column = column.saturating_add(piece.len());
        rest = after;
    }
    out
}

/// Joins items, the first at `column`, with a separator and a blank or a new line.
pub(super) fn join_items(items: &[String], separator: &str, column: usize) -> String {
    let (mut out, mut column) = (String::new(), column);
    for (at, item) in items.iter().enumerate() {
        let first = item.split("\r\n").next().map_or(0, str::len);
        if at > 0 {
            out.push_str(separator);
            // A blank comes before the item, and a separator may come after it.
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

/// Writes a parameter on a line of its own (RFC 2045 §5.1), or in encoded sections, each on a line,
/// if it is long, is not printable ASCII (RFC 2231 §3 and §4), or has `=?`, which readers may
/// decode.
pub(super) fn parameter(name: &str, value: &str) -> String {
    if value.bytes().all(|byte| matches!(byte, b' '..=b'~'))
        && value.len() <= MAX_SECTION_BYTES
        && !value.contains("=?")
    {
        let token = |byte: u8| byte.is_ascii_graphic() && !b"()<>@,;:\\\"/[]?=".contains(&byte);
        let is_token = !value.is_empty() && value.bytes().all(token);
        return format!(";\r\n {name}={}", if is_token { value.to_owned() } else { quote(value) });
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

/// Writes a file name in Content-Type for programs older than RFC 2231: quoted, or as encoded
/// words.
pub(super) fn legacy_name(value: &str) -> String {
    let plain = value.bytes().all(|byte| matches!(byte, b' '..=b'~'))
        && value.len() <= MAX_SECTION_BYTES
        && !value.contains("=?");
    format!(
        ";\r\n name={}",
        if plain { quote(value) } else { format!("\"{}\"", encode(value, NAME_COLUMN)) }
    )
}
