//! Reads from a message when it was received (RFC 5321 §4.4) or sent (RFC 5322 §3.6.1).

use crate::message::header;
use crate::message::parse::date;
use crate::model::UtcMillis;

/// Returns the date of the first Received field, which the last server wrote, if it is
/// [`plausible`].
#[must_use]
pub fn received(raw: &[u8]) -> Option<UtcMillis> {
    let field = header::first(raw, "Received")?.without_comments();
    let (_, at) = field.rsplit_once(';')?;
    plausible(date(at.as_bytes())?.at)
}

/// Returns the date of the Date field, if it is plausible.
#[must_use]
pub fn sent(raw: &[u8]) -> Option<UtcMillis> {
    plausible(date(header::first(raw, "Date")?.value)?.at)
}

/// Returns a date if its year is from 1970 to 9999; `None` also for the first millisecond of 1970,
/// `UtcMillis(0)`, which is more likely a date that was never set.
#[must_use]
pub fn plausible(at: UtcMillis) -> Option<UtcMillis> {
    (1..=253_402_300_799_999).contains(&at.0).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_first_received_field_and_of_date() {
        let raw = b"Received: from a by b; (x;y) Sat, 21 Nov 2026 10:00:00 +0100 (CET)\r\n\
                    Received: from c by a; Sat, 21 Nov 2026 08:00:00 +0000\r\n\
                    Date: 1 Jan 2026 00:00:00 +0000\r\n\r\n";
        assert_eq!(received(raw).map(UtcMillis::rfc3339).as_deref(), Some("2026-11-21T09:00:00Z"));
        assert_eq!(sent(raw).map(UtcMillis::rfc3339).as_deref(), Some("2026-01-01T00:00:00Z"));
        for none in [
            "",
            "Received: by b\r\n\r\n",
            "Received: by b; soon\r\n\r\nReceived: x; 1 Jan 2026 00:00 GMT",
        ] {
            assert_eq!(received(none.as_bytes()), None, "{none}");
        }
        assert_eq!(sent(b"Date: 1 Jan 1960 00:00:00 +0000\r\n\r\n"), None);
    }
}
