//! Names of message files: ours hold the email's id, and so its date to the millisecond; those of
//! others say what they say.
//!
//! A file of ours is the email octet for octet, whatever its line ends; `as_mail` is for those of
//! others.

use std::collections::BTreeSet;

use super::flags::{Letters, MessageFlags};
use crate::model::{EmailId, UtcMillis};

/// What tells our files from others', in the place of a host.
const HOST: &str = "restante";
/// The last instant that a date of four digits names.
const LAST: UtcMillis = UtcMillis(253_402_300_799_999);

/// The unique part of a Maildir file of ours: time, id, and the size as Dovecot reads it.
#[must_use]
pub fn maildir(id: EmailId, size: u64) -> String {
    format!("{}.{id}.{HOST},S={size}", id.received_at().0.div_euclid(1000))
}

/// A Maildir file's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MaildirName<'a> {
    /// What never changes.
    pub base: &'a [u8],
    /// The letters behind `:2,`.
    pub letters: &'a [u8],
    /// The email that it is of, where we wrote it.
    pub id: Option<EmailId>,
}

impl<'a> MaildirName<'a> {
    /// Reads a name: any octets are one.
    #[must_use]
    pub fn of(name: &'a [u8]) -> Self {
        let at = memchr::memchr(b':', name).unwrap_or(name.len());
        let (base, info) = name.split_at_checked(at).unwrap_or((name, &[]));
        let id = std::str::from_utf8(base).ok().and_then(|base| {
            let mut parts = base.splitn(3, '.');
            let (_, id, host) = (parts.next()?, parts.next()?, parts.next()?);
            let ours = host
                .strip_prefix(HOST)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(','));
            ours.then(|| ours_of(id)).flatten()
        });
        Self { base, letters: info.strip_prefix(b":2,").unwrap_or_default(), id }
    }

    /// The marks that the letters stand for; none of a file that nobody has looked at yet.
    #[must_use]
    pub fn marks(&self, known: &Letters) -> MessageFlags {
        known.marks(self.letters)
    }
}

/// A Maildir file's name with its keywords.
#[must_use]
pub fn with_letters(base: &str, keywords: &BTreeSet<String>, known: &Letters) -> String {
    format!("{base}:2,{}", known.letters(keywords))
}

/// A message file of ours in a tree.
#[must_use]
pub fn eml(id: EmailId) -> String {
    let stamp: String =
        id.received_at().rfc3339().chars().filter(|c| !matches!(c, '-' | ':')).collect();
    format!("{stamp}-{id}.eml")
}

/// The email that a message file in a tree is of, where we wrote it.
#[must_use]
pub fn of_eml(name: &[u8]) -> Option<EmailId> {
    let (stamp, id) = std::str::from_utf8(name).ok()?.strip_suffix(".eml")?.split_once('-')?;
    ours_of(id).filter(|id| eml(*id).starts_with(stamp))
}

/// An id that we may have written: of a date that is one.
pub(super) fn ours_of(text: &str) -> Option<EmailId> {
    text.parse::<EmailId>().ok().filter(|id| id.received_at() <= LAST)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_of_ours_and_of_others() {
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
        assert_eq!(of_eml(format!("20261122T090000Z-{id}.eml").as_bytes()), None);
        // A date of five digits is none of ours.
        let far = EmailId(0).to_string();
        assert_eq!(MaildirName::of(format!("1.{far}.restante").as_bytes()).id, None);
    }

    proptest! {
        #[test]
        fn any_octets_are_a_name(name in proptest::collection::vec(any::<u8>(), 0..60)) {
            let read = MaildirName::of(&name);
            prop_assert!(name.starts_with(read.base) && name.ends_with(read.letters));
            let _marks = read.marks(&Letters::default());
        }

        #[test]
        fn ids_come_back(millis in 0..LAST.0, unique: u16, size: u64) {
            let id = EmailId::new(UtcMillis(millis), unique);
            prop_assert_eq!(MaildirName::of(maildir(id, size).as_bytes()).id, Some(id));
            prop_assert_eq!(of_eml(eml(id).as_bytes()), Some(id));
        }
    }
}
