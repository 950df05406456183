//! Who an account is: all its addresses, and the question "is this me?".

use super::address::Address;

/// Everything by which an account is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The address that replies come from when nothing better is known.
    pub primary: Address,
    /// The owner's name, for the From field.
    pub name: Option<String>,
    /// Every address of the account, the primary first, in the form of the directory: folded, or
    /// with their case where local parts differ by it.
    pub addresses: Vec<Address>,
    /// Domains that stand for one another: (alias, real), folded.
    pub alias_domains: Vec<(String, String)>,
    /// What separates user and detail; `None` where sub-addresses are off.
    pub delimiter: Option<char>,
    /// IANA name of the owner's time zone; `None` is the machine's.
    pub zone: Option<String>,
}

impl Identity {
    /// Whether an address is one of the account's, whatever its case: alias, sub-address or alias
    /// domain included. Where local parts differ by case, the directory alone says whose it is.
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
