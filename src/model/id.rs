//! Ids: newtypes over numbers and hashes, and their text form.
//!
//! - The text form is a letter for the type and the lower-case base32hex (RFC 4648 §7) of the
//!   big-endian bytes, in fixed length.
//! - The texts of one type sort as their numbers do, and no two differ by case alone.
//! - No text is `NIL` (RFC 8620 §1.2).

use std::fmt;
use std::str::FromStr;

use super::clock::UtcMillis;

const ALPHABET: &[u8; 32] = b"0123456789abcdefghijklmnopqrstuv";

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a well-formed id")]
pub struct BadId;

fn encode(letter: char, bytes: &[u8], out: &mut fmt::Formatter<'_>) -> fmt::Result {
    use fmt::Write as _;
    out.write_char(letter)?;
    // The `bits` lowest bits of `window` are not written yet.
    let (mut window, mut bits) = (0u32, 0u32);
    for byte in bytes {
        window = (window << 8) | u32::from(*byte);
        bits += 8;
        while bits >= 5 {
            bits -= 5;
            out.write_char(char::from(ALPHABET[((window >> bits) & 31) as usize]))?;
        }
        window &= (1 << bits) - 1;
    }
    if bits > 0 {
        out.write_char(char::from(ALPHABET[((window << (5 - bits)) & 31) as usize]))?;
    }
    Ok(())
}

fn decode<const N: usize>(letter: char, text: &str) -> Result<[u8; N], BadId> {
    let digits = text.strip_prefix(letter).ok_or(BadId)?.as_bytes();
    if digits.len() != (N * 8).div_ceil(5) {
        return Err(BadId);
    }
    let mut out = [0u8; N];
    let (mut window, mut bits, mut at) = (0u32, 0u32, 0usize);
    for digit in digits {
        let value = ALPHABET.iter().position(|known| known == digit).ok_or(BadId)?;
        window = (window << 5) | u32::try_from(value).map_err(|_| BadId)?;
        bits += 5;
        if bits >= 8 && at < N {
            bits -= 8;
            out[at] = u8::try_from((window >> bits) & 0xff).map_err(|_| BadId)?;
            at += 1;
        }
        window &= (1 << bits) - 1;
    }
    // The padding bits must be zero, so that each id has one spelling.
    if window == 0 { Ok(out) } else { Err(BadId) }
}

macro_rules! number_id {
    ($(#[$doc:meta])* $name:ident, $int:ty, $letter:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(pub $int);

        impl fmt::Display for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                encode($letter, &self.0.to_be_bytes(), out)
            }
        }

        impl FromStr for $name {
            type Err = BadId;
            fn from_str(text: &str) -> Result<Self, BadId> {
                Ok(Self(<$int>::from_be_bytes(decode($letter, text)?)))
            }
        }
    };
}

macro_rules! hash_id {
    ($(#[$doc:meta])* $name:ident, $letter:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(pub [u8; 32]);

        impl fmt::Display for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                encode($letter, &self.0, out)
            }
        }

        impl FromStr for $name {
            type Err = BadId;
            fn from_str(text: &str) -> Result<Self, BadId> {
                Ok(Self(decode($letter, text)?))
            }
        }
    };
}

number_id!(
    /// The id of an account, never reused. Account 0 is the site.
    AccountId, u32, 'a'
);
number_id!(
    /// The id of an email in an account: the largest number of 48 bits less `receivedAt` in ms,
    /// then 16 bits that tell equal times apart. Ascending order is newest first. An id may be
    /// given again after its email is purged.
    EmailId, u64, 'e'
);
number_id!(
    /// The id of a thread in an account, in order of creation.
    ThreadId, u64, 't'
);
number_id!(
    /// The id of a mailbox in an account, in order of creation, never reused.
    MailboxUid, u32, 'm'
);
number_id!(
    /// The number of a change. Each account has one sequence, shared by all data types.
    ModSeq, u64, 's'
);
number_id!(
    /// The id of an action in an account's outbox, in order of creation.
    ActionId, u64, 'q'
);
number_id!(
    /// The id of a small object in an account: the number of the change that created the object.
    ObjectId, u64, 'i'
);
hash_id!(
    /// The BLAKE3 hash of a raw message, of an upload, or of the source of a script.
    BlobHash, 'b'
);
hash_id!(
    /// The key by which a thread is found: the keyed hash of a message id (16 bytes), then that of
    /// the folded subject (16 bytes).
    ThreadKey, 'r'
);
hash_id!(
    /// The key of a told row: the keyed hash of a vacation handle (16 bytes), then that of the
    /// folded sender (16 bytes).
    ToldKey, 'w'
);

impl AccountId {
    /// The site, which has the rows that belong to no account.
    pub const SITE: Self = Self(0);
}

impl MailboxUid {
    /// The virtual mailbox that contains every live email.
    pub const ALL: Self = Self(0);
}

impl ModSeq {
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

/// The largest time in an email id, of 48 bits.
const MAX_TIME_MILLIS: u64 = (1 << 48) - 1;

impl EmailId {
    /// Returns the id for an email received at `at`, as far as 48 bits can express it. `unique`
    /// tells emails with the same time apart.
    #[must_use]
    pub fn new(at: UtcMillis, unique: u16) -> Self {
        let millis = u64::try_from(at.0).unwrap_or(0).min(MAX_TIME_MILLIS);
        Self(((MAX_TIME_MILLIS - millis) << 16) | u64::from(unique))
    }

    /// Returns when the email was received, within the bounds of `new`.
    #[must_use]
    pub fn received_at(self) -> UtcMillis {
        UtcMillis(i64::try_from(MAX_TIME_MILLIS - (self.0 >> 16)).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_form_round_trips_and_sorts() {
        let ids = [0, 1, 31, 32, 255, 256, 1 << 40, u64::MAX];
        let texts: Vec<String> = ids.iter().map(|id| EmailId(*id).to_string()).collect();
        let mut sorted = texts.clone();
        sorted.sort();
        assert_eq!(texts, sorted);
        for (id, text) in ids.iter().zip(&texts) {
            assert_eq!(text.len(), 14);
            assert_eq!(text.parse(), Ok(EmailId(*id)));
        }
        assert_eq!(AccountId(7).to_string().parse(), Ok(AccountId(7)));
        assert_eq!(BlobHash([9; 32]).to_string().parse(), Ok(BlobHash([9; 32])));
    }

    #[test]
    fn texts_that_are_no_email_id_are_refused() {
        for text in [
            "",
            "e",
            "t0000000000000",
            "e000000000000",
            "e000000000000Z",
            // The last digit sets the padding bit.
            "e0000000000001",
            "e00000000000000",
        ] {
            assert_eq!(text.parse::<EmailId>(), Err(BadId), "{text}");
        }
    }

    #[test]
    fn newer_email_has_smaller_id() {
        let (old, new) = (EmailId::new(UtcMillis(1_000), 5), EmailId::new(UtcMillis(2_000), 3));
        assert!(new < old);
        assert_eq!(old.received_at(), UtcMillis(1_000));
        assert_eq!(EmailId::new(UtcMillis(-5), 0).received_at(), UtcMillis(0));
    }
}
