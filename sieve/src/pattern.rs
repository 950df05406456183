//! Regular expressions of scripts (draft-ietf-sieve-regex).
//!
//! - They match in time linear in the text: there are no back-references and no look-around.
//! - Where several alternatives could match, the first one does; in POSIX it is the longest one. So
//!   `a|ab` matches only `a` of the text `ab`; this matters for match variables.
//! - Bracket expressions are those of POSIX, and may have escapes and classes such as `\w`.
//! - A pattern matches anywhere in a value unless it has anchors.
//! - Case counts with `i;octet`. With `i;ascii-casemap` that of ASCII letters is ignored, with
//!   `i;unicode-casemap` that of all letters.
//! - Classes such as `\w` and `\d` are those of Unicode, and large: each `\w` takes 49 KiB, so that
//!   `(\w+){10}` takes 488 KiB. A bracket expression such as `[a-z]` takes less than 1 KiB.

mod ascii_case;
mod brackets;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use regex::{Regex, RegexBuilder};
use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::nfa::thompson::{self, NFA, WhichCaptures};
use regex_automata::util::syntax;

use crate::extension::Comparator;

/// Bytes of states that an automaton keeps. When they are filled, it drops its states and begins to
/// build them again.
pub(crate) const AUTOMATON_BYTES: usize = 256 << 10;

/// The automaton gives up a search if its memory was filled three times, and if it has read fewer
/// bytes of the text for each state that it built than this: then it mostly builds states.
const MIN_BYTES_PER_STATE: usize = 200;

/// How much memory a pattern takes, in multiples of that of its program: `regex` has programs of
/// its own, in both directions, and working memory. An estimate.
const MEMORY_FACTOR: usize = 6;

/// How many sets of states of the automaton, each left by a run that has ended, a pattern keeps for
/// later runs.
const MAX_BUILT: usize = 2;

/// The most bytes of the states that one run leaves to a later one. If there are more, they are
/// dropped when the run ends.
const MAX_BUILT_BYTES: usize = 16 << 10;

/// The most bytes of a pattern. The library expands classes of Unicode while it parses a pattern,
/// before it can compare the size of the program with the limit.
const MAX_PATTERN_BYTES: usize = 16 << 10;

/// Bytes of the states that a lazily built automaton of `regex` keeps.
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
    /// The program would have more bytes than this limit.
    #[error("it needs more than {0} bytes of memory, the most that one may have")]
    TooLarge(usize),
}

/// A pattern ready to search with.
#[derive(Debug)]
pub(crate) struct CompiledPattern {
    /// Finds groups, and answers whether a text matches where the automaton cannot.
    pub(crate) regex: Regex,
    /// Answers whether a text matches, in time linear in the text. `None` if the pattern has
    /// something that no such automaton can do.
    pub(crate) automaton: Option<DFA>,
    /// The states of the program, which are a measure of the work of `regex`. Without an automaton
    /// the number is not known; then it is the limit of the program in bytes, which is higher.
    pub(crate) states: usize,
    /// The states of the automaton that ended runs have built, for the next runs.
    built: Mutex<Vec<Cache>>,
}

impl CompiledPattern {
    /// Compiles a pattern as [`compile`] does, and its automaton.
    pub(crate) fn new(
        pattern: &str,
        comparator: Comparator,
        limit: usize,
    ) -> Result<Self, PatternError> {
        let regex = compile(pattern, comparator, limit)?;
        let automaton = automaton(pattern, comparator);
        let states = automaton.as_ref().map_or(limit, |dfa| dfa.get_nfa().states().len());
        Ok(Self { regex, automaton, states, built: Mutex::default() })
    }

    /// Takes out the states that an earlier run has built. `None` if none are kept.
    pub(crate) fn take_built(&self) -> Option<Cache> {
        self.built.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    /// Keeps what a run has built of the automaton, if it is small and few others are kept.
    pub(crate) fn give_back(&self, cache: Cache) {
        let mut built = self.built.lock().unwrap_or_else(PoisonError::into_inner);
        if built.len() < MAX_BUILT && cache.memory_usage() <= MAX_BUILT_BYTES {
            built.push(cache);
        }
    }

    /// Returns an estimate of the bytes of memory that it takes, with all that runs may give back.
    fn memory(&self) -> usize {
        let program = self.automaton.as_ref().map(|dfa| dfa.get_nfa().memory_usage());
        let program = program.unwrap_or(self.states).saturating_mul(MEMORY_FACTOR);
        program.saturating_add(MAX_BUILT * MAX_BUILT_BYTES)
    }
}

/// Builds the automaton of a pattern that [`compile`] accepted. `None` if it cannot be built.
fn automaton(pattern: &str, comparator: Comparator) -> Option<DFA> {
    let pattern = rewrite(pattern, comparator).ok()?;
    let config = DFA::config()
        .unicode_word_boundary(true)
        .cache_capacity(AUTOMATON_BYTES)
        .skip_cache_capacity_check(true)
        .minimum_cache_clear_count(Some(3))
        .minimum_bytes_per_state(Some(MIN_BYTES_PER_STATE));
    let syntax = syntax_config(comparator);
    // `compile` has checked the size of the program, so no limit is set here.
    let thompson = thompson::Config::new().which_captures(WhichCaptures::None);
    DFA::builder().configure(config).syntax(syntax).thompson(thompson).build(&pattern).ok()
}

/// Compiled patterns of `:regex` that runs share, so that a pattern is not compiled for each
/// message. A host that runs scripts often keeps one and returns it from
/// [`World::patterns`](crate::World::patterns), for all accounts. Threads may share it. What a run
/// costs and decides does not depend on it.
#[derive(Debug)]
pub struct PatternCache {
    /// The most bytes of memory of all patterns together.
    max_bytes: usize,
    patterns: Mutex<CachedPatterns>,
}

#[derive(Debug, Default)]
struct CachedPatterns {
    /// By pattern, with the comparators and limits with which it was compiled.
    entries: HashMap<String, Vec<CachedPattern>>,
    /// The estimated memory of all entries.
    bytes: usize,
    /// The number of look-ups so far, which serves as a time.
    clock: u64,
}

#[derive(Debug)]
struct CachedPattern {
    comparator: Comparator,
    /// The most bytes of its program.
    limit: usize,
    compiled: Arc<CompiledPattern>,
    /// Its estimated memory.
    bytes: usize,
    /// The `clock` of its last use.
    used: u64,
}

impl PatternCache {
    /// Makes an empty cache. `bytes` bounds the memory of its patterns, which is estimated. A
    /// pattern that takes more than a quarter of it is not kept.
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        Self { max_bytes: bytes, patterns: Mutex::default() }
    }

    /// Returns a compiled pattern, and compiles it if it is not kept. Two threads may compile one
    /// pattern at the same time; the results are equal.
    pub(crate) fn pattern(
        &self,
        pattern: &str,
        comparator: Comparator,
        limit: usize,
    ) -> Result<Arc<CompiledPattern>, PatternError> {
        let lock = || self.patterns.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lock().find(pattern, comparator, limit) {
            return Ok(known);
        }
        let compiled = Arc::new(CompiledPattern::new(pattern, comparator, limit)?);
        let bytes = compiled.memory().saturating_add(pattern.len());
        if bytes <= self.max_bytes / 4 {
            let mut patterns = lock();
            if patterns.bytes.saturating_add(bytes) > self.max_bytes {
                patterns.drop_older_half();
            }
            let used = patterns.clock;
            let entry =
                CachedPattern { comparator, limit, compiled: Arc::clone(&compiled), bytes, used };
            patterns.bytes = patterns.bytes.saturating_add(bytes);
            patterns.entries.entry(pattern.to_owned()).or_default().push(entry);
        }
        Ok(compiled)
    }
}

impl CachedPatterns {
    /// Returns a pattern that is kept, and notes that it was used now.
    fn find(
        &mut self,
        pattern: &str,
        comparator: Comparator,
        limit: usize,
    ) -> Option<Arc<CompiledPattern>> {
        self.clock = self.clock.saturating_add(1);
        let known = self.entries.get_mut(pattern)?;
        let entry =
            known.iter_mut().find(|one| one.comparator == comparator && one.limit == limit)?;
        entry.used = self.clock;
        Some(Arc::clone(&entry.compiled))
    }

    /// Drops the patterns that were used longest ago, until the others take at most half of what
    /// all took.
    fn drop_older_half(&mut self) {
        let mut uses: Vec<(u64, usize)> =
            self.entries.values().flatten().map(|entry| (entry.used, entry.bytes)).collect();
        uses.sort_unstable();
        let mut left = self.bytes;
        let kept_from = uses.iter().find(|(_, bytes)| {
            let is_kept = left <= self.bytes / 2;
            left = left.saturating_sub(*bytes);
            is_kept
        });
        let kept_from = kept_from.map_or(u64::MAX, |(used, _)| *used);
        self.entries.retain(|_, entries| {
            entries.retain(|entry| entry.used >= kept_from);
            !entries.is_empty()
        });
        self.bytes = self.entries.values().flatten().map(|entry| entry.bytes).sum();
    }
}

/// Compiles a pattern to a program of at most `limit` bytes.
pub(crate) fn compile(
    pattern: &str,
    comparator: Comparator,
    limit: usize,
) -> Result<Regex, PatternError> {
    if pattern.len() > MAX_PATTERN_BYTES {
        return Err(PatternError::TooLong);
    }
    let result = RegexBuilder::new(&rewrite(pattern, comparator)?)
        .case_insensitive(ignores_unicode_case(comparator))
        .dot_matches_new_line(true)
        .size_limit(limit)
        .dfa_size_limit(DFA_BYTES)
        .build();
    result.map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => PatternError::TooLarge(limit),
        error => syntax_error(&error.to_string()),
    })
}

/// Returns the bytes of the program of a pattern that [`compile`] accepted, 0 if it cannot be built
/// again.
pub(crate) fn program_bytes(pattern: &str, comparator: Comparator) -> usize {
    let config = NFA::config().which_captures(WhichCaptures::None);
    let pattern = rewrite(pattern, comparator).unwrap_or_default();
    let nfa = NFA::compiler().syntax(syntax_config(comparator)).configure(config).build(&pattern);
    nfa.map_or(0, |nfa| nfa.memory_usage())
}

/// Returns a pattern that means to the library, with the settings of [`syntax_config`], what
/// `pattern` means in a script.
fn rewrite(pattern: &str, comparator: Comparator) -> Result<String, PatternError> {
    let pattern = brackets::rewrite(pattern)?;
    Ok(match comparator {
        Comparator::AsciiCasemap => ascii_case::ignore_ascii_case(pattern),
        _ => pattern,
    })
}

/// Returns how the library reads a pattern, as [`compile`] has it.
fn syntax_config(comparator: Comparator) -> syntax::Config {
    syntax::Config::new()
        .case_insensitive(ignores_unicode_case(comparator))
        .dot_matches_new_line(true)
}

fn ignores_unicode_case(comparator: Comparator) -> bool {
    comparator == Comparator::UnicodeCasemap
}

/// Makes an error of the report of the library, whose last line says what is wrong.
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
    fn patterns_are_shared_and_stay_within_their_memory() {
        let cache = PatternCache::new(1 << 20);
        let get = |pattern: &str, comparator| cache.pattern(pattern, comparator, 256 << 10);
        let first = get("^a", Comparator::AsciiCasemap).unwrap();
        assert!(Arc::ptr_eq(&first, &get("^a", Comparator::AsciiCasemap).unwrap()));
        assert!(!get("^a", Comparator::Octet).unwrap().regex.is_match("A"));
        assert_eq!(get("a(", Comparator::Octet).unwrap_err(), error("a("));
        for number in 0..200 {
            get(&format!("\\w{number}"), Comparator::Octet).unwrap();
            get("^a", Comparator::AsciiCasemap).unwrap();
            let patterns = cache.patterns.lock().unwrap();
            assert!(patterns.bytes <= 1 << 20, "{}", patterns.bytes);
        }
        let count = cache.patterns.lock().unwrap().entries.len();
        assert!((2..200).contains(&count), "{count}");
        assert!(Arc::ptr_eq(&first, &get("^a", Comparator::AsciiCasemap).unwrap()));
    }

    #[test]
    fn comparator_says_which_letters_are_equal_in_both_cases() {
        let letters =
            [("a", "A"), ("\u{e4}", "\u{c4}"), ("k", "\u{212a}"), ("[^\u{e4}]", "\u{c4}")];
        for (comparator, expected) in [
            (Comparator::Octet, [false, false, false, true]),
            (Comparator::AsciiCasemap, [true, false, false, true]),
            (Comparator::UnicodeCasemap, [true, true, true, false]),
        ] {
            let is_match = letters.map(|(pattern, text)| {
                let compiled = CompiledPattern::new(pattern, comparator, 1 << 20).unwrap();
                let input = regex_automata::Input::new(text);
                let automaton = compiled.automaton.unwrap();
                let found = automaton.try_search_fwd(&mut automaton.create_cache(), &input);
                assert_eq!(found.unwrap().is_some(), compiled.regex.is_match(text), "{pattern}");
                compiled.regex.is_match(text)
            });
            assert_eq!(is_match, expected, "{comparator:?}");
        }
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
