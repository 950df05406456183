//! Makes the search tokens of a message (`docs/storage.md`, "Search").
//!
//! - Words are keyed hashes with their fields and positions.
//! - Addresses are texts with the domain reversed. Message ids and List-Ids are texts.
//! - Names of header fields are words, except those that nearly every message has.
//!
//! A filter for header fields looks for a part of a value, not for a word; the tokens only tell
//! which messages need not be read. So every id in angle brackets has a token. If there is no room
//! for it, the token is the empty text.
//!
//! The address to which an email was delivered is not in the message: the store adds it.

use siphasher::sip::SipHasher13;
use smallvec::smallvec;

use super::header::{Field, folded};
use super::parse::{self, Message};
use super::words::each_word;
pub use crate::model::field::{
    ATTACHMENT_NAME, ATTACHMENT_TYPE, BCC, BODY, CC, DELIVERED_HERE, DELIVERED_TO, FROM, HEADER,
    LIST_ID, MESSAGE_ID, SUBJECT, TO,
};
use crate::model::field::{BAND_BITS, band_of};
use crate::model::{Address, EmailContent, SearchWord, Secrets, Tokens, limits};

/// Position numbers left free between two texts of one field, so that no phrase runs from one into
/// the next.
const TEXT_GAP: u32 = 16;
const HASH_BITS: u64 = (1 << 28) - 1;
/// Longest text in bytes.
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

/// A token of a message, before it is hashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageToken<'a> {
    /// A word, its field and its position.
    Word(&'a str, u16, u32),
    /// A token stored as text, and its field.
    Text(&'a str, u16),
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
        u32::try_from(self.0.hash(word.as_bytes()) & HASH_BITS).unwrap_or_default()
    }
}

/// Returns the search tokens of a message.
#[must_use]
pub fn tokens(message: &Message<'_>, content: &EmailContent, secrets: &Secrets) -> Tokens {
    let hash = WordHash::new(secrets);
    // The hash is in the upper half and the position in the lower: one number sorts faster than a
    // pair.
    let mut packed_words: Vec<u64> = Vec::with_capacity(1024);
    let mut texts: Vec<(String, u16)> = Vec::new();
    each_token(message, content, |token| match token {
        MessageToken::Word(word, _, position) => {
            packed_words.push(u64::from(hash.of(word)) << 32 | u64::from(position));
        }
        MessageToken::Text(text, field) => texts.push((text.to_owned(), field)),
    });
    packed_words.sort_unstable();
    let mut words: Vec<SearchWord> = Vec::with_capacity(packed_words.len());
    for packed in packed_words {
        let low_half =
            |number: u64| u32::try_from(number & u64::from(u32::MAX)).unwrap_or_default();
        let (hash, position) = (low_half(packed >> 32), low_half(packed));
        match words.last_mut() {
            // A field that occurs twice has one position.
            Some(word) if word.hash == hash && word.positions.last() == Some(&position) => {}
            Some(word) if word.hash == hash => word.positions.push(position),
            _ => words.push(SearchWord { hash, positions: smallvec![position] }),
        }
    }
    texts.sort_unstable();
    texts.dedup_by(|(text, fields), (previous_text, previous_fields)| {
        let is_repeated = text == previous_text;
        if is_repeated {
            *previous_fields |= *fields;
        }
        is_repeated
    });
    Tokens { words, texts }
}

/// Calls `each` with every token of a message: at most about `limits::MAX_INDEXED_WORDS` words and
/// `limits::MAX_FIELD_ADDRESSES` texts.
///
/// Names of header fields count as words, and none is left out. A single character that a pair
/// covers does not count, and neither does the empty text, which stands for an id without room.
pub fn each_token(
    message: &Message<'_>,
    content: &EmailContent,
    each: impl FnMut(MessageToken<'_>),
) {
    let mut tokenizer = Tokenizer { each, words: 0, texts: 0, next: [0; 16] };
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
            if let Ok(address) = Address::parse(&person.email) {
                tokenizer.text(&address.reversed_domain(), field);
            }
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
                if let Ok(address) = Address::parse(&person.email) {
                    tokenizer.text(&address.reversed_domain(), DELIVERED_TO);
                }
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
    let name = name.to_ascii_lowercase();
    (!COMMON_FIELDS.contains(&name.as_str())).then_some(name)
}

/// The texts in angle brackets that hold no white space and no brackets.
pub fn bracketed_ids(value: &str) -> impl Iterator<Item = &str> {
    let ends = value.match_indices('>').filter_map(|(end, _)| value.get(..end));
    let ids = ends.filter_map(|before| before.rfind(['<', '>']).and_then(|at| before.get(at..)));
    ids.filter_map(|id| id.strip_prefix('<'))
        .filter(|id| !id.is_empty() && !id.contains(char::is_whitespace))
}

struct Tokenizer<F> {
    each: F,
    words: usize,
    texts: usize,
    /// The next position of each band of `model::field`.
    next: [u32; 16],
}

impl<F: FnMut(MessageToken<'_>)> Tokenizer<F> {
    fn words(&mut self, text: &str, field: u16) {
        let band = band_of(field);
        let Some(next) = usize::try_from(band).ok().and_then(|band| self.next.get_mut(band)) else {
            return;
        };
        let (first, base) = (*next, band << BAND_BITS);
        let count = each_word(text, |found| {
            self.words = self.words.saturating_add(usize::from(!found.in_pair));
            if self.words <= limits::MAX_INDEXED_WORDS {
                *next = first.saturating_add(found.position).min((1 << BAND_BITS) - 1);
                (self.each)(MessageToken::Word(found.word, field, base | *next));
            }
        });
        if count > 0 {
            *next = next.saturating_add(TEXT_GAP);
        }
    }

    fn text(&mut self, text: &str, field: u16) {
        if !text.is_empty() && self.has_room(text) {
            (self.each)(MessageToken::Text(text, field));
        }
    }

    fn has_room(&mut self, text: &str) -> bool {
        let has_room = text.len() <= MAX_TEXT_BYTES && self.texts < limits::MAX_FIELD_ADDRESSES;
        self.texts = self.texts.saturating_add(usize::from(has_room));
        has_room
    }

    /// Adds the token of the name of a field.
    fn name(&mut self, field: &Field<'_>) {
        if let Some(word) = std::str::from_utf8(field.name).ok().and_then(name_word) {
            self.words = self.words.saturating_add(1);
            (self.each)(MessageToken::Word(&word, HEADER, band_of(HEADER) << BAND_BITS));
        }
    }

    /// Adds the tokens of the ids in a field.
    fn ids(&mut self, field: &Field<'_>) {
        let Some(search_field) = std::str::from_utf8(field.name).ok().and_then(id_field) else {
            return;
        };
        for id in bracketed_ids(&folded(&field.decoded())) {
            let id = if self.has_room(id) { id } else { "" };
            (self.each)(MessageToken::Text(id, search_field));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::field::field_at;

    #[test]
    fn tokens_are_sorted_and_unique() {
        let raw =
            b"From: Ann Lee <ann@mail.example.org>\r\nSubject: lunch\r\nMessage-ID: <1@x>\r\n\
            List-Id: Team <Team.example.org>\r\n\r\nLunch with Ann, lunch!\r\n";
        let message = Message::parse(raw);
        let found =
            tokens(&message, &super::super::content::content(&message), &Secrets::default());
        assert!(found.words.windows(2).all(|pair| pair[0].hash < pair[1].hash));
        let lunch = found.words.iter().find(|word| word.fields() == SUBJECT | BODY).unwrap();
        assert_eq!(lunch.positions.len(), 3);
        assert!(lunch.positions.windows(2).all(|pair| pair[0] < pair[1]));
        let texts: Vec<&str> = found.texts.iter().map(|(text, _)| text.as_str()).collect();
        assert_eq!(texts, ["1@x", "org.example.mail@ann", "team.example.org"]);
    }

    #[test]
    fn header_fields_have_tokens_of_their_names_and_ids() {
        let long = "x".repeat(300);
        let raw = format!(
            "Subject: x\r\nX-Loop: 1\r\nx-loop: 2\r\nReferences: a <1@X> (<2@x>)\r\n\t\
             <3 @x> <<4@x>> <{long}>\r\n\r\n"
        );
        let message = Message::parse(raw.as_bytes());
        let found =
            tokens(&message, &super::super::content::content(&message), &Secrets::default());
        let texts: Vec<&str> = found.texts.iter().map(|(text, _)| text.as_str()).collect();
        assert_eq!(texts, ["", "1@x", "2@x", "4@x"]);
        let hash = WordHash::new(&Secrets::default());
        let names = |word: &str| {
            found.words.iter().find(|token| token.hash == hash.of(word)).map(SearchWord::fields)
        };
        assert_eq!(names("x-loop"), Some(HEADER));
        assert_eq!(names("references"), Some(HEADER));
        assert_eq!(names("subject"), None);
    }

    #[test]
    fn fields_have_separate_position_bands_and_gaps_between_texts() {
        let raw = b"From: Ann Lee <ann@x>\r\nTo: b@x, c@x\r\nSubject: lunch now\r\n\r\nsee you\r\n";
        let message = Message::parse(raw);
        let mut words = Vec::new();
        each_token(&message, &super::super::content::content(&message), |token| {
            if let MessageToken::Word(word, field, position) = token {
                assert_eq!(field_at(position), field);
                words.push((word.to_owned(), position & 0xffff));
            }
        });
        let words: Vec<(&str, u32)> = words.iter().map(|(word, at)| (word.as_str(), *at)).collect();
        let from = [("ann", 0), ("lee", 1), ("ann", 17), ("x", 18)];
        let to = [("b", 0), ("x", 1), ("c", 17), ("x", 18)];
        assert_eq!(
            words,
            [&from[..], &to, &[("lunch", 0), ("now", 1), ("see", 0), ("you", 1)]].concat()
        );
    }

    #[test]
    fn indexed_words_are_bounded_and_stay_in_their_band() {
        let raw =
            format!("Subject: x\r\n\r\n{}\r\n", "word ".repeat(limits::MAX_INDEXED_WORDS * 2));
        let message = Message::parse(raw.as_bytes());
        let found =
            tokens(&message, &super::super::content::content(&message), &Secrets::default());
        let positions: Vec<u32> =
            found.words.iter().flat_map(|word| word.positions.clone()).collect();
        assert_eq!(positions.len(), limits::MAX_INDEXED_WORDS);
        assert!(positions.iter().all(|at| matches!(field_at(*at), BODY | SUBJECT)));
    }
}
