//! Match types, comparators and keys (RFC 5228 §2.7, RFC 5231).

use super::Checker;
use super::bind::Bound;
use super::strings::{Text, exprs};
use crate::diagnostic::{Code, Diagnostic};
use crate::extension::Comparator;
use crate::ir::{AddressPart, Comparison, FieldIndex, MatchType, Relation};
use crate::pattern::{self, PatternError};
use crate::vocabulary::{Group, Tag};

/// The most regular expressions that a check compiles. To compile one takes far more work than to
/// read it.
const MAX_REGEXES: usize = 500;

/// Once the programs of the regular expressions of a script have more bytes than this, no further
/// expression is compiled. The work of a check grows with their size.
const MAX_PROGRAM_BYTES: usize = 16 << 20;

impl Checker<'_> {
    /// Checks the comparison of a test. `keys` is the index of the positional argument with the
    /// keys.
    pub(super) fn comparison_with(&mut self, bound: &Bound<'_>, keys: usize) -> Comparison {
        let keys = self.texts(bound.strings(keys));
        self.comparison(bound, keys)
    }

    /// Checks the comparison of a test, whose keys were read already.
    pub(super) fn comparison(&mut self, bound: &Bound<'_>, keys: Vec<Text>) -> Comparison {
        let comparator = self.comparator(bound);
        let match_type = match bound.of_group(Group::MatchType).map(|bound| bound.tag) {
            Some(Tag::Contains) => MatchType::Contains,
            Some(Tag::Matches) => MatchType::Matches,
            Some(Tag::Regex) => MatchType::Regex,
            Some(Tag::Count) => MatchType::Count(self.relation(bound, Tag::Count)),
            Some(Tag::Value) => MatchType::Value(self.relation(bound, Tag::Value)),
            Some(Tag::List) => MatchType::List,
            _ => MatchType::Is,
        };
        let needs_substrings =
            matches!(match_type, MatchType::Contains | MatchType::Matches | MatchType::Regex);
        if needs_substrings && !comparator.has_substrings() {
            let tag = bound.of_group(Group::MatchType);
            let name = tag.map_or("", |tag| tag.tag.name());
            let span = tag.map_or(bound.node.name, |tag| tag.span);
            let message = format!("the comparator `{}` has no `{name}`", comparator.name());
            let diagnostic = Diagnostic::new(Code::ComparatorLacksOperation, span, message);
            self.report(diagnostic.with_help("use `:is`, `:value` or `:count`"));
        }
        let keys = match match_type {
            MatchType::Regex => {
                keys.iter().for_each(|key| self.check_regex(key, comparator));
                exprs(keys)
            }
            MatchType::List => {
                if let Some(tag) = bound.tag(Tag::Comparator) {
                    let message = "a comparator and `:list` exclude each other";
                    self.complain(Code::ConflictingTags, tag.span, message);
                }
                self.list_names(keys)
            }
            _ => exprs(keys),
        };
        Comparison { comparator, match_type, keys }
    }

    /// Returns the comparator of `:comparator`, or the default without it or after an error.
    fn comparator(&mut self, bound: &Bound<'_>) -> Comparator {
        let value = bound.value(Tag::Comparator);
        let Some((name, span)) = self.constant_argument(value, "the name of a comparator") else {
            return Comparator::default();
        };
        let Some(comparator) = Comparator::from_name(&name) else {
            let name = super::excerpt(&name);
            let message = format!("there is no comparator `{name}`");
            let mut diagnostic = Diagnostic::new(Code::UnknownComparator, span, message);
            if let Some(meant) = self.closest(&name, Comparator::ALL.iter().map(|one| one.name())) {
                diagnostic = diagnostic.with_help(format!("did you mean `{meant}`?"));
            }
            self.report(diagnostic);
            return Comparator::default();
        };
        if comparator.is_builtin() {
            self.note_use(comparator.extension());
        } else {
            self.need(comparator.extension(), span, &format!("`{name}`"));
        }
        comparator
    }

    /// Returns the relation after `:count` or `:value`, `Eq` after an error.
    fn relation(&mut self, bound: &Bound<'_>, tag: Tag) -> Relation {
        let found = self.constant_argument(bound.value(tag), "the relation");
        let Some((name, span)) = found else { return Relation::Eq };
        Relation::parse(&name).unwrap_or_else(|| {
            let message = format!("`{}` is no relation", super::excerpt(&name));
            let diagnostic = Diagnostic::new(Code::UnknownRelation, span, message);
            self.report(diagnostic.with_help("use `gt`, `ge`, `lt`, `le`, `eq` or `ne`"));
            Relation::Eq
        })
    }

    /// Compiles a constant pattern, and reports its errors. The program is dropped: a run compiles
    /// the pattern again.
    fn check_regex(&mut self, key: &Text, comparator: Comparator) {
        let Some(pattern) = key.constant().filter(|_| self.muted == 0) else { return };
        self.regexes += 1;
        let limit = self.options.limits.regex_program;
        if self.regexes > MAX_REGEXES || self.program_bytes > MAX_PROGRAM_BYTES {
            let message = match self.regexes > MAX_REGEXES {
                true => format!("the script has more than {MAX_REGEXES} regular expressions"),
                false => format!(
                    "the regular expressions of the script need more than {MAX_PROGRAM_BYTES} \
                     bytes of memory"
                ),
            };
            let diagnostic = Diagnostic::new(Code::RegexTooLarge, key.span(), message);
            let help = "use `:is`, `:contains` or `:matches`, which take lists";
            self.report(diagnostic.with_help(help));
            return;
        }
        let error = match pattern::compile(pattern, comparator, limit) {
            Ok(_) => {
                let bytes = pattern::program_bytes(pattern, comparator);
                self.program_bytes = self.program_bytes.saturating_add(bytes);
                return;
            }
            Err(error) => error,
        };
        let (code, message, help) = match error {
            PatternError::Syntax(reason) => {
                (Code::BadRegex, format!("the regular expression has an error: {reason}"), None)
            }
            PatternError::Unsupported(what) => (
                Code::UnsupportedRegex,
                format!("{what} is not supported: regular expressions match in linear time"),
                Some("use `:matches`, or several tests"),
            ),
            error @ PatternError::TooLong => (
                Code::RegexTooLarge,
                format!("the regular expression is too long: {error}"),
                Some("use several expressions"),
            ),
            error @ PatternError::TooLarge(_) => (
                Code::RegexTooLarge,
                format!("the regular expression is too large: {error}"),
                Some(
                    "use smaller repetitions, or `[a-z]` in place of `\\w`, which is every letter \
                     of Unicode",
                ),
            ),
        };
        let diagnostic = Diagnostic::new(code, key.span(), message);
        self.report(match help {
            Some(help) => diagnostic.with_help(help),
            None => diagnostic,
        });
    }

    /// Returns the part of an address that a test compares.
    pub(super) fn address_part(bound: &Bound<'_>) -> AddressPart {
        match bound.of_group(Group::AddressPart).map(|bound| bound.tag) {
            Some(Tag::LocalPart) => AddressPart::LocalPart,
            Some(Tag::Domain) => AddressPart::Domain,
            Some(Tag::User) => AddressPart::User,
            Some(Tag::Detail) => AddressPart::Detail,
            _ => AddressPart::All,
        }
    }

    /// Returns the `:index` of a word (RFC 5260 §6), `None` without it or after an error.
    pub(super) fn field_index(&mut self, bound: &Bound<'_>) -> Option<FieldIndex> {
        let (number, span) = bound.number(Tag::Index)?;
        if number == 0 {
            self.complain(Code::IndexZero, span, "indexes count from 1");
            return None;
        }
        let Ok(number) = u32::try_from(number) else {
            self.complain(Code::NumberOutOfRange, span, "no message has so many fields");
            return None;
        };
        Some(FieldIndex { number, from_end: bound.has(Tag::Last) })
    }
}
