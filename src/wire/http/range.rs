//! Reads `Range` (RFC 9110 §14.2) and compares entity tags (§8.8.3).

use std::ops::Range;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RangeSelection {
    /// With status 200.
    Whole,
    /// At least one byte, with status 206.
    Part(Range<u64>),
    /// The range is beyond the end, or has no bytes: status 416.
    Nothing,
}

/// Reads the field, for a resource of `length` bytes. Several ranges, other units, malformed fields
/// and numbers of more than 18 digits give the whole resource.
///
/// ```abnf
/// bytes-range = "bytes=" ( first-pos "-" [ last-pos ] / "-" suffix-length )
/// ```
#[must_use]
pub fn range(field: &[u8], length: u64) -> RangeSelection {
    let number = |text: &str| {
        let digits =
            !text.is_empty() && text.len() <= 18 && text.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| text.parse::<u64>().ok()).flatten()
    };
    let unit = |text: &str| text.get(..6).is_some_and(|unit| unit.eq_ignore_ascii_case("bytes="));
    let Some(text) = std::str::from_utf8(field).ok().filter(|text| unit(text)) else {
        return RangeSelection::Whole;
    };
    let Some((first, last)) = text.get(6..).and_then(|range| range.trim().split_once('-')) else {
        return RangeSelection::Whole;
    };
    let selected = match (number(first), number(last)) {
        (None, Some(suffix)) if first.is_empty() => length.saturating_sub(suffix)..length,
        (Some(first), None) if last.is_empty() => first..length,
        (Some(first), Some(last)) if first <= last => first..last.saturating_add(1).min(length),
        _ => return RangeSelection::Whole,
    };
    if selected.is_empty() { RangeSelection::Nothing } else { RangeSelection::Part(selected) }
}

/// Whether a list of entity tags (`If-None-Match`) contains `tag`, weak or strong, or `*` (RFC 9110
/// §13.1.2). `tag` has its quotes, and no comma in them.
#[must_use]
pub fn same_tag(field: &[u8], tag: &str) -> bool {
    let Ok(text) = std::str::from_utf8(field) else { return false };
    text.split(',')
        .map(str::trim)
        .any(|listed| listed == "*" || listed.strip_prefix("W/").unwrap_or(listed) == tag)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn selects_the_ranges_of_rfc_9110() {
        for (field, length, expected) in [
            ("bytes=0-499", 10_000, RangeSelection::Part(0..500)),
            ("bytes=500-999", 10_000, RangeSelection::Part(500..1000)),
            ("bytes=-500", 10_000, RangeSelection::Part(9_500..10_000)),
            ("Bytes=9500-", 10_000, RangeSelection::Part(9_500..10_000)),
            ("bytes=0-0", 10_000, RangeSelection::Part(0..1)),
            ("bytes=9999-20000", 10_000, RangeSelection::Part(9_999..10_000)),
            ("bytes=-20000", 10_000, RangeSelection::Part(0..10_000)),
            ("bytes=10000-", 10_000, RangeSelection::Nothing),
            ("bytes=-0", 10_000, RangeSelection::Nothing),
            ("bytes=0-", 0, RangeSelection::Nothing),
            ("bytes=5-4", 10_000, RangeSelection::Whole),
            ("bytes=0-0,-1", 10_000, RangeSelection::Whole),
            ("bytes=-", 10_000, RangeSelection::Whole),
            ("bytes=+1-2", 10_000, RangeSelection::Whole),
            ("bytes=99999999999999999999-", 10_000, RangeSelection::Whole),
            ("items=0-1", 10_000, RangeSelection::Whole),
            ("", 10_000, RangeSelection::Whole),
        ] {
            assert_eq!(range(field.as_bytes(), length), expected, "{field}");
        }
    }

    #[test]
    fn compares_entity_tags() {
        assert!(
            same_tag(b"\"a\"", "\"a\"")
                && same_tag(b"\"x\", W/\"a\"", "\"a\"")
                && same_tag(b"*", "\"a\"")
        );
        assert!(
            !same_tag(b"a", "\"a\"") && !same_tag(b"\"ab\"", "\"a\"") && !same_tag(b"", "\"a\"")
        );
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(
            field in proptest::collection::vec(any::<u8>(), 0..40),
            length in any::<u64>(),
        ) {
            drop(range(&field, length));
        }

        #[test]
        fn a_part_lies_within_the_resource(
            first in any::<u32>(),
            last in proptest::option::of(any::<u32>()),
            length in 0..5_000_000_000_u64,
        ) {
            let last = last.map(|last| last.to_string()).unwrap_or_default();
            let field = format!("bytes={first}-{last}");
            if let RangeSelection::Part(part) = range(field.as_bytes(), length) {
                prop_assert!(part.start < part.end && part.end <= length);
                prop_assert!(part.start == u64::from(first));
            }
        }
    }
}
