//! Reads dates as people write them, in the account's time zone.
//!
//! - A date without a time is the start of that day.
//! - As the end of a window (`--until friday`) it is the start of the day after: the named day is
//!   included, although the end of the window is exclusive (RFC 8621 §8).

use jiff::civil::{Date, DateTime, Time, Weekday};
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp};

use crate::model::UtcMillis;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edge {
    From,
    /// The day of a date without a time is included.
    Until,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a date: write 2026-12-24, 2026-12-24T09:00, today, tomorrow, friday, or a span \
     from now such as +3d, +2w, +1m, +12h"
)]
pub struct BadDate(pub String);

/// Returns the instant that `text` names at the time `now` in `zone`.
///
/// # Errors
/// The text is not a date, or its instant is beyond the range of the calendar.
pub fn parse(
    text: &str,
    now: UtcMillis,
    zone: &TimeZone,
    edge: Edge,
) -> Result<UtcMillis, BadDate> {
    let bad = || BadDate(text.to_owned());
    let here = Timestamp::from_millisecond(now.0).map_err(|_| bad())?.to_zoned(zone.clone());
    let word = text.trim().to_ascii_lowercase();
    let at = match expression(&word, here.date()).ok_or_else(bad)? {
        DateExpression::Day(day) => {
            let day = if edge == Edge::Until { day.tomorrow().map_err(|_| bad())? } else { day };
            day.to_zoned(zone.clone()).map_err(|_| bad())?.timestamp()
        }
        DateExpression::Wall(wall) => wall.to_zoned(zone.clone()).map_err(|_| bad())?.timestamp(),
        DateExpression::Instant(at) => at,
        DateExpression::Later(span) => here.checked_add(span).map_err(|_| bad())?.timestamp(),
    };
    Ok(UtcMillis(at.as_millisecond()))
}

/// Returns the last day, such as `2026-11-27`, of a window whose end (RFC 3339) is the start of a
/// day in `zone`; `None` if the window ends within a day, or if the end cannot be read.
pub fn last_day(end: &str, zone: &TimeZone) -> Option<String> {
    let end = Timestamp::from_millisecond(UtcMillis::parse_rfc3339(end)?.0).ok()?;
    let end = end.to_zoned(zone.clone());
    let is_start = end.start_of_day().is_ok_and(|start| start == end);
    if is_start { end.date().yesterday().ok().map(|day| day.to_string()) } else { None }
}

/// What a text names, before the time zone is considered.
enum DateExpression {
    /// A date without a time.
    Day(Date),
    /// A date and a time without a zone.
    Wall(DateTime),
    Instant(Timestamp),
    /// A span from now.
    Later(Span),
}

/// Reads a text in lower case. `today` is the date of now in the zone.
fn expression(word: &str, today: Date) -> Option<DateExpression> {
    match word {
        "now" => return Some(DateExpression::Later(Span::new())),
        "today" => return Some(DateExpression::Day(today)),
        "tomorrow" => return today.tomorrow().ok().map(DateExpression::Day),
        _ => {}
    }
    if let Some(weekday) = weekday(word) {
        // Today's weekday means the day a week from now.
        return today.nth_weekday(1, weekday).ok().map(DateExpression::Day);
    }
    if let Some(rest) = word.strip_prefix('+') {
        return later(rest, today);
    }
    // jiff's parser of dates accepts and ignores a time.
    if word.len() == 10 {
        return word.parse().ok().map(DateExpression::Day);
    }
    if let Ok(at) = word.to_ascii_uppercase().parse::<Timestamp>() {
        return Some(DateExpression::Instant(at));
    }
    let (day, time) = word.split_once(['t', ' '])?;
    let (day, time) = (day.parse::<Date>().ok()?, time.parse::<Time>().ok()?);
    Some(DateExpression::Wall(day.to_datetime(time)))
}

/// Reads a span such as `2w`. Spans of days or more lead to a whole day; hours and minutes are
/// counted from now.
fn later(rest: &str, today: Date) -> Option<DateExpression> {
    let end = rest.find(|at: char| !at.is_ascii_digit())?;
    let (digits, unit) = rest.split_at(end);
    let count: i32 = digits.parse().ok()?;
    let span = Span::new();
    let days = match unit.trim() {
        "d" | "day" | "days" => span.try_days(count),
        "w" | "week" | "weeks" => span.try_weeks(count),
        "m" | "month" | "months" => span.try_months(count),
        "y" | "year" | "years" => span.try_years(count),
        "h" | "hour" | "hours" => return span.try_hours(count).ok().map(DateExpression::Later),
        "min" | "minutes" => return span.try_minutes(count).ok().map(DateExpression::Later),
        _ => return None,
    };
    today.checked_add(days.ok()?).ok().map(DateExpression::Day)
}

fn weekday(word: &str) -> Option<Weekday> {
    Some(match word {
        "monday" | "mon" => Weekday::Monday,
        "tuesday" | "tue" => Weekday::Tuesday,
        "wednesday" | "wed" => Weekday::Wednesday,
        "thursday" | "thu" => Weekday::Thursday,
        "friday" | "fri" => Weekday::Friday,
        "saturday" | "sat" => Weekday::Saturday,
        "sunday" | "sun" => Weekday::Sunday,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, edge: Edge) -> String {
        // A Wednesday, 10:30 in Berlin. Summer time ends on 25 October.
        let now = UtcMillis::parse_rfc3339("2026-10-21T08:30:00Z").unwrap();
        let zone = TimeZone::get("Europe/Berlin").unwrap();
        parse(text, now, &zone, edge).map_or_else(|_| "bad".into(), UtcMillis::rfc3339)
    }

    #[test]
    fn reads_dates_as_begin_and_as_end() {
        for (text, from, until) in [
            ("2026-12-24", "2026-12-23T23:00:00Z", "2026-12-24T23:00:00Z"),
            ("2026-12-24T09:00", "2026-12-24T08:00:00Z", "2026-12-24T08:00:00Z"),
            ("2026-12-24 09:00", "2026-12-24T08:00:00Z", "2026-12-24T08:00:00Z"),
            ("2026-12-24T09:00:00Z", "2026-12-24T09:00:00Z", "2026-12-24T09:00:00Z"),
            ("2026-12-24t09:00:00-05:00", "2026-12-24T14:00:00Z", "2026-12-24T14:00:00Z"),
            ("today", "2026-10-20T22:00:00Z", "2026-10-21T22:00:00Z"),
            ("Tomorrow", "2026-10-21T22:00:00Z", "2026-10-22T22:00:00Z"),
            ("friday", "2026-10-22T22:00:00Z", "2026-10-23T22:00:00Z"),
            // The day on which summer time ends has 25 hours.
            ("sun", "2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z"),
            ("wednesday", "2026-10-27T23:00:00Z", "2026-10-28T23:00:00Z"),
            ("+2w", "2026-11-03T23:00:00Z", "2026-11-04T23:00:00Z"),
            ("+3d", "2026-10-23T22:00:00Z", "2026-10-24T22:00:00Z"),
            ("+1m", "2026-11-20T23:00:00Z", "2026-11-21T23:00:00Z"),
            ("+12h", "2026-10-21T20:30:00Z", "2026-10-21T20:30:00Z"),
            // The clocks go forward from 02:00 to 03:00: this time is read as 03:30.
            ("2027-03-28T02:30", "2027-03-28T01:30:00Z", "2027-03-28T01:30:00Z"),
        ] {
            assert_eq!(
                (read(text, Edge::From).as_str(), read(text, Edge::Until).as_str()),
                (from, until),
                "{text}"
            );
        }
    }

    #[test]
    fn an_end_at_midnight_is_shown_as_the_day_before() {
        let zone = TimeZone::get("Europe/Berlin").unwrap();
        for (end, day) in [
            ("2026-11-27T23:00:00Z", Some("2026-11-27")),
            // The day before has 25 hours.
            ("2026-10-25T23:00:00Z", Some("2026-10-25")),
            ("2026-11-28T00:00:00Z", None),
            ("2026-11-27T23:00:01Z", None),
            ("someday", None),
        ] {
            assert_eq!(last_day(end, &zone).as_deref(), day, "{end}");
        }
    }

    #[test]
    fn refuses_what_is_no_date() {
        for text in [
            "",
            "someday",
            "2026-13-01",
            "2026-02-30",
            "2026-12-24T",
            "2026-12-24T25:00",
            "+",
            "+2",
            "+2x",
            "24.12.2026",
            "+99999999999d",
        ] {
            assert_eq!(read(text, Edge::From), "bad", "{text}");
        }
    }
}
