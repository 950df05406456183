//! Blob ids and their text form (RFC 8620 §1.2, §3.2, RFC 8621 §4.1.1, §4.1.4).
//!
//! - A blob id is a base and up to [`MAX_DEPTH`] steps `-n`.
//! - The base `o…` names the message of an email as it is downloaded, with the digits of the
//!   email's id. The base `b…` names an upload, or the source of a script.
//! - The step `-n` names the decoded content of part n, counted as in `EmailContent::parts` (the
//!   whole message is 0). If that part is a message, a further `-n` names a part within it.
//! - Each blob id has one spelling.

use std::fmt;
use std::str::FromStr;

use smallvec::SmallVec;

use super::id::{BadId, BlobHash, EmailId};
use super::limits;

/// The most steps of a blob id.
pub const MAX_DEPTH: usize = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BlobBase {
    /// The message of an email, with its trace prefix.
    Email(EmailId),
    Upload(BlobHash),
}

/// Names bytes that a client can read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlobId {
    pub base: BlobBase,
    /// The number of a part of the base, of a part within that part, and so on.
    pub parts: SmallVec<[u32; 2]>,
}

impl BlobId {
    #[must_use]
    pub fn email(id: EmailId) -> Self {
        Self { base: BlobBase::Email(id), parts: SmallVec::new() }
    }

    #[must_use]
    pub fn upload(hash: BlobHash) -> Self {
        Self { base: BlobBase::Upload(hash), parts: SmallVec::new() }
    }

    /// Returns the id of part `number`, or `None` beyond `MAX_DEPTH` steps or `MAX_MIME_PARTS`
    /// parts.
    #[must_use]
    pub fn part(&self, number: u32) -> Option<Self> {
        let fits = self.parts.len() < MAX_DEPTH
            && usize::try_from(number).is_ok_and(|number| number < limits::MAX_MIME_PARTS);
        fits.then(|| {
            let mut parts = self.parts.clone();
            parts.push(number);
            Self { base: self.base, parts }
        })
    }
}

impl fmt::Display for BlobId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.base {
            BlobBase::Email(id) => {
                let text = id.to_string();
                write!(out, "o{}", text.strip_prefix('e').unwrap_or(&text))?;
            }
            BlobBase::Upload(hash) => write!(out, "{hash}")?,
        }
        self.parts.iter().try_for_each(|part| write!(out, "-{part}"))
    }
}

impl FromStr for BlobId {
    type Err = BadId;

    fn from_str(text: &str) -> Result<Self, BadId> {
        let mut pieces = text.split('-');
        let base = pieces.next().ok_or(BadId)?;
        let base = match base.strip_prefix('o') {
            Some(digits) => BlobBase::Email(format!("e{digits}").parse()?),
            None => BlobBase::Upload(base.parse()?),
        };
        pieces.try_fold(Self { base, parts: SmallVec::new() }, |id, piece| {
            let number = piece.parse::<u32>().map_err(|_| BadId)?;
            // Refuses `+1` and `01`.
            if number.to_string() == piece { id.part(number).ok_or(BadId) } else { Err(BadId) }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_blob_id_has_one_spelling() {
        let email = BlobId::email(EmailId(u64::MAX - 5));
        let upload = BlobId::upload(BlobHash([0xee; 32]));
        let part = email.part(12).unwrap();
        let deep = upload.part(0).unwrap().part(999).unwrap();
        for id in [email.clone(), upload, part.clone(), deep] {
            assert_eq!(id.to_string().parse(), Ok(id.clone()), "{id}");
        }
        assert_eq!(part.to_string(), format!("{email}-12"));
        // Part 1000 is beyond `limits::MAX_MIME_PARTS`.
        for tail in ["-", "-x", "-01", "-+1", "--1", "-1-", "-1000", "-4294967296", "é"] {
            assert_eq!(format!("{email}{tail}").parse::<BlobId>(), Err(BadId), "{tail}");
        }
        for text in ["", "o", "e0000000000000", "-1", "b"] {
            assert_eq!(text.parse::<BlobId>(), Err(BadId), "{text}");
        }
    }

    #[test]
    fn email_ids_survive_as_blob_ids() {
        // The digits of the second and the third begin with `e`, like the letter that is cut off.
        let ids = [0, 0x7000_0000_0000_0000, 0x7777_7777_7777_7777, u64::MAX];
        for id in ids.map(EmailId) {
            assert_eq!(BlobId::email(id).to_string().parse(), Ok(BlobId::email(id)));
        }
    }

    #[test]
    fn blob_id_with_too_many_steps_is_refused() {
        let mut id = BlobId::email(EmailId(1));
        for _ in 0..MAX_DEPTH {
            id = id.part(1).unwrap();
        }
        assert_eq!(id.part(1), None);
        assert_eq!(format!("{id}-1").parse::<BlobId>(), Err(BadId));
    }
}
