//! Strings of the script: expansion, variables and match variables (RFC 5229).
//!
//! - Local variables and match variables belong to one run of one script; global variables to the
//!   whole run (RFC 6609 §3.4).
//! - A variable that was never set is empty.
//! - What a variable contains is not expanded again.

use std::borrow::Cow;

use super::{Frame, Result, Run};
use crate::ir::{Keyword, Modifier, Scope, Segment, StringExpr, VariableId};
use crate::outcome::{RuntimeErrorKind, WarningKind};

/// What a string, or a piece of one, costs beside its bytes, in bytes.
const STRING_COST: usize = 8;

impl Run<'_> {
    /// Returns a string with the values of its variables. Variables that were never set, and match
    /// variables that do not exist, are empty.
    pub(super) fn expand<'t>(
        &mut self,
        frame: &Frame<'_>,
        text: &'t StringExpr,
    ) -> Result<Cow<'t, str>> {
        let segments = match text {
            StringExpr::Constant(text) => {
                self.fuel.bytes(text.len().saturating_add(STRING_COST))?;
                return Ok(Cow::Borrowed(text));
            }
            StringExpr::Template(segments) => segments,
        };
        let mut out = String::new();
        for segment in segments {
            match segment {
                Segment::Literal(text) => self.append(&mut out, text)?,
                Segment::Variable(id) => {
                    let value = self.variable(frame, *id);
                    self.append(&mut out, &value)?;
                }
                Segment::Capture(index) => {
                    if let Some(value) = frame.captures.get(usize::from(*index)) {
                        self.append(&mut out, value)?;
                    }
                }
            }
        }
        Ok(Cow::Owned(out))
    }

    pub(super) fn expand_all<'t>(
        &mut self,
        frame: &Frame<'_>,
        texts: &'t [StringExpr],
    ) -> Result<Vec<Cow<'t, str>>> {
        texts.iter().map(|text| self.expand(frame, text)).collect()
    }

    pub(super) fn expand_option<'t>(
        &mut self,
        frame: &Frame<'_>,
        text: Option<&'t StringExpr>,
    ) -> Result<Option<Cow<'t, str>>> {
        text.map(|text| self.expand(frame, text)).transpose()
    }

    /// Returns the meaning of a word. Fails with `UnknownWord` if variables made a word that has
    /// none. `expected` says what the word should be, for the error: `part of a date`.
    pub(super) fn keyword<T: Copy>(
        &mut self,
        frame: &Frame<'_>,
        keyword: &Keyword<T>,
        parse: fn(&str) -> Option<T>,
        expected: &'static str,
    ) -> Result<T> {
        match keyword {
            Keyword::Known(value) => Ok(*value),
            Keyword::Dynamic(text) => {
                let word = self.expand(frame, text)?;
                let unknown = || RuntimeErrorKind::UnknownWord { word: word.to_string(), expected };
                parse(&word).ok_or_else(unknown)
            }
        }
    }

    fn append(&mut self, out: &mut String, text: &str) -> Result<()> {
        self.fuel.bytes(text.len().saturating_add(STRING_COST))?;
        out.push_str(text);
        Ok(())
    }

    /// Returns the value of a variable, empty if it was never set.
    pub(super) fn variable(&self, frame: &Frame<'_>, id: VariableId) -> String {
        let Some(variable) = frame.script.variable(id) else { return String::new() };
        match variable.scope {
            Scope::Local => {
                let value = frame.locals.get(usize::from(id.0)).cloned().flatten();
                value.unwrap_or_default()
            }
            Scope::Global => self.globals.get(&variable.name).cloned().unwrap_or_default(),
            Scope::Environment => self.world.environment(&variable.name).unwrap_or_default(),
        }
    }

    /// Gives a variable a value. A value longer than [`RunLimits::variable`](crate::RunLimits) is
    /// cut, with a warning. Fails if a new global variable exceeds the limit of variables.
    pub(super) fn set_variable(
        &mut self,
        frame: &mut Frame<'_>,
        id: VariableId,
        mut value: String,
    ) -> Result<()> {
        let Some(variable) = frame.script.variable(id) else { return Ok(()) };
        let limit = self.limits.variable;
        if value.len() > limit as usize {
            value.truncate(value.floor_char_boundary(limit as usize));
            self.warn(WarningKind::VariableCut { name: variable.name.clone(), limit });
        }
        self.fuel.bytes(value.len())?;
        self.trace_assignment(&variable.name, &value);
        match variable.scope {
            Scope::Local => {
                if let Some(local) = frame.locals.get_mut(usize::from(id.0)) {
                    *local = Some(value);
                }
            }
            Scope::Global => {
                if !self.globals.contains_key(&variable.name) {
                    self.count_variables(1)?;
                }
                self.globals.insert(variable.name.clone(), value);
            }
            // It cannot be set: the checker refuses it.
            Scope::Environment => {}
        }
        Ok(())
    }

    /// Counts variables that exist from now on. Fails if there are too many.
    pub(super) fn count_variables(&mut self, more: usize) -> Result<()> {
        self.variables = self.variables.saturating_add(more);
        self.within("variables", self.variables, u64::from(self.limits.variables))
    }

    /// Sets the match variables: `parts` is the whole match, and then each part. A part that is
    /// `None` becomes empty.
    pub(super) fn set_captures<'t>(
        &mut self,
        frame: &mut Frame<'_>,
        parts: impl Iterator<Item = Option<&'t str>>,
    ) -> Result<()> {
        let mut captures = Vec::new();
        for (index, part) in parts.enumerate() {
            let part = part.unwrap_or_default();
            self.fuel.bytes(part.len().saturating_add(1))?;
            self.trace_assignment(&index.to_string(), part);
            captures.push(part.to_owned());
        }
        frame.captures = captures;
        Ok(())
    }

    /// Applies the modifiers of `set` or `extracttext`, which the checker has put into their order
    /// (RFC 5229 §4.1).
    pub(super) fn modify(&mut self, mut value: String, modifiers: &[Modifier]) -> Result<String> {
        for modifier in modifiers {
            self.fuel.bytes(value.len())?;
            value = apply(*modifier, value);
        }
        Ok(value)
    }
}

fn apply(modifier: Modifier, mut value: String) -> String {
    match modifier {
        Modifier::Lower => value.make_ascii_lowercase(),
        Modifier::Upper => value.make_ascii_uppercase(),
        Modifier::LowerFirst => {
            if let Some(first) = value.get_mut(..1) {
                first.make_ascii_lowercase();
            }
        }
        Modifier::UpperFirst => {
            if let Some(first) = value.get_mut(..1) {
                first.make_ascii_uppercase();
            }
        }
        Modifier::QuoteWildcard => return quote(&value, "*?\\"),
        Modifier::QuoteRegex => return quote(&value, "\\^$.[]|()*+?{}"),
        Modifier::EncodeUrl => return encode_url(&value),
        Modifier::Length => return value.chars().count().to_string(),
    }
    value
}

/// Puts a backslash before each character that is one of `special`.
fn quote(value: &str, special: &str) -> String {
    let mut out = String::with_capacity(value.len());
    for c in value.chars() {
        if special.contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// Percent-encodes every byte that is not unreserved (RFC 3986 §2.3, RFC 5435 §6).
fn encode_url(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let digit = |value: u8| char::from_digit(u32::from(value), 16).unwrap_or('0');
            out.push('%');
            out.push(digit(byte >> 4).to_ascii_uppercase());
            out.push(digit(byte & 15).to_ascii_uppercase());
        }
    }
    out
}

/// Returns a text as one line: control characters become blanks, and blanks around it are removed.
pub(super) fn single_line(text: &str) -> String {
    let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    line.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modifiers_change_the_text() {
        for (modifier, text, expected) in [
            (Modifier::Lower, "juMB\u{c4}", "jumb\u{c4}"),
            (Modifier::Upper, "juMB\u{e4}", "JUMB\u{e4}"),
            (Modifier::LowerFirst, "JuM", "juM"),
            (Modifier::UpperFirst, "juM", "JuM"),
            (Modifier::UpperFirst, "\u{e4}u", "\u{e4}u"),
            (Modifier::UpperFirst, "", ""),
            (Modifier::QuoteWildcard, "Rock*?\\", "Rock\\*\\?\\\\"),
            (Modifier::QuoteRegex, "a.b", "a\\.b"),
            (Modifier::EncodeUrl, "a b/\u{e4}~", "a%20b%2F%C3%A4~"),
            (Modifier::Length, "\u{e4}bc", "3"),
        ] {
            assert_eq!(apply(modifier, text.to_owned()), expected, "{modifier:?} {text}");
        }
    }

    #[test]
    fn a_line_has_no_controls() {
        assert_eq!(single_line(" a\r\nBcc: b\0 "), "a  Bcc: b");
    }
}
