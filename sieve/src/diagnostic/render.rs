//! Renders diagnostics as text with the line of the script, as JSON, and as one line.

use std::fmt::Write as _;

use super::{Diagnostic, Severity};
use crate::span::{LineIndex, Position, Span};

/// The most characters of a line of the script that are shown.
const MAX_SNIPPET_CHARS: usize = 96;
/// The most characters that are shown before the span, in a line that is cut.
const SNIPPET_CONTEXT_CHARS: usize = 24;

impl Diagnostic {
    /// Returns the line and column at which the span begins.
    #[must_use]
    pub fn position(&self, index: &LineIndex<'_>) -> Position {
        index.position(self.span.start)
    }

    /// Renders the diagnostic with the lines of the script that it is about. `name` is the name of
    /// the script. The text ends with a line end.
    ///
    /// ```
    /// use restante_sieve::{Code, Diagnostic, LineIndex, Span};
    ///
    /// let index = LineIndex::new(b"keep;\nkep;\n");
    /// let diagnostic = Diagnostic::new(Code::UnknownCommand, Span::new(6, 9), "no command `kep`");
    /// assert_eq!(
    ///     diagnostic.text(&index, "main"),
    ///     "error[S0301]: no command `kep`\n --> main:2:1\n  |\n2 | kep;\n  | ^^^\n"
    /// );
    /// ```
    #[must_use]
    pub fn text(&self, index: &LineIndex<'_>, name: &str) -> String {
        let lines = self.related.iter().map(|(span, _)| index.position(span.start).line);
        let last = lines.fold(self.position(index).line, u32::max);
        let indent = " ".repeat(last.to_string().len());
        let mut out = format!("{}[{}]: {}\n", self.severity, self.code, printable(&self.message));
        push_snippet(&mut out, index, name, &indent, self.span, '^');
        for (span, note) in &self.related {
            let _ = writeln!(out, "{indent} = note: {}", printable(note));
            push_snippet(&mut out, index, name, &indent, *span, '-');
        }
        if let Some(help) = &self.help {
            let _ = writeln!(out, "{indent} = help: {}", printable(help));
        }
        out
    }

    /// Renders the diagnostic as one line without a line end, with the help if there is some:
    /// ``line 2, column 1: error: no command `kep` (S0301); did you mean `keep`?``
    #[must_use]
    pub fn line(&self, index: &LineIndex<'_>) -> String {
        let Position { line, column } = self.position(index);
        let Self { severity, message, code, .. } = self;
        let mut out =
            format!("line {line}, column {column}: {severity}: {} ({code})", printable(message));
        if let Some(help) = &self.help {
            let _ = write!(out, "; {}", printable(help));
        }
        out
    }
}

/// Renders diagnostics for the text of a `ManageSieve` response (RFC 5804 §1.3): one line for each,
/// errors first, with CR LF between the lines. The caller sends the text as a quoted string or a
/// literal.
#[must_use]
pub fn managesieve(diagnostics: &[Diagnostic], index: &LineIndex<'_>) -> String {
    let of = |severity| diagnostics.iter().filter(move |one| one.severity == severity);
    let lines = of(Severity::Error).chain(of(Severity::Warning));
    lines.map(|diagnostic| diagnostic.line(index)).collect::<Vec<_>>().join("\r\n")
}

/// Renders diagnostics as a JSON array of objects. Lines and columns count from 1. `start` and
/// `end` are offsets in bytes from 0. `help` is null if there is none. `related` has objects with a
/// message and a place. The extension of a diagnostic is left out.
#[must_use]
pub fn json(diagnostics: &[Diagnostic], index: &LineIndex<'_>) -> String {
    let mut out = String::from("[");
    for (number, diagnostic) in diagnostics.iter().enumerate() {
        out.push_str(if number == 0 { "\n" } else { ",\n" });
        let Diagnostic { code, severity, span, message, help, related, extension: _ } = diagnostic;
        let _ = write!(out, r#"{{"code":"{code}","severity":"{severity}","message":"#);
        push_json_string(&mut out, message);
        out.push_str(",\"help\":");
        match help {
            Some(help) => push_json_string(&mut out, help),
            None => out.push_str("null"),
        }
        out.push(',');
        push_json_span(&mut out, index, *span);
        out.push_str(",\"related\":[");
        for (number, (span, note)) in related.iter().enumerate() {
            out.push_str(if number == 0 { "{\"message\":" } else { ",{\"message\":" });
            push_json_string(&mut out, note);
            out.push(',');
            push_json_span(&mut out, index, *span);
            out.push('}');
        }
        out.push_str("]}");
    }
    out.push_str(if diagnostics.is_empty() { "]" } else { "\n]" });
    out
}

/// Appends the place of a span, its line, and marks below the span. A long line is cut around it.
fn push_snippet(
    out: &mut String,
    index: &LineIndex<'_>,
    name: &str,
    indent: &str,
    span: Span,
    mark: char,
) {
    let Position { line, column } = index.position(span.start);
    let _ = writeln!(out, "{indent}--> {}:{line}:{column}", printable(name));
    let full = index.line(line);
    let text = String::from_utf8_lossy(full.of(index.source()));
    let skipped = (column as usize).saturating_sub(1);
    // A span of several lines is marked up to the end of the first.
    let marked = Span::new(span.start, span.end.min(full.end)).of(index.source());
    let marked = String::from_utf8_lossy(marked).chars().count().max(1);
    let hidden = match text.chars().count() > MAX_SNIPPET_CHARS {
        true => skipped.saturating_sub(SNIPPET_CONTEXT_CHARS),
        false => 0,
    };
    let shown: String = text.chars().skip(hidden).take(MAX_SNIPPET_CHARS).collect();
    let before = skipped.saturating_sub(hidden);
    let marks = marked.min(MAX_SNIPPET_CHARS.saturating_sub(before).max(1));
    let width = indent.len();
    let _ = writeln!(out, "{indent} |");
    let _ = writeln!(out, "{line:>width$} | {}", printable(&shown));
    let _ = writeln!(out, "{indent} | {}{}", " ".repeat(before), String::from(mark).repeat(marks));
}

/// Returns a text with a blank in place of each control character, and of each character that ends
/// a line or changes the direction of text. So a script can neither break a line of the report nor
/// drive a terminal.
fn printable(text: &str) -> String {
    let is_unsafe = |c: char| {
        c.is_control()
            || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}')
            || matches!(c, '\u{2066}'..='\u{2069}')
    };
    text.chars().map(|c| if is_unsafe(c) { ' ' } else { c }).collect()
}

fn push_json_span(out: &mut String, index: &LineIndex<'_>, span: Span) {
    let (from, to) = (index.position(span.start), index.position(span.end));
    let _ = write!(
        out,
        r#""start":{},"end":{},"line":{},"column":{},"endLine":{},"endColumn":{}"#,
        span.start, span.end, from.line, from.column, to.line, to.column
    );
}

fn push_json_string(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::super::Code;
    use super::*;

    const SCRIPT: &[u8] = b"require \"fileinto\";\r\n\tfileinto :copy :copy \"a\\\"b\";\r\n";

    fn duplicate() -> Diagnostic {
        Diagnostic::new(Code::DuplicateTag, Span::new(37, 42), "`:copy` is given twice")
            .with_help("remove one \"of\" them")
            .with_related(Span::new(31, 36), "first given here")
    }

    #[test]
    fn text_shows_the_line_and_marks_the_span() {
        insta::assert_snapshot!(duplicate().text(&LineIndex::new(SCRIPT), "main"), @r#"
        error[S0306]: `:copy` is given twice
         --> main:2:17
          |
        2 |  fileinto :copy :copy "a\"b";
          |                 ^^^^^
          = note: first given here
         --> main:2:11
          |
        2 |  fileinto :copy :copy "a\"b";
          |           -----
          = help: remove one "of" them
        "#);
    }

    #[test]
    fn a_span_of_several_lines_is_marked_to_the_end_of_the_first() {
        let index = LineIndex::new(b"if true {\n  keep;\n");
        let text = Diagnostic::new(Code::UnclosedBlock, Span::new(8, 17), "no `}`");
        assert!(text.text(&index, "m").ends_with("1 | if true {\n  |         ^\n"));
        let end = Diagnostic::new(Code::ExpectedCommand, Span::at(18), "no command");
        assert!(end.text(&index, "m").ends_with(" --> m:3:1\n  |\n3 | \n  | ^\n"));
    }

    #[test]
    fn long_lines_are_cut_around_the_span() {
        let line = format!("{}kep;{}", " ".repeat(300), "x".repeat(300));
        let index = LineIndex::new(line.as_bytes());
        let text =
            Diagnostic::new(Code::UnknownCommand, Span::new(300, 303), "no").text(&index, "m");
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[4], format!("  | {}^^^", " ".repeat(SNIPPET_CONTEXT_CHARS)));
        assert!(lines[3].contains("kep;x") && lines[3].len() < 110);
    }

    #[test]
    fn a_line_for_managesieve_has_no_line_end_of_its_message() {
        let index = LineIndex::new(SCRIPT);
        let warning = Diagnostic::new(Code::UnusedRequire, Span::new(8, 18), "not\r\nused");
        assert_eq!(
            managesieve(&[warning, duplicate()], &index),
            "line 2, column 17: error: `:copy` is given twice (S0306); remove one \"of\" them\r\n\
             line 1, column 9: warning: not  used (S0905)"
        );
        assert_eq!(managesieve(&[], &index), "");
    }

    #[test]
    fn json_is_parsed_back() {
        let index = LineIndex::new(SCRIPT);
        let odd = Diagnostic::new(Code::BadAddress, Span::new(0, 3), "a\"\\\n\r\t\u{1}\u{e4}");
        let text = json(&[duplicate(), odd], &index);
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value[0]["code"], "S0306");
        assert_eq!(value[0]["severity"], "error");
        assert_eq!(value[0]["line"], 2);
        assert_eq!(value[0]["endColumn"], 22);
        assert_eq!(value[0]["related"][0]["column"], 11);
        assert_eq!(value[1]["message"], "a\"\\\n\r\t\u{1}\u{e4}");
        assert_eq!(value[1]["help"], serde_json::Value::Null);
        assert_eq!(json(&[], &index), "[]");
    }
}
