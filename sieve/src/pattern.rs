//! Regular expressions of scripts (draft-ietf-sieve-regex).
//!
//! - They match in time linear in the text: there are no back-references and no look-around.
//! - Of several alternatives that match, the first counts. POSIX takes the longest: in `a|ab` the
//!   second can never match here before the end of the text.
//! - A pattern matches anywhere in a value unless it has anchors.

use regex::{Regex, RegexBuilder};

use crate::extension::Comparator;

/// Bytes of a pattern. Classes of Unicode make a pattern much larger before its program is.
const MAX_PATTERN_BYTES: usize = 16 << 10;

/// Why a pattern is not usable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PatternError {
    #[error("{0}")]
    Syntax(String),
    /// What the engine does not support, as the beginning of a sentence.
    #[error("{0} is not supported")]
    Unsupported(&'static str),
    #[error("it is too large")]
    TooLarge,
}

/// Compiles a pattern to a program of at most `limit` bytes. The comparator `i;octet` distinguishes
/// upper and lower case, the others do not.
pub(crate) fn compile(
    pattern: &str,
    comparator: Comparator,
    limit: usize,
) -> Result<Regex, PatternError> {
    if pattern.len() > MAX_PATTERN_BYTES {
        return Err(PatternError::TooLarge);
    }
    let result = RegexBuilder::new(pattern)
        .case_insensitive(comparator != Comparator::Octet)
        .dot_matches_new_line(true)
        .size_limit(limit)
        .dfa_size_limit(limit)
        .build();
    result.map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => PatternError::TooLarge,
        error => syntax_error(&error.to_string()),
    })
}

/// Makes one line of the report of the library, whose last line says what is wrong.
fn syntax_error(report: &str) -> PatternError {
    let reason = report.lines().last().unwrap_or_default();
    let reason = reason.strip_prefix("error: ").unwrap_or(reason);
    if reason.starts_with("backreferences") {
        return PatternError::Unsupported("a back-reference");
    }
    if reason.starts_with("look-around") {
        return PatternError::Unsupported("look-around");
    }
    PatternError::Syntax(reason.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(pattern: &str) -> PatternError {
        compile(pattern, Comparator::AsciiCasemap, 256 << 10).unwrap_err()
    }

    #[test]
    fn case_counts_only_with_octets() {
        let is_match = |comparator| compile("^a", comparator, 1 << 20).unwrap().is_match("Ab");
        assert!(is_match(Comparator::AsciiCasemap));
        assert!(!is_match(Comparator::Octet));
    }

    #[test]
    fn errors_say_what_is_wrong() {
        assert_eq!(error("a("), PatternError::Syntax("unclosed group".into()));
        assert_eq!(error(r"(a)\1"), PatternError::Unsupported("a back-reference"));
        assert_eq!(error("(?=a)"), PatternError::Unsupported("look-around"));
        assert_eq!(error("(?<!a)b"), PatternError::Unsupported("look-around"));
        assert_eq!(error(r"\w{900}{900}"), PatternError::TooLarge);
        assert_eq!(error(&"a".repeat(MAX_PATTERN_BYTES + 1)), PatternError::TooLarge);
        assert!(compile("^[[:alpha:]]+\\.(x|y){2,3}$", Comparator::Octet, 256 << 10).is_ok());
    }
}
