//! Who an account is: all its addresses, and the question "is this me?".

use super::address::Address;

/// Everything by which an account is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The address that replies come from when nothing better is known.
    pub primary: Address,
    /// The owner's name, for the From field.
    pub name: Option<String>,
    /// Every address of the account, folded, the primary first.
    pub addresses: Vec<Address>,
    /// Domains that stand for one another: (alias, real), folded.
    pub alias_domains: Vec<(String, String)>,
    /// What separates user and detail; `None` where sub-addresses are off.
    pub delimiter: Option<char>,
    /// IANA name of the owner's time zone; `None` is the machine's.
    pub zone: Option<String>,
}

impl Identity {
    /// Whether an address is one of the account's: alias, sub-address or alias domain included.
    #[must_use]
    pub fn is_me(&self, address: &Address) -> bool {
        let folded = self.canonical(address);
        self.addresses.contains(&folded)
            || self.delimiter.is_some_and(|delimiter| {
                let (base, detail) = folded.split_detail(delimiter);
                detail.is_some() && self.addresses.contains(&base)
            })
    }

    /// The folded address with an alias domain replaced by the real one.
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
    fn knows_itself() {
        let me = Identity {
            primary: Address::from_parts("ann", "example.org"),
            name: None,
            addresses: vec![Address::from_parts("ann", "example.org"), Address::from_parts("a.b", "example.org")],
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
