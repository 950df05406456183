//! Reads the Authentication-Results fields (RFC 8601 §2.2) that the site trusts: what an earlier
//! server of the site found out about SPF, DKIM and DMARC.
//!
//! ```text
//! Authentication-Results: mx.example.org; dkim=pass (good) header.d=example.net; spf=fail
//!                         authserv-id     a clause: method=result and properties
//!
//! payload  = [CFWS] authserv-id [CFWS version] ( [CFWS] ";" [CFWS] "none" / 1*resinfo )
//! resinfo  = [CFWS] ";" method ["/" version] "=" result [reason "=" value]
//!            *( ptype "." property "=" pvalue )
//! CFWS     = blanks and comments, which may stand between any two of these words
//! ```
//!
//! Anybody can write such a field into a message. **Which fields count** (`trusted_results`):
//!
//! - The authserv-id is one that the site has configured.
//! - The field is above the first Received field of a server outside the site: what is below may be
//!   by the sender. The topmost Received field is that of the site's Postfix, which hands the
//!   message over; another one is of the site if its `by` names a configured authserv-id.
//! - The authserv-id is the first word of the field, spelt as configured except for case. The
//!   border (the server of the site that accepts mail from outside) must remove fields with the
//!   site's authserv-ids from incoming mail (RFC 8601 §5). It finds them by a regular expression,
//!   which knows no comments, quoted strings, or other spellings of a domain. A field with one of
//!   these may have passed the border.
//! - Every line above the field is part of a header field. For the border, the header ended at a
//!   line that is not.
//! - The version of the field is 1 or not given (§2.2). A clause with another version of its method
//!   (§2.7) is ignored.
//!
//! **What is read in spite of errors** (`Payload::read`):
//!
//! - A clause that cannot be parsed is ignored, up to the next semicolon outside of comments and
//!   quoted strings. An unclosed comment or quoted string takes the rest of the field.
//! - Values that should be quoted and are not (`header.b=a/b+c`), which real mail has, are read.
//! - Words that are no property (`action=none`, or a word without a value) are passed over.

use super::domain;
use crate::message::header::{Field, Header};
use crate::model::limits;

/// What one clause says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct MethodResult {
    /// `dkim`, `spf`, … in lower case.
    pub(super) method: String,
    /// `pass`, `fail`, … in lower case.
    pub(super) result: String,
    /// The value of `reason=`.
    pub(super) reason: Option<String>,
    /// Each `ptype.property` in lower case, with its value without quotes, in order. A property may
    /// occur several times.
    pub(super) properties: Vec<(String, String)>,
}

impl MethodResult {
    pub(super) fn of(method: &str, result: &str, properties: &[(&str, &str)]) -> Self {
        Self {
            method: method.into(),
            result: result.into(),
            reason: None,
            properties: properties
                .iter()
                .map(|(name, value)| ((*name).into(), (*value).into()))
                .collect(),
        }
    }

    pub(super) fn is(&self, method: &str, result: &str) -> bool {
        self.method == method && self.result == result
    }

    /// Returns the values of a property, in order. `name` is `ptype.property` in lower case.
    pub(super) fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.properties
            .iter()
            .filter(move |(property, _)| property == name)
            .map(|(_, value)| value.as_str())
    }
}

/// Returns the results of the fields that count (see above), topmost first, at most
/// `limits::MAX_AUTHENTICATION_RESULTS`. `ids` are the configured authserv-ids.
pub(super) fn trusted_results(header: &Header<'_>, ids: &[String]) -> Vec<MethodResult> {
    let mut results = Vec::new();
    for field in own_fields(header, ids).filter(|field| field.is("Authentication-Results")) {
        let text = field.unfolded();
        let is_trusted = |payload: &Payload| {
            let is_named = |id: &&String| id.eq_ignore_ascii_case(&payload.authserv_id);
            ids.iter().filter(is_named).any(|id| begins_with(field.value, id))
        };
        let payload = Payload::read(&text).filter(is_trusted);
        results.extend(payload.map(|payload| payload.results).unwrap_or_default());
        if results.len() >= limits::MAX_AUTHENTICATION_RESULTS {
            results.truncate(limits::MAX_AUTHENTICATION_RESULTS);
            break;
        }
    }
    results
}

/// Whether `word` is the first word in the raw value of a field, after blanks and line ends.
fn begins_with(value: &[u8], word: &str) -> bool {
    let blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
    let start = value
        .iter()
        .position(|byte| !blank(byte))
        .and_then(|at| value.get(at..))
        .unwrap_or_default();
    let (head, rest) = start.split_at_checked(word.len()).unwrap_or_default();
    head.eq_ignore_ascii_case(word.as_bytes())
        && rest.first().is_none_or(|next| blank(next) || b";(".contains(next))
}

/// Returns the fields above the first Received field that is not of the site, and above the first
/// line that is no part of a field (`Header::leading_fields`). The topmost Received field counts as
/// one of the site. `ids` are the configured authserv-ids.
pub(super) fn own_fields<'a>(
    header: &'a Header<'_>,
    ids: &'a [String],
) -> impl Iterator<Item = Field<'a>> {
    let mut is_topmost = true;
    header.leading_fields().take_while(move |field| {
        if !field.is("Received") {
            return true;
        }
        let is_own = is_topmost
            || received_by(field)
                .is_some_and(|host| ids.iter().any(|id| domain::is_same(id, &host)));
        is_topmost = false;
        is_own
    })
}

/// Returns the server that wrote a Received field: `[from NAME] by NAME ...` (RFC 5321 §4.4);
/// `None` for any other form. A HELO name `by` is not mistaken for the keyword.
fn received_by(field: &Field<'_>) -> Option<String> {
    let value = field.without_comments();
    let mut words = value.split([' ', '\t', ';']).filter(|word| !word.is_empty());
    let mut word = words.next()?;
    if word.eq_ignore_ascii_case("from") {
        word = words.nth(1)?;
    }
    if !word.eq_ignore_ascii_case("by") {
        return None;
    }
    words.next().map(str::to_owned)
}

/// The value of an Authentication-Results field, trusted or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Payload {
    pub(super) authserv_id: String,
    pub(super) results: Vec<MethodResult>,
}

impl Payload {
    /// Parses `authres-payload` from an unfolded value; `None` if its beginning, up to the first
    /// semicolon, is invalid or of another version. The authserv-id may be empty. Clauses beyond
    /// `limits::MAX_RESULT_CLAUSES` are left out.
    pub(super) fn read(text: &str) -> Option<Self> {
        let mut parser = ResultsParser { rest: text };
        parser.skip_cfws()?;
        let authserv_id = parser.value()?;
        parser.skip_cfws()?;
        let version = parser.take_while(|c| c.is_ascii_digit());
        parser.skip_cfws()?;
        if !is_version_one(version) || !parser.at_clause_end() {
            return None;
        }
        let mut results = Vec::new();
        for _ in 0..limits::MAX_RESULT_CLAUSES {
            if !parser.eat(';') {
                break;
            }
            results.extend(parser.resinfo());
            if parser.skip_clause().is_none() {
                break;
            }
        }
        Some(Self { authserv_id, results })
    }
}

fn is_version_one(version: &str) -> bool {
    version.is_empty() || version.trim_start_matches('0') == "1"
}

/// Parses a field value; `rest` is the part that is still to be parsed. A method that returns an
/// option returns `None` if the rest does not match its rule.
struct ResultsParser<'a> {
    rest: &'a str,
}

impl<'a> ResultsParser<'a> {
    /// Parses `resinfo` after its semicolon. Properties beyond `limits::MAX_RESULT_PROPERTIES` are
    /// left in the rest.
    fn resinfo(&mut self) -> Option<MethodResult> {
        self.skip_cfws()?;
        let method = self.keyword()?.to_ascii_lowercase();
        self.skip_cfws()?;
        if self.eat('/') {
            self.skip_cfws()?;
            let version = self.take_while(|c| c.is_ascii_digit());
            if version.is_empty() || !is_version_one(version) {
                return None;
            }
            self.skip_cfws()?;
        }
        if !self.eat('=') {
            return None;
        }
        self.skip_cfws()?;
        let result = self.keyword()?.to_ascii_lowercase();
        // `passing` and `pass/2` are not `pass`.
        if !self.rest.is_empty() && !self.rest.starts_with([' ', '\t', '(', ';']) {
            return None;
        }
        let mut clause = MethodResult { method, result, ..MethodResult::default() };
        while clause.properties.len() < limits::MAX_RESULT_PROPERTIES
            && self.property(&mut clause).is_some()
        {}
        Some(clause)
    }

    /// Parses `reasonspec` or `propspec`, and skips any other word. Returns `None` at the end of
    /// the clause, or if a comment or a quoted string is not closed.
    fn property(&mut self, result: &mut MethodResult) -> Option<()> {
        self.skip_cfws()?;
        if self.at_clause_end() {
            return None;
        }
        let Some(name) = self.keyword() else { return self.skip_word() };
        let mut is_word_over = self.at_word_end();
        self.skip_cfws()?;
        let property = if self.eat('.') {
            self.skip_cfws()?;
            let property = self.keyword();
            is_word_over = self.at_word_end();
            self.skip_cfws()?;
            property
        } else {
            None
        };
        if !self.eat('=') {
            // A word without a value. What stands after a blank may be a property of its own, so it
            // is not skipped with the word.
            return if is_word_over { Some(()) } else { self.skip_word() };
        }
        self.skip_cfws()?;
        if self.at_clause_end() {
            return None;
        }
        let value = self.value()?;
        match property {
            Some(property) => {
                result.properties.push((format!("{name}.{property}").to_ascii_lowercase(), value));
            }
            None if name.eq_ignore_ascii_case("reason") => result.reason = Some(value),
            None => {}
        }
        Some(())
    }

    /// Skips a quoted string, or the rest of a word up to one. Does nothing at the end of a word.
    fn skip_word(&mut self) -> Option<()> {
        if self.at_word_end() {
            return Some(());
        }
        // `value` takes at least one character of a word. If it ever took none, one would be
        // skipped here, so that the loops of the callers end.
        let before = self.rest.len();
        self.value()?;
        if self.rest.len() == before {
            self.rest = self.rest.get(self.rest.chars().next()?.len_utf8()..)?;
        }
        Some(())
    }

    /// `Keyword` of RFC 5321 §4.1.2, also with `_`, which real mail has.
    fn keyword(&mut self) -> Option<&'a str> {
        Some(self.take_while(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_'))
            .filter(|word| !word.is_empty())
    }

    /// Parses `value` and `pvalue`: a quoted string, which a domain may follow, or everything up to
    /// a blank, a comment, a quoted string or a semicolon. An unclosed quoted string gives `None`,
    /// and takes the rest.
    fn value(&mut self) -> Option<String> {
        let mut value = String::new();
        if self.eat('"') {
            let mut chars = std::mem::take(&mut self.rest).chars();
            loop {
                match chars.next()? {
                    '"' => break,
                    '\\' => value.push(chars.next()?),
                    c => value.push(c),
                }
            }
            self.rest = chars.as_str();
            if !self.rest.starts_with('@') {
                return Some(value);
            }
        }
        value.push_str(self.take_while(|c| !matches!(c, ' ' | '\t' | ';' | '(' | '"')));
        Some(value)
    }

    /// Skips `[CFWS]`. An unclosed comment gives `None`, and takes the rest.
    fn skip_cfws(&mut self) -> Option<()> {
        loop {
            self.rest = self.rest.trim_start_matches([' ', '\t']);
            if !self.rest.starts_with('(') {
                return Some(());
            }
            self.skip_comment()?;
        }
    }

    /// Skips a comment, which may contain others (RFC 5322 §3.2.2). An unclosed one gives `None`,
    /// and takes the rest.
    fn skip_comment(&mut self) -> Option<()> {
        let mut depth = 0usize;
        let mut chars = std::mem::take(&mut self.rest).chars();
        loop {
            match chars.next()? {
                '\\' => drop(chars.next()?),
                '(' => depth = depth.saturating_add(1),
                ')' => depth = depth.saturating_sub(1),
                _ => {}
            }
            if depth == 0 {
                self.rest = chars.as_str();
                return Some(());
            }
        }
    }

    /// Skips to the next semicolon or the end; `None` if a comment or a quoted string is not
    /// closed.
    fn skip_clause(&mut self) -> Option<()> {
        loop {
            self.skip_cfws()?;
            if self.at_clause_end() {
                return Some(());
            }
            self.skip_word()?;
        }
    }

    fn at_word_end(&self) -> bool {
        self.at_clause_end() || self.rest.starts_with([' ', '\t', '('])
    }

    fn at_clause_end(&self) -> bool {
        self.rest.is_empty() || self.rest.starts_with(';')
    }

    /// Skips this character if it comes next. Returns whether it did.
    fn eat(&mut self, c: char) -> bool {
        let rest = self.rest.strip_prefix(c);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn take_while(&mut self, is: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|c| !is(c)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at_checked(end).unwrap_or((self.rest, ""));
        self.rest = rest;
        taken
    }
}

#[cfg(test)]
mod tests;
