//! Search tokens (`storage.md`, "Search"): words as keyed hashes with their fields and positions, addresses as text with
//! the domain reversed.

use siphasher::sip::SipHasher13;
use smallvec::smallvec;

use super::header::fields;
use super::parse::{self, Message};
use super::refs::message_ids;
use super::words::each_word;
pub use crate::model::field::{
    ATTACHMENT_NAME, ATTACHMENT_TYPE, BCC, BODY, CC, DELIVERED_TO, FROM, LIST_ID, MESSAGE_ID, SUBJECT, TO,
};
use crate::model::field::{BAND_BITS, band_of};
use crate::model::{Address, EmailContent, Secrets, Tokens, Word, limits};

/// Numbers between two texts of one field, so that no phrase runs from one into the next.
const GAP: u32 = 16;
const HASH_BITS: u64 = (1 << 28) - 1;

/// A token as it comes out of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen<'a> {
    /// A word, in which field, and where.
    Word(&'a str, u16, u32),
    /// A token that is kept as text, and its field.
    Text(&'a str, u16),
}

/// The keyed hash of words.
#[derive(Debug, Clone, Copy)]
pub struct WordHash(SipHasher13);

impl WordHash {
    /// With a store's secret.
    #[must_use]
    pub fn new(secrets: &Secrets) -> Self {
        Self(SipHasher13::new_with_key(&secrets.words))
    }

    /// The 28 bits of a word in its search form.
    #[must_use]
    pub fn of(&self, word: &str) -> u32 {
        u32::try_from(self.0.hash(word.as_bytes()) & HASH_BITS).unwrap_or_default()
    }
}

/// The search tokens of a message.
#[must_use]
pub fn tokens(message: &Message<'_>, content: &EmailContent, secrets: &Secrets) -> Tokens {
    let hash = WordHash::new(secrets);
    // Hash above position: one number sorts faster than a pair.
    let mut found: Vec<u64> = Vec::with_capacity(1024);
    let mut texts: Vec<(String, u16)> = Vec::new();
    each_token(message, content, |seen| match seen {
        Seen::Word(word, _, position) => found.push(u64::from(hash.of(word)) << 32 | u64::from(position)),
        Seen::Text(text, field) => texts.push((text.to_owned(), field)),
    });
    found.sort_unstable();
    let mut words: Vec<Word> = Vec::with_capacity(found.len());
    for both in found {
        let half = |number: u64| u32::try_from(number & u64::from(u32::MAX)).unwrap_or_default();
        let (hash, position) = (half(both >> 32), half(both));
        match words.last_mut() {
            Some(word) if word.hash == hash => word.positions.push(position),
            _ => words.push(Word { hash, positions: smallvec![position] }),
        }
    }
    texts.sort_unstable();
    texts.dedup_by(|next, kept| {
        let same = next.0 == kept.0;
        if same {
            kept.1 |= next.1;
        }
        same
    });
    Tokens { words, texts }
}

/// Calls `each` with every token of a message: `limits::WORDS` words, `limits::ADDRESSES` texts.
pub fn each_token(message: &Message<'_>, content: &EmailContent, each: impl FnMut(Seen<'_>)) {
    let mut all = Walk { each, words: 0, texts: 0, next: [0; 16] };
    for (people, field) in [(&content.from, FROM), (&content.to, TO), (&content.cc, CC), (&content.bcc, BCC)] {
        for person in people {
            all.words(person.name.as_deref().unwrap_or_default(), field);
            all.words(&person.email, field);
            if let Ok(address) = Address::parse(&person.email) {
                all.text(&address.reversed_domain(), field);
            }
        }
    }
    all.words(content.subject.as_deref().unwrap_or_default(), SUBJECT);
    for attachment in message.attachments() {
        all.words(attachment.name.as_deref().unwrap_or_default(), ATTACHMENT_NAME);
        all.text(&attachment.media_type, ATTACHMENT_TYPE);
    }
    for id in content.message_id.iter().chain(&content.in_reply_to).chain(&content.references) {
        all.text(id, MESSAGE_ID);
    }
    for field in fields(message.raw()) {
        if field.is("List-Id") {
            let named = message_ids(field.value).pop().unwrap_or_else(|| field.unfolded());
            all.text(&named.to_lowercase(), LIST_ID);
        } else if field.is("Delivered-To") {
            for person in parse::addresses(field.value) {
                if let Ok(address) = Address::parse(&person.email) {
                    all.text(&address.reversed_domain(), DELIVERED_TO);
                }
            }
        }
    }
    for text in message.texts(limits::INDEXED_OCTETS) {
        all.words(&text, BODY);
    }
}

struct Walk<F> {
    each: F,
    words: usize,
    texts: usize,
    /// The next number of each band.
    next: [u32; 16],
}

impl<F: FnMut(Seen<'_>)> Walk<F> {
    fn words(&mut self, text: &str, field: u16) {
        let band = band_of(field);
        let Some(next) = usize::try_from(band).ok().and_then(|band| self.next.get_mut(band)) else { return };
        let (first, base) = (*next, band << BAND_BITS);
        let count = each_word(text, |found| {
            self.words = self.words.saturating_add(usize::from(!found.inner));
            if self.words <= limits::WORDS {
                *next = first.saturating_add(found.at).min((1 << BAND_BITS) - 1);
                (self.each)(Seen::Word(found.word, field, base | *next));
            }
        });
        if count > 0 {
            *next = next.saturating_add(GAP);
        }
    }

    fn text(&mut self, text: &str, field: u16) {
        if !text.is_empty() && text.len() <= 255 && self.texts < limits::ADDRESSES {
            self.texts = self.texts.saturating_add(1);
            (self.each)(Seen::Text(text, field));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::field::field_at;

    #[test]
    fn tokens_are_sorted_and_each_once() {
        let raw = b"From: Ann Lee <ann@mail.example.org>\r\nSubject: lunch\r\nMessage-ID: <1@x>\r\n\
            List-Id: Team <Team.example.org>\r\n\r\nLunch with Ann, lunch!\r\n";
        let message = Message::parse(raw);
        let found = tokens(&message, &super::super::content::content(&message), &Secrets::default());
        assert!(found.words.windows(2).all(|pair| pair[0].hash < pair[1].hash));
        let lunch = found.words.iter().find(|word| word.fields() == SUBJECT | BODY).unwrap();
        assert_eq!(lunch.positions.len(), 3);
        assert!(lunch.positions.windows(2).all(|pair| pair[0] < pair[1]));
        let texts: Vec<&str> = found.texts.iter().map(|(text, _)| text.as_str()).collect();
        assert_eq!(texts, ["1@x", "org.example.mail@ann", "team.example.org"]);
    }

    #[test]
    fn each_field_has_its_band_of_positions_and_no_text_runs_into_the_next() {
        let raw = b"From: Ann Lee <ann@x>\r\nTo: b@x, c@x\r\nSubject: lunch now\r\n\r\nsee you\r\n";
        let message = Message::parse(raw);
        let mut seen = Vec::new();
        each_token(&message, &super::super::content::content(&message), |token| {
            if let Seen::Word(word, field, position) = token {
                assert_eq!(field_at(position), field);
                seen.push((word.to_owned(), position & 0xffff));
            }
        });
        let seen: Vec<(&str, u32)> = seen.iter().map(|(word, at)| (word.as_str(), *at)).collect();
        let from = [("ann", 0), ("lee", 1), ("ann", 17), ("x", 18)];
        let to = [("b", 0), ("x", 1), ("c", 17), ("x", 18)];
        assert_eq!(seen, [&from[..], &to, &[("lunch", 0), ("now", 1), ("see", 0), ("you", 1)]].concat());
    }

    #[test]
    fn the_words_of_a_message_are_bounded_and_keep_to_their_band() {
        let raw = format!("Subject: x\r\n\r\n{}\r\n", "word ".repeat(limits::WORDS * 2));
        let message = Message::parse(raw.as_bytes());
        let found = tokens(&message, &super::super::content::content(&message), &Secrets::default());
        let positions: Vec<u32> = found.words.iter().flat_map(|word| word.positions.clone()).collect();
        assert_eq!(positions.len(), limits::WORDS);
        assert!(positions.iter().all(|at| matches!(field_at(*at), BODY | SUBJECT)));
    }
}
