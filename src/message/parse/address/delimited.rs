//! Reads quoted strings, comments, and addresses in angle brackets.

use crate::message::parse::encoded;

/// Reads a quoted string after its opening quote. Returns it without escapes and control
/// characters, and the rest.
pub(super) fn quoted(text: &str) -> (String, &str) {
    let (mut out, mut chars) = (String::new(), text.chars());
    while let Some(c) = chars.next() {
        match c {
            '\\' => out.extend(chars.next().filter(|c| !c.is_control())),
            '"' => break,
            c if c.is_control() => {}
            c => out.push(c),
        }
    }
    (out, chars.as_str())
}

/// Reads a comment after its opening bracket. Returns it with encoded words decoded, without
/// escapes, with the comments within it; and the rest.
pub(super) fn comment(text: &str) -> (String, &str) {
    let (mut out, mut chars, mut depth) = (String::new(), text.chars(), 1usize);
    while let Some(c) = chars.next() {
        match c {
            '\\' => {
                out.extend(chars.next());
                continue;
            }
            '(' => depth = depth.saturating_add(1),
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            break;
        }
        out.push(c);
    }
    (encoded::words(&out).into_owned(), chars.as_str())
}

/// Reads the text after an opening angle bracket. Returns it, and the rest after the closing one.
/// If another `<` or the end comes first, the text ends there, or at the first comma or semicolon
/// before that.
pub(super) fn angle(text: &str) -> (&str, &str) {
    let text = text.trim_start_matches(|c| is_blank(c) || c == '<');
    let (mut separator, mut is_quoted, mut is_escaped) = (None, false, false);
    let split = |at: usize| text.split_at_checked(at).unwrap_or((text, ""));
    for (at, c) in text.char_indices() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => is_quoted = !is_quoted,
            _ if is_quoted => {}
            '>' => return (split(at).0, split(at.saturating_add(1)).1),
            '<' => return split(separator.unwrap_or(at)),
            ',' | ';' => separator = separator.or(Some(at)),
            _ => {}
        }
    }
    split(separator.unwrap_or(text.len()))
}

pub(super) fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t')
}
