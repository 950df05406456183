//! Words with a meaning, such as the parts of a date. Each type parses its words. The checker calls
//! this for constants, the run for words that are made of variables.

use serde::{Deserialize, Serialize};

use crate::extension::Extension;

/// A part of the envelope (RFC 5228 §5.4, RFC 6009 §4 and §5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum EnvelopePart {
    /// The sender; `<>` is the empty string.
    From,
    /// The one recipient for which the script runs.
    To,
    /// The AUTH parameter of MAIL FROM (RFC 4954 §5).
    Auth,
    /// The NOTIFY parameter: each of its words is one value.
    Notify,
    /// The original recipient, decoded, with its type: `rfc822;me@example.org`.
    OriginalRecipient,
    /// RET: `FULL` or `HDRS`.
    Return,
    /// The ENVID parameter, decoded.
    EnvelopeId,
    /// The deadline of Deliver By in ISO 8601, in the zone of the test, or else in that of the
    /// account.
    ByTimeAbsolute,
    /// The seconds to the deadline of Deliver By, negative if it has passed.
    ByTimeRelative,
    /// `notify` or `return`.
    ByMode,
    /// `trace` if tracing is asked for, or else empty.
    ByTrace,
}

impl EnvelopePart {
    /// Parses a name without regard to case (RFC 5228 §5.4).
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name.to_ascii_lowercase().as_str() {
            "from" => Self::From,
            "to" => Self::To,
            "auth" => Self::Auth,
            "notify" => Self::Notify,
            "orcpt" => Self::OriginalRecipient,
            "ret" => Self::Return,
            "envid" => Self::EnvelopeId,
            "bytimeabsolute" => Self::ByTimeAbsolute,
            "bytimerelative" => Self::ByTimeRelative,
            "bymode" => Self::ByMode,
            "bytrace" => Self::ByTrace,
            _ => return None,
        })
    }

    /// Returns the extension that has the part.
    #[must_use]
    pub const fn extension(self) -> Extension {
        match self {
            Self::From | Self::To | Self::Auth => Extension::Envelope,
            Self::Notify | Self::OriginalRecipient | Self::Return | Self::EnvelopeId => {
                Extension::EnvelopeDsn
            }
            Self::ByTimeAbsolute | Self::ByTimeRelative | Self::ByMode | Self::ByTrace => {
                Extension::EnvelopeDeliverBy
            }
        }
    }

    /// Returns whether the value is an address, of which an address part can be taken.
    #[must_use]
    pub const fn is_address(self) -> bool {
        matches!(self, Self::From | Self::To | Self::Auth)
    }
}

/// A part of a date (RFC 5260 §4.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum DatePart {
    /// `0000` to `9999`
    Year,
    /// `01` to `12`
    Month,
    /// `01` to `31`
    Day,
    /// In the form `yyyy-mm-dd`.
    Date,
    /// The Modified Julian Day: days since 17 November 1858.
    Julian,
    /// `00` to `23`
    Hour,
    /// `00` to `59`
    Minute,
    /// `00` to `59`. The leap second `60` counts as `59`.
    Second,
    /// In the form `hh:mm:ss`.
    Time,
    /// The restricted form of ISO 8601 of RFC 3339.
    Iso8601,
    /// The form of RFC 5322 §3.3.
    Std11,
    /// `+hhmm` or `-hhmm`
    Zone,
    /// `0` for Sunday to `6`
    Weekday,
}

impl DatePart {
    /// Parses a name without regard to case (RFC 5260 §4.2).
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name.to_ascii_lowercase().as_str() {
            "year" => Self::Year,
            "month" => Self::Month,
            "day" => Self::Day,
            "date" => Self::Date,
            "julian" => Self::Julian,
            "hour" => Self::Hour,
            "minute" => Self::Minute,
            "second" => Self::Second,
            "time" => Self::Time,
            "iso8601" => Self::Iso8601,
            "std11" => Self::Std11,
            "zone" => Self::Zone,
            "weekday" => Self::Weekday,
            _ => return None,
        })
    }
}

/// A distance from UTC in minutes, east of Greenwich positive, less than 24 hours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct UtcOffset(i16);

impl UtcOffset {
    /// Parses `+hhmm` or `-hhmm` (RFC 5260 §4.1): at most 23 hours and 59 minutes.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (sign, digits) = match text.as_bytes() {
            [b'+', digits @ ..] => (1, digits),
            [b'-', digits @ ..] => (-1, digits),
            _ => return None,
        };
        let [h1, h2, m1, m2] = digits else { return None };
        let digit = |byte: &u8| byte.is_ascii_digit().then(|| i16::from(*byte - b'0'));
        let hours = digit(h1)? * 10 + digit(h2)?;
        let minutes = digit(m1)? * 10 + digit(m2)?;
        (hours < 24 && minutes < 60).then_some(Self(sign * (hours * 60 + minutes)))
    }

    #[must_use]
    pub const fn minutes(self) -> i16 {
        self.0
    }
}

/// When the sender of a redirected message is notified (RFC 3461 §4.1, RFC 6009 §6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum DsnNotify {
    Never,
    /// At least one is true.
    When {
        success: bool,
        failure: bool,
        delay: bool,
    },
}

impl DsnNotify {
    /// Parses `NEVER`, or words of `SUCCESS`, `FAILURE` and `DELAY` separated by commas, without
    /// regard to case.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if text.eq_ignore_ascii_case("NEVER") {
            return Some(Self::Never);
        }
        let (mut success, mut failure, mut delay) = (false, false, false);
        for word in text.split(',') {
            match word.to_ascii_uppercase().as_str() {
                "SUCCESS" => success = true,
                "FAILURE" => failure = true,
                "DELAY" => delay = true,
                _ => return None,
            }
        }
        Some(Self::When { success, failure, delay })
    }
}

/// What of the message a delivery status notification returns (RFC 3461 §4.3, RFC 6009 §6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum DsnReturn {
    Full,
    Headers,
}

impl DsnReturn {
    /// Parses `FULL` or `HDRS` without regard to case.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text.to_ascii_uppercase().as_str() {
            "FULL" => Some(Self::Full),
            "HDRS" => Some(Self::Headers),
            _ => None,
        }
    }
}

/// What happens to a message that is not delivered in time (RFC 2852 §4, RFC 6009 §7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum DeliverByMode {
    Notify,
    /// The default of RFC 6009 §7.
    #[default]
    Return,
}

impl DeliverByMode {
    /// Parses `notify` or `return` without regard to case.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text.to_ascii_lowercase().as_str() {
            "notify" => Some(Self::Notify),
            "return" => Some(Self::Return),
            _ => None,
        }
    }
}

/// The importance of a notification (RFC 5435 §3.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Importance {
    High,
    #[default]
    Normal,
    Low,
}

impl Importance {
    /// Parses `1`, `2` or `3`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "1" => Some(Self::High),
            "2" => Some(Self::Normal),
            "3" => Some(Self::Low),
            _ => None,
        }
    }
}

/// Splits an option of a notification, `name=value`. `None` if the text has not this form; the
/// checker then warns, and the run ignores the option (RFC 5435 §3.5).
pub(crate) fn notify_option(text: &str) -> Option<(&str, &str)> {
    let (name, value) = text.split_once('=')?;
    let is_valid = name.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte));
    is_valid.then_some((name, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_parsed_without_regard_to_case() {
        assert_eq!(EnvelopePart::parse("ORCPT"), Some(EnvelopePart::OriginalRecipient));
        assert_eq!(EnvelopePart::parse("bcc"), None);
        assert_eq!(EnvelopePart::ByMode.extension(), Extension::EnvelopeDeliverBy);
        assert_eq!(DatePart::parse("ISO8601"), Some(DatePart::Iso8601));
        assert_eq!(DatePart::parse("week"), None);
        assert_eq!(DsnReturn::parse("hdrs"), Some(DsnReturn::Headers));
        assert_eq!(DeliverByMode::parse("Return"), Some(DeliverByMode::Return));
        assert_eq!(Importance::parse("0"), None);
    }

    #[test]
    fn offsets_have_a_sign_and_four_digits() {
        let minutes = |text| UtcOffset::parse(text).map(UtcOffset::minutes);
        assert_eq!(minutes("+0530"), Some(330));
        assert_eq!(minutes("-0100"), Some(-60));
        for text in ["", "0100", "+100", "+01000", "+2400", "+0060", "+0a00", "UTC", "+1:00"] {
            assert_eq!(minutes(text), None, "{text}");
        }
    }

    #[test]
    fn never_stands_alone() {
        let when = |success, failure, delay| Some(DsnNotify::When { success, failure, delay });
        assert_eq!(DsnNotify::parse("never"), Some(DsnNotify::Never));
        assert_eq!(DsnNotify::parse("success,Delay"), when(true, false, true));
        for text in ["", "NEVER,SUCCESS", "SUCCESS,", "SUCCESS DELAY"] {
            assert_eq!(DsnNotify::parse(text), None, "{text}");
        }
    }
}
