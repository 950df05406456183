//! Writes and reads the names of message files: Maildir and .eml.
//!
//! The name of an exported file contains the id of the email, and so its date to the millisecond.

use std::collections::BTreeSet;

use super::flags::{Letters, MessageFlags};
use crate::model::{EmailId, UtcMillis};

/// In place of a host name.
const HOST: &str = "restante";
/// The last millisecond of the year 9999: RFC 3339 has four digits for a year.
const MAX_DATE: UtcMillis = UtcMillis(253_402_300_799_999);

/// Returns the unique part of the name of a Maildir file: time in seconds, id, and the size in
/// bytes, which Dovecot reads. `with_letters` adds the flags.
#[must_use]
pub fn maildir(id: EmailId, size: u64) -> String {
    format!("{}.{id}.{HOST},S={size}", id.received_at().0.div_euclid(1000))
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MaildirName<'a> {
    /// The unique part, before the colon.
    pub base: &'a [u8],
    /// The letters of the flags, after `:2,`; empty if there is no such part.
    pub letters: &'a [u8],
    /// The id of the email, if an export wrote the file.
    pub id: Option<EmailId>,
}

impl<'a> MaildirName<'a> {
    /// Takes the name of a file apart.
    #[must_use]
    pub fn of(name: &'a [u8]) -> Self {
        let at = memchr::memchr(b':', name).unwrap_or(name.len());
        let (base, info) = name.split_at_checked(at).unwrap_or((name, &[]));
        let id = std::str::from_utf8(base).ok().and_then(|base| {
            let mut parts = base.splitn(3, '.');
            let (_, id, host) = (parts.next()?, parts.next()?, parts.next()?);
            let is_exported = host
                .strip_prefix(HOST)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(','));
            is_exported.then(|| parse_id(id)).flatten()
        });
        Self { base, letters: info.strip_prefix(b":2,").unwrap_or_default(), id }
    }

    #[must_use]
    pub fn flags(&self, letters: &Letters) -> MessageFlags {
        letters.flags(self.letters)
    }
}

/// Returns the name of a Maildir file with this unique part, and with the letters of its keywords.
#[must_use]
pub fn with_letters(base: &str, keywords: &BTreeSet<String>, letters: &Letters) -> String {
    format!("{base}:2,{}", letters.letters(keywords))
}

/// Returns the name of an exported .eml file: the date to the second, and the id.
#[must_use]
pub fn eml(id: EmailId) -> String {
    let stamp: String =
        id.received_at().rfc3339().chars().filter(|c| !matches!(c, '-' | ':')).collect();
    format!("{stamp}-{id}.eml")
}

/// Returns the id of the email, if an export wrote the file.
#[must_use]
pub fn of_eml(name: &[u8]) -> Option<EmailId> {
    let name = std::str::from_utf8(name).ok()?;
    let (_, id) = name.strip_suffix(".eml")?.split_once('-')?;
    parse_id(id).filter(|id| eml(*id) == name)
}

/// Parses an id that an export may have written; `None` for one that is dated after `MAX_DATE`.
pub(super) fn parse_id(text: &str) -> Option<EmailId> {
    text.parse::<EmailId>().ok().filter(|id| id.received_at() <= MAX_DATE)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_of_exports_have_an_id_and_others_have_none() {
        let id = EmailId::new(UtcMillis(1_795_251_600_123), 7);
        let base = maildir(id, 42);
        assert_eq!(base, format!("1795251600.{id}.restante,S=42"));
        let name = with_letters(
            &base,
            &BTreeSet::from(["$seen".into(), "$flagged".into()]),
            &Letters::default(),
        );
        assert_eq!(name, format!("{base}:2,FS"));
        let read = MaildirName::of(name.as_bytes());
        assert_eq!((read.base, read.letters, read.id), (base.as_bytes(), &b"FS"[..], Some(id)));
        let name = eml(id);
        assert_eq!(name, format!("20261121T090000Z-{id}.eml"));
        assert_eq!(of_eml(name.as_bytes()), Some(id));

        let name = b"1795251600.M5P3.host,S=5,W=6:2,S";
        let read = MaildirName::of(name);
        assert_eq!(
            (read.base, read.letters, read.id),
            (&b"1795251600.M5P3.host,S=5,W=6"[..], &b"S"[..], None)
        );
        assert_eq!(MaildirName::of(b"x:1,weird").letters, b"");
        for stamp in ["20261122T090000Z", "20261121T090000", "2", ""] {
            assert_eq!(of_eml(format!("{stamp}-{id}.eml").as_bytes()), None, "{stamp:?}");
        }
        // An id counts down from the last date, so 0 is after the year 9999.
        let far = EmailId(0).to_string();
        assert_eq!(MaildirName::of(format!("1.{far}.restante").as_bytes()).id, None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_name(name in proptest::collection::vec(any::<u8>(), 0..60)) {
            let read = MaildirName::of(&name);
            prop_assert!(name.starts_with(read.base) && name.ends_with(read.letters));
            let _flags = read.flags(&Letters::default());
        }

        #[test]
        fn ids_are_written_and_read_again(millis in 0..MAX_DATE.0, unique: u16, size: u64) {
            let id = EmailId::new(UtcMillis(millis), unique);
            prop_assert_eq!(MaildirName::of(maildir(id, size).as_bytes()).id, Some(id));
            prop_assert_eq!(of_eml(eml(id).as_bytes()), Some(id));
        }
    }
}
