//! The extensions and comparators that the engine knows.
//!
//! - One table, below, holds the name of every extension and the document that defines it.
//! - Names are compared byte by byte, as RFC 5228 §3.2 compares capabilities.
//! - An [`ExtensionSet`] is serialised as a list of names, so that a stored set can still be read
//!   when the table has more rows or another order.

use std::fmt;

use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

macro_rules! extensions {
    ($($variant:ident = $name:literal, $rfc:literal;)*) => {
        /// Something that `require` can name (RFC 5228 §3.2).
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Extension {
            $(#[doc = concat!("`", $name, "`: ", $rfc)] $variant,)*
        }

        impl Extension {
            /// Every extension, in the order of the table.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// Returns the name as `require` spells it.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),* }
            }

            /// Returns the document that defines the extension.
            #[must_use]
            pub const fn defined_in(self) -> &'static str {
                match self { $(Self::$variant => $rfc),* }
            }

            /// Finds an extension by its exact name.
            #[must_use]
            pub fn from_name(name: &str) -> Option<Self> {
                match name { $($name => Some(Self::$variant),)* _ => None }
            }
        }
    };
}

extensions! {
    FileInto = "fileinto", "RFC 5228";
    Envelope = "envelope", "RFC 5228";
    EncodedCharacter = "encoded-character", "RFC 5228";
    ComparatorOctet = "comparator-i;octet", "RFC 5228";
    ComparatorAsciiCasemap = "comparator-i;ascii-casemap", "RFC 5228";
    ComparatorAsciiNumeric = "comparator-i;ascii-numeric", "RFC 4790";
    ComparatorUnicodeCasemap = "comparator-i;unicode-casemap", "RFC 5051";
    Copy = "copy", "RFC 3894";
    Relational = "relational", "RFC 5231";
    Variables = "variables", "RFC 5229";
    Imap4Flags = "imap4flags", "RFC 5232";
    Vacation = "vacation", "RFC 5230";
    VacationSeconds = "vacation-seconds", "RFC 6131";
    Reject = "reject", "RFC 5429";
    EReject = "ereject", "RFC 5429";
    SubAddress = "subaddress", "RFC 5233";
    Body = "body", "RFC 5173";
    Mailbox = "mailbox", "RFC 5490";
    SpecialUse = "special-use", "RFC 8579";
    MailboxId = "mailboxid", "RFC 9042";
    Date = "date", "RFC 5260";
    Index = "index", "RFC 5260";
    Environment = "environment", "RFC 5183";
    Regex = "regex", "draft-ietf-sieve-regex";
    Include = "include", "RFC 6609";
    Duplicate = "duplicate", "RFC 7352";
    SpamTest = "spamtest", "RFC 5235";
    SpamTestPlus = "spamtestplus", "RFC 5235";
    VirusTest = "virustest", "RFC 5235";
    EditHeader = "editheader", "RFC 5293";
    IHave = "ihave", "RFC 5463";
    ENotify = "enotify", "RFC 5435";
    Fcc = "fcc", "RFC 8580";
    Mime = "mime", "RFC 5703";
    ForEveryPart = "foreverypart", "RFC 5703";
    ExtractText = "extracttext", "RFC 5703";
    Replace = "replace", "RFC 5703";
    Enclose = "enclose", "RFC 5703";
    ExtLists = "extlists", "RFC 6134";
    MboxMetadata = "mboxmetadata", "RFC 5490";
    ServerMetadata = "servermetadata", "RFC 5490";
    EnvelopeDsn = "envelope-dsn", "RFC 6009";
    EnvelopeDeliverBy = "envelope-deliverby", "RFC 6009";
    RedirectDsn = "redirect-dsn", "RFC 6009";
    RedirectDeliverBy = "redirect-deliverby", "RFC 6009";
}

const _: () = assert!(Extension::ALL.len() <= 64, "ExtensionSet has 64 bits");

impl Extension {
    /// Returns the extensions that `require` of this one brings with it: `vacation-seconds` brings
    /// `vacation` (RFC 6131 §2), `spamtestplus` brings `spamtest` (RFC 5235 §3.2).
    #[must_use]
    pub const fn implied(self) -> ExtensionSet {
        match self {
            Self::VacationSeconds => ExtensionSet::EMPTY.with(Self::Vacation),
            Self::SpamTestPlus => ExtensionSet::EMPTY.with(Self::SpamTest),
            _ => ExtensionSet::EMPTY,
        }
    }

    const fn bit(self) -> u64 {
        1 << (self as u8)
    }
}

impl fmt::Display for Extension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for Extension {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Extension {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Name;
        impl Visitor<'_> for Name {
            type Value = Extension;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of an extension")
            }

            fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<Extension, E> {
                Extension::from_name(name).ok_or_else(|| E::custom(format!("no extension {name}")))
            }
        }
        deserializer.deserialize_str(Name)
    }
}

/// A set of extensions.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct ExtensionSet(u64);

impl ExtensionSet {
    pub const EMPTY: Self = Self(0);

    /// Returns the set of every extension that the engine knows.
    #[must_use]
    pub fn all() -> Self {
        Extension::ALL.iter().copied().collect()
    }

    /// Returns the set with one more extension, without those that it implies.
    #[must_use]
    pub const fn with(self, extension: Extension) -> Self {
        Self(self.0 | extension.bit())
    }

    #[must_use]
    pub const fn without(self, extension: Extension) -> Self {
        Self(self.0 & !extension.bit())
    }

    /// Adds an extension and those that it implies.
    pub const fn require(&mut self, extension: Extension) {
        self.0 |= extension.bit() | extension.implied().0;
    }

    #[must_use]
    pub const fn contains(self, extension: Extension) -> bool {
        self.0 & extension.bit() != 0
    }

    #[must_use]
    pub const fn contains_all(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    #[must_use]
    pub const fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    #[must_use]
    pub const fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Returns the extensions in the order of the table.
    pub fn iter(self) -> impl Iterator<Item = Extension> {
        Extension::ALL.iter().copied().filter(move |&extension| self.contains(extension))
    }
}

impl FromIterator<Extension> for ExtensionSet {
    fn from_iter<I: IntoIterator<Item = Extension>>(extensions: I) -> Self {
        extensions.into_iter().fold(Self::EMPTY, Self::with)
    }
}

impl fmt::Debug for ExtensionSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter().map(Extension::name)).finish()
    }
}

impl Serialize for ExtensionSet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter().collect::<Vec<_>>())
    }
}

impl<'de> Deserialize<'de> for ExtensionSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Names;
        impl<'de> Visitor<'de> for Names {
            type Value = ExtensionSet;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of names of extensions")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut names: A) -> Result<ExtensionSet, A::Error> {
                let mut set = ExtensionSet::EMPTY;
                while let Some(extension) = names.next_element()? {
                    set = set.with(extension);
                }
                Ok(set)
            }
        }
        deserializer.deserialize_seq(Names)
    }
}

/// A way to compare strings (RFC 4790).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum Comparator {
    /// `i;octet`: byte by byte.
    Octet,
    /// `i;ascii-casemap`: ASCII letters without regard to case. The default (RFC 5228 §2.7.3).
    #[default]
    AsciiCasemap,
    /// `i;ascii-numeric`: by the number that the leading digits make. A string that begins with
    /// no digit is infinite (RFC 4790 §9.1).
    AsciiNumeric,
    /// `i;unicode-casemap`: letters without regard to case, and characters without regard to how
    /// they are composed (RFC 5051). `:regex` regards how they are composed.
    UnicodeCasemap,
}

impl Comparator {
    pub const ALL: &[Self] =
        &[Self::Octet, Self::AsciiCasemap, Self::AsciiNumeric, Self::UnicodeCasemap];

    /// Returns the name as `:comparator` spells it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Octet => "i;octet",
            Self::AsciiCasemap => "i;ascii-casemap",
            Self::AsciiNumeric => "i;ascii-numeric",
            Self::UnicodeCasemap => "i;unicode-casemap",
        }
    }

    /// Finds a comparator by its exact name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|comparator| comparator.name() == name)
    }

    /// Returns the name that `require` gives the comparator.
    #[must_use]
    pub const fn extension(self) -> Extension {
        match self {
            Self::Octet => Extension::ComparatorOctet,
            Self::AsciiCasemap => Extension::ComparatorAsciiCasemap,
            Self::AsciiNumeric => Extension::ComparatorAsciiNumeric,
            Self::UnicodeCasemap => Extension::ComparatorUnicodeCasemap,
        }
    }

    /// Returns whether a script may use the comparator without `require` (RFC 5228 §2.7.3).
    #[must_use]
    pub const fn is_builtin(self) -> bool {
        matches!(self, Self::Octet | Self::AsciiCasemap)
    }

    /// Returns whether the comparator can find a part of a string, which `:contains`, `:matches`
    /// and `:regex` need (RFC 4790 §4.2.3).
    #[must_use]
    pub const fn has_substrings(self) -> bool {
        !matches!(self, Self::AsciiNumeric)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_extension_is_found_by_its_name_and_has_a_bit_of_its_own() {
        for (index, &extension) in Extension::ALL.iter().enumerate() {
            assert_eq!(Extension::from_name(extension.name()), Some(extension));
            assert_eq!(extension as usize, index);
            assert!(!extension.defined_in().is_empty());
        }
        assert_eq!(ExtensionSet::all().len(), Extension::ALL.len());
        assert_eq!(Extension::from_name("FileInto"), None);
        assert_eq!(Extension::from_name("imapflags"), None);
    }

    #[test]
    fn require_brings_what_is_implied() {
        let mut set = ExtensionSet::EMPTY;
        set.require(Extension::VacationSeconds);
        set.require(Extension::SpamTestPlus);
        let names: Vec<_> = set.iter().map(Extension::name).collect();
        assert_eq!(names, ["vacation", "vacation-seconds", "spamtest", "spamtestplus"]);
        assert!(!set.without(Extension::Vacation).contains(Extension::Vacation));
    }

    #[test]
    fn sets_are_combined() {
        let a: ExtensionSet = [Extension::Copy, Extension::Date].into_iter().collect();
        let b = ExtensionSet::EMPTY.with(Extension::Date);
        assert!(a.contains_all(b) && !b.contains_all(a));
        assert_eq!(a.union(b), a);
        assert_eq!(a.intersection(b), b);
        assert!(ExtensionSet::EMPTY.is_empty());
    }

    #[test]
    fn a_set_is_serialised_as_names() {
        let set: ExtensionSet = [Extension::Date, Extension::FileInto].into_iter().collect();
        let json = serde_json::to_string(&set).unwrap();
        assert_eq!(json, r#"["fileinto","date"]"#);
        assert_eq!(serde_json::from_str::<ExtensionSet>(&json).unwrap(), set);
        assert_eq!(format!("{set:?}"), r#"{"fileinto", "date"}"#);
        let error = |json| serde_json::from_str::<ExtensionSet>(json).unwrap_err().to_string();
        assert!(error(r#"["nonsense"]"#).contains("nonsense"));
        assert!(error("5").contains("a list of names of extensions"));
        assert!(error("[5]").contains("the name of an extension"));
    }

    #[test]
    fn comparators_are_found_by_name_and_agree_with_their_extension() {
        for &comparator in Comparator::ALL {
            assert_eq!(Comparator::from_name(comparator.name()), Some(comparator));
            let name = format!("comparator-{}", comparator.name());
            assert_eq!(Extension::from_name(&name), Some(comparator.extension()));
        }
        assert_eq!(Comparator::default(), Comparator::AsciiCasemap);
        assert!(!Comparator::AsciiNumeric.has_substrings());
        assert!(Comparator::Octet.is_builtin() && !Comparator::UnicodeCasemap.is_builtin());
    }
}
