//! The addresses and names of an account, and whether a given address is one of them.

use super::address::Address;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// In the form of `addresses`.
    pub primary: Address,
    /// The display name of the account.
    pub name: Option<String>,
    /// All addresses of the account but catch-alls, the primary first; without those whose rows are
    /// damaged. They have the form of the directory: folded, but with the case of local parts kept
    /// if the site distinguishes it.
    pub addresses: Vec<Address>,
    /// The alias domains of the site, each with the domain for which it stands; folded.
    pub alias_domains: Vec<(String, String)>,
    /// The character between user and detail; `None` if sub-addresses are off.
    pub delimiter: Option<char>,
    /// An IANA name; `None` for the machine's zone.
    pub zone: Option<String>,
}

impl Identity {
    /// Whether an address is one of the account's, or a sub-address of one. Either may be written
    /// with an alias domain. Letter case is ignored, even if the site distinguishes it in local
    /// parts.
    #[must_use]
    pub fn is_me(&self, address: &Address) -> bool {
        let folded = self.canonical(address);
        let is_own = |address: &Address| {
            self.addresses.iter().any(|own| own == address || own.folded() == *address)
        };
        is_own(&folded)
            || self.delimiter.is_some_and(|delimiter| {
                let (base, detail) = folded.split_detail(delimiter);
                detail.is_some() && is_own(&base)
            })
    }

    /// Returns the folded address, with an alias domain replaced.
    #[must_use]
    pub fn canonical(&self, address: &Address) -> Address {
        let folded = address.folded();
        match self.alias_domains.iter().find(|(alias, _)| alias == folded.domain()) {
            Some((_, real)) => Address::from_parts(folded.local(), real),
            None => folded,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_me_accepts_case_details_and_alias_domains() {
        let me = Identity {
            primary: Address::from_parts("ann", "example.org"),
            name: None,
            addresses: vec![
                Address::from_parts("ann", "example.org"),
                Address::from_parts("A.b", "example.org"),
            ],
            alias_domains: vec![("example.net".into(), "example.org".into())],
            delimiter: Some('+'),
            zone: None,
        };
        for (text, is) in [
            ("Ann@EXAMPLE.org", true),
            ("ann+x@example.org", true),
            ("A.B@example.net", true),
            ("bob@example.org", false),
            ("ann@example.com", false),
            ("+ann@example.org", false),
        ] {
            assert_eq!(me.is_me(&Address::parse(text).unwrap()), is, "{text}");
        }
    }
}
