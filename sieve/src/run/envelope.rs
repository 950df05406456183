//! `envelope` (RFC 5228 §5.4) with the parameters of RFC 6009.

use std::borrow::Cow;

use super::address::{address_part, local_part};
use super::date::Moment;
use super::redirect::after;
use super::{Frame, Result, Run};
use crate::address::is_atext;
use crate::address_list::{AddressEntry, parse_address_list, without_route};
use crate::ir::{
    AddressPart, DatePart, DeliverByMode, EnvelopePart, EnvelopeTest, MatchType, UtcOffset,
};

impl Run<'_> {
    /// Compares parts of the envelope. A parameter that the client did not give has no value.
    pub(super) fn envelope_test(
        &mut self,
        frame: &mut Frame<'_>,
        test: &EnvelopeTest,
    ) -> Result<bool> {
        let zone = test.zone.as_ref();
        let zone = zone.map(|zone| self.keyword(frame, zone, UtcOffset::parse, "offset from UTC"));
        let minutes = zone.transpose()?.map(UtcOffset::minutes);
        let is_count = matches!(test.comparison.match_type, MatchType::Count(_));
        let mut values = Vec::new();
        for part in &test.parts {
            let part = self.keyword(frame, part, EnvelopePart::parse, "part of the envelope")?;
            let mut found = self.envelope_values(part, test.address_part, minutes);
            if is_count && part.is_address() {
                // The null sender is no address (RFC 5231 §4.2).
                found.retain(|value| !value.is_empty());
            }
            values.append(&mut found);
        }
        let values: Vec<_> = values.into_iter().map(Cow::Owned).collect();
        self.matches_any(frame, &test.comparison, &values)
    }

    /// Returns the values of a part of the envelope. `minutes` is the offset of the zone in which a
    /// time is expressed; without it, the zone is that of the account.
    fn envelope_values(
        &self,
        part: EnvelopePart,
        address_part: AddressPart,
        minutes: Option<i16>,
    ) -> Vec<String> {
        let envelope = self.input.envelope;
        let separators = self.input.identity.separators;
        let of = |address: &str| part_of(address, address_part, separators);
        let owned = |text: Option<&str>| text.map(str::to_owned).into_iter().collect();
        let by = envelope.deliver_by;
        let by = |text: fn(i64, DeliverByMode, bool) -> String| {
            by.map(|by| text(by.seconds, by.mode, by.trace)).into_iter().collect()
        };
        match part {
            EnvelopePart::From => of(envelope.from).into_iter().collect(),
            EnvelopePart::To => of(envelope.to).into_iter().collect(),
            EnvelopePart::Auth => envelope.auth.and_then(of).into_iter().collect(),
            EnvelopePart::Notify => {
                let words = envelope.dsn.notify.into_iter().flat_map(|words| words.split(','));
                words.map(|word| word.trim().to_owned()).collect()
            }
            EnvelopePart::OriginalRecipient => owned(envelope.dsn.original_recipient),
            EnvelopePart::Return => owned(envelope.dsn.ret),
            EnvelopePart::EnvelopeId => owned(envelope.dsn.envelope_id),
            EnvelopePart::ByTimeAbsolute => {
                let time = envelope.deliver_by.map(|by| match u64::try_from(by.seconds) {
                    Ok(seconds) => after(self.world.now(), seconds),
                    Err(_) => {
                        let back = jiff::SignedDuration::from_secs(by.seconds);
                        self.world.now().checked_add(back).unwrap_or(jiff::Timestamp::MIN)
                    }
                });
                let moment = time.map(|time| match minutes {
                    Some(minutes) => Moment::new(time, minutes),
                    None => self.local(time),
                });
                let text = moment.map(|moment| moment.part(DatePart::Iso8601));
                text.into_iter().collect()
            }
            EnvelopePart::ByTimeRelative => by(|seconds, _, _| seconds.to_string()),
            EnvelopePart::ByMode => by(|_, mode, _| match mode {
                DeliverByMode::Notify => "notify".to_owned(),
                DeliverByMode::Return => "return".to_owned(),
            }),
            EnvelopePart::ByTrace => {
                by(|_, _, trace| if trace { "trace".into() } else { String::new() })
            }
        }
    }
}

/// Returns a part of an address of the envelope, without its source route (RFC 5228 §5.4).
///
/// - `All` returns any text as it is.
/// - The null sender is empty whatever the part is.
/// - An address without a domain, such as `postmaster`, has a local part only.
/// - Any other text that is no address has no part but `All` (RFC 5228 §2.7.4).
fn part_of(address: &str, part: AddressPart, separators: &str) -> Option<String> {
    let address = without_route(address);
    if address.is_empty() || part == AddressPart::All {
        return Some(address.to_owned());
    }
    if !address.contains('@') {
        let is_name = address.chars().all(is_atext) && part != AddressPart::Domain;
        return is_name.then(|| local_part(address, part, separators))?.map(str::to_owned);
    }
    match parse_address_list(address.as_bytes()).as_slice() {
        [AddressEntry::Mailbox(mailbox)] => {
            address_part(mailbox, part, separators).map(Cow::into_owned)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_null_sender_is_empty_whatever_the_part_is() {
        for part in [AddressPart::All, AddressPart::Domain, AddressPart::Detail] {
            assert_eq!(part_of("", part, "+").as_deref(), Some(""));
        }
    }

    #[test]
    fn odd_addresses_have_parts() {
        let part = |address, part| part_of(address, part, "+");
        assert_eq!(part("postmaster", AddressPart::LocalPart).as_deref(), Some("postmaster"));
        assert_eq!(part("postmaster", AddressPart::Domain), None);
        assert_eq!(part("tim x", AddressPart::LocalPart), None);
        assert_eq!(part("tim x@example.org", AddressPart::Domain), None);
        assert_eq!(part("@r.example:tim@example.org", AddressPart::User).as_deref(), Some("tim"));
        assert_eq!(part("a..b+x@example.org", AddressPart::Detail).as_deref(), Some("x"));
        assert_eq!(part("a..b@example.org", AddressPart::Domain).as_deref(), Some("example.org"));
        assert_eq!(part("Me@Example.org", AddressPart::All).as_deref(), Some("Me@Example.org"));
    }
}
