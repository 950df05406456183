//! Authentication-Results (RFC 8601 §2.2), read and trusted.
//!
//! ```text
//! payload  = [CFWS] authserv-id [CFWS version] ( [CFWS] ";" [CFWS] "none" / 1*resinfo )
//! resinfo  = [CFWS] ";" method ["/" version] "=" result [reason "=" value] *( ptype "." property "=" pvalue )
//! ```
//!
//! A field counts if its authserv-id is one that the site names, and if it stands above the first
//! Received field that is not the site's own: the topmost one is Postfix's, and further ones whose
//! `by` is such a name. The site's border must strip our authserv-id from incoming mail (RFC 8601
//! §5); what stands further down is the sender's own writing and is not looked at.
//!
//! The border strips by a regular expression, which knows no comments, quoted strings, quoted
//! pairs, or other spellings of a domain. So a field counts only if its authserv-id stands first
//! and as it is configured, but for case: what the border leaves is then never believed. For the
//! same reason nothing counts below a line that is no header field: the header ended there for the
//! border.
//!
//! A field, and a method, of a version other than 1 says nothing (§2.2, §2.7). What cannot be read
//! says nothing either, and spoils no more than itself: a clause goes to the next semicolon that no
//! comment or quoted string holds; a comment or a quoted string without an end takes the rest of
//! the field.
//!
//! Out there values stand unquoted that should be quoted (`header.b=a/b+c`,
//! `smtp.remote-ip=2001:db8::1`) and words without a ptype (`action=none`); both are read, and mean
//! nothing.

use super::domain;
use crate::message::header::{Field, Header};
use crate::model::limits;

/// One method's result.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct MethodResult {
    /// In lower case.
    pub(super) method: String,
    /// In lower case.
    pub(super) result: String,
    /// `reason=`, for people.
    pub(super) reason: Option<String>,
    /// `ptype.property`, in lower case, and its value without quotes.
    pub(super) properties: Vec<(String, String)>,
}

impl MethodResult {
    /// A verdict of our own.
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

    /// Whether it says this of that method.
    pub(super) fn is(&self, method: &str, result: &str) -> bool {
        self.method == method && self.result == result
    }

    /// Each value of a property.
    pub(super) fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.properties
            .iter()
            .filter(move |(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }
}

/// All verdicts that count, topmost first.
pub(super) fn trusted_results(header: &Header<'_>, ids: &[String]) -> Vec<MethodResult> {
    let mut verdicts = Vec::new();
    for field in own_fields(header, ids).filter(|field| field.is("Authentication-Results")) {
        let text = field.unfolded();
        let plain = |payload: &Payload| {
            let named = |id: &&String| id.eq_ignore_ascii_case(&payload.authserv_id);
            ids.iter().filter(named).any(|id| begins_with(field.value, id))
        };
        let payload = Payload::read(&text).filter(plain);
        verdicts.extend(payload.map(|payload| payload.verdicts).unwrap_or_default());
        if verdicts.len() >= limits::MAX_AUTHENTICATION_RESULTS {
            verdicts.truncate(limits::MAX_AUTHENTICATION_RESULTS);
            break;
        }
    }
    verdicts
}

/// Whether the value of a field, as it was sent, begins with this word, after no more than blanks
/// and line ends.
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

/// The fields that stand above the first Received field which is not the site's own, and the site's
/// Received fields.
pub(super) fn own_fields<'a>(
    header: &'a Header<'_>,
    ids: &'a [String],
) -> impl Iterator<Item = Field<'a>> {
    let mut topmost = true;
    header.leading_fields().take_while(move |field| {
        if !field.is("Received") {
            return true;
        }
        let own = topmost
            || received_by(field).is_some_and(|host| ids.iter().any(|id| domain::same(id, &host)));
        topmost = false;
        own
    })
}

/// Who wrote a Received field: `[from NAME] by NAME ...` (RFC 5321 §4.4). A name that says `by`
/// fools nobody.
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

/// One field, read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Payload {
    pub(super) authserv_id: String,
    pub(super) verdicts: Vec<MethodResult>,
}

impl Payload {
    /// `authres-payload`, of an unfolded value; `None` where it is none, or of another version.
    pub(super) fn read(text: &str) -> Option<Self> {
        let mut text = ResultsParser { rest: text };
        text.blank()?;
        let authserv_id = text.value()?;
        text.blank()?;
        let version = text.run(|c| c.is_ascii_digit());
        text.blank()?;
        if !is_first(version) || !text.at_clause_end() {
            return None;
        }
        let mut verdicts = Vec::new();
        for _ in 0..limits::MAX_RESULT_CLAUSES {
            if !text.eat(';') {
                break;
            }
            verdicts.extend(text.resinfo());
            if text.skip_clause().is_none() {
                break;
            }
        }
        Some(Self { authserv_id, verdicts })
    }
}

/// No version, or the first.
fn is_first(version: &str) -> bool {
    version.is_empty() || version.trim_start_matches('0') == "1"
}

/// What is left to read. `None` from a rule: it does not stand here.
struct ResultsParser<'a> {
    rest: &'a str,
}

impl<'a> ResultsParser<'a> {
    /// `resinfo`, after its semicolon.
    fn resinfo(&mut self) -> Option<MethodResult> {
        self.blank()?;
        let method = self.keyword()?.to_ascii_lowercase();
        self.blank()?;
        if self.eat('/') {
            self.blank()?;
            let version = self.run(|c| c.is_ascii_digit());
            if version.is_empty() || !is_first(version) {
                return None;
            }
            self.blank()?;
        }
        if !self.eat('=') {
            return None;
        }
        self.blank()?;
        let result = self.keyword()?.to_ascii_lowercase();
        // `passing` and `pass/2` are no `pass`.
        if !self.rest.is_empty() && !self.rest.starts_with([' ', '\t', '(', ';']) {
            return None;
        }
        let mut verdict = MethodResult { method, result, ..MethodResult::default() };
        while verdict.properties.len() < limits::MAX_RESULT_PROPERTIES
            && self.property(&mut verdict).is_some()
        {}
        Some(verdict)
    }

    /// `reasonspec` or `propspec`; another word is passed over. `None` at the end of the clause.
    fn property(&mut self, verdict: &mut MethodResult) -> Option<()> {
        self.blank()?;
        if self.at_clause_end() {
            return None;
        }
        let Some(name) = self.keyword() else { return self.pass_over() };
        self.blank()?;
        let property = if self.eat('.') {
            self.blank()?;
            let property = self.keyword();
            self.blank()?;
            property
        } else {
            None
        };
        if !self.eat('=') {
            return self.pass_over();
        }
        self.blank()?;
        if self.at_clause_end() {
            return None;
        }
        let value = self.value()?;
        match property {
            Some(property) => {
                verdict.properties.push((format!("{name}.{property}").to_ascii_lowercase(), value))
            }
            None if name.eq_ignore_ascii_case("reason") => verdict.reason = Some(value),
            None => {}
        }
        Some(())
    }

    /// A word that has no meaning.
    fn pass_over(&mut self) -> Option<()> {
        if self.at_clause_end() || self.rest.starts_with([' ', '\t', '(']) {
            return Some(());
        }
        // What a value may begin with it takes; any other character by itself.
        let before = self.rest.len();
        self.value()?;
        if self.rest.len() == before {
            self.rest = self.rest.get(self.rest.chars().next()?.len_utf8()..)?;
        }
        Some(())
    }

    /// `Keyword` of RFC 5321 §4.1.2, with `_`, which is out there.
    fn keyword(&mut self) -> Option<&'a str> {
        Some(self.run(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_'))
            .filter(|word| !word.is_empty())
    }

    /// `value` and `pvalue`: a quoted string, which a domain may follow; else everything to a
    /// blank, a comment or a semicolon. `None` where a quoted string has no end: then nothing is
    /// left.
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
        value.push_str(self.run(|c| !matches!(c, ' ' | '\t' | ';' | '(' | '"')));
        Some(value)
    }

    /// `[CFWS]`; `None` where a comment has no end: then nothing is left.
    fn blank(&mut self) -> Option<()> {
        loop {
            self.rest = self.rest.trim_start_matches([' ', '\t']);
            if !self.rest.starts_with('(') {
                return Some(());
            }
            self.comment()?;
        }
    }

    /// `comment` of RFC 5322 §3.2.2, with those within it.
    fn comment(&mut self) -> Option<()> {
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

    /// To the next semicolon or the end; `None` where something has no end.
    fn skip_clause(&mut self) -> Option<()> {
        loop {
            self.blank()?;
            if self.at_clause_end() {
                return Some(());
            }
            self.pass_over()?;
        }
    }

    fn at_clause_end(&self) -> bool {
        self.rest.is_empty() || self.rest.starts_with(';')
    }

    fn eat(&mut self, c: char) -> bool {
        let rest = self.rest.strip_prefix(c);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn run(&mut self, is: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|c| !is(c)).unwrap_or(self.rest.len());
        let (run, rest) = self.rest.split_at_checked(end).unwrap_or((self.rest, ""));
        self.rest = rest;
        run
    }
}

#[cfg(test)]
mod tests;
