//! An email as it is stored: the narrow row that changes, the wide row that does not, and what a
//! way in hands over.

use std::collections::BTreeSet;

use smallvec::SmallVec;

use super::clock::UtcMillis;
use super::field::field_at;
use super::id::{BlobHash, MailboxUid, ModSeq, ThreadId, ThreadKey};
use super::keyword;

/// The mutable facts of an email; a destroyed one keeps them as a tombstone, so that it can be
/// restored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmailMetadata {
    /// Its thread, for good (RFC 8621 §4.1.1).
    pub thread: ThreadId,
    /// The mailboxes that it is in.
    pub mailboxes: BTreeSet<MailboxUid>,
    /// Its keywords, normal form.
    pub keywords: BTreeSet<String>,
    /// When it was received, in ms.
    pub received_at: UtcMillis,
    /// The message as received.
    pub blob: BlobHash,
    /// Octets, its own trace prefix included.
    pub size: u64,
    /// The change that made it.
    pub created: ModSeq,
    /// The change that touched it last.
    pub updated: ModSeq,
    /// When it was destroyed.
    pub deleted: Option<UtcMillis>,
}

impl EmailMetadata {
    /// Neither `$seen` nor `$draft`: what the counts of RFC 8621 §2 call unread.
    #[must_use]
    pub fn is_unread(&self) -> bool {
        !self.has(keyword::SEEN) && !self.has(keyword::DRAFT)
    }

    /// Whether it carries a keyword.
    #[must_use]
    pub fn has(&self, keyword: &str) -> bool {
        self.keywords.contains(keyword)
    }
}

/// A name and an address of a header field (RFC 8621 §4.1.2.3).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EmailAddress {
    /// The display name.
    pub name: Option<String>,
    /// The address as written.
    pub email: String,
}

/// The Date field: an instant and the zone that it was written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SentAt {
    pub at: UtcMillis,
    /// Minutes east of UTC.
    pub offset_minutes: i16,
}

/// Minutes of the furthest zone that RFC 3339 can write.
const MAX_ZONE_MINUTES: i16 = 23 * 60 + 59;

impl SentAt {
    /// As a `Date` of RFC 8620 §1.4; in UTC where its zone is further off than can be written.
    #[must_use]
    pub fn rfc3339(self) -> String {
        match self.zone() {
            0 => self.at.rfc3339(),
            zone => {
                let local = UtcMillis(self.at.0.saturating_add(i64::from(zone) * 60_000)).rfc3339();
                let minutes = zone.unsigned_abs();
                let sign = if zone < 0 { '-' } else { '+' };
                format!(
                    "{}{sign}{:02}:{:02}",
                    local.trim_end_matches('Z'),
                    minutes / 60,
                    minutes % 60
                )
            }
        }
    }

    /// As a date-time of RFC 5322 §3.3.
    #[must_use]
    pub fn rfc5322(self) -> String {
        let zone = self.zone();
        let local = UtcMillis(self.at.0.saturating_add(i64::from(zone) * 60_000)).rfc5322();
        let minutes = zone.unsigned_abs();
        let sign = if zone < 0 { '-' } else { '+' };
        format!("{}{sign}{:02}{:02}", local.trim_end_matches("+0000"), minutes / 60, minutes % 60)
    }

    /// Reads a `Date` of RFC 8620 §1.4.
    #[must_use]
    pub fn parse_rfc3339(text: &str) -> Option<Self> {
        let at = UtcMillis::parse_rfc3339(text)?;
        let zone = text.get(text.len().checked_sub(6)?..)?;
        let offset_minutes = match (text.ends_with('Z'), zone.split_at_checked(1)?) {
            (true, _) => 0,
            (false, (sign, time)) => {
                let (hours, minutes) = time.split_once(':')?;
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

    fn zone(self) -> i16 {
        if self.offset_minutes.abs() <= MAX_ZONE_MINUTES { self.offset_minutes } else { 0 }
    }
}

/// Where a MIME part lies in the blob. Offsets count octets from the start of the message as
/// received.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PartOffsets {
    /// Start of its header.
    pub header: u32,
    /// Start of its body.
    pub body: u32,
    /// End of its body.
    pub end: u32,
    /// Content-Transfer-Encoding: 0 none, 1 quoted-printable, 2 base64, 3 uuencode.
    pub encoding: u8,
}

/// What a list of emails shows, kept so that it need not be parsed again.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EmailContent {
    pub from: Vec<EmailAddress>,
    pub to: Vec<EmailAddress>,
    pub cc: Vec<EmailAddress>,
    pub bcc: Vec<EmailAddress>,
    /// Sender.
    pub sender: Vec<EmailAddress>,
    /// Reply-To.
    pub reply_to: Vec<EmailAddress>,
    /// Of these six in this order, from the lowest bit on: whether the header has the field, and no
    /// address in it.
    pub blank: u8,
    /// Subject, in the Text form of RFC 8621 §4.1.2.2: no controls but tabs.
    pub subject: Option<String>,
    pub sent_at: Option<SentAt>,
    /// Message-ID, without angle brackets.
    pub message_id: Vec<String>,
    /// In-Reply-To, likewise.
    pub in_reply_to: Vec<String>,
    /// References, likewise.
    pub references: Vec<String>,
    /// RFC 8621 §4.1.4 preview.
    pub preview: String,
    /// RFC 8621 §4.1.4 hasAttachment.
    pub has_attachment: bool,
    /// The parts in order of appearance, the whole message first.
    pub parts: Vec<PartOffsets>,
}

/// Positions of a word: most stand once or twice, and need no memory of their own.
pub type Positions = SmallVec<[u32; 4]>;

/// A search word of an email.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchWord {
    /// Keyed hash, 28 bits.
    pub hash: u32,
    /// Positions, ascending, for phrases; each field has its own band of them (`model::field`).
    pub positions: Positions,
}

impl SearchWord {
    /// In which fields it stands, a bit each.
    #[must_use]
    pub fn fields(&self) -> u16 {
        self.positions.iter().fold(0, |fields, position| fields | field_at(*position))
    }
}

/// What an email can be found by.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Token {
    /// Keyed hash of a word.
    Word(u32),
    /// A token that is kept as text.
    Text(String),
}

/// The search tokens of an email.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tokens {
    /// Words, ascending by hash, each once.
    pub words: Vec<SearchWord>,
    /// Tokens that are kept as text, ascending, each once, with their field bits: addresses with
    /// the domain reversed, List-Id, Message-ID.
    pub texts: Vec<(String, u16)>,
}

/// The finished rows of one message, the same for everyone who receives it; made by
/// `message::rows`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MessageRows {
    /// Hash of the message as received.
    pub blob: BlobHash,
    /// Octets of the message as received.
    pub size: u64,
    /// The wide row.
    pub content: EmailContent,
    /// The search tokens.
    pub tokens: Tokens,
    /// By which threads are found, each once.
    pub thread_keys: Vec<ThreadKey>,
}
