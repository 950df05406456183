//! `date` and `currentdate` (RFC 5260).

use std::borrow::Cow;

use jiff::Timestamp;
use jiff::civil::{Date, DateTime, Weekday, date};
use jiff::fmt::rfc2822::DateTimeParser;
use jiff::tz::Offset;

use super::{Frame, Result, Run};
use crate::ir::{Comparison, DatePart, DateTest, DateZone, FieldIndex, Keyword, UtcOffset};

/// Accepts a weekday that is not that of the date.
const PARSER: DateTimeParser = DateTimeParser::new().relaxed_weekday(true);

/// The day 0 of Modified Julian Days.
const JULIAN_EPOCH: Date = date(1858, 11, 17);

const WEEKDAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

impl Run<'_> {
    /// Evaluates `date`. Without `:index` the first field counts. A field that does not exist or
    /// has no date gives no value.
    pub(super) fn date(&mut self, frame: &mut Frame<'_>, test: &DateTest) -> Result<bool> {
        let name = self.expand(frame, &test.field)?;
        let part = self.keyword(frame, &test.part, DatePart::parse, "part of a date")?;
        let zone = match &test.zone {
            DateZone::Offset(offset) => {
                Some(self.keyword(frame, offset, UtcOffset::parse, "offset from UTC")?)
            }
            DateZone::Local | DateZone::Original => None,
        };
        let index = test.index.unwrap_or(FieldIndex { number: 1, from_end: false });
        let values = self.field_values(frame, &[name], Some(index), None)?;
        let view = self.message.view();
        let text = values.first().map(|(_, value)| view.decode_text(value));
        let parsed = text.and_then(|text| parse(&text));
        let moment = parsed.map(|(time, original)| match (&test.zone, zone) {
            (_, Some(offset)) => Moment::new(time, offset.minutes()),
            (DateZone::Original, None) => Moment::new(time, original),
            (_, None) => self.local(time),
        });
        let value = moment.map(|moment| Cow::Owned(moment.part(part)));
        self.matches_any(frame, &test.comparison, &value.into_iter().collect::<Vec<_>>())
    }

    /// Evaluates `currentdate`. Without a zone, the zone of the account counts.
    pub(super) fn current_date(
        &mut self,
        frame: &mut Frame<'_>,
        zone: Option<&Keyword<UtcOffset>>,
        part: &Keyword<DatePart>,
        comparison: &Comparison,
    ) -> Result<bool> {
        let part = self.keyword(frame, part, DatePart::parse, "part of a date")?;
        let now = self.world.now();
        let moment = match zone {
            Some(zone) => {
                let offset = self.keyword(frame, zone, UtcOffset::parse, "offset from UTC")?;
                Moment::new(now, offset.minutes())
            }
            None => self.local(now),
        };
        self.matches_any(frame, comparison, &[Cow::Owned(moment.part(part))])
    }

    /// Expresses a time in the zone of the account, whose offset counts in whole minutes.
    pub(super) fn local(&self, time: Timestamp) -> Moment {
        let seconds = self.world.zone().to_offset(time).seconds();
        Moment::new(time, i16::try_from(seconds / 60).unwrap_or(0))
    }
}

/// A time in a zone.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment {
    civil: DateTime,
    /// Minutes east of Greenwich.
    offset: i16,
}

impl Moment {
    /// Expresses a time in the zone that is `minutes` east of Greenwich. An offset that is out of
    /// range counts as 0.
    pub(super) fn new(time: Timestamp, minutes: i16) -> Self {
        let offset = Offset::from_seconds(i32::from(minutes) * 60);
        let offset = offset.unwrap_or(Offset::UTC);
        let minutes = if offset == Offset::UTC { 0 } else { minutes };
        Self { civil: offset.to_datetime(time), offset: minutes }
    }

    /// Returns a part in the form of RFC 5260 §4.2.
    pub(super) fn part(self, part: DatePart) -> String {
        let (day, time) = (self.civil.date(), self.civil.time());
        match part {
            DatePart::Year => format!("{:04}", day.year()),
            DatePart::Month => format!("{:02}", day.month()),
            DatePart::Day => format!("{:02}", day.day()),
            DatePart::Date => {
                format!("{:04}-{:02}-{:02}", day.year(), day.month(), day.day())
            }
            DatePart::Julian => {
                let since = day.duration_since(JULIAN_EPOCH);
                (since.as_hours() / 24).to_string()
            }
            DatePart::Hour => format!("{:02}", time.hour()),
            DatePart::Minute => format!("{:02}", time.minute()),
            DatePart::Second => format!("{:02}", time.second()),
            DatePart::Time => {
                format!("{:02}:{:02}:{:02}", time.hour(), time.minute(), time.second())
            }
            DatePart::Iso8601 => {
                let zone = match self.offset {
                    0 => "Z".to_owned(),
                    _ => self.zone(":"),
                };
                format!("{}T{}{zone}", self.part(DatePart::Date), self.part(DatePart::Time))
            }
            DatePart::Std11 => {
                let weekday = WEEKDAYS.get(weekday(day)).copied().unwrap_or_default();
                let month = usize::from(day.month().unsigned_abs()).saturating_sub(1);
                let month = MONTHS.get(month).copied().unwrap_or_default();
                let (number, year) = (day.day(), day.year());
                let (clock, zone) = (self.part(DatePart::Time), self.zone(""));
                format!("{weekday}, {number:02} {month} {year:04} {clock} {zone}")
            }
            DatePart::Zone => self.zone(""),
            DatePart::Weekday => weekday(day).to_string(),
        }
    }

    /// Returns the offset as `+hhmm` or `-hhmm`, with a separator before the minutes.
    fn zone(self, separator: &str) -> String {
        let sign = if self.offset < 0 { '-' } else { '+' };
        let minutes = self.offset.unsigned_abs();
        format!("{sign}{:02}{separator}{:02}", minutes / 60, minutes % 60)
    }
}

/// Returns the number of a day of the week, 0 for Sunday.
fn weekday(day: Date) -> usize {
    match day.weekday() {
        Weekday::Sunday => 0,
        Weekday::Monday => 1,
        Weekday::Tuesday => 2,
        Weekday::Wednesday => 3,
        Weekday::Thursday => 4,
        Weekday::Friday => 5,
        Weekday::Saturday => 6,
    }
}

/// Parses the value of a field as a date of RFC 5322. If the value has semicolons, the date is what
/// follows the last one (RFC 5260 §4). Returns the time and the offset of its zone in minutes,
/// `None` if there is no date. Zones with unknown names count as UTC (RFC 5322 §4.3).
fn parse(value: &str) -> Option<(Timestamp, i16)> {
    let value = without_comments(value);
    let text = value.rsplit_once(';').map_or(value.as_str(), |(_, date)| date);
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let text = words.join(" ");
    let parsed = PARSER.parse_zoned(&text).or_else(|error| {
        let is_name = |word: &str| word.bytes().all(|byte| byte.is_ascii_alphabetic());
        match text.rsplit_once(' ') {
            Some((rest, zone)) if is_name(zone) => PARSER.parse_zoned(format!("{rest} +0000")),
            _ => Err(error),
        }
    });
    let zoned = parsed.ok()?;
    let minutes = i16::try_from(zoned.offset().seconds() / 60).ok()?;
    Some((zoned.timestamp(), minutes))
}

/// Returns a value with a blank in place of each comment. Comments may contain others. One that is
/// not closed ends with the value.
fn without_comments(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    let mut depth = 0_usize;
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '(' => depth = depth.saturating_add(1),
            ')' if depth > 0 => {
                depth -= 1;
                out.push(' ');
            }
            '\\' if depth > 0 => {
                chars.next();
            }
            c if depth == 0 => out.push(c),
            _ => {}
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(value: &str, part: DatePart) -> Option<String> {
        parse(value).map(|(time, offset)| Moment::new(time, offset).part(part))
    }

    #[test]
    fn every_part_has_its_form() {
        let date = "Tue, 29 Feb 2028 23:05:09 -0330";
        for (kind, expected) in [
            (DatePart::Year, "2028"),
            (DatePart::Month, "02"),
            (DatePart::Day, "29"),
            (DatePart::Date, "2028-02-29"),
            (DatePart::Julian, "61830"),
            (DatePart::Hour, "23"),
            (DatePart::Minute, "05"),
            (DatePart::Second, "09"),
            (DatePart::Time, "23:05:09"),
            (DatePart::Iso8601, "2028-02-29T23:05:09-03:30"),
            (DatePart::Std11, "Tue, 29 Feb 2028 23:05:09 -0330"),
            (DatePart::Zone, "-0330"),
            (DatePart::Weekday, "2"),
        ] {
            assert_eq!(part(date, kind).as_deref(), Some(expected), "{kind:?}");
        }
    }

    #[test]
    fn dates_are_found_after_a_semicolon_and_beside_comments() {
        let iso = |value| part(value, DatePart::Iso8601);
        let expected = Some("2026-12-24T10:00:00Z".to_owned());
        for value in [
            "Thu, 24 Dec 2026 10:00:00 +0000",
            "24 Dec 2026 10:00:00 -0000",
            "from a by b (c; d) id 1; Thu, 24 Dec 2026 10:00 GMT (UTC)",
            "Thu,\t24  Dec 2026 10:00:00 XYZ",
            "Fri, 24 Dec 26 10:00:00 UT",
        ] {
            assert_eq!(iso(value), expected, "{value}");
        }
        let leap_second = part("Wed, 31 Dec 2008 23:59:60 +0000", DatePart::Second);
        assert_eq!(leap_second.as_deref(), Some("59"));
        assert_eq!(iso("24 Dec 2026 10:00 EST").as_deref(), Some("2026-12-24T10:00:00-05:00"));
        for value in
            ["", "tomorrow", "32 Jan 2026 10:00:00 +0000", "29 Feb 2027 10:00:00 +0000", "((", ";"]
        {
            assert_eq!(iso(value), None, "{value}");
        }
    }
}
