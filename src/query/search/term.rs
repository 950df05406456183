//! Search terms: the texts of text conditions (RFC 8621 §4.4.1), prepared for the search index.
//!
//! - White space divides a text into pieces. Every piece must be found.
//! - A piece in matching single or double quotation marks is a phrase. Within the marks, a
//!   backslash escapes the next character. A piece that has several words, such as an address, is a
//!   phrase, too. The words of a phrase must follow each other in one field.
//! - Pieces without words are ignored. A term that is left without pieces is in every email.
//! - A piece `@example.org`, with a well-formed domain, finds in address fields the addresses in
//!   this domain and its subdomains; in other fields it is a phrase.
//! - Word tokens are hashes, so a match by tokens is not certain. [`SearchTerm::confirms`] checks
//!   the message.

use crate::message::Message;
use crate::message::content::content;
use crate::message::tokens::{self, TokenSink, WordHash, each_token};
use crate::message::words::each_word;
use crate::model::address::domain_is_well_formed;
use crate::model::field::field_at;
use crate::model::{Address, Secrets, Tokens, WantedTokens, delivered_to};

/// The fields that a `text` condition searches.
pub const WORD_FIELDS: u16 = tokens::FROM
    | tokens::TO
    | tokens::CC
    | tokens::BCC
    | tokens::SUBJECT
    | tokens::BODY
    | tokens::ATTACHMENT_NAME;
const ADDRESS_FIELDS: u16 =
    tokens::FROM | tokens::TO | tokens::CC | tokens::BCC | tokens::DELIVERED_TO;
/// The most words of a search term; the rest are ignored.
const MAX_TERM_WORDS: usize = 256;
/// Bytes of a raw message in which `SearchTerm::confirms` looks for the words before it parses.
const RAW_SCAN_BYTES: usize = 256 << 10;

/// A text to find in some fields of an email. An email has the term if each piece is found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchTerm {
    pub(in crate::query) pieces: Vec<TermPiece>,
}

/// One piece of a search term. It is found by its phrase in one of `fields`, or by one of its texts
/// in one of `text_fields`. Fields are bits of `model::field`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(in crate::query) struct TermPiece {
    pub(in crate::query) phrase: Vec<PhraseWord>,
    pub(in crate::query) fields: u16,
    pub(in crate::query) texts: Vec<TextPattern>,
    pub(in crate::query) text_fields: u16,
    /// Whether every email is a hit in a fold that an earlier version made, and that therefore has
    /// no delivery addresses.
    pub(in crate::query) matches_old_folds: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::query) struct PhraseWord {
    /// In the form of `message::words`.
    pub(in crate::query) word: String,
    pub(in crate::query) hash: u32,
    /// The number of the word in its piece. In a message, the words of a phrase are as far apart as
    /// these numbers.
    pub(in crate::query) position: u32,
}

/// Matches the texts that are `prefix` and then `rest`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::query) struct TextPattern {
    pub(in crate::query) prefix: String,
    pub(in crate::query) rest: TextRemainder,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::query) enum TextRemainder {
    Anything,
    Nothing,
    /// A text, not empty, that contains each of these.
    Parts(Vec<String>),
}

impl TextPattern {
    pub(in crate::query) fn matches(&self, text: &str) -> bool {
        text.strip_prefix(&self.prefix).is_some_and(|rest| match &self.rest {
            TextRemainder::Anything => true,
            TextRemainder::Nothing => rest.is_empty(),
            TextRemainder::Parts(parts) => {
                !rest.is_empty() && parts.iter().all(|part| rest.contains(part.as_str()))
            }
        })
    }
}

impl SearchTerm {
    #[must_use]
    pub fn new(text: &str, fields: u16, secrets: &Secrets) -> Self {
        let hash = WordHash::new(secrets);
        let mut left = MAX_TERM_WORDS;
        let mut out = Vec::new();
        for piece in pieces(text) {
            let mut phrase: Vec<PhraseWord> = Vec::new();
            each_word(&piece, |found| {
                // A single character of a run without spaces is left out: the pairs cover it.
                if !found.in_pair && left > 0 {
                    left -= 1;
                    phrase.push(PhraseWord {
                        word: found.word.to_owned(),
                        hash: hash.of(found.word),
                        position: found.position,
                    });
                }
            });
            if phrase.is_empty() {
                continue;
            }
            let mut one =
                TermPiece { phrase, fields: fields & WORD_FIELDS, ..TermPiece::default() };
            if let Some(domain) =
                piece.strip_prefix('@').filter(|domain| domain_is_well_formed(domain))
            {
                // The index has addresses as `org.example@ann`, so this is `org.example@`. A
                // subdomain continues `org.example.`.
                let whole = Address::from_parts("", domain).reversed_domain();
                let below = format!("{}.", whole.trim_end_matches('@'));
                one.texts = [whole, below]
                    .map(|prefix| TextPattern { prefix, rest: TextRemainder::Anything })
                    .into();
                one.text_fields = fields & ADDRESS_FIELDS;
                one.fields &= !ADDRESS_FIELDS;
            }
            out.push(one);
        }
        Self { pieces: out }
    }

    /// Returns the term for messages with a header field of this name, or `None` for names that
    /// nearly all messages have.
    pub(in crate::query) fn of_field(name: &str, secrets: &Secrets) -> Option<Self> {
        let word = tokens::name_word(name)?;
        let hash = WordHash::new(secrets).of(&word);
        let phrase = vec![PhraseWord { word, hash, position: 0 }];
        let fields = tokens::HEADER;
        Some(Self { pieces: vec![TermPiece { phrase, fields, ..TermPiece::default() }] })
    }

    /// Returns the term for messages that may have the first whole id of `text` in a header field.
    /// `text` is in the form of `message::header::folded`. `None` if no ids of this field are
    /// indexed, or the text contains no whole id.
    pub(in crate::query) fn of_id(name: &str, text: &str) -> Option<Self> {
        let field = tokens::id_field(name)?;
        let id = tokens::bracketed_ids(text).next()?;
        // The empty text marks messages with ids that were not indexed.
        let texts = ["", id]
            .map(|text| TextPattern { prefix: text.to_owned(), rest: TextRemainder::Nothing });
        Some(Self::of_texts(texts.into(), field))
    }

    /// Returns the term for messages with an attachment of a media type; `type` or `type/` stands
    /// for all its subtypes.
    pub(in crate::query) fn of_type(media_type: &str) -> Self {
        let media_type = media_type.trim().to_ascii_lowercase();
        let whole = media_type.split_once('/').is_some_and(|(_, kind)| !kind.is_empty());
        let prefix =
            if whole || media_type.ends_with('/') { media_type } else { format!("{media_type}/") };
        let rest = if whole { TextRemainder::Nothing } else { TextRemainder::Anything };
        Self::of_texts(vec![TextPattern { prefix, rest }], tokens::ATTACHMENT_TYPE)
    }

    /// Returns the term for emails that this service delivered to an address with all these parts,
    /// each in the form of `message::header::folded`. Its hits are certain.
    pub(in crate::query) fn of_delivery(parts: &[String]) -> Self {
        let text = TextPattern {
            prefix: delivered_to::SEARCH_TEXT_PREFIX.to_owned(),
            rest: TextRemainder::Parts(parts.to_vec()),
        };
        Self::of_texts(vec![text], tokens::DELIVERED_HERE)
    }

    /// Returns the term for emails whose header must be read to know Delivered-To (`name`, in any
    /// case): those with a field of an earlier hop, and those whose tokens lack the address.
    pub(in crate::query) fn of_other_delivery(name: &str, secrets: &Secrets) -> Option<Self> {
        let mut term = Self::of_field(name, secrets)?;
        for piece in &mut term.pieces {
            piece.texts = vec![TextPattern {
                prefix: delivered_to::SEARCH_TEXT_PREFIX.to_owned(),
                rest: TextRemainder::Nothing,
            }];
            piece.text_fields = tokens::DELIVERED_HERE;
            piece.matches_old_folds = true;
        }
        Some(term)
    }

    fn of_texts(texts: Vec<TextPattern>, fields: u16) -> Self {
        Self { pieces: vec![TermPiece { texts, text_fields: fields, ..TermPiece::default() }] }
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Returns the tokens by which `matches` decides.
    pub(in crate::query) fn tokens(&self) -> WantedTokens {
        let mut words: Vec<u32> = self.words().map(|word| word.hash).collect();
        words.sort_unstable();
        words.dedup();
        WantedTokens { words, texts: self.pieces.iter().any(|piece| !piece.texts.is_empty()) }
    }

    /// Whether an email with these tokens has the term, apart from collisions of word hashes. If it
    /// has, `confirms` checks the message.
    #[must_use]
    pub fn matches(&self, tokens: &Tokens) -> bool {
        self.is_in(|word: &PhraseWord| tokens.words.positions_of(word.hash), &tokens.texts)
    }

    /// Whether a message has the term, by its words themselves and not by their hashes. Parses the
    /// message, so callers that know that the tokens match use `confirms`.
    #[must_use]
    pub fn matches_raw(&self, raw: &[u8]) -> bool {
        let message = Message::parse(raw);
        let mut found: Vec<(&str, Vec<u32>)> =
            self.words().map(|word| (word.word.as_str(), Vec::new())).collect();
        found.sort_unstable();
        found.dedup();
        let mut tokens = FoundTokens { words: found, texts: Vec::new() };
        each_token(&message, &content(&message), &mut tokens);
        let FoundTokens { words: mut found, texts } = tokens;
        for (_, positions) in &mut found {
            positions.sort_unstable();
        }
        let positions = |word: &PhraseWord| {
            let at = found.binary_search_by_key(&word.word.as_str(), |(word, _)| word).ok();
            at.and_then(|at| found.get(at)).map_or(&[][..], |(_, positions)| positions)
        };
        self.is_in(positions, &texts)
    }

    /// Whether a message whose tokens match has the term. If all words are ASCII and occur in the
    /// first bytes of the raw message, a collision of hashes is so unlikely that the message is not
    /// parsed. Otherwise, and if the term has texts, `matches_raw` decides.
    #[must_use]
    pub fn confirms(&self, raw: &[u8]) -> bool {
        let (start_bytes, mut lower) =
            (raw.get(..raw.len().min(RAW_SCAN_BYTES)).unwrap_or_default(), None);
        let is_edge = |byte: Option<&u8>| {
            byte.is_none_or(|byte| byte.is_ascii() && !byte.is_ascii_alphanumeric())
        };
        let occurs = |bytes: &[u8], word: &[u8]| {
            memchr::memmem::find_iter(bytes, word).any(|at| {
                let before = at.checked_sub(1).and_then(|at| bytes.get(at));
                is_edge(before) && is_edge(bytes.get(at + word.len()))
            })
        };
        let whole = |word: &PhraseWord| {
            let word = word.word.as_bytes();
            word.is_ascii()
                && (occurs(start_bytes, word)
                    || occurs(lower.get_or_insert_with(|| start_bytes.to_ascii_lowercase()), word))
        };
        (self.pieces.iter().all(|piece| piece.texts.is_empty()) && self.words().all(whole))
            || self.matches_raw(raw)
    }

    fn words(&self) -> impl Iterator<Item = &PhraseWord> {
        self.pieces.iter().flat_map(|piece| &piece.phrase)
    }

    /// Whether each piece is found in an email with these positions of words and these texts.
    fn is_in<'t>(
        &self,
        positions: impl Fn(&PhraseWord) -> &'t [u32],
        texts: &[(String, u16)],
    ) -> bool {
        self.pieces.iter().all(|piece| {
            let text = |(text, fields): &(String, u16)| {
                fields & piece.text_fields != 0
                    && piece.texts.iter().any(|wanted| wanted.matches(text))
            };
            let all: Vec<&[u32]> = piece.phrase.iter().map(&positions).collect();
            piece.is_at(&all) || texts.iter().any(text)
        })
    }
}

/// The tokens of a message that a search term asks for.
struct FoundTokens<'w> {
    /// The words of the term, in order, each with its positions in the message.
    words: Vec<(&'w str, Vec<u32>)>,
    /// Every text of the message, and its field.
    texts: Vec<(String, u16)>,
}

impl TokenSink for FoundTokens<'_> {
    fn word(&mut self, word: &str, _: u16, position: u32) {
        let at = self.words.binary_search_by_key(&word, |(known, _)| known).ok();
        if let Some((_, positions)) = at.and_then(|at| self.words.get_mut(at)) {
            positions.push(position);
        }
    }

    fn text(&mut self, text: &str, field: u16) {
        self.texts.push((text.to_owned(), field));
    }
}

impl TermPiece {
    /// Whether the phrase occurs in one of its fields, by the ascending positions of each of its
    /// words.
    pub(in crate::query) fn is_at(&self, positions: &[&[u32]]) -> bool {
        let Some((first, rest)) = positions.split_first() else { return false };
        let Some((start, behind)) = self.phrase.split_first() else { return false };
        first.iter().filter(|at| field_at(**at) & self.fields != 0).any(|at| {
            rest.iter().zip(behind).all(|(positions, word)| {
                let wanted = at.saturating_add(word.position.saturating_sub(start.position));
                positions.binary_search(&wanted).is_ok()
            })
        })
    }
}

/// Divides a text into pieces. A quotation mark that nothing closes is part of its text.
#[must_use]
pub fn pieces(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let quoted = matches!(first, '"' | '\'')
            .then(|| phrase(rest.get(1..).unwrap_or_default(), first))
            .flatten();
        let (piece, behind) = quoted.unwrap_or_else(|| {
            let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
            (rest.get(..end).unwrap_or_default().to_owned(), rest.get(end..).unwrap_or_default())
        });
        out.push(piece);
        rest = behind.trim_start();
    }
    out
}

/// Returns a phrase up to its closing mark and the rest of the text, or `None` without a closing
/// mark.
fn phrase(text: &str, mark: char) -> Option<(String, &str)> {
    let mut out = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => out.extend(chars.next().map(|(_, c)| c)),
            _ if c == mark => {
                return Some((
                    out,
                    text.get(at.saturating_add(c.len_utf8())..).unwrap_or_default(),
                ));
            }
            _ => out.push(c),
        }
    }
    None
}
