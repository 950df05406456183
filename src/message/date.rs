//! Parses dates that current grammars do not allow: asctime, hyphens, two-digit years, named zones
//! (RFC 5322 §4.3 and earlier).

use std::str::FromStr;

use crate::model::{SentAt, UtcMillis, limits};

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];

/// Parses a date word by word, up to a comment. `None` if the day, the month, the year or the time
/// is missing or invalid. A missing or unknown zone counts as UTC (RFC 5322 §4.3). Unknown words,
/// and numbers after the day and the year, are ignored.
pub(super) fn parse_obsolete(value: &[u8]) -> Option<SentAt> {
    let text = String::from_utf8_lossy(value.get(..limits::MAX_DATE_BYTES).unwrap_or(value));
    let text = text.split('(').next().unwrap_or_default();
    let (mut day, mut month, mut year, mut time, mut zone) = (None, None, None, None, None);
    for word in text.split(|c: char| c.is_whitespace() || c == ',').flat_map(split_hyphens) {
        if word.is_empty() {
        } else if word.contains(':') {
            time = time.or(Some(seconds_since_midnight(word)?));
        } else if let Some(minutes) = zone_offset(word) {
            zone = zone.or(Some(minutes));
        } else if word.bytes().all(|byte| byte.is_ascii_digit()) {
            if day.is_none() && word.len() <= 2 {
                day = Some(word.parse::<u8>().ok()?);
            } else if year.is_none() {
                year = Some(complete_year(word.parse().ok()?, word.len())?);
            }
        } else if month.is_none() {
            month = MONTHS
                .iter()
                .zip(1u8..)
                .find(|(name, _)| begins_with_month(word, name))
                .map(|(_, number)| number);
        }
    }
    let (day, month, year) = (day?, month?, year?);
    if day == 0 || day > days_in_month(year, month) {
        return None;
    }
    let offset_minutes = zone.unwrap_or(0);
    let minutes = days_since_1970(year, month, day)?
        .checked_mul(24 * 60)?
        .checked_sub(offset_minutes.into())?;
    let at = minutes.checked_mul(60)?.checked_add(time?)?.checked_mul(1000)?;
    Some(SentAt { at: UtcMillis(at), offset_minutes })
}

/// Returns the number of days of a month from 1 to 12.
pub(super) fn days_in_month(year: i64, month: u8) -> u8 {
    let leap = year.rem_euclid(4) == 0 && (year.rem_euclid(100) != 0 || year.rem_euclid(400) == 0);
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if leap => 29,
        2 => 28,
        _ => 31,
    }
}

/// Splits `21-Nov-2026` into three words, and keeps `-0500` as one.
fn split_hyphens(word: &str) -> impl Iterator<Item = &str> {
    let is_date = word.starts_with(|c: char| c.is_ascii_digit())
        && word.contains(|c: char| c.is_ascii_alphabetic());
    word.split(move |c| is_date && c == '-')
}

fn begins_with_month(word: &str, name: &str) -> bool {
    word.get(..3).is_some_and(|start| start.eq_ignore_ascii_case(name))
}

/// Completes a year of two or three digits (RFC 5322 §4.3); `None` for other lengths than two to
/// four, and before 1900 (§3.3).
fn complete_year(number: i64, digits: usize) -> Option<i64> {
    match digits {
        2 if number < 50 => number.checked_add(2000),
        2 | 3 => number.checked_add(1900),
        4 => Some(number).filter(|year| *year >= 1900),
        _ => None,
    }
}

/// Returns the seconds from midnight to `hh:mm` or `hh:mm:ss`.
fn seconds_since_midnight(word: &str) -> Option<i64> {
    let mut parts = word.split(':').map(number::<u8>);
    let (hour, minute, second) = (parts.next()??, parts.next()??, parts.next().unwrap_or(Some(0))?);
    let fits = hour < 24 && minute < 60 && second <= 60 && parts.next().is_none();
    fits.then(|| {
        i64::from(hour).saturating_mul(3600).saturating_add(i64::from(minute).saturating_mul(60))
    })
    .map(|seconds| seconds.saturating_add(second.into()))
}

/// Parses a number of digits only; `parse` would take a sign.
fn number<T: FromStr>(digits: &str) -> Option<T> {
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok()).flatten()
}

/// Returns the minutes east of UTC of `+hhmm`, or of a zone by its name (RFC 5322 §4.3). Military
/// zones other than `Z` count as unknown.
fn zone_offset(word: &str) -> Option<i16> {
    if let Some(digits) = word.strip_prefix(['+', '-']) {
        let hhmm: i16 = number(digits).filter(|_| digits.len() == 4)?;
        let minutes = (hhmm / 100).checked_mul(60)?.checked_add(hhmm % 100)?;
        return if word.starts_with('-') { minutes.checked_neg() } else { Some(minutes) };
    }
    let hours: i16 = match word.to_ascii_uppercase().as_str() {
        "UT" | "UTC" | "GMT" | "Z" => 0,
        "EDT" => -4,
        "EST" | "CDT" => -5,
        "CST" | "MDT" => -6,
        "MST" | "PDT" => -7,
        "PST" => -8,
        _ => return None,
    };
    hours.checked_mul(60)
}

/// Returns the days since 1970-01-01 in the Gregorian calendar, by years that begin in March. Five
/// months from March on have 153 days, and 400 years have 146,097. 719,468 days lie between
/// 0000-03-01 and 1970-01-01.
fn days_since_1970(year: i64, month: u8, day: u8) -> Option<i64> {
    let year = if month <= 2 { year.checked_sub(1)? } else { year };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let months_since_march = i64::from(month).checked_add(9)?.rem_euclid(12);
    let day_of_year = months_since_march
        .checked_mul(153)?
        .checked_add(2)?
        .div_euclid(5)
        .checked_add(i64::from(day))?
        .checked_sub(1)?;
    let leap_days = year_of_era.div_euclid(4).checked_sub(year_of_era.div_euclid(100))?;
    let day_of_era =
        year_of_era.checked_mul(365)?.checked_add(leap_days)?.checked_add(day_of_year)?;
    era.checked_mul(146_097)?.checked_add(day_of_era)?.checked_sub(719_468)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn obsolete_dates_are_read_and_invalid_ones_refused() {
        for (text, at, zone) in [
            (" Sat Nov 21 10:00:00 2026\r\n", "2026-11-21T10:00:00Z", 0),
            ("20 Nov 26 10:00 EST", "2026-11-20T15:00:00Z", -300),
            ("21-Nov-2026 10:00:00 +0100", "2026-11-21T09:00:00Z", 60),
            ("Sat, 21 Nov 2026 10:00 PDT", "2026-11-21T17:00:00Z", -420),
            ("Thu Feb 29 23:59:59 GMT 1996 (leap)", "1996-02-29T23:59:59Z", 0),
            ("21 Nov 2026 10:00 ++100", "2026-11-21T10:00:00Z", 0),
            ("21 Nov 2026 10:00 12345678901234567890 7", "2026-11-21T10:00:00Z", 0),
        ] {
            let read = parse_obsolete(text.as_bytes())
                .map(|sent| (sent.at.rfc3339(), sent.offset_minutes));
            assert_eq!(read, Some((at.to_owned(), zone)), "{text}");
        }
        for text in [
            "",
            "Nov",
            "31 Feb 2026 10:00",
            "21 Nov 2026",
            "21 Nov 2026 25:00",
            "21 Nov 2026 10:+5",
            "0 Nov 2026 10:00",
            "21 Nov 1899 10:00",
            "21 Nov 12345678901234567890 10:00",
        ] {
            assert_eq!(parse_obsolete(text.as_bytes()), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_date_or_none(value in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _read = parse_obsolete(&value);
        }

        /// This parser and the library agree on dates that both can read.
        #[test]
        fn agrees_with_the_library(seconds in 0i64..4_000_000_000) {
            let at = UtcMillis(seconds.saturating_mul(1000));
            let text = at.rfc5322();
            let by_library = super::super::parse::date(text.as_bytes());
            prop_assert_eq!(parse_obsolete(text.as_bytes()), by_library);
        }
    }
}
