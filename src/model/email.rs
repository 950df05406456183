//! An email as it is stored: its metadata, which change, and its content and search tokens, which
//! do not.

use std::collections::BTreeSet;

use smallvec::SmallVec;

use super::clock::UtcMillis;
use super::field::field_at;
use super::id::{BlobHash, MailboxUid, ModSeq, ThreadId, ThreadKey};
use super::keyword;

/// The metadata of an email, in table `email_metadata`. When the email is destroyed, the row stays
/// as a tombstone, so that the email can be restored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmailMetadata {
    /// Never changes (RFC 8621 §4.1.1).
    pub thread: ThreadId,
    /// At least one. In a tombstone those that the email was in last.
    pub mailboxes: BTreeSet<MailboxUid>,
    /// In normal form (`keyword::normalize`).
    pub keywords: BTreeSet<String>,
    pub received_at: UtcMillis,
    /// The hash of the raw message.
    pub blob: BlobHash,
    /// In bytes, trace prefix included.
    pub size: u64,
    pub created: ModSeq,
    /// The last change of the email. In a tombstone that is the destruction.
    pub updated: ModSeq,
    /// When the email was destroyed; `None` while it is live.
    pub destroyed: Option<UtcMillis>,
}

impl EmailMetadata {
    /// Whether the email has neither `$seen` nor `$draft` (RFC 8621 §2).
    #[must_use]
    pub fn is_unread(&self) -> bool {
        !self.has(keyword::SEEN) && !self.has(keyword::DRAFT)
    }

    /// `keyword` is in normal form.
    #[must_use]
    pub fn has(&self, keyword: &str) -> bool {
        self.keywords.contains(keyword)
    }
}

/// A name and an address of a header field (RFC 8621 §4.1.2.3).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EmailAddress {
    /// Decoded; `None` if the address has no name.
    pub name: Option<String>,
    /// May be empty or not well formed.
    pub email: String,
}

/// The value of a Date field: an instant and its time zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SentAt {
    pub at: UtcMillis,
    /// Minutes east of UTC.
    pub offset_minutes: i16,
}

/// The largest time zone offset that RFC 3339 can express.
const MAX_OFFSET_MINUTES: u16 = 23 * 60 + 59;

impl SentAt {
    /// Returns the `Date` of RFC 8620 §1.4, in UTC if the offset is beyond `MAX_OFFSET_MINUTES`.
    #[must_use]
    pub fn rfc3339(self) -> String {
        match self.valid_offset() {
            0 => self.at.rfc3339(),
            offset => {
                let local =
                    UtcMillis(self.at.0.saturating_add(i64::from(offset) * 60_000)).rfc3339();
                let minutes = offset.unsigned_abs();
                let sign = if offset < 0 { '-' } else { '+' };
                format!(
                    "{}{sign}{:02}:{:02}",
                    local.trim_end_matches('Z'),
                    minutes / 60,
                    minutes % 60
                )
            }
        }
    }

    /// Returns the date-time of RFC 5322 §3.3, with the offset of `rfc3339`.
    #[must_use]
    pub fn rfc5322(self) -> String {
        let offset = self.valid_offset();
        let local = UtcMillis(self.at.0.saturating_add(i64::from(offset) * 60_000)).rfc5322();
        let minutes = offset.unsigned_abs();
        let sign = if offset < 0 { '-' } else { '+' };
        format!("{}{sign}{:02}{:02}", local.trim_end_matches("+0000"), minutes / 60, minutes % 60)
    }

    /// Parses a `Date` of RFC 8620 §1.4.
    #[must_use]
    pub fn parse_rfc3339(text: &str) -> Option<Self> {
        let at = UtcMillis::parse_rfc3339(text)?;
        // The offset is `Z`, or a sign and `hh:mm`.
        let last_six = text.get(text.len().checked_sub(6)?..)?;
        let offset_minutes = match (text.ends_with('Z'), last_six.split_at_checked(1)?) {
            (true, _) => 0,
            (false, (sign, hours_and_minutes)) => {
                let (hours, minutes) = hours_and_minutes.split_once(':')?;
                let minutes = hours
                    .parse::<i16>()
                    .ok()?
                    .checked_mul(60)?
                    .checked_add(minutes.parse().ok()?)?;
                if sign == "-" { -minutes } else { minutes }
            }
        };
        Some(Self { at, offset_minutes })
    }

    fn valid_offset(self) -> i16 {
        if self.offset_minutes.unsigned_abs() <= MAX_OFFSET_MINUTES {
            self.offset_minutes
        } else {
            0
        }
    }
}

/// The position of a MIME part, in bytes from the start of the message as received.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PartOffsets {
    pub header: u32,
    pub body: u32,
    /// The end of the body, exclusive.
    pub end: u32,
    /// Content-Transfer-Encoding, as a number of `message::decode`: 0 none or unknown, 1
    /// quoted-printable, 2 base64, 3 uuencode.
    pub encoding: u8,
}

/// What a client shows in a list of emails, stored so that the message need not be parsed again.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EmailContent {
    pub from: Vec<EmailAddress>,
    pub to: Vec<EmailAddress>,
    pub cc: Vec<EmailAddress>,
    pub bcc: Vec<EmailAddress>,
    pub sender: Vec<EmailAddress>,
    pub reply_to: Vec<EmailAddress>,
    /// One bit for each of the six fields above, from the lowest bit on: set if the header has the
    /// field, but no address in it.
    pub empty_fields: u8,
    /// In the Text form of RFC 8621 §4.1.2.2, without control characters other than tabs.
    pub subject: Option<String>,
    /// `None` if there is no Date that can be read.
    pub sent_at: Option<SentAt>,
    /// Without angle brackets, as in the next two lists.
    pub message_id: Vec<String>,
    pub in_reply_to: Vec<String>,
    pub references: Vec<String>,
    /// RFC 8621 §4.1.4.
    pub preview: String,
    /// RFC 8621 §4.1.4.
    pub has_attachment: bool,
    /// In order of appearance, the whole message first.
    pub parts: Vec<PartOffsets>,
}

/// The positions of a word in an email.
pub type Positions = SmallVec<[u32; 4]>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SearchWord<'a> {
    /// The keyed hash of the word, `HASH_BITS` long.
    pub hash: u32,
    /// Ascending, for phrase search. Each field has its own band (`model::field`).
    pub positions: &'a [u32],
}

impl SearchWord<'_> {
    /// The number of bits in a hash.
    pub const HASH_BITS: u32 = 28;

    /// Returns the fields in which the word occurs, one bit each (`model::field`).
    #[must_use]
    pub fn fields(&self) -> u16 {
        self.positions.iter().fold(0, |fields, position| fields | field_at(*position))
    }
}

/// The search words of an email, in two lists for all of them: a list for each word would cost an
/// allocation.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SearchWords {
    /// The hash of each word, and where its positions end.
    words: Vec<(u32, u32)>,
    positions: Vec<u32>,
}

impl SearchWords {
    /// Takes the hash of each word with the end of its positions in `positions`; they begin where
    /// those of the word before end.
    #[must_use]
    pub fn new(words: Vec<(u32, u32)>, positions: Vec<u32>) -> Self {
        Self { words, positions }
    }

    /// Adds a word, which may have no position.
    pub fn push_word(&mut self, hash: u32, positions: impl IntoIterator<Item = u32>) {
        self.positions.extend(positions);
        self.words.push((hash, self.end()));
    }

    /// Adds a word as `push_word` does.
    ///
    /// # Errors
    /// The first error among the positions. Then the word is not added.
    pub fn try_push_word<E>(
        &mut self,
        hash: u32,
        positions: impl IntoIterator<Item = Result<u32, E>>,
    ) -> Result<(), E> {
        let start = self.positions.len();
        for position in positions {
            match position {
                Ok(position) => self.positions.push(position),
                Err(error) => {
                    self.positions.truncate(start);
                    return Err(error);
                }
            }
        }
        self.words.push((hash, self.end()));
        Ok(())
    }

    /// Makes room for this many more words, of which most have one position.
    pub fn reserve(&mut self, words: usize) {
        self.words.reserve(words);
        self.positions.reserve(words);
    }

    fn end(&self) -> u32 {
        u32::try_from(self.positions.len()).unwrap_or(u32::MAX)
    }

    /// Returns the words in the order in which they were added.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = SearchWord<'_>> {
        let mut start = 0;
        self.words.iter().map(move |(hash, end)| {
            let positions = self.positions_between(start, *end);
            start = *end;
            SearchWord { hash: *hash, positions }
        })
    }

    /// Returns the positions of the word with this hash; none if the email does not have it. The
    /// words must ascend by hash.
    #[must_use]
    pub fn positions_of(&self, hash: u32) -> &[u32] {
        let Ok(at) = self.words.binary_search_by_key(&hash, |(hash, _)| *hash) else { return &[] };
        let end_of = |at: usize| self.words.get(at).map(|(_, end)| *end);
        let start = at.checked_sub(1).and_then(end_of).unwrap_or(0);
        self.positions_between(start, end_of(at).unwrap_or(0))
    }

    fn positions_between(&self, start: u32, end: u32) -> &[u32] {
        let at = |offset: u32| usize::try_from(offset).unwrap_or(usize::MAX);
        self.positions.get(at(start)..at(end)).unwrap_or_default()
    }
}

/// An entry of the search index.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Token {
    /// The keyed hash of a word.
    Word(u32),
    /// A text, such as an address.
    Text(String),
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tokens {
    /// Ascending by hash, without duplicates.
    pub words: SearchWords,
    /// Ascending and without duplicates, with field bits: addresses with the domain reversed, ids,
    /// media types of attachments, and the search text of `DeliveredTo`. The empty text stands for
    /// ids that were not indexed.
    pub texts: Vec<(String, u16)>,
}

/// The tokens that a search asks for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WantedTokens {
    /// The hashes of the words, ascending, without duplicates.
    pub words: Vec<u32>,
    /// Whether it asks for texts.
    pub texts: bool,
}

/// What is stored of a message, equal for all recipients. `message::rows` makes it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MessageRows {
    pub blob: BlobHash,
    /// In bytes, as received.
    pub size: u64,
    pub content: EmailContent,
    pub tokens: Tokens,
    pub thread_keys: Vec<ThreadKey>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offset_that_rfc_3339_cannot_express_is_shown_as_utc() {
        for offset_minutes in [24 * 60, -24 * 60, i16::MAX, i16::MIN] {
            let sent = SentAt { at: UtcMillis(0), offset_minutes };
            assert_eq!(sent.rfc3339(), "1970-01-01T00:00:00Z");
            assert_eq!(sent.rfc5322(), "Thu, 01 Jan 1970 00:00:00 +0000");
        }
        let sent = SentAt { at: UtcMillis(0), offset_minutes: -90 };
        assert_eq!(sent.rfc3339(), "1969-12-31T22:30:00-01:30");
    }
}
