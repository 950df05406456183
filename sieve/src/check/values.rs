//! Checks of constants. What variables make is checked when the script runs.

use super::strings::{Text, exprs};
use super::{Checker, excerpt};
use crate::address::{AddressSpec, split_unquoted};
use crate::diagnostic::{Code, Diagnostic};
use crate::ir::{DatePart, Keyword, StringExpr, UtcOffset};
use crate::lexer::Token;
use crate::span::Span;

/// Standard fields that contain no list of addresses. RFC 5322 and RFC 2045 define most of them.
const NO_ADDRESS_FIELDS: [&str; 16] = [
    "subject",
    "date",
    "resent-date",
    "message-id",
    "resent-message-id",
    "in-reply-to",
    "references",
    "comments",
    "keywords",
    "received",
    "mime-version",
    "content-type",
    "content-transfer-encoding",
    "content-disposition",
    "content-description",
    "content-id",
];

/// The most characters of the name of a script (RFC 5804 §1.6).
const MAX_SCRIPT_NAME_CHARS: usize = 128;

impl Checker<'_> {
    /// Reports a constant that `is_valid` refuses. `what` completes "is no …".
    pub(super) fn check_text(
        &mut self,
        text: &Text,
        code: Code,
        what: &str,
        is_valid: impl Fn(&str) -> bool,
    ) {
        let Some(value) = text.constant() else { return };
        if !is_valid(value) {
            let message = format!("`{}` is no {what}", excerpt(value));
            self.complain(code, text.span(), message);
        }
    }

    /// Returns names of header fields.
    pub(super) fn field_names(&mut self, tokens: &[Token]) -> Vec<StringExpr> {
        let names = self.texts(tokens);
        names.iter().for_each(|name| self.check_tested_field(name));
        exprs(names)
    }

    /// Reports a text that is no name of a header field, where a command needs one.
    pub(super) fn check_field_name(&mut self, name: &Text) {
        self.judge_field_name(name, Code::BadHeaderName, "");
    }

    /// Warns of a text that is no name of a header field, where a test looks for the field: that is
    /// no error (RFC 5228 §2.4.2.2).
    pub(super) fn check_tested_field(&mut self, name: &Text) {
        self.judge_field_name(name, Code::UnmatchableHeaderName, ": it matches nothing");
    }

    fn judge_field_name(&mut self, name: &Text, code: Code, consequence: &str) {
        let Some(value) = name.constant() else { return };
        if is_field_name(value) {
            return;
        }
        let message = format!("`{}` is no name of a header field{consequence}", excerpt(value));
        let diagnostic = Diagnostic::new(code, name.span(), message);
        let bare = value.trim().trim_end_matches(':');
        self.report(match is_field_name(bare) {
            true => diagnostic.with_help(format!("write `{}`", excerpt(bare))),
            false => diagnostic,
        });
    }

    /// Returns names of header fields that contain addresses (RFC 5228 §5.1). Standard fields that
    /// contain none are reported; other fields may contain some.
    pub(super) fn address_field_names(&mut self, tokens: &[Token]) -> Vec<StringExpr> {
        let names = self.texts(tokens);
        for name in &names {
            self.check_tested_field(name);
            let Some(value) = name.constant() else { continue };
            if NO_ADDRESS_FIELDS.iter().any(|field| field.eq_ignore_ascii_case(value)) {
                let message = format!("the field `{value}` contains no addresses");
                let diagnostic = Diagnostic::new(Code::NotAnAddressHeader, name.span(), message);
                self.report(diagnostic.with_help("use the test `header`"));
            }
        }
        exprs(names)
    }

    /// Checks an address, which may have a display name (RFC 5228 §2.4.2.3).
    pub(super) fn check_address(&mut self, text: &Text) {
        self.check_text(text, Code::BadAddress, "email address", |value| {
            AddressSpec::parse_mailbox(value).is_some()
        });
    }

    /// Checks that a constant is one line of text, such as a Subject. `what` begins the message.
    pub(super) fn check_line(&mut self, text: &Text, what: &str) {
        let Some(value) = text.constant() else { return };
        if value.chars().any(|c| c.is_control() && c != '\t') {
            let message = format!("{what} must be one line without control characters");
            self.complain(Code::BadHeaderValue, text.span(), message);
        }
    }

    /// Checks a MIME entity: header fields, an empty line, and content (RFC 2045 §2.4). The header
    /// must be ASCII (RFC 5230 §5).
    pub(super) fn check_mime_entity(&mut self, text: &Text) {
        let Some(value) = text.constant() else { return };
        if let Err(reason) = mime_entity_error(value) {
            let message = format!("this is no MIME entity: {reason}");
            let help = "begin with header fields such as `Content-Type: text/plain`, and an \
                        empty line";
            let diagnostic = Diagnostic::new(Code::BadMimeEntity, text.span(), message);
            self.report(diagnostic.with_help(help));
        }
    }

    /// Returns names of external lists.
    pub(super) fn list_names(&mut self, names: Vec<Text>) -> Vec<StringExpr> {
        for name in &names {
            self.check_list_name(name);
        }
        exprs(names)
    }

    /// Checks the name of an external list: a URI, or the short form `:parameter` of a URN of Sieve
    /// (RFC 6134 §2.5).
    pub(super) fn check_list_name(&mut self, name: &Text) {
        let Some(value) = name.constant() else { return };
        let is_short = |rest: &str| is_uri(&format!("urn:{rest}"));
        if !(is_uri(value) || value.strip_prefix(':').is_some_and(is_short)) {
            let message = format!("`{}` is no name of an external list", excerpt(value));
            let diagnostic = Diagnostic::new(Code::BadListName, name.span(), message);
            self.report(
                diagnostic.with_help("write a URI, such as `tag:example.org,2026:friends`"),
            );
        }
    }

    /// Checks the name of a script (RFC 5804 §1.6).
    pub(super) fn check_script_name(&mut self, name: &str, span: Span) {
        let is_forbidden = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
        let length = name.chars().count();
        if length == 0 || length > MAX_SCRIPT_NAME_CHARS || name.chars().any(is_forbidden) {
            let message = format!("`{}` is no name of a script", excerpt(name));
            self.complain(Code::BadScriptName, span, message);
        }
    }

    /// Reads the name of a part of a date. If it is absent, that was reported.
    pub(super) fn date_part(&mut self, text: Option<Text>) -> Keyword<DatePart> {
        let Some(text) = text else { return Keyword::Known(DatePart::Year) };
        let names = [
            "year", "month", "day", "date", "julian", "hour", "minute", "second", "time",
            "iso8601", "std11", "zone", "weekday",
        ];
        self.keyword(text, DatePart::parse, Code::UnknownDatePart, "part of a date", &names)
    }

    /// Reads the offset of a time zone.
    pub(super) fn zone(&mut self, text: Text) -> Keyword<UtcOffset> {
        self.keyword(text, UtcOffset::parse, Code::BadTimeZone, "time zone like `+0200`", &[])
    }

    /// Parses a constant word, and reports a word that `parse` does not know. For the report,
    /// `what` completes "is no …", and `names` are the words that `parse` knows. A word that
    /// variables make is parsed by the run.
    pub(super) fn keyword<T>(
        &mut self,
        text: Text,
        parse: impl Fn(&str) -> Option<T>,
        code: Code,
        what: &str,
        names: &[&str],
    ) -> Keyword<T> {
        let Some(value) = text.constant() else { return Keyword::Dynamic(text.expr) };
        if let Some(known) = parse(value) {
            return Keyword::Known(known);
        }
        let message = format!("`{}` is no {what}", excerpt(value));
        let mut diagnostic = Diagnostic::new(code, text.span(), message);
        if let Some(meant) = self.closest(value, names.iter().copied()) {
            diagnostic = diagnostic.with_help(format!("did you mean `{meant}`?"));
        } else if !names.is_empty() {
            diagnostic = diagnostic.with_help(format!("use one of {}", names.join(", ")));
        }
        self.report(diagnostic);
        Keyword::Dynamic(text.expr)
    }
}

/// Returns whether a text can be the name of a header field (RFC 5322 §2.2).
pub(super) fn is_field_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b':')
}

/// Returns whether a text is a list of addresses, some with display names, separated by commas.
pub(super) fn is_address_list(text: &str) -> bool {
    let mut parts = split_unquoted(text, ',').peekable();
    parts.peek().is_some() && parts.all(|part| AddressSpec::parse_mailbox(part).is_some())
}

/// Returns whether a text has a scheme and something after it (RFC 3986 §3).
pub(super) fn is_uri(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once(':') else { return false };
    scheme.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
        && !rest.is_empty()
        && text.chars().all(|c| !c.is_control() && !c.is_whitespace())
}

/// Returns an error that says why a text is no MIME entity, `Ok` if it is one. The header may have
/// no field: a text may begin with an empty line. A text may also end with the line end of its last
/// field. `run::vacation::is_entity` accepts the same.
pub(super) fn mime_entity_error(text: &str) -> Result<(), String> {
    if text.is_empty() {
        return Err("it is empty".to_owned());
    }
    let mut is_first = true;
    for line in text.split('\n') {
        let line = line.strip_suffix('\r').unwrap_or(line);
        if line.is_empty() {
            return Ok(());
        }
        if !line.is_ascii() {
            return Err(format!("`{}` is not ASCII, as header fields must be", excerpt(line)));
        }
        let is_continuation = line.starts_with([' ', '\t']) && !is_first;
        is_first = false;
        if is_continuation {
            continue;
        }
        let name = line.split_once(':').map(|(name, _)| name.trim_end());
        if !name.is_some_and(is_field_name) {
            return Err(format!("`{}` is no header field", excerpt(line)));
        }
    }
    Err("there is no empty line after the header".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_listed_with_commas() {
        assert!(is_address_list("\"B, A\" <a@b.example>, c@d.example"));
        assert!(!is_address_list("a@b.example,") && !is_address_list(""));
    }

    #[test]
    fn a_mime_entity_begins_with_a_whole_header() {
        for text in ["\r\nx", "A: b\r\n", "A: b\r\n c\r\n\r\nx", "A: b\n\nx"] {
            assert_eq!(mime_entity_error(text), Ok(()), "{text}");
        }
        for text in ["", "A: \u{fc}\r\n\r\nx", "Hello\r\n\r\n", "A: b\r\nx", " A: b\r\n\r\n"] {
            assert!(mime_entity_error(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_uri_has_a_scheme() {
        assert!(is_uri("tag:example.org,2026:x") && is_uri("addrbook:default"));
        assert!(!is_uri("friends") && !is_uri(":x") && !is_uri("1a:x") && !is_uri("a:b c"));
    }
}
