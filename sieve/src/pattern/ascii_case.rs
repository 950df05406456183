//! Makes a pattern ignore the case of ASCII letters, and of no others, as `i;ascii-casemap` does
//! (RFC 4790 §9.2). The library itself ignores the case of all letters of Unicode, or of none.
//!
//! - A letter becomes a class of both its cases. A class gets the missing case of each letter in
//!   it. A negated class then excludes both cases of a letter.
//! - Only the parts of the pattern that name letters change. Groups keep their numbers.
//! - Flags in a pattern are left to the library: `(?-i)` makes the case of all letters count, and
//!   `(?i)` makes that of no letter of Unicode count.

use regex_syntax::ast::{
    self, Ast, ClassAsciiKind, ClassSetItem, Flag, Flags, Group, GroupKind, Span, Visitor,
};
use regex_syntax::hir::{Class, HirKind};

/// Returns a pattern that means to the library, if it compares case, what `pattern` means if only
/// ASCII letters are equal in both cases. A pattern with an error is returned as it is: the library
/// reports it.
pub(super) fn ignore_ascii_case(pattern: String) -> String {
    let folded = match ast::parse::Parser::new().parse(&pattern) {
        Ok(ast) => ast::visit(&ast, Rewriter::new(&pattern)).ok(),
        Err(_) => None,
    };
    folded.unwrap_or(pattern)
}

/// Copies a pattern, and writes some of its parts anew.
struct Rewriter<'p> {
    pattern: &'p str,
    out: String,
    /// How many bytes of the pattern are copied or rewritten.
    done: usize,
    /// Whether case is ignored at this place. Flags such as `(?-i)` change that.
    ignores_case: bool,
    /// What `ignores_case` was before each group around this place.
    outer: Vec<bool>,
}

impl<'p> Rewriter<'p> {
    fn new(pattern: &'p str) -> Self {
        let out = String::with_capacity(pattern.len().saturating_mul(4));
        Self { pattern, out, done: 0, ignores_case: true, outer: Vec::new() }
    }

    /// Rewrites a set of characters, `has` without its negation, if it has only one case of a
    /// letter. `is_item` tells whether it stands in brackets already.
    fn set(&mut self, span: &Span, is_item: bool, is_negated: bool, has: impl Fn(char) -> bool) {
        let letters = ('A'..='Z').chain('a'..='z');
        let missing: String = letters.filter(|&c| !has(c) && has(other_case(c))).collect();
        if missing.is_empty() || !self.ignores_case {
            return;
        }
        self.copy_to(span.start.offset);
        let text = self.pattern.get(span.start.offset..span.end.offset).unwrap_or_default();
        let rewritten = match (is_negated, is_item) {
            (true, _) => format!("[^{missing}[^{text}]]"),
            (false, true) => format!("{missing}{text}"),
            (false, false) => format!("[{missing}{text}]"),
        };
        self.out.push_str(&rewritten);
        self.done = span.end.offset;
    }

    /// Rewrites a class such as `\p{Lu}`.
    fn unicode_class(&mut self, class: &ast::ClassUnicode, is_item: bool) {
        let text = self.pattern.get(class.span.start.offset..class.span.end.offset);
        let parsed = text.and_then(|text| regex_syntax::parse(text).ok());
        let Some(HirKind::Class(Class::Unicode(set))) =
            parsed.map(regex_syntax::hir::Hir::into_kind)
        else {
            return;
        };
        let ranges = || set.iter().take_while(|range| range.start().is_ascii());
        let has = |c: char| ranges().any(|range| (range.start()..=range.end()).contains(&c));
        let is_negated = class.is_negated();
        self.set(&class.span, is_item, is_negated, |c| has(c) != is_negated);
    }

    fn copy_to(&mut self, offset: usize) {
        self.out.push_str(self.pattern.get(self.done..offset).unwrap_or_default());
        self.done = offset;
    }

    fn apply(&mut self, flags: &Flags) {
        if let Some(ignores_case) = flags.flag_state(Flag::CaseInsensitive) {
            self.ignores_case = ignores_case;
        }
    }
}

impl Visitor for Rewriter<'_> {
    type Output = String;
    type Err = std::convert::Infallible;

    fn finish(mut self) -> Result<String, Self::Err> {
        self.copy_to(self.pattern.len());
        Ok(self.out)
    }

    fn visit_pre(&mut self, ast: &Ast) -> Result<(), Self::Err> {
        if let Ast::Group(group) = ast {
            self.outer.push(self.ignores_case);
            if let Group { kind: GroupKind::NonCapturing(flags), .. } = &**group {
                self.apply(flags);
            }
        }
        Ok(())
    }

    fn visit_post(&mut self, ast: &Ast) -> Result<(), Self::Err> {
        match ast {
            Ast::Group(_) => self.ignores_case = self.outer.pop().unwrap_or(true),
            Ast::Flags(set) => self.apply(&set.flags),
            Ast::Literal(literal) => self.set(&literal.span, false, false, |c| c == literal.c),
            Ast::ClassUnicode(class) => self.unicode_class(class, false),
            _ => {}
        }
        Ok(())
    }

    fn visit_class_set_item_post(&mut self, item: &ClassSetItem) -> Result<(), Self::Err> {
        match item {
            ClassSetItem::Literal(literal) => {
                self.set(&literal.span, true, false, |c| c == literal.c);
            }
            ClassSetItem::Range(range) => {
                let all = range.start.c..=range.end.c;
                self.set(&range.span, true, false, |c| all.contains(&c));
            }
            ClassSetItem::Ascii(class) => match class.kind {
                ClassAsciiKind::Lower => {
                    self.set(&class.span, true, class.negated, |c| c.is_ascii_lowercase());
                }
                ClassAsciiKind::Upper => {
                    self.set(&class.span, true, class.negated, |c| c.is_ascii_uppercase());
                }
                // These have both cases of a letter, or none.
                _ => {}
            },
            ClassSetItem::Unicode(class) => self.unicode_class(class, true),
            // `\d` and `\s` have no letters, `\w` has all. The others contain the items above.
            ClassSetItem::Perl(_)
            | ClassSetItem::Empty(_)
            | ClassSetItem::Bracketed(_)
            | ClassSetItem::Union(_) => {}
        }
        Ok(())
    }
}

/// Returns the other case of an ASCII letter, and any other character as it is.
fn other_case(c: char) -> char {
    match c.is_ascii_lowercase() {
        true => c.to_ascii_uppercase(),
        false => c.to_ascii_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use regex::Regex;

    use super::*;

    fn folded(pattern: &str) -> Regex {
        Regex::new(&ignore_ascii_case(pattern.to_owned())).unwrap()
    }

    #[test]
    fn only_what_names_letters_is_rewritten() {
        for (pattern, expected) in [
            ("a1\u{e4}Z", "[Aa]1\u{e4}[zZ]"),
            (r"\x41\u{6b}\.\n\b{start}", r"[a\x41][K\u{6b}]\.\n\b{start}"),
            (r"[a-c_\-][^x]", r"[ABCa-c_\-][^Xx]"),
            (r"[X-ZaA][\w\s][@-z]", r"[xyzX-ZAaaA][\w\s][@-z]"),
            ("(?P<name>b)(?:c{2,3})+?", "(?P<name>[Bb])(?:[Cc]{2,3})+?"),
            ("a(?-i:b(?i:c)d)e", "[Aa](?-i:b(?i:[Cc])d)[Ee]"),
            ("(a(?-i)b|c)d", "([Aa](?-i)b|c)[Dd]"),
            (r"\w\pL\p{Greek}[[:digit:][:alpha:]]", r"\w\pL\p{Greek}[[:digit:][:alpha:]]"),
            ("a(", "a("),
            (r"\p{Nonesuch}", r"\p{Nonesuch}"),
        ] {
            assert_eq!(ignore_ascii_case(pattern.to_owned()), expected, "{pattern}");
        }
    }

    #[test]
    fn classes_have_both_cases_of_a_letter_or_none() {
        for (pattern, yes, no) in [
            ("^[[:upper:]]$", "aZ", "1\u{c4}\u{e4}"),
            ("^[[:^upper:]]$", "1\u{c4}\u{e4}", "aZ"),
            ("^[^[:lower:]1]$", "2\u{e4}", "aZ1"),
            (r"^\p{Lu}$", "aZ\u{c4}", "1\u{e4}"),
            (r"^\P{Lu}$", "1\u{e4}", "aZ\u{c4}"),
            (r"^[\P{Lu}]$", "1\u{e4}", "aZ\u{c4}"),
            (r"^[^\P{Lu}]$", "aZ\u{c4}", "1\u{e4}"),
            (r"^\p{gc!=Lu}$", "1\u{e4}", "aZ\u{c4}"),
            ("^[^a]$", "bB\u{c4}", "aA"),
            ("^[k\u{e4}]$", "kK\u{e4}", "\u{212a}\u{c4}"),
            ("^[\u{17f}\u{212a}]$", "\u{17f}\u{212a}", "sSkK"),
        ] {
            let regex = folded(pattern);
            for (texts, expected) in [(yes, true), (no, false)] {
                for c in texts.chars() {
                    assert_eq!(regex.is_match(&c.to_string()), expected, "{pattern}: {c}");
                }
            }
        }
    }

    /// Without letters beyond ASCII, and without the two that the library takes for `k` and `s`,
    /// the library ignores case in the same way.
    fn reference(pattern: &str) -> Result<Regex, regex::Error> {
        regex::RegexBuilder::new(pattern).case_insensitive(true).build()
    }

    proptest! {
        #[test]
        fn ascii_texts_match_as_with_all_of_unicode(
            parts in proptest::collection::vec(
                proptest::sample::select(vec![
                    "a", "B", "k", "[a-c]", "[^B-k]", "[[:lower:]_]", "[[:^upper:]]", r"\p{Lu}",
                    r"\P{Ll}", r"[^\P{Lu}k]", r"\w", r"\d", "(", ")", "|", "*", ".", "(?-i:a)",
                    "(?-i)", r"\x41", "[+-Z]",
                ]),
                0..8,
            ),
            texts in proptest::collection::vec("[a-dA-DkKzZ1_+]{0,6}", 1..8),
        ) {
            let pattern = format!("^{}$", parts.concat());
            let Ok(reference) = reference(&pattern) else { return Ok(()) };
            let folded = folded(&pattern);
            for text in &texts {
                let groups = |regex: &Regex| {
                    let found = regex.captures(text)?;
                    let ranges = found.iter().map(|group| group.map(|group| group.range()));
                    Some(ranges.collect::<Vec<_>>())
                };
                prop_assert_eq!(groups(&folded), groups(&reference), "{}: {}", &pattern, text);
            }
        }
    }
}
