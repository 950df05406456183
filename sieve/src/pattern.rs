//! Regular expressions of scripts (draft-ietf-sieve-regex).
//!
//! - They match in time linear in the text: there are no back-references and no look-around.
//! - Of several alternatives that match, the first counts. POSIX takes the longest: in `a|ab` the
//!   second can never match here before the end of the text.
//! - A pattern matches anywhere in a value unless it has anchors.
//! - Classes such as `\w` and `\d` are those of Unicode, and large: each `\w` takes 49 KiB, so that
//!   `(\w+){10}` takes 488 KiB. A bracket expression such as `[a-z]` takes less than 1 KiB.

use regex::{Regex, RegexBuilder};
use regex_automata::nfa::thompson::{NFA, WhichCaptures};
use regex_automata::util::syntax;

use crate::extension::Comparator;

/// Bytes of a pattern. Classes of Unicode make a pattern much larger before its program is.
const MAX_PATTERN_BYTES: usize = 16 << 10;

/// Bytes of the states that a search for groups keeps.
const DFA_BYTES: usize = 256 << 10;

/// Why a pattern is not usable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PatternError {
    #[error("{0}")]
    Syntax(String),
    /// What the engine does not support, as the beginning of a sentence.
    #[error("{0} is not supported")]
    Unsupported(&'static str),
    #[error("it has more than {MAX_PATTERN_BYTES} bytes")]
    TooLong,
    /// The program would have more bytes than these.
    #[error("it needs more than {0} bytes of memory, the most that one may have")]
    TooLarge(usize),
}

/// Compiles a pattern to a program of at most `limit` bytes. The comparator `i;octet` distinguishes
/// upper and lower case, the others do not.
pub(crate) fn compile(
    pattern: &str,
    comparator: Comparator,
    limit: usize,
) -> Result<Regex, PatternError> {
    if pattern.len() > MAX_PATTERN_BYTES {
        return Err(PatternError::TooLong);
    }
    let result = RegexBuilder::new(pattern)
        .case_insensitive(comparator != Comparator::Octet)
        .dot_matches_new_line(true)
        .size_limit(limit)
        .dfa_size_limit(DFA_BYTES)
        .build();
    result.map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => PatternError::TooLarge(limit),
        error => syntax_error(&error.to_string()),
    })
}

/// Returns the bytes of the program of a pattern that `compile` accepted.
pub(crate) fn program_bytes(pattern: &str, comparator: Comparator) -> usize {
    let syntax = syntax::Config::new()
        .case_insensitive(comparator != Comparator::Octet)
        .dot_matches_new_line(true);
    let config = NFA::config().which_captures(WhichCaptures::None);
    let nfa = NFA::compiler().syntax(syntax).configure(config).build(pattern);
    nfa.map_or(0, |nfa| nfa.memory_usage())
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
        let error_of = error(r"\w{900}{900}");
        assert_eq!(error_of, PatternError::TooLarge(256 << 10));
        assert!(error_of.to_string().contains("262144 bytes"), "{error_of}");
        let error_of = error(&"a".repeat(MAX_PATTERN_BYTES + 1));
        assert_eq!(error_of, PatternError::TooLong);
        assert!(error_of.to_string().contains("16384 bytes"), "{error_of}");
        assert!(compile("^[[:alpha:]]+\\.(x|y){2,3}$", Comparator::Octet, 256 << 10).is_ok());
    }

    #[test]
    fn repeated_classes_of_unicode_fit_into_the_default_limit() {
        let limit = crate::options::CompileLimits::default().regex_program;
        assert_eq!(limit, crate::options::RunLimits::default().regex_program);
        for pattern in [r"(\w+){10}", r"^(\w+\s+){8}", r"\w{20}", r"[\w.+-]+@[\w-]+(\.[\w-]+)+"] {
            for comparator in [Comparator::Octet, Comparator::AsciiCasemap] {
                assert!(compile(pattern, comparator, limit).is_ok(), "{pattern}");
                let bytes = program_bytes(pattern, comparator);
                assert!((50 << 10..limit).contains(&bytes), "{pattern}: {bytes}");
            }
        }
        let result = compile(r"\w{100}", Comparator::Octet, limit);
        assert_eq!(result.unwrap_err(), PatternError::TooLarge(limit));
    }
}
