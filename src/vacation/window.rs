//! When a response is given: between its first and its last instant (RFC 8621 §8), and on its days
//! where it has days that come again. Days are those of the owner's zone, each as long as it is
//! there.

use super::reason::Reason;
use crate::model::{UtcMillis, VacationResponse};

/// Days that are looked at on either side of today: an absence that is longer has no end by its
/// days.
const MAX_DAYS_SCANNED: i32 = 64;

/// The absence that is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CurrentAbsence {
    /// Since when, where that is said.
    pub since: Option<UtcMillis>,
    /// Until when, exclusive, where that is said.
    pub until: Option<UtcMillis>,
}

/// The absence that is under way now, in the zone of that IANA name, or why there is none.
///
/// # Errors
/// `Disabled` or `OutsideWindow`, and what gave rise to it.
pub fn away(
    response: &VacationResponse,
    zone: Option<&str>,
    now: UtcMillis,
) -> Result<CurrentAbsence, (Reason, String)> {
    if !response.enabled {
        return Err((Reason::Disabled, String::new()));
    }
    if let Some(from) = response.from_date.filter(|from| now < *from) {
        return Err((Reason::OutsideWindow, format!("begins {from}")));
    }
    if let Some(to) = response.to_date.filter(|to| now >= *to) {
        return Err((Reason::OutsideWindow, format!("ended {to}")));
    }
    let whole = CurrentAbsence { since: response.from_date, until: response.to_date };
    if response.days.is_empty() {
        return Ok(whole);
    }
    let day = |offset| {
        now.day(zone, offset).filter(|day| response.days.iter().any(|days| days.covers(day)))
    };
    let Some(today) = day(0) else {
        let days: Vec<String> = response.days.iter().map(ToString::to_string).collect();
        return Err((Reason::OutsideWindow, format!("only on: {}", days.join(", "))));
    };
    let before = (1..=MAX_DAYS_SCANNED).map(|back| day(-back)).position(|day| day.is_none());
    let first = match before.and_then(|days| i32::try_from(days).ok()) {
        Some(0) => Some(today.begins),
        Some(days) => day(-days).map(|day| day.begins),
        None => None,
    };
    let after = (1..=MAX_DAYS_SCANNED).find(|ahead| day(*ahead).is_none());
    let end = after.and_then(|ahead| now.day(zone, ahead)).map(|day| day.begins);
    let later = |one: Option<UtcMillis>, other: Option<UtcMillis>| one.max(other);
    let sooner =
        |one: Option<UtcMillis>, other: Option<UtcMillis>| one.into_iter().chain(other).min();
    Ok(CurrentAbsence { since: later(whole.since, first), until: sooner(whole.until, end) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> UtcMillis {
        UtcMillis::parse_rfc3339(text).unwrap()
    }

    fn on(days: &[&str]) -> VacationResponse {
        let days = days.iter().map(|text| text.parse().unwrap()).collect();
        VacationResponse { enabled: true, days, ..VacationResponse::default() }
    }

    fn berlin(
        response: &VacationResponse,
        now: &str,
    ) -> Result<(Option<String>, Option<String>), String> {
        let text = |at: Option<UtcMillis>| at.map(UtcMillis::rfc3339);
        match away(response, Some("Europe/Berlin"), at(now)) {
            Ok(away) => Ok((text(away.since), text(away.until))),
            Err((reason, why)) => Err(format!("{} {why}", reason.code())),
        }
    }

    fn between(since: &str, until: &str) -> Result<(Option<String>, Option<String>), String> {
        Ok((Some(since.to_owned()), Some(until.to_owned())))
    }

    #[test]
    fn every_friday_from_midnight_to_midnight_there() {
        let fridays = on(&["friday"]);
        // Thursday in UTC is Friday in Berlin already.
        let wanted = between("2026-11-19T23:00:00Z", "2026-11-20T23:00:00Z");
        assert_eq!(berlin(&fridays, "2026-11-19T23:00:00Z"), wanted);
        assert_eq!(berlin(&fridays, "2026-11-20T22:59:59Z"), wanted);
        let not = Err("outside-window only on: friday".to_owned());
        assert_eq!(berlin(&fridays, "2026-11-19T22:59:59Z"), not);
        assert_eq!(berlin(&fridays, "2026-11-20T23:00:00Z"), not);
    }

    #[test]
    fn days_are_as_long_as_they_are_when_clocks_change() {
        // Sunday, 25 October 2026: 25 hours. Sunday, 28 March 2027: 23.
        let sundays = on(&["sun"]);
        assert_eq!(
            berlin(&sundays, "2026-10-25T12:00:00Z"),
            between("2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z")
        );
        assert_eq!(
            berlin(&sundays, "2027-03-28T12:00:00Z"),
            between("2027-03-27T23:00:00Z", "2027-03-28T22:00:00Z")
        );
    }

    #[test]
    fn the_24th_to_the_31st_and_over_the_end_of_a_month() {
        let christmas = on(&["24-31"]);
        assert_eq!(
            berlin(&christmas, "2026-12-27T12:00:00Z"),
            between("2026-12-23T23:00:00Z", "2026-12-31T23:00:00Z")
        );
        // November has 30 days: the absence ends with them.
        assert_eq!(
            berlin(&christmas, "2026-11-30T12:00:00Z"),
            between("2026-11-23T23:00:00Z", "2026-11-30T23:00:00Z")
        );
        assert!(berlin(&christmas, "2026-12-23T12:00:00Z").is_err());
        let turn = on(&["30-2"]);
        assert_eq!(
            berlin(&turn, "2027-01-01T12:00:00Z"),
            between("2026-12-29T23:00:00Z", "2027-01-02T23:00:00Z")
        );
        // Days that follow one another are one absence.
        let long = on(&["fri", "sat", "sun", "mon"]);
        assert_eq!(
            berlin(&long, "2026-11-22T12:00:00Z"),
            between("2026-11-19T23:00:00Z", "2026-11-23T23:00:00Z")
        );
    }

    #[test]
    fn the_window_bounds_the_days() {
        let mut fridays = on(&["friday"]);
        fridays.from_date = Some(at("2026-11-20T12:00:00Z"));
        fridays.to_date = Some(at("2026-11-27T12:00:00Z"));
        assert_eq!(
            berlin(&fridays, "2026-11-20T13:00:00Z"),
            between("2026-11-20T12:00:00Z", "2026-11-20T23:00:00Z")
        );
        assert_eq!(
            berlin(&fridays, "2026-11-27T11:00:00Z"),
            between("2026-11-26T23:00:00Z", "2026-11-27T12:00:00Z")
        );
        assert!(berlin(&fridays, "2026-11-27T12:00:00Z").unwrap_err().contains("ended"));
        let always = on(&["mon", "tue", "wed", "thu", "fri", "sat", "sun"]);
        assert_eq!(berlin(&always, "2026-11-27T12:00:00Z"), Ok((None, None)));
        // No zone of that name, no zone at all: the machine's.
        assert!(away(&always, Some("No/Such"), at("2026-11-27T12:00:00Z")).is_ok());
    }
}
