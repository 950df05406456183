//! Comparators (RFC 4790, RFC 5051).
//!
//! - [`fold`] turns a text into bytes: a comparator compares these bytes for equality and order,
//!   and finds parts of a text in them.
//! - `i;ascii-numeric` has no such bytes: [`compare`] compares numbers of any length.

use std::borrow::Cow;
use std::cmp::Ordering;

use unicode_normalization::char::decompose_compatible;

use crate::extension::Comparator;

/// Returns the bytes of a text that a comparator compares. For `i;ascii-numeric`, which compares no
/// bytes, they are the text itself.
pub(super) fn fold(comparator: Comparator, text: &str) -> Cow<'_, [u8]> {
    match comparator {
        Comparator::Octet | Comparator::AsciiNumeric => Cow::Borrowed(text.as_bytes()),
        Comparator::AsciiCasemap => match text.bytes().any(|byte| byte.is_ascii_lowercase()) {
            true => Cow::Owned(text.as_bytes().to_ascii_uppercase()),
            false => Cow::Borrowed(text.as_bytes()),
        },
        Comparator::UnicodeCasemap => {
            let mut folded = String::with_capacity(text.len());
            text.chars().for_each(|c| fold_char(c, &mut |part| folded.push(part)));
            Cow::Owned(folded.into_bytes())
        }
    }
}

/// Returns the bytes of a text that [`has_equal_form`] compares: those of [`fold`], but for
/// `i;ascii-casemap` the text itself, so that nothing is copied.
pub(super) fn equality_form(comparator: Comparator, text: &str) -> Cow<'_, [u8]> {
    match comparator {
        Comparator::AsciiCasemap => Cow::Borrowed(text.as_bytes()),
        _ => fold(comparator, text),
    }
}

/// Returns whether two texts in their [`equality_form`] are equal.
pub(super) fn has_equal_form(comparator: Comparator, a: &[u8], b: &[u8]) -> bool {
    match comparator {
        Comparator::AsciiCasemap => a.eq_ignore_ascii_case(b),
        _ => a == b,
    }
}

/// Compares two texts.
pub(super) fn compare(comparator: Comparator, a: &str, b: &str) -> Ordering {
    match comparator {
        Comparator::AsciiNumeric => compare_numbers(number(a), number(b)),
        _ => fold(comparator, a).cmp(&fold(comparator, b)),
    }
}

/// Calls `emit` with each character of the canonical form of a character (RFC 5051 §2): its
/// titlecase, decomposed.
pub(super) fn fold_char(c: char, emit: &mut impl FnMut(char)) {
    if c.is_ascii() {
        emit(c.to_ascii_uppercase());
    } else {
        decompose_compatible(simple_titlecase(c), emit);
    }
}

/// Returns the titlecase of a character, which is always one character. The standard library has
/// only the full uppercase, which differs for digraphs and for Georgian, and may be several
/// characters.
fn simple_titlecase(c: char) -> char {
    match c {
        '\u{1c4}'..='\u{1c6}' => '\u{1c5}',
        '\u{1c7}'..='\u{1c9}' => '\u{1c8}',
        '\u{1ca}'..='\u{1cc}' => '\u{1cb}',
        '\u{1f1}'..='\u{1f3}' => '\u{1f2}',
        '\u{10d0}'..='\u{10ff}' => c,
        // Greek with iota subscript: the number of the capital letter is higher by eight or nine.
        '\u{1f80}'..='\u{1f87}' | '\u{1f90}'..='\u{1f97}' | '\u{1fa0}'..='\u{1fa7}' => shift(c, 8),
        '\u{1fb3}' | '\u{1fc3}' | '\u{1ff3}' => shift(c, 9),
        _ => {
            let mut upper = c.to_uppercase();
            match (upper.next(), upper.next()) {
                (Some(one), None) => one,
                _ => c,
            }
        }
    }
}

fn shift(c: char, by: u32) -> char {
    char::from_u32(u32::from(c).saturating_add(by)).unwrap_or(c)
}

/// Returns the digits with which a text begins, without leading zeros: no digits for zero. `None`
/// if it begins with no digit, which stands for infinity (RFC 4790 §9.1).
fn number(text: &str) -> Option<&str> {
    let end = text.bytes().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    let digits = text.get(..end).filter(|digits| !digits.is_empty())?;
    Some(digits.trim_start_matches('0'))
}

/// Compares two results of [`number`]. Of two numbers without leading zeros the longer is greater.
fn compare_numbers(a: Option<&str>, b: Option<&str>) -> Ordering {
    match (a, b) {
        (Some(a), Some(b)) => a.len().cmp(&b.len()).then_with(|| a.cmp(b)),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => Ordering::Equal,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn equal(comparator: Comparator, a: &str, b: &str) -> bool {
        compare(comparator, a, b).is_eq()
    }

    #[test]
    fn numbers_begin_the_text_and_other_texts_are_infinite() {
        let compare = |a, b| compare(Comparator::AsciiNumeric, a, b);
        assert_eq!(compare("12abc", "12"), Ordering::Equal);
        assert_eq!(compare("0012", "12"), Ordering::Equal);
        assert_eq!(compare("0", "000x"), Ordering::Equal);
        assert_eq!(compare("2", "10"), Ordering::Less);
        assert_eq!(compare("", "abc"), Ordering::Equal);
        assert_eq!(compare("-1", "99999999999999999999999"), Ordering::Greater);
        assert_eq!(compare("99999999999999999999998", "99999999999999999999999"), Ordering::Less);
    }

    #[test]
    fn unicode_casemap_ignores_case_and_form() {
        let equal = |a, b| equal(Comparator::UnicodeCasemap, a, b);
        assert!(equal("Stra\u{df}e", "STRA\u{df}E"));
        assert!(equal("\u{e4}", "A\u{308}"));
        assert!(equal("\u{1c4}", "\u{1c6}") && equal("\u{1fb3}", "\u{1fbc}"));
        assert!(equal("\u{fb01}x", "\u{fb01}X") && equal("\u{430}", "\u{410}"));
        assert!(equal("\u{3c2}", "\u{3c3}"));
        assert!(!equal("a", "b") && !equal("\u{e4}", "a"));
    }

    #[test]
    fn ascii_casemap_orders_by_uppercase_and_octet_does_not() {
        assert_eq!(compare(Comparator::AsciiCasemap, "a", "_"), Ordering::Less);
        assert_eq!(compare(Comparator::Octet, "a", "_"), Ordering::Greater);
        assert!(!equal(Comparator::AsciiCasemap, "\u{e4}", "\u{c4}"));
    }

    proptest! {
        #[test]
        fn ascii_casemap_compares_uppercase(
            a in "[a-zA-Z_\u{e4}]{0,6}",
            b in "[a-zA-Z_\u{e4}]{0,6}",
        ) {
            let expected = a.to_ascii_uppercase().cmp(&b.to_ascii_uppercase());
            prop_assert_eq!(compare(Comparator::AsciiCasemap, &a, &b), expected);
        }

        #[test]
        fn ascii_numeric_compares_numbers(
            a in "[0-9]{0,12}[a-z]{0,2}",
            b in "[0-9]{0,12}[a-z]{0,2}",
        ) {
            let value = |text: &str| {
                let digits: String = text.chars().take_while(char::is_ascii_digit).collect();
                // Without digits it is infinity. The 12 digits of a number stay below the maximum.
                digits.parse::<u64>().unwrap_or(u64::MAX)
            };
            prop_assert_eq!(compare(Comparator::AsciiNumeric, &a, &b), value(&a).cmp(&value(&b)));
        }

        #[test]
        fn equality_is_that_of_folded_texts(a in "\\PC{0,5}", b in "\\PC{0,5}") {
            use Comparator::{AsciiCasemap, Octet, UnicodeCasemap};
            for comparator in [Octet, AsciiCasemap, UnicodeCasemap] {
                let is_equal = fold(comparator, &a) == fold(comparator, &b);
                prop_assert_eq!(equal(comparator, &a, &b), is_equal);
                prop_assert!(equal(comparator, &a, &a));
                let (a, b) = (equality_form(comparator, &a), equality_form(comparator, &b));
                prop_assert_eq!(has_equal_form(comparator, &a, &b), is_equal);
            }
        }
    }
}
