//! Makes the search tokens of a message (`docs/storage.md`, "Search").
//!
//! - Words are keyed hashes with their fields and positions.
//! - Addresses are texts with the domain reversed; those in From, To, Cc and Bcc are words, too.
//!   Ids (in Message-ID, In-Reply-To, References and List-Id) and the media types of attachments
//!   are texts.
//! - Names of header fields are words, except those that nearly every message has.
//!
//! A filter for header fields looks for a part of a value, not for a word; the tokens only tell
//! which messages need not be read. So every id in angle brackets in the fields of `id_field` has a
//! token. If there is no room for it, the token is the empty text.
//!
//! The address to which an email was delivered is not in the message: the store adds it.

use std::cell::RefCell;

use siphasher::sip::SipHasher13;

use super::header::Field;
use super::occurrences::Occurrences;
use super::parse::{self, Message};
use super::words::{AsciiWords, WordSplitter};
pub use crate::model::field::{
    ATTACHMENT_NAME, ATTACHMENT_TYPE, BCC, BODY, CC, DELIVERED_HERE, DELIVERED_TO, FROM, HEADER,
    LIST_ID, MESSAGE_ID, SUBJECT, TO,
};
use crate::model::field::{BAND_BITS, band_of};
use crate::model::{Address, EmailContent, SearchWord, Secrets, Tokens, limits};

/// How far the first position of a text is from the last one of the text before it in the same
/// field, so that no phrase runs from one into the next.
const TEXT_GAP: u32 = 16;
/// A longer text gives no token, or the empty one if it is an id.
const MAX_TEXT_BYTES: usize = 255;
/// Header fields that nearly every message has. They have no token, since it would exclude no
/// message.
const COMMON_FIELDS: [&str; 10] = [
    "content-transfer-encoding",
    "content-type",
    "date",
    "from",
    "message-id",
    "mime-version",
    "received",
    "return-path",
    "subject",
    "to",
];

/// Takes the tokens of a message.
pub trait TokenSink {
    /// Takes a word, its field and its position.
    fn word(&mut self, word: &str, field: u16, position: u32);

    /// Takes a token that is stored as text, and its field.
    fn text(&mut self, text: &str, field: u16);

    /// Takes the first words of a text of ASCII, at most `max`. `position` returns the position of
    /// a word by its number. Returns the number of all words.
    fn ascii_words(
        &mut self,
        words: AsciiWords<'_>,
        field: u16,
        max: u32,
        position: impl Fn(u32) -> u32,
    ) -> u32 {
        words.each(|word, number| {
            if number < max {
                self.word(word.text(), field, position(number));
            }
        })
    }
}

struct HashedTokens<'m> {
    hash: WordHash,
    memo: &'m mut HashMemo,
    words: Occurrences,
    texts: Vec<(String, u16)>,
}

impl TokenSink for HashedTokens<'_> {
    // The position tells the field (`model::field::field_at`).
    fn word(&mut self, word: &str, _: u16, position: u32) {
        self.words.push(self.hash.of(word), position);
    }

    fn text(&mut self, text: &str, field: u16) {
        self.texts.push((text.to_owned(), field));
    }

    fn ascii_words(
        &mut self,
        words: AsciiWords<'_>,
        _: u16,
        max: u32,
        position: impl Fn(u32) -> u32,
    ) -> u32 {
        words.each(|word, number| {
            if number >= max {
                return;
            }
            let hash = match word.short_key() {
                Some(key) => self.memo.get(key, || self.hash.of(word.text())),
                None => self.hash.of(word.text()),
            };
            self.words.push(hash, position(number));
        })
    }
}

/// Hashes of the short words that this thread of the process met last: frequent words are not
/// hashed each time.
struct HashMemo {
    /// The key of the hashes.
    secret: [u8; 16],
    /// Each word has one slot: its `AsciiWord::short_key` and its hash. In an unused slot the key
    /// is 0, which no word has.
    slots: Vec<(u64, u32)>,
}

impl HashMemo {
    const SLOT_BITS: u32 = 10;

    fn for_secret(&mut self, secret: &[u8; 16]) {
        if self.secret != *secret || self.slots.is_empty() {
            self.slots.clear();
            self.slots.resize(1 << Self::SLOT_BITS, (0, 0));
            self.secret = *secret;
        }
    }

    #[inline]
    fn get(&mut self, key: u64, hash: impl FnOnce() -> u32) -> u32 {
        // Multiplying by 2^64 divided by the golden ratio spreads the keys over the slots.
        let spread = key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - Self::SLOT_BITS);
        let slot = usize::try_from(spread).ok().and_then(|at| self.slots.get_mut(at));
        match slot {
            Some((known, hash)) if *known == key => *hash,
            Some(slot) => {
                *slot = (key, hash());
                slot.1
            }
            None => hash(),
        }
    }
}

thread_local! {
    static MEMO: RefCell<HashMemo> =
        const { RefCell::new(HashMemo { secret: [0; 16], slots: Vec::new() }) };
}

/// Hashes words with the secret of a store.
#[derive(Debug, Clone, Copy)]
pub struct WordHash(SipHasher13);

impl WordHash {
    /// Makes the hash for the secret of a store.
    #[must_use]
    pub fn new(secrets: &Secrets) -> Self {
        Self(SipHasher13::new_with_key(&secrets.words))
    }

    /// Returns the 28-bit hash of a word in its search form.
    #[must_use]
    pub fn of(&self, word: &str) -> u32 {
        u32::try_from(self.0.hash(word.as_bytes()) & ((1 << SearchWord::HASH_BITS) - 1))
            .unwrap_or_default()
    }
}

/// Returns the search tokens of a message.
#[must_use]
pub fn tokens(message: &Message<'_>, content: &EmailContent, secrets: &Secrets) -> Tokens {
    let (words, mut texts) = MEMO.with_borrow_mut(|memo| {
        memo.for_secret(&secrets.words);
        let (hash, words) = (WordHash::new(secrets), Occurrences::with_capacity(1024));
        let mut hashed = HashedTokens { hash, memo, words, texts: Vec::new() };
        each_token(message, content, &mut hashed);
        (hashed.words, hashed.texts)
    });
    texts.sort_unstable();
    texts.dedup_by(|(text, fields), (previous_text, previous_fields)| {
        let is_repeated = text == previous_text;
        if is_repeated {
            *previous_fields |= *fields;
        }
        is_repeated
    });
    Tokens { words: words.into_words(), texts }
}

/// Gives every token of a message, whose content is `content`, to `sink`: at most about
/// `limits::MAX_INDEXED_WORDS` words and `limits::MAX_FIELD_ADDRESSES` texts.
///
/// Names of header fields count as words, and none of them is left out for want of room. A single
/// character that is also in a pair (`TextWord::in_pair`) does not count, and neither does the
/// empty text, which stands for an id without room.
pub fn each_token(message: &Message<'_>, content: &EmailContent, sink: &mut impl TokenSink) {
    let mut tokenizer = Tokenizer {
        sink,
        splitter: WordSplitter::default(),
        buffer: String::new(),
        words: 0,
        texts: 0,
        next: [0; 16],
    };
    // Names of fields come first, so that no bound leaves one out.
    for field in message.header().fields() {
        tokenizer.name(&field);
    }
    for (people, field) in
        [(&content.from, FROM), (&content.to, TO), (&content.cc, CC), (&content.bcc, BCC)]
    {
        for person in people {
            tokenizer.words(person.name.as_deref().unwrap_or_default(), field);
            tokenizer.words(&person.email, field);
            tokenizer.address(&person.email, field);
        }
    }
    tokenizer.words(content.subject.as_deref().unwrap_or_default(), SUBJECT);
    for attachment in message.attachments() {
        tokenizer.words(attachment.name.as_deref().unwrap_or_default(), ATTACHMENT_NAME);
        tokenizer.text(&attachment.media_type, ATTACHMENT_TYPE);
    }
    for field in message.header().fields() {
        tokenizer.ids(&field);
        if field.is("Delivered-To") {
            for person in parse::addresses(field.readable().as_bytes()) {
                tokenizer.address(&person.email, DELIVERED_TO);
            }
        }
    }
    for text in message.texts(limits::MAX_INDEXED_BYTES) {
        tokenizer.words(&text, BODY);
    }
    for text in message.titles(limits::MAX_INDEXED_BYTES) {
        tokenizer.words(&text, BODY);
    }
}

/// Returns the search field of the ids in this header field, if the header field has ids.
#[must_use]
pub fn id_field(name: &str) -> Option<u16> {
    let is = |wanted: &&str| name.eq_ignore_ascii_case(wanted);
    let is_message_id = ["Message-ID", "In-Reply-To", "References"].iter().any(&is);
    if is_message_id { Some(MESSAGE_ID) } else { is(&"List-Id").then_some(LIST_ID) }
}

/// Returns the token of a header field, or `None` for a field that nearly every message has.
#[must_use]
pub fn name_word(name: &str) -> Option<String> {
    (!is_common(name)).then(|| name.to_ascii_lowercase())
}

fn is_common(name: &str) -> bool {
    COMMON_FIELDS.iter().any(|common| name.eq_ignore_ascii_case(common))
}

/// The texts in angle brackets that are not empty, and hold no white space and no brackets.
pub fn bracketed_ids(value: &str) -> impl Iterator<Item = &str> {
    let ends = value.match_indices('>').filter_map(|(end, _)| value.get(..end));
    let ids = ends.filter_map(|before| before.rfind(['<', '>']).and_then(|at| before.get(at..)));
    ids.filter_map(|id| id.strip_prefix('<'))
        .filter(|id| !id.is_empty() && !id.contains(char::is_whitespace))
}

struct Tokenizer<'s, S> {
    sink: &'s mut S,
    splitter: WordSplitter,
    /// The address, name or value of which a token is being made.
    buffer: String,
    /// How many words and texts count so far, toward the bounds of `each_token`.
    words: usize,
    texts: usize,
    /// The next position of each band of `model::field`, of which there are fewer than 16.
    next: [u32; 16],
}

impl<S: TokenSink> Tokenizer<'_, S> {
    fn words(&mut self, text: &str, field: u16) {
        let band = band_of(field);
        let Some(next) = usize::try_from(band).ok().and_then(|band| self.next.get_mut(band)) else {
            return;
        };
        let (first, base) = (*next, band << BAND_BITS);
        let position = |number: u32| first.saturating_add(number).min((1 << BAND_BITS) - 1);
        if let Some(words) = self.splitter.ascii_words(text) {
            let room = limits::MAX_INDEXED_WORDS.saturating_sub(self.words);
            let room = u32::try_from(room).unwrap_or(u32::MAX);
            let count = self.sink.ascii_words(words, field, room, |number| base | position(number));
            self.words = self.words.saturating_add(usize::try_from(count).unwrap_or(usize::MAX));
            if let Some(last) = count.min(room).checked_sub(1) {
                *next = position(last);
            }
            if count > 0 {
                *next = next.saturating_add(TEXT_GAP);
            }
            return;
        }
        let count = self.splitter.each_word(text, |found| {
            self.words = self.words.saturating_add(usize::from(!found.in_pair));
            if self.words <= limits::MAX_INDEXED_WORDS {
                *next = position(found.position);
                self.sink.word(found.word, field, base | *next);
            }
        });
        if count > 0 {
            *next = next.saturating_add(TEXT_GAP);
        }
    }

    /// Adds the token of an address, if it is well formed.
    fn address(&mut self, address: &str, field: u16) {
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        if Address::push_reversed_domain(address, &mut buffer).is_ok() {
            self.text(&buffer, field);
        }
        self.buffer = buffer;
    }

    fn text(&mut self, text: &str, field: u16) {
        if !text.is_empty() && self.take_room(text) {
            self.sink.text(text, field);
        }
    }

    /// Whether a text can be a token. If so, it is counted.
    fn take_room(&mut self, text: &str) -> bool {
        let has_room = text.len() <= MAX_TEXT_BYTES && self.texts < limits::MAX_FIELD_ADDRESSES;
        self.texts = self.texts.saturating_add(usize::from(has_room));
        has_room
    }

    /// Adds the token of the name of a field.
    fn name(&mut self, field: &Field<'_>) {
        let Ok(name) = std::str::from_utf8(field.name) else { return };
        if is_common(name) {
            return;
        }
        self.words = self.words.saturating_add(1);
        self.buffer.clear();
        self.buffer.push_str(name);
        self.buffer.make_ascii_lowercase();
        self.sink.word(&self.buffer, HEADER, band_of(HEADER) << BAND_BITS);
    }

    /// Adds the tokens of the ids in a field.
    fn ids(&mut self, field: &Field<'_>) {
        let Some(search_field) = std::str::from_utf8(field.name).ok().and_then(id_field) else {
            return;
        };
        let mut value = std::mem::take(&mut self.buffer);
        value.clear();
        field.push_folded(&mut value);
        for id in bracketed_ids(&value) {
            let id = if self.take_room(id) { id } else { "" };
            self.sink.text(id, search_field);
        }
        self.buffer = value;
    }
}

#[cfg(test)]
mod tests;
