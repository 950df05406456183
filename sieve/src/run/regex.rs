//! Regular expressions whose work can be charged.
//!
//! - A lazily built automaton answers whether a text matches. Its time is linear in the text,
//!   whatever the size of the pattern, but for the states that it builds. These are charged by how
//!   often they filled the memory of the automaton.
//! - A search begins with the states that earlier ones built. If it then fills the memory or gives
//!   up, it is repeated without them, so that result and charge depend on nothing but pattern and
//!   text.
//! - The automaton gives up where it needs new states all the time, and at Unicode word boundaries
//!   in texts that are not ASCII. Then a slower search is used, and also to find groups. It may
//!   look at every state of the pattern for every byte, and is charged for that.

use std::cell::RefCell;
use std::sync::Arc;

use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::{Input, MatchError, MatchErrorKind};

use super::Result;
use super::fuel::Fuel;
use crate::extension::Comparator;
use crate::outcome::RuntimeErrorKind;
use crate::pattern::{AUTOMATON_BYTES, CompiledPattern, PatternCache};

/// What compiling costs for each state, in bytes. A pattern that the host has kept from an earlier
/// run costs as much, so that the same run always costs the same.
const COMPILE_COST: usize = 64;

/// What the slower search costs for each state and each byte, in bytes.
const SLOW_COST: usize = 4;

/// A compiled pattern, with the states of the automaton that this run or one before has built. The
/// next run gets them.
#[derive(Debug)]
pub(super) struct BoundedRegex {
    pattern: String,
    comparator: Comparator,
    compiled: Arc<CompiledPattern>,
    /// The states that the automaton has built. `None` until a text is searched.
    built: RefCell<Option<Cache>>,
}

impl BoundedRegex {
    /// Compiles a pattern to a program of at most `limit` bytes, or takes it from `known`. Both
    /// cost the same.
    ///
    /// # Errors
    /// [`RuntimeErrorKind::BadRegex`] if the pattern is not usable, also if its program is larger.
    /// [`RuntimeErrorKind::OutOfFuel`] if too little fuel is left.
    pub(super) fn new(
        pattern: String,
        comparator: Comparator,
        limit: usize,
        known: Option<&PatternCache>,
        fuel: &mut Fuel,
    ) -> Result<Self> {
        fuel.step()?;
        fuel.bytes(pattern.len())?;
        let compiled = match known {
            Some(known) => known.pattern(&pattern, comparator, limit),
            None => CompiledPattern::new(&pattern, comparator, limit).map(Arc::new),
        };
        let compiled = match compiled {
            Ok(compiled) => compiled,
            Err(error) => {
                let reason = error.to_string();
                return Err(RuntimeErrorKind::BadRegex { pattern, reason });
            }
        };
        fuel.bytes(compiled.states.saturating_mul(COMPILE_COST))?;
        Ok(Self { pattern, comparator, compiled, built: RefCell::default() })
    }

    /// Returns whether it was made of this pattern, for this comparator.
    pub(super) fn is_of(&self, pattern: &str, comparator: Comparator) -> bool {
        self.pattern == pattern && self.comparator == comparator
    }

    /// Returns the size of the program, as [`CompiledPattern::states`] has it.
    pub(super) fn states(&self) -> usize {
        self.compiled.states
    }

    /// Returns whether a part of the text matches. Only the states that the automaton has built are
    /// charged after the search.
    pub(super) fn is_match(&self, text: &str, fuel: &mut Fuel) -> Result<bool> {
        fuel.decoded(text.len())?;
        if let Some(automaton) = &self.compiled.automaton {
            let (found, fills) = self.search(automaton, text);
            fuel.bytes(fills.saturating_mul(AUTOMATON_BYTES))?;
            if let Ok(found) = found {
                return Ok(found);
            }
        }
        self.charge_slow(text, fuel)?;
        Ok(self.compiled.regex.is_match(text))
    }

    /// Returns the parts of a text that the groups match, the whole match first. A group that took
    /// no part in the match is `None`. Empty if the text does not match.
    pub(super) fn groups<'t>(
        &self,
        text: &'t str,
        fuel: &mut Fuel,
    ) -> Result<Vec<Option<&'t str>>> {
        self.charge_slow(text, fuel)?;
        let found = self.compiled.regex.captures(text);
        let groups = found.iter().flat_map(|found| found.iter());
        Ok(groups.map(|group| group.map(|group| group.as_str())).collect())
    }

    /// Charges the slower search of a text.
    fn charge_slow(&self, text: &str, fuel: &mut Fuel) -> Result<()> {
        fuel.bytes(text.len().saturating_mul(self.compiled.states).saturating_mul(SLOW_COST))
    }

    /// Searches with the automaton. Returns whether the text matches, or an error if the automaton
    /// gave up, and how often its memory was filled.
    fn search(
        &self,
        automaton: &DFA,
        text: &str,
    ) -> (std::result::Result<bool, MatchError>, usize) {
        let mut built = self.built.borrow_mut();
        let mut is_new = false;
        let cache = built.get_or_insert_with(|| {
            self.compiled.take_built().unwrap_or_else(|| {
                is_new = true;
                automaton.create_cache()
            })
        });
        let input = Input::new(text).earliest(true);
        loop {
            let before = cache.clear_count();
            let found = automaton.try_search_fwd(cache, &input);
            let fills = cache.clear_count().saturating_sub(before);
            let has_given_up = matches!(&found, Err(error)
                if matches!(error.kind(), MatchErrorKind::GaveUp { .. }));
            if is_new || (fills == 0 && !has_given_up) {
                return (found.map(|end| end.is_some()), fills);
            }
            cache.reset(automaton);
            is_new = true;
        }
    }
}

impl Drop for BoundedRegex {
    fn drop(&mut self) {
        if let Some(cache) = self.built.take() {
            self.compiled.give_back(cache);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn regex(pattern: &str) -> BoundedRegex {
        let mut fuel = Fuel::new(u64::MAX);
        BoundedRegex::new(pattern.into(), Comparator::AsciiCasemap, 256 << 10, None, &mut fuel)
            .unwrap()
    }

    #[test]
    fn both_searches_agree() {
        for (pattern, text) in [
            ("^a.c$", "A\nc"),
            ("\\bx\\b", "\u{e4}x \u{e4} x"),
            ("\\bx\\b", "ax"),
            ("", ""),
            ("(a|b)*\u{c4}", "ab\u{e4}"),
            ("[^a]", "a"),
        ] {
            let regex = regex(pattern);
            let mut fuel = Fuel::new(u64::MAX);
            let is_match = regex.is_match(text, &mut fuel).unwrap();
            assert_eq!(is_match, regex.compiled.regex.is_match(text), "{pattern}");
            assert_eq!(is_match, !regex.groups(text, &mut fuel).unwrap().is_empty());
        }
    }

    #[test]
    fn patterns_that_need_many_states_are_charged_for_them() {
        // A text of letters drawn by a linear congruential generator, so that the automaton never
        // meets the same 200 letters again.
        let mut state = 1_u32;
        let letters = std::iter::repeat_with(|| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            // Of all bits, the highest one has the longest period.
            if state >> 31 == 0 { 'a' } else { 'b' }
        });
        let text: String = letters.take(200_000).collect();
        let mut fuel = Fuel::new(2_000_000);
        assert_eq!(regex("(\\w+)@(\\w+)").is_match(&text, &mut fuel), Ok(false));
        assert!(fuel.used() < 10_000, "{}", fuel.used());
        let result = regex("a[ab]{200}c").is_match(&text, &mut fuel);
        assert_eq!(result, Err(RuntimeErrorKind::OutOfFuel));
    }

    #[test]
    fn states_of_earlier_searches_change_neither_result_nor_charge() {
        let mut state = 7_u32;
        let mut letters = |count: usize| -> String {
            let next = std::iter::repeat_with(|| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                if state >> 31 == 0 { 'a' } else { 'b' }
            });
            next.take(count).collect()
        };
        let texts = [letters(10), letters(3_000), "\u{e4} b".to_owned(), letters(40_000)];
        for pattern in ["a[ab]{6}c", "a[ab]{200}c", "a[ab]{9}$", "b\\b", "^ab"] {
            let used = |regex: &BoundedRegex, text: &str| {
                let mut fuel = Fuel::new(u64::MAX);
                (regex.is_match(text, &mut fuel), fuel.used())
            };
            let regex_of_all = regex(pattern);
            for text in texts.iter().chain(texts.iter().rev()) {
                let expected = used(&regex(pattern), text);
                assert_eq!(used(&regex_of_all, text), expected, "{pattern}: {}", text.len());
            }
        }
    }

    #[test]
    fn next_run_begins_with_the_states_of_the_last() {
        let compiled =
            CompiledPattern::new("^a+b", Comparator::Octet, 1 << 20).map(Arc::new).unwrap();
        for _ in 0..3 {
            let regex = BoundedRegex {
                pattern: "^a+b".to_owned(),
                comparator: Comparator::Octet,
                compiled: Arc::clone(&compiled),
                built: RefCell::default(),
            };
            assert_eq!(regex.is_match("aab", &mut Fuel::new(u64::MAX)), Ok(true));
            drop(regex);
            let cache = compiled.take_built().unwrap();
            // There is no second one: the run took the states that the run before it gave back.
            assert!(compiled.take_built().is_none());
            compiled.give_back(cache);
        }
    }
}
