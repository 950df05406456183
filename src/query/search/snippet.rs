//! Search snippets (RFC 8621 §5): the subject and an excerpt of the text of an email as HTML, with
//! the matches of a filter marked.
//!
//! - The matches are those of the `text`, `subject` and `body` conditions that are not under a NOT.
//! - The excerpt is from the first text of the message that has a match. If the text does not fit
//!   in `limits::MAX_SNIPPET_BYTES`, the excerpt begins shortly before the first match. A subject
//!   is cut in the same way to `limits::MAX_SNIPPET_SUBJECT_BYTES`.
//! - Text from the message is escaped, and a run of white space and control characters becomes one
//!   space, or nothing at the beginning or the end. The only tags are `<mark>` and `</mark>`, in
//!   pairs.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use unicode_normalization::char::is_combining_mark;
use unicode_segmentation::UnicodeSegmentation as _;

use crate::message::words::each_word;
use crate::message::{Message, tokens};
use crate::model::{AccountId, EmailId, Secrets, limits};
use crate::query::Error;
use crate::query::filter::{Condition, Filter};
use crate::query::search::term::{SearchTerm, TermPiece, WORD_FIELDS};
use crate::store::Snapshot;

/// The most bytes, as HTML, of an excerpt before the first match.
const MAX_LEAD_BYTES: usize = 72;
/// The most matches of each piece of a term that are marked.
const MAX_MATCHES: usize = 1000;
/// The most combining marks that are added to the last character of a match.
const MAX_COMBINING_MARKS: usize = 8;
const OPEN: &str = "<mark>";
const CLOSE: &str = "</mark>";

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Snippet {
    /// `None` if there is no match in the subject.
    pub subject: Option<String>,
    /// The excerpt; `None` if there is no match in the texts.
    pub preview: Option<String>,
}

/// The search terms of a filter for subjects and texts. One `Finder` serves all emails of a call.
#[derive(Debug, Clone)]
pub struct Finder {
    subject: Vec<TermPiece>,
    body: Vec<TermPiece>,
}

impl Finder {
    #[must_use]
    pub fn new(filter: &Filter, secrets: &Secrets) -> Self {
        let mut terms = Vec::new();
        gather(filter, secrets, &mut terms);
        let pieces = |field: u16| -> Vec<TermPiece> {
            let all = terms.iter().flat_map(|term: &SearchTerm| &term.pieces);
            all.filter(|piece| piece.fields & field != 0).cloned().collect()
        };
        Self { subject: pieces(tokens::SUBJECT), body: pieces(tokens::BODY) }
    }

    /// Whether messages must be read, because the filter has a term for their texts.
    #[must_use]
    pub fn reads_text(&self) -> bool {
        !self.body.is_empty()
    }

    /// Returns the snippet of an email, or `None` if there is no such email or it is destroyed. The
    /// caller checks the rights before. If `reads_text`, the caller also charges the message to the
    /// budget of the request.
    pub fn snippet(
        &self,
        snapshot: &Snapshot<'_>,
        account: AccountId,
        id: EmailId,
    ) -> Result<Option<Snippet>, Error> {
        let Some((_, content)) = snapshot.content(account, id)? else { return Ok(None) };
        if snapshot.email(account, id)?.is_none() {
            return Ok(None);
        }
        let subject = content.subject.as_deref().and_then(|subject| self.of_subject(subject));
        let preview = if self.body.is_empty() {
            None
        } else {
            snapshot.message(account, id)?.and_then(|raw| self.of_texts(&Message::parse(&raw)))
        };
        Ok(Some(Snippet { subject, preview }))
    }

    fn of_subject(&self, subject: &str) -> Option<String> {
        let found = matches(subject, &self.subject);
        (!found.is_empty())
            .then(|| mark_matches(subject, &found, limits::MAX_SNIPPET_SUBJECT_BYTES))
    }

    fn of_texts(&self, message: &Message<'_>) -> Option<String> {
        if self.body.is_empty() {
            return None;
        }
        message.texts(limits::MAX_INDEXED_BYTES).iter().find_map(|text| {
            let found = matches(text, &self.body);
            (!found.is_empty()).then(|| mark_matches(text, &found, limits::MAX_SNIPPET_BYTES))
        })
    }
}

fn gather(filter: &Filter, secrets: &Secrets, terms: &mut Vec<SearchTerm>) {
    match filter {
        Filter::And(parts) | Filter::Or(parts) => {
            parts.iter().for_each(|part| gather(part, secrets, terms));
        }
        Filter::Is(Condition::Text(text)) => {
            terms.push(SearchTerm::new(text, WORD_FIELDS, secrets));
        }
        Filter::Is(Condition::Subject(text)) => {
            terms.push(SearchTerm::new(text, tokens::SUBJECT, secrets));
        }
        Filter::Is(Condition::Body(text)) => {
            terms.push(SearchTerm::new(text, tokens::BODY, secrets));
        }
        Filter::Not(_) | Filter::Is(_) => {}
    }
}

/// Returns the byte ranges of the matches in a text, in order, up to `MAX_MATCHES` of each piece;
/// touching matches are joined.
fn matches(text: &str, pieces: &[TermPiece]) -> Vec<Range<usize>> {
    let wanted_words: BTreeSet<&str> =
        pieces.iter().flat_map(|piece| &piece.phrase).map(|word| word.word.as_str()).collect();
    if wanted_words.is_empty() {
        return Vec::new();
    }
    // For each word of the terms: its places in the text, as word numbers, ascending, and byte
    // ranges.
    let mut places: BTreeMap<&str, Vec<(u32, Range<usize>)>> = BTreeMap::new();
    each_word(text, |found| {
        if let Some(word) = wanted_words.get(found.word) {
            places.entry(word).or_default().push((found.position, found.start..found.end));
        }
    });
    let of = |word: &str| places.get(word).map_or(&[][..], Vec::as_slice);
    let mut out: Vec<Range<usize>> = Vec::new();
    for piece in pieces {
        let Some((first, rest)) = piece.phrase.split_first() else { continue };
        // Returns where the phrase ends that begins at a place of its first word, if it is there.
        let end_of_phrase = |(at, place): &(u32, Range<usize>)| {
            rest.iter().try_fold(place.end, |end, word| {
                let wanted = at.saturating_add(word.position.saturating_sub(first.position));
                let places = of(&word.word);
                let next = places
                    .binary_search_by_key(&wanted, |(at, _)| *at)
                    .ok()
                    .and_then(|at| places.get(at));
                next.map(|(_, place)| end.max(place.end))
            })
        };
        let found = of(&first.word).iter().filter_map(|place| {
            Some(place.1.start..with_combining_marks(text, end_of_phrase(place)?))
        });
        out.extend(found.take(MAX_MATCHES));
    }
    out.sort_unstable_by_key(|place| (place.start, place.end));
    out.dedup_by(|next, kept| {
        let touches = next.start <= kept.end;
        if touches {
            kept.end = kept.end.max(next.end);
        }
        touches
    });
    out
}

fn with_combining_marks(text: &str, end: usize) -> usize {
    let marks = text
        .get(end..)
        .unwrap_or_default()
        .chars()
        .take(MAX_COMBINING_MARKS)
        .take_while(|c| is_combining_mark(*c));
    end.saturating_add(marks.map(char::len_utf8).sum())
}

/// Returns a text with its matches marked, as HTML. If that exceeds `max_bytes`, it begins shortly
/// before the first match, and ends where no more fits.
fn mark_matches(text: &str, found: &[Range<usize>], max_bytes: usize) -> String {
    let part = |from: usize| {
        let mut writer =
            SnippetWriter { out: String::new(), max_bytes, open: false, space: false, full: false };
        let mut at = from;
        for place in found {
            writer.text(text.get(at..place.start).unwrap_or_default());
            writer.mark(text.get(place.clone()).unwrap_or_default());
            at = place.end;
            if writer.full {
                break;
            }
        }
        writer.text(text.get(at..).unwrap_or_default());
        writer
    };
    let whole = part(0);
    if !whole.full {
        return whole.out;
    }
    part(found.first().map_or(0, |first| excerpt_start(text, first.start))).out
}

/// Returns where an excerpt begins: at the farthest word boundary before the first match from which
/// the text up to the match takes at most `MAX_LEAD_BYTES` as HTML.
fn excerpt_start(text: &str, first: usize) -> usize {
    let before = text.get(..first).unwrap_or_default();
    let mut bytes = 0usize;
    let fits = |(_, word): &(usize, &str)| {
        bytes = bytes.saturating_add(word.chars().map(width).sum());
        bytes <= MAX_LEAD_BYTES
    };
    before
        .split_word_bound_indices()
        .rev()
        .take_while(fits)
        .last()
        .map_or(first, |(start, _)| start)
}

/// Returns the bytes of a character in HTML.
fn width(c: char) -> usize {
    escape(c).map_or(c.len_utf8(), str::len)
}

fn escape(c: char) -> Option<&'static str> {
    match c {
        '&' => Some("&amp;"),
        '<' => Some("&lt;"),
        '>' => Some("&gt;"),
        '"' => Some("&quot;"),
        '\'' => Some("&#39;"),
        _ => None,
    }
}

struct SnippetWriter {
    out: String,
    max_bytes: usize,
    /// Whether a mark is open, for whose end there must be room.
    open: bool,
    /// Whether white space was passed, for which a space is written before the next character.
    space: bool,
    /// Whether something did not fit. While this is set, only the end of a mark is written.
    full: bool,
}

impl SnippetWriter {
    fn text(&mut self, text: &str) {
        for cluster in text.graphemes(true) {
            if self.full {
                return;
            }
            if cluster.chars().all(|c| c.is_whitespace() || c.is_control()) {
                self.space = true;
                continue;
            }
            let space = if self.space && !self.out.is_empty() { " " } else { "" };
            let mut written = String::from(space);
            for c in cluster.chars() {
                match escape(c) {
                    Some(entity) => written.push_str(entity),
                    None if c.is_control() => written.push(' '),
                    None => written.push(c),
                }
            }
            self.push(&written);
            self.space = false;
        }
    }

    fn mark(&mut self, text: &str) {
        let space = if self.space && !self.out.is_empty() { " " } else { "" };
        // Of the first match, at least one character is written; of another, all or nothing.
        let first = !self.out.contains(OPEN);
        let least: usize = text.chars().take(if first { 1 } else { usize::MAX }).map(width).sum();
        let needed = space.len() + OPEN.len() + least + CLOSE.len();
        if self.full || self.out.len().saturating_add(needed) > self.max_bytes {
            self.full = true;
            return;
        }
        self.out.push_str(space);
        self.space = false;
        self.out.push_str(OPEN);
        self.open = true;
        let inside = self.out.len();
        self.text(text);
        if self.out.len() == inside {
            // The first character does not fit with all its combining marks, so it is written
            // without those that do not fit.
            self.full = false;
            text.chars().for_each(|c| self.push(escape(c).unwrap_or(c.encode_utf8(&mut [0; 4]))));
            self.full = true;
        }
        self.open = false;
        self.out.push_str(CLOSE);
    }

    fn push(&mut self, written: &str) {
        let end = if self.open { CLOSE.len() } else { 0 };
        self.full |=
            self.out.len().saturating_add(written.len()).saturating_add(end) > self.max_bytes;
        if !self.full {
            self.out.push_str(written);
        }
    }
}

#[cfg(test)]
mod tests;
