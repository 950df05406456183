//! Rewrites the bracket expressions of POSIX (IEEE 1003.1, section 9.3.5) for the library, whose
//! classes have operators and can be nested.
//!
//! - In POSIX, `[` in a bracket expression stands for itself, and so do `&&` and `~~`. So does `-`
//!   as the first or last character of the expression, or at either end of a range.
//! - `[=c=]` and `[.c.]` are the character `c`: no locale is defined.
//! - A backslash escapes, as outside of brackets, and classes such as `\w` may stand in brackets.
//!   In POSIX a backslash stands for itself here; scripts that were written for other engines have
//!   `[\w.]` and `[\.]`.

use std::iter::Peekable;
use std::str::CharIndices;

use super::PatternError;

/// Returns a pattern that means to the library what `pattern` means in POSIX. If a bracket
/// expression is not closed, the whole pattern is returned as it is: the library reports it.
///
/// # Errors
/// `Unsupported` for a collating element or a class of equivalents that is no single character.
pub(super) fn rewrite(pattern: &str) -> Result<String, PatternError> {
    let mut rest = Rest { pattern, chars: pattern.char_indices().peekable() };
    let mut out = String::with_capacity(pattern.len().saturating_add(8));
    while let Some((_, c)) = rest.chars.next() {
        out.push(c);
        match c {
            '\\' => out.extend(rest.chars.next().map(|(_, c)| c)),
            '[' if !rest.bracket(&mut out)? => return Ok(pattern.to_owned()),
            _ => {}
        }
    }
    Ok(out)
}

/// A pattern, and the characters of it that are not read yet.
struct Rest<'a> {
    pattern: &'a str,
    chars: Peekable<CharIndices<'a>>,
}

impl<'a> Rest<'a> {
    /// Returns the text that is left.
    fn text(&mut self) -> &'a str {
        let at = self.chars.peek().map_or(self.pattern.len(), |(at, _)| *at);
        self.pattern.get(at..).unwrap_or_default()
    }

    /// Passes over a character if it comes next. Returns whether it does.
    fn eat(&mut self, c: char) -> bool {
        self.chars.next_if(|(_, next)| *next == c).is_some()
    }

    /// Reads a bracket expression after its `[`, and writes the same for the library, with its `]`.
    /// Returns `false` if the `]` is missing.
    fn bracket(&mut self, out: &mut String) -> Result<bool, PatternError> {
        if self.eat('^') {
            out.push('^');
        }
        let mut is_first = true;
        while self.chars.peek().is_some() {
            if !is_first && self.eat(']') {
                out.push(']');
                return Ok(true);
            }
            is_first = false;
            self.item(out)?;
            // A `-` begins the other half of a range, unless `]` follows it.
            if self.text().starts_with('-') && !self.text().starts_with("-]") {
                self.chars.next();
                out.push('-');
                self.item(out)?;
            }
        }
        Ok(false)
    }

    /// Reads one item of a bracket expression, and writes the same for the library: a class such as
    /// `[:alpha:]`, an element in brackets of its own such as `[=c=]`, an escape, or a character.
    fn item(&mut self, out: &mut String) -> Result<(), PatternError> {
        let text = self.text();
        if let Some(class) = class(text) {
            out.push_str(class);
            self.skip(class);
            return Ok(());
        }
        for mark in ['=', '.'] {
            let inner = text.strip_prefix('[').and_then(|text| text.strip_prefix(mark));
            let Some(inner) = inner else { continue };
            let end = [mark, ']'].iter().collect::<String>();
            // A mark may be the element itself: `[===]`.
            let first = inner.chars().next().map_or(0, char::len_utf8);
            let after = inner.get(first..).unwrap_or_default();
            let tail = after.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '-');
            if !tail.starts_with(&end) {
                continue;
            }
            if tail.len() < after.len() {
                return Err(PatternError::Unsupported("a collating element of several characters"));
            }
            inner.chars().take(1).for_each(|c| push_literal(c, out));
            // The element with the two characters before it and the two after it.
            let whole = first.saturating_add(4);
            self.skip(text.get(..whole).unwrap_or(text));
            return Ok(());
        }
        match self.chars.next() {
            Some((_, '\\')) => {
                out.push('\\');
                out.extend(self.chars.next().map(|(_, c)| c));
            }
            Some((_, c)) => push_literal(c, out),
            None => {}
        }
        Ok(())
    }

    fn skip(&mut self, text: &str) {
        for _ in text.chars() {
            self.chars.next();
        }
    }
}

/// Returns the class with which a text begins, such as `[:alpha:]`. `None` if there is none.
fn class(text: &str) -> Option<&str> {
    let inner = text.strip_prefix("[:")?;
    let end = inner.find(|c: char| !c.is_ascii_lowercase() && c != '^')?;
    inner.get(end..)?.starts_with(":]").then_some(())?;
    // The name with `[:` before it and `:]` after it.
    text.get(..end.checked_add(4)?)
}

/// Writes a character that stands for itself in a class of the library.
fn push_literal(c: char, out: &mut String) {
    if matches!(c, '[' | ']' | '^' | '-' | '&' | '~') {
        out.push('\\');
    }
    out.push(c);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brackets_are_those_of_posix() {
        for (pattern, expected) in [
            (r"a\[b[^]a-c]d", r"a\[b[^\]a-c]d"),
            ("[[]", r"[\[]"),
            ("[a[]x]", r"[a\[]x]"),
            ("[a&&b~~c]", r"[a\&\&b\~\~c]"),
            ("[--/]", r"[\--/]"),
            ("[+--]", r"[+-\-]"),
            ("[a-]", r"[a\-]"),
            ("[-a]", r"[\-a]"),
            ("[a^]", r"[a\^]"),
            ("[[:alpha:]_][[:^digit:]]", "[[:alpha:]_][[:^digit:]]"),
            ("[[:Alpha:]]", r"[\[:Alpha:]]"),
            ("[[=a=][.-.]x]", r"[a\-x]"),
            ("[[===][.].]]", r"[=\]]"),
            ("[[.a", "[[.a"),
            ("[[.a b.]]", r"[\[.a b.]]"),
            (r"[\w.-]\.[\]]", r"[\w.\-]\.[\]]"),
            ("[ü-ÿ]", "[ü-ÿ]"),
            ("[a", "[a"),
            ("[]", "[]"),
            ("[[:alpha:]", "[[:alpha:]"),
            ("[\\", "[\\"),
            ("x\\", "x\\"),
        ] {
            assert_eq!(rewrite(pattern).as_deref(), Ok(expected), "{pattern}");
        }
        let several = PatternError::Unsupported("a collating element of several characters");
        assert_eq!(rewrite("[[.hyphen.]]"), Err(several));
    }
}
