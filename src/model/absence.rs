//! What the vacation response has beyond RFC 8621 §8: who is answered, with which text, and on
//! which days; when it was on; and how long told rows count.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::clock::{Day, UtcMillis};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Audience {
    #[default]
    Everyone,
    /// People to whom the owner has written.
    Known,
    /// People in the owner's organisation.
    Organisation,
}

/// Whether a sender is in the owner's organisation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Circle {
    Organisation,
    Outside,
}

macro_rules! named {
    ($type:ident { $($variant:ident = $name:literal),* $(,)? }) => {
        impl $type {
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),* }
            }

            #[must_use]
            pub fn from_name(name: &str) -> Option<Self> {
                match name { $($name => Some(Self::$variant),)* _ => None }
            }
        }
    };
}

named!(Audience { Everyone = "everyone", Known = "known", Organisation = "organisation" });
named!(Circle { Organisation = "organisation", Outside = "outside" });

/// A text that replaces the text of the response for some senders.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Variant {
    /// The language of the text (RFC 5646), in lower case; `None` if it is not said.
    pub language: Option<String>,
    /// The senders who get this text; `None` for those whose circle has no variant of its own.
    pub circle: Option<Circle>,
    /// This and the next two are sent instead of those of the response. One that is `None` is not
    /// taken from the response: `vacation::reply` makes it up, or leaves it out.
    pub subject: Option<String>,
    pub text_body: Option<String>,
    pub html_body: Option<String>,
}

/// Recurring days on which the response is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Days {
    /// Monday (1) to Sunday (7).
    Weekday(u8),
    /// The days of each month from one number to another, both included. If the number of the first
    /// day is greater, the range goes past the end of the month.
    Monthdays(u8, u8),
}

const WEEKDAYS: [&str; 7] =
    ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];

impl Days {
    #[must_use]
    pub fn covers(self, day: &Day) -> bool {
        match self {
            Self::Weekday(weekday) => weekday == day.weekday,
            Self::Monthdays(first, last) if first <= last => (first..=last).contains(&day.monthday),
            Self::Monthdays(first, last) => day.monthday >= first || day.monthday <= last,
        }
    }
}

impl fmt::Display for Days {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Weekday(weekday) => {
                let name =
                    WEEKDAYS.get(usize::from(weekday.saturating_sub(1))).unwrap_or(&"monday");
                out.write_str(name)
            }
            Self::Monthdays(first, last) if first == last => write!(out, "{first}"),
            Self::Monthdays(first, last) => write!(out, "{first}-{last}"),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("days are written friday, 15 (of each month) or 24-31")]
pub struct BadDays;

impl FromStr for Days {
    type Err = BadDays;

    /// Reads a weekday's name or its first three letters, a day of the month, or `24-31`. Letter
    /// case and blanks around the text are ignored.
    fn from_str(text: &str) -> Result<Self, BadDays> {
        let text = text.trim().to_ascii_lowercase();
        let named = |name: &&str| **name == text || (text.len() == 3 && name.starts_with(&text));
        if let Some(weekday) =
            (1..).zip(&WEEKDAYS).find(|(_, name)| named(name)).map(|(weekday, _)| weekday)
        {
            return Ok(Self::Weekday(weekday));
        }
        let (first, last) = text.split_once('-').unwrap_or((&text, &text));
        let day = |text: &str| {
            // A sign is no digit, though `parse` takes one.
            let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
            let day = text.parse::<u8>().ok().filter(|day| is_number && (1..=31).contains(day));
            day.ok_or(BadDays)
        };
        Ok(Self::Monthdays(day(first)?, day(last)?))
    }
}

/// When the response was last switched on, or began a new generation once it was over; and when it
/// was switched off after that, before it was over. The store maintains this.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Absence {
    /// `None` if it was never switched on.
    pub began: Option<UtcMillis>,
    /// `None` if it was not switched off since, or only once it was over.
    pub ended: Option<UtcMillis>,
    /// Whether the report on the mail of this absence was filed (`VacationResponse::report`).
    pub reported: bool,
}

/// How long a told row keeps its sender from getting another reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToldLifetime {
    /// As long as the response has this generation.
    Response {
        generation: u32,
        /// The start of the current days, if the response has recurring days: told rows from
        /// before it no longer count.
        since: Option<UtcMillis>,
    },
    /// For this time after the reply (RFC 5230 §4.1, RFC 6131 §2). Zero: no sender is remembered.
    For(Duration),
}

#[cfg(any(test, feature = "internals"))]
impl ToldLifetime {
    #[must_use]
    pub fn of(generation: u32) -> Self {
        Self::Response { generation, since: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_read_and_written() {
        for (text, written) in [
            ("Friday", "friday"),
            ("mon", "monday"),
            ("24-31", "24-31"),
            ("15", "15"),
            ("28-3", "28-3"),
        ] {
            let days: Days = text.parse().unwrap();
            assert_eq!(days.to_string(), written);
            assert_eq!(written.parse(), Ok(days));
        }
        for text in
            ["", "someday", "0", "32", "3-", "-3", "1-2-3", "fr", "fridays", "1,2", "+5", "1-+3"]
        {
            assert_eq!(text.parse::<Days>(), Err(BadDays), "{text}");
        }
    }

    #[test]
    fn days_cover_exactly_the_named_days() {
        let covers = |text: &str, weekday, monthday| {
            text.parse::<Days>().unwrap().covers(&Day { weekday, monthday, begins: UtcMillis(0) })
        };
        assert!(covers("friday", 5, 13) && !covers("friday", 4, 13));
        assert!(
            covers("24-31", 1, 24)
                && covers("24-31", 1, 31)
                && !covers("24-31", 1, 23)
                && !covers("24-31", 1, 1)
        );
        assert!(
            covers("28-3", 1, 31)
                && covers("28-3", 1, 3)
                && !covers("28-3", 1, 4)
                && !covers("28-3", 1, 27)
        );
    }

    #[test]
    fn audience_and_circle_are_found_by_name() {
        assert_eq!(Audience::from_name("known"), Some(Audience::Known));
        assert_eq!(Circle::from_name(Circle::Outside.name()), Some(Circle::Outside));
        assert_eq!(Audience::from_name("all"), None);
    }
}
