//! Reads the clocks of the machine, writes times in the formats of mail, JMAP, mbox files and
//! people, and reads those of JMAP. `message::parse::date` reads the dates of mail.

#[cfg(any(test, feature = "internals"))]
mod fixed;

use std::fmt;
use std::sync::LazyLock;
use std::time::Duration;

use jiff::tz::TimeZone;
use jiff::{Span, Timestamp};

#[cfg(any(test, feature = "internals"))]
pub use fixed::FixedClock;

/// An instant, in milliseconds since 1970-01-01T00:00:00Z. The calendar of `jiff::Timestamp` has
/// the days -9999-01-02 to 9999-12-30. The texts and days of an instant beyond it are those of the
/// instant 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct UtcMillis(pub i64);

impl UtcMillis {
    #[must_use]
    pub fn after(self, wait: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(wait.as_millis()).unwrap_or(i64::MAX)))
    }

    #[must_use]
    pub fn before(self, wait: Duration) -> Self {
        Self(self.0.saturating_sub(i64::try_from(wait.as_millis()).unwrap_or(i64::MAX)))
    }

    /// Returns zero if `earlier` is later than this instant.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    fn timestamp(self) -> Timestamp {
        Timestamp::from_millisecond(self.0).unwrap_or(Timestamp::UNIX_EPOCH)
    }

    /// Returns the `date-time` of RFC 5322 §3.3 in UTC: `Sat, 21 Nov 2026 09:00:00 +0000`.
    #[must_use]
    pub fn rfc5322(self) -> String {
        self.timestamp().to_zoned(TimeZone::UTC).strftime("%a, %d %b %Y %H:%M:%S %z").to_string()
    }

    /// Returns the `UTCDate` of RFC 8620 §1.4: `2026-11-21T09:00:00Z`.
    #[must_use]
    pub fn rfc3339(self) -> String {
        self.timestamp().to_zoned(TimeZone::UTC).strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
    }

    /// Returns the instant to the millisecond: `2026-11-21T09:00:00.123Z`.
    #[must_use]
    pub fn rfc3339_millis(self) -> String {
        self.timestamp().to_zoned(TimeZone::UTC).strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
    }

    /// Returns the form of asctime(3) in UTC, used in mailbox files: `Sat Nov 21 09:00:00 2026`.
    #[must_use]
    pub fn asctime(self) -> String {
        self.timestamp().to_zoned(TimeZone::UTC).strftime("%a %b %e %H:%M:%S %Y").to_string()
    }

    /// Returns the date and time in a zone, for people: `2026-11-21 09:00`.
    #[must_use]
    pub fn local(self, zone: &TimeZone) -> String {
        self.timestamp().to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M").to_string()
    }

    /// Returns `local` in the zone with this IANA name, or else in the machine's zone.
    #[must_use]
    pub fn local_in(self, name: Option<&str>) -> String {
        self.local(&name.and_then(zone).unwrap_or_else(TimeZone::system))
    }

    /// Returns the last day, `2026-11-21`, of a period that ends just before this instant, in the
    /// zone of `local_in`.
    #[must_use]
    pub fn last_day(self, name: Option<&str>) -> String {
        let zone = name.and_then(zone).unwrap_or_else(TimeZone::system);
        let last = Self(self.0.saturating_sub(1)).timestamp();
        last.to_zoned(zone).strftime("%Y-%m-%d").to_string()
    }

    /// Returns the day `offset` days after the day of this instant, in the zone of `local_in`.
    /// Returns `None` if that day is beyond the calendar.
    #[must_use]
    pub fn day(self, name: Option<&str>, offset: i32) -> Option<Day> {
        let zone = name.and_then(zone).unwrap_or_else(TimeZone::system);
        let date = self.timestamp().to_zoned(zone.clone()).date();
        let date = date.checked_add(Span::new().try_days(offset).ok()?).ok()?;
        Some(Day {
            weekday: u8::try_from(date.weekday().to_monday_one_offset()).ok()?,
            monthday: u8::try_from(date.day()).ok()?,
            begins: Self(date.to_zoned(zone).ok()?.timestamp().as_millisecond()),
        })
    }

    /// Parses a `Date` or `UTCDate` of RFC 8620 §1.4, and any other date and time of RFC 3339 with
    /// `T` and `Z` in capitals, of at most 40 bytes and nine digits of a fraction. What is finer
    /// than a millisecond is cut off. A fraction of zero is accepted although RFC 8620 forbids it,
    /// because programs in JavaScript write it.
    #[must_use]
    pub fn parse_rfc3339(text: &str) -> Option<Self> {
        let shape = |at: usize, byte: u8| text.as_bytes().get(at) == Some(&byte);
        let fits = text.len() <= 40
            && shape(4, b'-')
            && shape(7, b'-')
            && shape(10, b'T')
            && shape(13, b':')
            && shape(16, b':');
        let end = text.get(19..)?;
        // What follows the fraction of the second, if there is one.
        let zone = end
            .strip_prefix('.')
            .map_or(end, |rest| rest.trim_start_matches(|c: char| c.is_ascii_digit()));
        let zoned = zone == "Z"
            || (zone.len() == 6
                && zone.starts_with(['+', '-'])
                && zone.as_bytes().get(3) == Some(&b':'));
        let read = || text.parse::<Timestamp>().ok().map(|at| Self(at.as_millisecond()));
        if fits && zoned { read() } else { None }
    }
}

impl fmt::Display for UtcMillis {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.rfc3339())
    }
}

/// Returns the time zone with an IANA name such as `Europe/Berlin`; `None` if the name is unknown.
#[must_use]
pub fn zone(name: &str) -> Option<TimeZone> {
    TimeZone::get(name).ok()
}

/// A calendar day in some time zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Day {
    /// Monday (1) to Sunday (7).
    pub weekday: u8,
    /// From 1 on.
    pub monthday: u8,
    /// The first instant of the day in its time zone.
    pub begins: UtcMillis,
}

/// Milliseconds of the monotonic clock of this process, which are never stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct MonotonicMillis(pub u64);

impl MonotonicMillis {
    #[must_use]
    pub fn after(self, wait: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)))
    }

    #[must_use]
    pub fn before(self, wait: Duration) -> Self {
        Self(self.0.saturating_sub(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)))
    }

    /// Returns zero if `earlier` is later than this time.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

pub trait Clock: Send + Sync + fmt::Debug {
    /// The wall clock, which may jump in either direction.
    fn now(&self) -> UtcMillis;

    /// The monotonic clock, for waits and timeouts within this process.
    fn steady(&self) -> MonotonicMillis;
}

#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the wall clock")]
    fn now(&self) -> UtcMillis {
        let since =
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        UtcMillis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }

    fn steady(&self) -> MonotonicMillis {
        static START: LazyLock<Stopwatch> = LazyLock::new(Stopwatch::start);
        MonotonicMillis::default().after(START.elapsed())
    }
}

/// Measures how long something takes, by the monotonic clock.
#[derive(Debug, Clone, Copy)]
pub struct Stopwatch(std::time::Instant);

impl Stopwatch {
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the monotonic clock")]
    pub fn start() -> Self {
        Self(std::time::Instant::now())
    }

    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_read_and_placed_in_zones() {
        let at = UtcMillis::parse_rfc3339("2026-11-21T10:00:00+01:00").unwrap();
        assert_eq!(at.rfc5322(), "Sat, 21 Nov 2026 09:00:00 +0000");
        assert_eq!(at.rfc3339(), "2026-11-21T09:00:00Z");
        assert_eq!(at.asctime(), "Sat Nov 21 09:00:00 2026");
        let precise = at.after(Duration::from_millis(7)).rfc3339_millis();
        assert_eq!(precise, "2026-11-21T09:00:00.007Z");
        assert_eq!(UtcMillis::parse_rfc3339(&precise), Some(UtcMillis(at.0 + 7)));
        assert_eq!(at.after(Duration::from_secs(1)).since(at), Duration::from_secs(1));
        let end = UtcMillis::parse_rfc3339("2026-11-22T05:00:00Z").unwrap();
        assert_eq!(end.last_day(Some("America/New_York")), "2026-11-21");
        assert_eq!(end.last_day(Some("Europe/Berlin")), "2026-11-22");
        assert_eq!(at.since(at.after(Duration::from_secs(1))), Duration::ZERO);
        // `end` is on a Sunday morning in Berlin, and `end.day(…, -1)` is a Saturday in New York.
        let (berlin, york) = (
            end.day(Some("Europe/Berlin"), 0).unwrap(),
            end.day(Some("America/New_York"), -1).unwrap(),
        );
        assert_eq!(
            (berlin.weekday, berlin.monthday, berlin.begins.rfc3339().as_str()),
            (7, 22, "2026-11-21T23:00:00Z")
        );
        assert_eq!(
            (york.weekday, york.monthday, york.begins.rfc3339().as_str()),
            (6, 21, "2026-11-21T05:00:00Z")
        );
        assert_eq!(end.day(None, i32::MAX), None);
        // An instant that no calendar has is taken for the epoch.
        assert_eq!(UtcMillis(i64::MAX / 2).rfc3339(), UtcMillis(0).rfc3339());
    }
}
