//! `address` and the parts of addresses (RFC 5228 §2.7.4, RFC 5233).

use std::borrow::Cow;

use super::{Frame, Result, Run};
use crate::address::AddressSpec;
use crate::ir::{AddressPart, AddressTest};

impl Run<'_> {
    /// Compares the addresses in fields, also those in groups. What is no address gives no value.
    pub(super) fn address_test(
        &mut self,
        frame: &mut Frame<'_>,
        test: &AddressTest,
    ) -> Result<bool> {
        let names = self.expand_all(frame, &test.fields)?;
        let separators = self.input.identity.separators;
        let fields = self.field_values(frame, &names, test.index, test.mime)?.into_iter();
        let lists: Vec<_> = fields.map(|(_, value)| self.known.addresses(value)).collect();
        let addresses = lists.iter().flat_map(|list| list.iter());
        let values = addresses.filter_map(|one| address_part(one, test.part, separators));
        self.matches_any(frame, &test.comparison, &values.collect::<Vec<_>>())
    }
}

/// Returns a part of an address. `None` if the address has no such part: then there is no value
/// that a key could match.
pub(super) fn address_part<'t>(
    address: &'t AddressSpec,
    part: AddressPart,
    separators: &str,
) -> Option<Cow<'t, str>> {
    match part {
        AddressPart::All => Some(Cow::Owned(address.to_string())),
        AddressPart::Domain => Some(Cow::Borrowed(address.domain())),
        part => local_part(address.local_part(), part, separators).map(Cow::Borrowed),
    }
}

/// Returns the local part, or with `User` and `Detail` what of it stands before and after the first
/// separator. Without a separator, `User` is the whole local part and `Detail` is `None`. No caller
/// passes `Domain`.
pub(super) fn local_part<'t>(
    local: &'t str,
    part: AddressPart,
    separators: &str,
) -> Option<&'t str> {
    let split = local.split_once(|c| separators.contains(c));
    match part {
        AddressPart::User => Some(split.map_or(local, |(user, _)| user)),
        AddressPart::Detail => split.map(|(_, detail)| detail),
        AddressPart::All | AddressPart::LocalPart | AddressPart::Domain => Some(local),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_and_detail_are_separated_by_the_first_separator() {
        let part = |local, part| {
            let address = AddressSpec::new(local, "example.org");
            address_part(&address, part, "+-").map(Cow::into_owned)
        };
        assert_eq!(part("ken+a-b", AddressPart::User).as_deref(), Some("ken"));
        assert_eq!(part("ken+a-b", AddressPart::Detail).as_deref(), Some("a-b"));
        assert_eq!(part("ken+", AddressPart::Detail).as_deref(), Some(""));
        assert_eq!(part("ken", AddressPart::Detail), None);
        assert_eq!(part("ken", AddressPart::User).as_deref(), Some("ken"));
        assert_eq!(part("a b", AddressPart::All).as_deref(), Some("\"a b\"@example.org"));
        assert_eq!(part("a b", AddressPart::LocalPart).as_deref(), Some("a b"));
        assert_eq!(part("a", AddressPart::Domain).as_deref(), Some("example.org"));
        assert_eq!(local_part("a+b", AddressPart::Detail, ""), None);
    }
}
