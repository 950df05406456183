//! Match types (RFC 5228 §2.7.1, RFC 5231, RFC 6134, and the draft of `regex`).
//!
//! - The keys of a comparison are expanded and prepared once; then values are tested one by one
//!   until one matches.
//! - Patterns of `:regex` are compiled once in a run, within the bounds below, or taken from those
//!   that the host keeps.
//! - A successful `:matches`, `:regex` or `:list` sets the match variables, but not for `body` and
//!   `deleteheader`.
//! - [`Run::matches_any`] serves a test that has all its values. A caller that makes its values one
//!   by one calls [`Run::matcher`] and then [`Run::matches_value`] for each, or
//!   [`Run::matches_count`] if [`Matcher::counts`].

use std::borrow::Cow;
use std::rc::Rc;

use memchr::memmem;

use super::comparator::{compare, equality_form, fold, has_equal_form};
use super::lists::list_uri;
use super::regex::BoundedRegex;
use super::wildcard::{Pattern, Subject};
use super::{Frame, Result, Run};
use crate::extension::Comparator;
use crate::ir::{Comparison, MatchType, Relation};

/// Regular expressions that a run keeps compiled. When one more is due, all are dropped.
const MAX_CACHED_REGEXES: usize = 64;

/// States of all regular expressions that a run keeps: some 30,000 take 1 MiB. When they would be
/// more, all are dropped, and only the new expression is kept.
const MAX_CACHED_STATES: usize = 250_000;

/// What a key costs beside its bytes, in bytes.
const KEY_COST: usize = 8;

/// Whether a test sets match variables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Captures {
    Set,
    /// `body` (RFC 5173 §6) and `deleteheader` set none.
    Ignore,
}

/// The prepared keys of a comparison.
#[derive(Debug)]
pub(super) struct Matcher<'t> {
    comparator: Comparator,
    keys: Keys<'t>,
}

/// The keys, each in the form that its match type needs.
#[derive(Debug)]
enum Keys<'t> {
    /// In the form that `has_equal_form` compares.
    Is(Vec<Cow<'t, [u8]>>),
    /// In the folded form of the comparator.
    Contains(Vec<Cow<'t, [u8]>>),
    Matches(Vec<Pattern>),
    Regex(Vec<Rc<BoundedRegex>>),
    Value(Relation, Vec<Cow<'t, str>>),
    Count(Relation, Vec<Cow<'t, str>>),
    /// The URIs of the lists.
    List(Vec<String>),
}

impl Keys<'_> {
    const fn len(&self) -> usize {
        match self {
            Self::Is(keys) | Self::Contains(keys) => keys.len(),
            Self::Matches(keys) => keys.len(),
            Self::Regex(keys) => keys.len(),
            Self::Value(_, keys) | Self::Count(_, keys) => keys.len(),
            Self::List(keys) => keys.len(),
        }
    }
}

impl Matcher<'_> {
    /// Returns whether the match type is `:count`: only the number of values is compared.
    pub(super) const fn counts(&self) -> bool {
        matches!(self.keys, Keys::Count(..))
    }
}

impl Run<'_> {
    /// Expands and prepares the keys of a comparison.
    pub(super) fn matcher<'t>(
        &mut self,
        frame: &Frame<'_>,
        comparison: &'t Comparison,
    ) -> Result<Matcher<'t>> {
        let keys = self.expand_all(frame, &comparison.keys)?;
        self.matcher_of(comparison.comparator, comparison.match_type, keys)
    }

    /// Prepares keys that are expanded already.
    pub(super) fn matcher_of<'t>(
        &mut self,
        comparator: Comparator,
        match_type: MatchType,
        keys: Vec<Cow<'t, str>>,
    ) -> Result<Matcher<'t>> {
        for key in &keys {
            self.fuel.bytes(key.len().saturating_add(KEY_COST))?;
        }
        let all_in = |form: fn(Comparator, &str) -> Cow<'_, [u8]>, keys: Vec<Cow<'t, str>>| {
            let key_in_form = |key: Cow<'t, str>| match key {
                Cow::Borrowed(key) => form(comparator, key),
                Cow::Owned(key) => Cow::Owned(form(comparator, &key).into_owned()),
            };
            keys.into_iter().map(key_in_form).collect::<Vec<_>>()
        };
        let keys = match match_type {
            MatchType::Is if comparator == Comparator::AsciiNumeric => {
                Keys::Value(Relation::Eq, keys)
            }
            MatchType::Is => Keys::Is(all_in(equality_form, keys)),
            MatchType::Contains => Keys::Contains(all_in(fold, keys)),
            MatchType::Matches => {
                Keys::Matches(keys.iter().map(|key| Pattern::new(comparator, key)).collect())
            }
            MatchType::Regex => {
                let compiled: Result<_> =
                    keys.iter().map(|key| self.regex(key, comparator)).collect();
                Keys::Regex(compiled?)
            }
            MatchType::Value(relation) => Keys::Value(relation, keys),
            MatchType::Count(relation) => Keys::Count(relation, keys),
            MatchType::List => {
                Keys::List(keys.iter().map(|key| list_uri(key).into_owned()).collect())
            }
        };
        Ok(Matcher { comparator, keys })
    }

    /// Returns whether one of the values matches a key, or with `:count` their number. Without
    /// values, the keys are only looked at for `:count`.
    pub(super) fn matches_any(
        &mut self,
        frame: &mut Frame<'_>,
        comparison: &Comparison,
        values: &[Cow<'_, str>],
    ) -> Result<bool> {
        if values.is_empty() && !matches!(comparison.match_type, MatchType::Count(_)) {
            return Ok(false);
        }
        let matcher = self.matcher(frame, comparison)?;
        self.matches_any_of(frame, &matcher, values)
    }

    /// Returns whether a value that the host gave matches. `None`, a value that the host does not
    /// know, makes the test false, also with `:count`. For `:count`, an empty value is no value
    /// (RFC 5183 §4, RFC 5435 §5).
    pub(super) fn matches_known(
        &mut self,
        frame: &mut Frame<'_>,
        comparison: &Comparison,
        value: Option<String>,
    ) -> Result<bool> {
        let Some(value) = value else { return Ok(false) };
        let counts = matches!(comparison.match_type, MatchType::Count(_));
        match counts && value.is_empty() {
            true => self.matches_any(frame, comparison, &[]),
            false => self.matches_any(frame, comparison, &[Cow::Owned(value)]),
        }
    }

    /// Does what [`Self::matches_any`] does, with prepared keys.
    pub(super) fn matches_any_of(
        &mut self,
        frame: &mut Frame<'_>,
        matcher: &Matcher<'_>,
        values: &[Cow<'_, str>],
    ) -> Result<bool> {
        if matcher.counts() {
            return self.matches_count(matcher, values.len());
        }
        for value in values {
            if self.matches_value(frame, matcher, value, Captures::Set)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns whether a number of values matches a key. False if the match type is not `:count`.
    pub(super) fn matches_count(&mut self, matcher: &Matcher<'_>, count: usize) -> Result<bool> {
        let Keys::Count(relation, keys) = &matcher.keys else { return Ok(false) };
        self.fuel.bytes(keys.len().saturating_mul(KEY_COST))?;
        let count = count.to_string();
        let holds = |key: &Cow<'_, str>| relation.holds(compare(matcher.comparator, &count, key));
        Ok(keys.iter().any(holds))
    }

    /// Returns whether a value matches a key. If it does, and `captures` is `Set`, `:matches`,
    /// `:regex` and `:list` set the match variables. False if the match type is `:count`.
    pub(super) fn matches_value(
        &mut self,
        frame: &mut Frame<'_>,
        matcher: &Matcher<'_>,
        value: &str,
        captures: Captures,
    ) -> Result<bool> {
        self.fuel.bytes(matcher.keys.len().saturating_mul(KEY_COST))?;
        match matcher.comparator {
            // Each character is looked up in tables.
            Comparator::UnicodeCasemap if !value.is_ascii() => self.fuel.bytes(value.len())?,
            _ => self.fuel.scanned(value.len())?,
        }
        match &matcher.keys {
            Keys::Is(keys) => {
                let value = equality_form(matcher.comparator, value);
                for key in keys.iter().filter(|key| key.len() == value.len()) {
                    self.fuel.scanned(value.len())?;
                    if has_equal_form(matcher.comparator, key, &value) {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            // This comparator cannot find parts of texts. The checker refuses `:contains` with it.
            Keys::Contains(_) if matcher.comparator == Comparator::AsciiNumeric => Ok(false),
            Keys::Contains(keys) => {
                let value = fold(matcher.comparator, value);
                for key in keys {
                    self.fuel.scanned(value.len())?;
                    if memmem::find(&value, key).is_some() {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Keys::Value(relation, keys) => {
                for key in keys {
                    self.fuel.bytes(value.len().min(key.len()))?;
                    if relation.holds(compare(matcher.comparator, value, key)) {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Keys::Count(..) => Ok(false),
            Keys::Matches(patterns) => {
                let subject = Subject::new(matcher.comparator, value);
                for pattern in patterns {
                    let Some(ranges) = pattern.captures(&subject, &mut self.fuel)? else {
                        continue;
                    };
                    if captures == Captures::Set {
                        let whole = std::iter::once(Some(value));
                        let parts = ranges.into_iter().map(|range| value.get(range));
                        self.set_captures(frame, whole.chain(parts))?;
                    }
                    return Ok(true);
                }
                Ok(false)
            }
            Keys::Regex(patterns) => {
                for pattern in patterns {
                    if !pattern.is_match(value, &mut self.fuel)? {
                        continue;
                    }
                    if captures == Captures::Set {
                        let groups = pattern.groups(value, &mut self.fuel)?;
                        self.set_captures(frame, groups.into_iter())?;
                    }
                    return Ok(true);
                }
                Ok(false)
            }
            Keys::List(lists) => {
                for list in lists {
                    self.fuel.step()?;
                    self.fuel.bytes(list.len())?;
                    if self.world.in_list(list, value)? {
                        if captures == Captures::Set {
                            self.set_captures(frame, std::iter::once(Some(value)))?;
                        }
                        return Ok(true);
                    }
                }
                Ok(false)
            }
        }
    }

    /// Returns a compiled regular expression: one that the run keeps, or else it is compiled and
    /// kept.
    fn regex(&mut self, pattern: &str, comparator: Comparator) -> Result<Rc<BoundedRegex>> {
        if let Some(known) = self.regexes.iter().find(|one| one.is_of(pattern, comparator)) {
            return Ok(Rc::clone(known));
        }
        let limit = self.limits.regex_program;
        let shared = self.world.patterns();
        let compiled =
            BoundedRegex::new(pattern.to_owned(), comparator, limit, shared, &mut self.fuel)?;
        let compiled = Rc::new(compiled);
        let states: usize = self.regexes.iter().map(|one| one.states()).sum();
        if self.regexes.len() >= MAX_CACHED_REGEXES
            || states.saturating_add(compiled.states()) > MAX_CACHED_STATES
        {
            self.regexes.clear();
        }
        self.regexes.push(Rc::clone(&compiled));
        Ok(compiled)
    }
}
