#![expect(clippy::arithmetic_side_effects, reason = "a plain version to compare with")]

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::message::content::content;
use crate::message::corpus_tests::files;
use crate::message::header::folded;
use crate::message::words::{MAX_WORD_BYTES, SearchRun, TextWord, each_word};
use crate::model::field::field_at;
use crate::needs::corpus;

#[derive(Default)]
struct PlainTokens(Vec<(String, u16, u32)>);

impl TokenSink for PlainTokens {
    fn word(&mut self, word: &str, field: u16, position: u32) {
        self.0.push((word.to_owned(), field, position));
    }

    fn text(&mut self, _: &str, _: u16) {}
}

#[test]
fn tokens_are_sorted_and_unique() {
    let raw = b"From: Ann Lee <ann@mail.example.org>\r\nSubject: lunch\r\nMessage-ID: <1@x>\r\n\
        List-Id: Team <Team.example.org>\r\n\r\nLunch with Ann, lunch!\r\n";
    let message = Message::parse(raw);
    let found = tokens(&message, &content(&message), &Secrets::default());
    assert!(found.words.iter().is_sorted_by(|one, next| one.hash < next.hash));
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
    let found = tokens(&message, &content(&message), &Secrets::default());
    let texts: Vec<&str> = found.texts.iter().map(|(text, _)| text.as_str()).collect();
    // The empty text stands for the id that is too long.
    assert_eq!(texts, ["", "1@x", "2@x", "4@x"]);
    let hash = WordHash::new(&Secrets::default());
    let names = |word: &str| {
        found.words.iter().find(|token| token.hash == hash.of(word)).map(|word| word.fields())
    };
    assert_eq!(names("x-loop"), Some(HEADER));
    assert_eq!(names("references"), Some(HEADER));
    assert_eq!(names("subject"), None);
}

#[test]
fn fields_have_separate_position_bands_and_gaps_between_texts() {
    let raw = b"From: Ann Lee <ann@x>\r\nTo: b@x, c@x\r\nSubject: lunch now\r\n\r\nsee you\r\n";
    let message = Message::parse(raw);
    let mut words = PlainTokens::default();
    each_token(&message, &content(&message), &mut words);
    assert!(words.0.iter().all(|(_, field, position)| field_at(*position) == *field));
    let in_band: u32 = (1 << BAND_BITS) - 1;
    let words: Vec<(String, u32)> =
        words.0.into_iter().map(|(word, _, position)| (word, position & in_band)).collect();
    let words: Vec<(&str, u32)> = words.iter().map(|(word, at)| (word.as_str(), *at)).collect();
    // Two texts of a field are `TEXT_GAP` numbers apart.
    let from = [("ann", 0), ("lee", 1), ("ann", 17), ("x", 18)];
    let to = [("b", 0), ("x", 1), ("c", 17), ("x", 18)];
    assert_eq!(
        words,
        [&from[..], &to, &[("lunch", 0), ("now", 1), ("see", 0), ("you", 1)]].concat()
    );
}

#[test]
fn indexed_words_are_bounded_and_stay_in_their_band() {
    let raw = format!("Subject: x\r\n\r\n{}\r\n", "word ".repeat(limits::MAX_INDEXED_WORDS * 2));
    let message = Message::parse(raw.as_bytes());
    let found = tokens(&message, &content(&message), &Secrets::default());
    let positions: Vec<u32> =
        found.words.iter().flat_map(|word| word.positions.iter().copied()).collect();
    assert_eq!(positions.len(), limits::MAX_INDEXED_WORDS);
    assert!(positions.iter().all(|at| matches!(field_at(*at), BODY | SUBJECT)));
}

/// A word, its position, its begin and end in the text, and whether a pair covers it.
type Word = (String, u32, usize, usize, bool);

fn plain_words(text: &str) -> (Vec<Word>, u32) {
    let (mut words, mut position, mut start) = (Vec::new(), 0, 0);
    let mut add = |found: &TextWord<'_>| {
        words.push((found.word.to_owned(), found.position, found.start, found.end, found.in_pair));
    };
    for (end, byte) in text.bytes().chain([b' ']).enumerate() {
        if byte >= 0x80 || byte.is_ascii_alphanumeric() {
            continue;
        }
        let run = &text[start..end];
        if !run.is_ascii() {
            let mut folded = SearchRun::default();
            folded.fold(run);
            position = folded.words(position, start, &mut add);
        } else if !run.is_empty() {
            let word = run[..run.len().min(MAX_WORD_BYTES)].to_ascii_lowercase();
            add(&TextWord { word: &word, position, start, end, in_pair: false });
            position += 1;
        }
        start = end + 1;
    }
    (words, position)
}

/// Makes the tokens in a way that is written to be read, not to be fast: byte by byte, with a
/// string for each word and each text.
#[derive(Default)]
struct PlainTokenizer {
    words: Vec<(String, u32)>,
    texts: Vec<(String, u16)>,
    word_count: usize,
    text_count: usize,
    next: [u32; 16],
}

impl PlainTokenizer {
    fn of(message: &Message<'_>, content: &EmailContent) -> Self {
        let mut all = Self::default();
        for field in message.header().fields() {
            let name = String::from_utf8_lossy(field.name).to_ascii_lowercase();
            if !COMMON_FIELDS.contains(&name.as_str()) {
                all.word_count += 1;
                all.words.push((name, band_of(HEADER) << BAND_BITS));
            }
        }
        for (people, field) in
            [(&content.from, FROM), (&content.to, TO), (&content.cc, CC), (&content.bcc, BCC)]
        {
            for person in people {
                all.add_words(person.name.as_deref().unwrap_or_default(), field);
                all.add_words(&person.email, field);
                all.add_address(&person.email, field);
            }
        }
        all.add_words(content.subject.as_deref().unwrap_or_default(), SUBJECT);
        for attachment in message.attachments() {
            all.add_words(attachment.name.as_deref().unwrap_or_default(), ATTACHMENT_NAME);
            all.add_text(&attachment.media_type, ATTACHMENT_TYPE);
        }
        for field in message.header().fields() {
            if let Some(id_field) = id_field(&String::from_utf8_lossy(field.name)) {
                for id in bracketed_ids(&folded(&field.decoded())) {
                    let has_room = all.has_room(id);
                    all.texts.push((if has_room { id } else { "" }.to_owned(), id_field));
                }
            }
            if field.is("Delivered-To") {
                for person in parse::addresses(field.readable().as_bytes()) {
                    all.add_address(&person.email, DELIVERED_TO);
                }
            }
        }
        for text in message.texts(limits::MAX_INDEXED_BYTES) {
            all.add_words(&text, BODY);
        }
        for text in message.titles(limits::MAX_INDEXED_BYTES) {
            all.add_words(&text, BODY);
        }
        all
    }

    fn add_words(&mut self, text: &str, field: u16) {
        let band = band_of(field);
        let next = &mut self.next[band as usize];
        let first = *next;
        let (words, count) = plain_words(text);
        for (word, number, _, _, in_pair) in words {
            self.word_count += usize::from(!in_pair);
            if self.word_count <= limits::MAX_INDEXED_WORDS {
                *next = (first + number).min((1 << BAND_BITS) - 1);
                self.words.push((word, band << BAND_BITS | *next));
            }
        }
        *next += if count > 0 { TEXT_GAP } else { 0 };
    }

    fn add_address(&mut self, email: &str, field: u16) {
        let Ok(address) = Address::parse(email) else { return };
        let address = address.folded();
        let labels: Vec<&str> = address.domain().split('.').rev().collect();
        self.add_text(&format!("{}@{}", labels.join("."), address.local()), field);
    }

    fn add_text(&mut self, text: &str, field: u16) {
        if !text.is_empty() && self.has_room(text) {
            self.texts.push((text.to_owned(), field));
        }
    }

    fn has_room(&mut self, text: &str) -> bool {
        let has_room =
            text.len() <= MAX_TEXT_BYTES && self.text_count < limits::MAX_FIELD_ADDRESSES;
        self.text_count += usize::from(has_room);
        has_room
    }

    fn tokens(self, secrets: &Secrets) -> Tokens {
        let hash = SipHasher13::new_with_key(&secrets.words);
        let mut words: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
        for (word, position) in self.words {
            let hash = (hash.hash(word.as_bytes()) & 0xfff_ffff) as u32;
            words.entry(hash).or_default().insert(position);
        }
        let mut texts: BTreeMap<String, u16> = BTreeMap::new();
        for (text, field) in self.texts {
            *texts.entry(text).or_default() |= field;
        }
        let mut tokens = Tokens { texts: texts.into_iter().collect(), ..Tokens::default() };
        for (hash, positions) in words {
            tokens.words.push_word(hash, positions);
        }
        tokens
    }
}

/// Checks that both versions make the same tokens: first with a secret that no other message has,
/// so that no hash is remembered; then again, when the hashes of short words are remembered.
fn check_message(raw: &[u8]) {
    let secrets = Secrets {
        words: std::array::from_fn(|at| blake3::hash(raw).as_bytes()[at]),
        ..Secrets::default()
    };
    let message = Message::parse(raw);
    let content = content(&message);
    let wanted = PlainTokenizer::of(&message, &content).tokens(&secrets);
    for _ in 0..2 {
        assert_eq!(tokens(&message, &content, &secrets), wanted, "{}", raw.escape_ascii());
    }
}

/// Texts with short and long words, in many kinds of characters.
const TEXT: &str = concat!(
    "([a-zA-Z0-9]{0,9}|[A-Z]{60,70}|[ -~]{0,30}|[\\x00-\\x7f]|[!-/:-@\\[-`{-~]{0,3}",
    "|[à-üÀ-Ü]{1,3}|\u{130}|\u{212a}|ﬁ|\u{200b}|[日本語한국어]{1,4}|\\PC{0,5}| |\r\n){0,60}"
);

proptest! {
    #[test]
    fn words_are_those_of_the_plain_version(text in TEXT) {
        let mut words = Vec::new();
        let count = each_word(&text, |found| {
            let TextWord { word, position, start, end, in_pair } = *found;
            words.push((word.to_owned(), position, start, end, in_pair));
        });
        let wanted = plain_words(&text);
        prop_assert_eq!(&(words, count), &wanted);
        if text.is_ascii() {
            let mut texts = Vec::new();
            let mut splitter = WordSplitter::default();
            splitter.ascii_words(&text).unwrap().each(|word, number| {
                texts.push((word.text().to_owned(), number));
                let key = word.short_key().map(u64::to_be_bytes);
                let start = 8 - word.text().len().min(8);
                assert_eq!(key.is_some(), start > 0);
                assert!(key.is_none_or(|key| &key[start..] == word.text().as_bytes()));
            });
            let wanted: Vec<(String, u32)> =
                wanted.0.into_iter().map(|(word, position, ..)| (word, position)).collect();
            prop_assert_eq!(texts, wanted);
        }
    }

    #[test]
    fn tokens_are_those_of_the_plain_version(
        header in concat!(
            "((From|To|cc|Bcc|Subject|subject|Message-ID|References|List-Id|X-[a-zA-Z]{1,9}",
            "|Delivered-To|Content-Type|Content-Transfer-Encoding): ",
            "(\"?[A-Za-zé ]{0,9}\"? ?<?[A-Za-z.é]{1,9}@[A-Za-z.éX-]{1,12}>?,? ?",
            "|<[A-Za-z0-9.@ ]{0,12}>|[ -~]{0,40}|\\PC{0,20}|[\\x01-\\x08\\x0b\\x0c\\x0e-\\x1f]|\t",
            "|=\\?utf-8\\?q\\?=C3=BC[a-z]{0,3}\\?=|text/(plain|html); charset=(utf-8|koi8-r|x)",
            "|quoted-printable|base64|\r\n ){0,5}\r\n){0,9}",
        ),
        body in TEXT,
    ) {
        check_message(format!("{header}\r\n{body}").as_bytes());
    }
}

#[test]
fn tokens_of_many_words_are_those_of_the_plain_version() {
    for count in [limits::MAX_INDEXED_WORDS - 1, limits::MAX_INDEXED_WORDS + 5] {
        for word in ["word ", "wörd "] {
            let people = "a b c <d@e>, ".repeat(300);
            // The header has 1,501 words: five for each of the people, and `x`.
            let body = word.repeat(count - 1501);
            check_message(format!("To: {people}\r\nX: y\r\n\r\n{body}").as_bytes());
        }
    }
}

#[test]
fn tokens_of_the_corpus_are_those_of_the_plain_version() {
    let Some(dir) = corpus() else { return };
    for file in files(&dir) {
        check_message(&std::fs::read(file).unwrap());
    }
}
