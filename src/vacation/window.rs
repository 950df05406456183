//! Computes whether the owner is away: if the response is enabled, from `fromDate` to `toDate` (RFC
//! 8621 §8), and in this time only on the response's recurring days, if it has any.
//!
//! Days begin and end at midnight in the owner's time zone.

use super::reason::NoReplyReason;
use crate::model::{UtcMillis, VacationResponse};

/// How many days before and after today are searched for the nearest one that is not a recurring
/// day. If there is none, recurring days do not bound the absence on that side. Every day of the
/// month, even the 31st, comes again within 61 days.
const MAX_DAYS_SCANNED: i32 = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CurrentAbsence {
    /// The first instant; `None`, here and below, if nothing bounds the absence on this side.
    pub since: Option<UtcMillis>,
    /// The first instant after the absence.
    pub until: Option<UtcMillis>,
}

/// Returns the absence that is under way at `now`. `zone` is the IANA name of the owner's zone;
/// without a known one, the machine's zone counts.
///
/// # Errors
/// If the owner is not away: `Disabled` or `OutsideWindow`, with a detail for people.
pub fn current_absence(
    response: &VacationResponse,
    zone: Option<&str>,
    now: UtcMillis,
) -> Result<CurrentAbsence, (NoReplyReason, String)> {
    if !response.enabled {
        return Err((NoReplyReason::Disabled, String::new()));
    }
    if let Some(from) = response.from_date.filter(|from| now < *from) {
        return Err((NoReplyReason::OutsideWindow, format!("begins {from}")));
    }
    if let Some(to) = response.to_date.filter(|to| now >= *to) {
        return Err((NoReplyReason::OutsideWindow, format!("ended {to}")));
    }
    let window = CurrentAbsence { since: response.from_date, until: response.to_date };
    if response.days.is_empty() {
        return Ok(window);
    }
    let recurring_day = |offset| {
        now.day(zone, offset).filter(|day| response.days.iter().any(|days| days.covers(day)))
    };
    let Some(today) = recurring_day(0) else {
        let days: Vec<String> = response.days.iter().map(ToString::to_string).collect();
        return Err((NoReplyReason::OutsideWindow, format!("only on: {}", days.join(", "))));
    };
    // How many days right before today are recurring days, too.
    let days_before = (1..=MAX_DAYS_SCANNED).position(|back| recurring_day(-back).is_none());
    let begin = match days_before.and_then(|days| i32::try_from(days).ok()) {
        Some(0) => Some(today.begins),
        Some(days) => recurring_day(-days).map(|day| day.begins),
        None => None,
    };
    let days_until_return = (1..=MAX_DAYS_SCANNED).find(|ahead| recurring_day(*ahead).is_none());
    let end = days_until_return.and_then(|ahead| now.day(zone, ahead)).map(|day| day.begins);
    Ok(CurrentAbsence {
        since: window.since.max(begin),
        until: window.until.into_iter().chain(end).min(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> UtcMillis {
        UtcMillis::parse_rfc3339(text).unwrap()
    }

    fn response_on(days: &[&str]) -> VacationResponse {
        let days = days.iter().map(|text| text.parse().unwrap()).collect();
        VacationResponse { enabled: true, days, ..VacationResponse::default() }
    }

    fn absence_in_berlin(
        response: &VacationResponse,
        now: &str,
    ) -> Result<(Option<String>, Option<String>), String> {
        let text = |at: Option<UtcMillis>| at.map(UtcMillis::rfc3339);
        match current_absence(response, Some("Europe/Berlin"), at(now)) {
            Ok(absence) => Ok((text(absence.since), text(absence.until))),
            Err((reason, detail)) => Err(format!("{} {detail}", reason.code())),
        }
    }

    fn absence_between(
        since: &str,
        until: &str,
    ) -> Result<(Option<String>, Option<String>), String> {
        Ok((Some(since.to_owned()), Some(until.to_owned())))
    }

    #[test]
    fn recurring_day_lasts_from_midnight_to_midnight_in_the_owners_zone() {
        let fridays = response_on(&["friday"]);
        let wanted = absence_between("2026-11-19T23:00:00Z", "2026-11-20T23:00:00Z");
        assert_eq!(absence_in_berlin(&fridays, "2026-11-19T23:00:00Z"), wanted);
        assert_eq!(absence_in_berlin(&fridays, "2026-11-20T22:59:59Z"), wanted);
        let not_away = Err("outside-window only on: friday".to_owned());
        assert_eq!(absence_in_berlin(&fridays, "2026-11-19T22:59:59Z"), not_away);
        assert_eq!(absence_in_berlin(&fridays, "2026-11-20T23:00:00Z"), not_away);
    }

    #[test]
    fn day_on_which_clocks_change_has_23_or_25_hours() {
        let sundays = response_on(&["sun"]);
        assert_eq!(
            absence_in_berlin(&sundays, "2026-10-25T12:00:00Z"),
            absence_between("2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z")
        );
        assert_eq!(
            absence_in_berlin(&sundays, "2027-03-28T12:00:00Z"),
            absence_between("2027-03-27T23:00:00Z", "2027-03-28T22:00:00Z")
        );
    }

    #[test]
    fn consecutive_days_are_one_absence_also_across_the_end_of_a_month() {
        let christmas = response_on(&["24-31"]);
        assert_eq!(
            absence_in_berlin(&christmas, "2026-12-27T12:00:00Z"),
            absence_between("2026-12-23T23:00:00Z", "2026-12-31T23:00:00Z")
        );
        // November has 30 days, and the absence ends with the last of them.
        assert_eq!(
            absence_in_berlin(&christmas, "2026-11-30T12:00:00Z"),
            absence_between("2026-11-23T23:00:00Z", "2026-11-30T23:00:00Z")
        );
        assert!(absence_in_berlin(&christmas, "2026-12-23T12:00:00Z").is_err());
        let new_year = response_on(&["30-2"]);
        assert_eq!(
            absence_in_berlin(&new_year, "2027-01-01T12:00:00Z"),
            absence_between("2026-12-29T23:00:00Z", "2027-01-02T23:00:00Z")
        );
        let long_weekend = response_on(&["fri", "sat", "sun", "mon"]);
        assert_eq!(
            absence_in_berlin(&long_weekend, "2026-11-22T12:00:00Z"),
            absence_between("2026-11-19T23:00:00Z", "2026-11-23T23:00:00Z")
        );
    }

    #[test]
    fn from_and_to_date_bound_the_recurring_days() {
        let mut fridays = response_on(&["friday"]);
        fridays.from_date = Some(at("2026-11-20T12:00:00Z"));
        fridays.to_date = Some(at("2026-11-27T12:00:00Z"));
        assert_eq!(
            absence_in_berlin(&fridays, "2026-11-20T13:00:00Z"),
            absence_between("2026-11-20T12:00:00Z", "2026-11-20T23:00:00Z")
        );
        assert_eq!(
            absence_in_berlin(&fridays, "2026-11-27T11:00:00Z"),
            absence_between("2026-11-26T23:00:00Z", "2026-11-27T12:00:00Z")
        );
        assert!(absence_in_berlin(&fridays, "2026-11-27T12:00:00Z").unwrap_err().contains("ended"));
    }

    #[test]
    fn absence_on_every_day_has_no_bounds_and_an_unknown_zone_is_accepted() {
        let always = response_on(&["mon", "tue", "wed", "thu", "fri", "sat", "sun"]);
        assert_eq!(absence_in_berlin(&always, "2026-11-27T12:00:00Z"), Ok((None, None)));
        assert!(current_absence(&always, Some("No/Such"), at("2026-11-27T12:00:00Z")).is_ok());
    }
}
