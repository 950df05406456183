//! Search tokens (`storage.md`, "Search"): words as keyed hashes with their fields and positions, addresses as text with
//! the domain reversed.
//!
//! Words are NFKD, case folded, without combining and zero-width marks. Runs of ASCII letters and digits are cut by hand; a
//! run that touches any other octet takes the Unicode way (both agree on ASCII, which a test holds). Scripts that put no
//! spaces between words give pairs of characters.

use std::hash::Hasher;

use siphasher::sip::SipHasher13;
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;
use unicode_segmentation::UnicodeSegmentation;

use super::header::fields;
use super::parse::{self, Message};
use super::refs::message_ids;
use crate::model::{Address, EmailContent, Secrets, Tokens, Word, limits};

/// From.
pub const FROM: u16 = 1;
/// To.
pub const TO: u16 = 2;
/// Cc.
pub const CC: u16 = 4;
/// Bcc.
pub const BCC: u16 = 8;
/// Delivered-To.
pub const DELIVERED_TO: u16 = 16;
/// Subject.
pub const SUBJECT: u16 = 32;
/// The text.
pub const BODY: u16 = 64;
/// File names of attachments.
pub const ATTACHMENT_NAME: u16 = 128;
/// Media types of attachments.
pub const ATTACHMENT_TYPE: u16 = 256;
/// List-Id.
pub const LIST_ID: u16 = 512;
/// Message-ID, In-Reply-To, References.
pub const MESSAGE_ID: u16 = 1024;

/// Octets of a word; what is longer is cut.
const WORD_OCTETS: usize = 64;
const HASH_BITS: u64 = (1 << 28) - 1;

/// The search tokens of a message.
#[must_use]
pub fn tokens(message: &Message<'_>, content: &EmailContent, secrets: &Secrets) -> Tokens {
    let mut all = Gather::new(secrets);
    for (people, field) in [(&content.from, FROM), (&content.to, TO), (&content.cc, CC), (&content.bcc, BCC)] {
        for person in people {
            all.words(person.name.as_deref().unwrap_or_default(), field);
            all.words(&person.email, field);
            if let Ok(address) = Address::parse(&person.email) {
                all.text(address.reversed_domain(), field);
            }
        }
    }
    all.words(content.subject.as_deref().unwrap_or_default(), SUBJECT);
    for attachment in message.attachments() {
        all.words(attachment.name.as_deref().unwrap_or_default(), ATTACHMENT_NAME);
        all.text(attachment.media_type, ATTACHMENT_TYPE);
    }
    for id in content.message_id.iter().chain(&content.in_reply_to).chain(&content.references) {
        all.text(id.clone(), MESSAGE_ID);
    }
    for field in fields(message.raw()) {
        if field.is("List-Id") {
            let named = message_ids(field.value).pop().unwrap_or_else(|| field.unfolded());
            all.text(named.to_lowercase(), LIST_ID);
        } else if field.is("Delivered-To") {
            for person in parse::addresses(field.value) {
                if let Ok(address) = Address::parse(&person.email) {
                    all.text(address.reversed_domain(), DELIVERED_TO);
                }
            }
        }
    }
    for text in message.texts(limits::INDEXED_OCTETS) {
        all.words(&text, BODY);
    }
    all.finish()
}

struct Gather {
    key: SipHasher13,
    found: Vec<(u32, u32, u16)>,
    texts: Vec<(String, u16)>,
    position: u32,
}

impl Gather {
    fn new(secrets: &Secrets) -> Self {
        Self { key: SipHasher13::new_with_key(&secrets.words), found: Vec::new(), texts: Vec::new(), position: 0 }
    }

    fn words(&mut self, text: &str, field: u16) {
        each_word(text, |word| {
            if self.found.len() < limits::WORDS {
                let mut hasher = self.key;
                hasher.write(word.as_bytes());
                let hash = u32::try_from(hasher.finish() & HASH_BITS).unwrap_or_default();
                self.found.push((hash, self.position, field));
                self.position = self.position.saturating_add(1);
            }
        });
        // No phrase runs from one field into the next.
        self.position = self.position.saturating_add(16);
    }

    fn text(&mut self, text: String, field: u16) {
        if !text.is_empty() && text.len() <= 255 && self.texts.len() < limits::ADDRESSES {
            self.texts.push((text, field));
        }
    }

    fn finish(mut self) -> Tokens {
        self.found.sort_unstable();
        let mut words: Vec<Word> = Vec::new();
        for (hash, position, fields) in self.found {
            match words.last_mut() {
                Some(word) if word.hash == hash => {
                    word.fields |= fields;
                    word.positions.push(position);
                }
                _ => words.push(Word { hash, fields, positions: vec![position] }),
            }
        }
        self.texts.sort_unstable();
        let mut texts: Vec<(String, u16)> = Vec::new();
        for (text, fields) in self.texts {
            match texts.last_mut() {
                Some((known, all)) if *known == text => *all |= fields,
                _ => texts.push((text, fields)),
            }
        }
        Tokens { words, texts }
    }
}

/// Calls `each` with every word of a text, in its search form.
pub fn each_word(text: &str, mut each: impl FnMut(&str)) {
    let mut lower = [0u8; WORD_OCTETS];
    for run in text.split(|c: char| c.is_ascii() && !c.is_ascii_alphanumeric()) {
        if run.is_empty() {
            continue;
        }
        if !run.is_ascii() {
            unicode_words(run, &mut each);
            continue;
        }
        let cut = run.len().min(WORD_OCTETS);
        lower.iter_mut().zip(run.bytes()).for_each(|(to, from)| *to = from.to_ascii_lowercase());
        if let Some(word) = lower.get(..cut).and_then(|word| std::str::from_utf8(word).ok()) {
            each(word);
        }
    }
}

fn unicode_words(run: &str, each: &mut impl FnMut(&str)) {
    let plain = run.nfkd().filter(|c| !is_combining_mark(*c) && !is_zero_width(*c)).collect::<String>();
    let plain: String = caseless::default_case_fold_str(&plain).nfkd().filter(|c| !is_combining_mark(*c)).collect();
    let mut pending: Option<char> = None;
    let mut alone = true;
    for word in plain.unicode_words() {
        if !word.chars().all(is_unspaced) {
            flush(&mut pending, &mut alone, each);
            let end = word
                .char_indices()
                .map(|(at, c)| at.saturating_add(c.len_utf8()))
                .take_while(|end| *end <= WORD_OCTETS);
            each(word.get(..end.last().unwrap_or(0)).unwrap_or_default());
            continue;
        }
        for c in word.chars() {
            if let Some(before) = pending.replace(c) {
                each(&String::from_iter([before, c]));
                alone = false;
            }
        }
    }
    flush(&mut pending, &mut alone, each);
}

fn flush(pending: &mut Option<char>, alone: &mut bool, each: &mut impl FnMut(&str)) {
    if let Some(c) = pending.take()
        && *alone
    {
        each(c.encode_utf8(&mut [0; 4]));
    }
    *alone = true;
}

/// Scripts that put no spaces between words: Thai, Lao, Myanmar, Khmer, kana, bopomofo, Han.
fn is_unspaced(c: char) -> bool {
    matches!(u32::from(c),
        0x0e00..=0x0eff | 0x1000..=0x109f | 0x1780..=0x17ff | 0x3040..=0x312f | 0x31a0..=0x31ff | 0x3400..=0x4dbf
        | 0x4e00..=0x9fff | 0xf900..=0xfaff | 0x20000..=0x3ffff)
}

fn is_zero_width(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{2060}' | '\u{feff}' | '\u{ad}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn words(text: &str) -> Vec<String> {
        let mut out = Vec::new();
        each_word(text, |word| out.push(word.to_owned()));
        out
    }

    #[test]
    fn words_of_many_scripts() {
        for (text, wanted) in [
            ("Hello, World-2!", vec!["hello", "world", "2"]),
            ("Grüße STRASSE straße", vec!["grusse", "strasse", "strasse"]),
            ("ﬁne café cafe\u{301}", vec!["fine", "cafe", "cafe"]),
            ("日本語", vec!["日本", "本語"]),
            ("日", vec!["日"]),
            ("Привет МИР", vec!["привет", "мир"]),
        ] {
            assert_eq!(words(text), wanted, "{text}");
        }
        assert_eq!(words(&"x".repeat(500)), ["x".repeat(64)]);
        assert_eq!(words(&"é".repeat(500)), ["e".repeat(64)]);
    }

    proptest! {
        #[test]
        fn both_ways_agree_on_ascii(run in "[A-Za-z0-9]{1,80}") {
            let mut unicode = Vec::new();
            unicode_words(&run, &mut |word: &str| unicode.push(word.to_owned()));
            prop_assert_eq!(words(&run), unicode);
        }

        #[test]
        fn any_text_gives_bounded_words(text in ".{0,200}") {
            for word in words(&text) {
                prop_assert!(!word.is_empty() && word.len() <= WORD_OCTETS);
            }
        }
    }

    #[test]
    fn tokens_are_sorted_and_each_once() {
        let raw = b"From: Ann Lee <ann@mail.example.org>\r\nSubject: lunch\r\nMessage-ID: <1@x>\r\n\
            List-Id: Team <Team.example.org>\r\n\r\nLunch with Ann, lunch!\r\n";
        let message = Message::parse(raw);
        let found = tokens(&message, &super::super::content::content(&message), &Secrets::default());
        assert!(found.words.windows(2).all(|pair| pair[0].hash < pair[1].hash));
        let lunch = found.words.iter().find(|word| word.fields == SUBJECT | BODY).unwrap();
        assert_eq!(lunch.positions.len(), 3);
        assert!(lunch.positions.windows(2).all(|pair| pair[0] < pair[1]));
        let texts: Vec<&str> = found.texts.iter().map(|(text, _)| text.as_str()).collect();
        assert_eq!(texts, ["1@x", "org.example.mail@ann", "team.example.org"]);
    }
}
