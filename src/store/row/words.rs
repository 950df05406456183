//! The words of a row of `email_tokens`.
//!
//! The words ascend by hash. Before them is an index from version 3 on: for each run of `RUN_WORDS`
//! words, the hash of its last word and where it ends. So a search decodes one run for each word
//! that it looks for.

use super::{FieldReader, FieldWriter, RowError};
use crate::model::SearchWords;

/// The words of a run; the last run may have fewer.
const RUN_WORDS: usize = 32;
/// The bytes of an entry of the index: the hash, and the offset of the end behind the index, each
/// big-endian.
const ENTRY_BYTES: usize = 8;
/// The first version of `email_tokens` that has the index.
const INDEXED_VERSION: u8 = 3;

/// Writes the count of words, the index, and the words, which must ascend by hash.
pub(super) fn write_words(out: &mut FieldWriter, words: &SearchWords) {
    let mut words = words.iter();
    out.len(words.len());
    let runs = words.len().div_ceil(RUN_WORDS);
    let index = out.0.len();
    let start = index.saturating_add(runs.saturating_mul(ENTRY_BYTES));
    out.0.resize(start, 0);
    let mut last = 0;
    for entry in (index..start).step_by(ENTRY_BYTES) {
        for word in words.by_ref().take(RUN_WORDS) {
            // The lowest bit says whether a count of positions follows. Above it is the difference
            // to the hash before. Most words occur once, and have no count.
            let step = u64::from(word.hash.saturating_sub(last)) << 1;
            last = word.hash;
            if let [at] = word.positions {
                out.num(step);
                out.num(*at);
            } else {
                out.num(step | 1);
                out.ascending(word.positions);
            }
        }
        let end = u32::try_from(out.0.len().saturating_sub(start)).unwrap_or(u32::MAX);
        let bytes = [last.to_be_bytes(), end.to_be_bytes()];
        if let Some(to) = out.0.get_mut(entry..).and_then(<[u8]>::first_chunk_mut::<ENTRY_BYTES>) {
            to.copy_from_slice(bytes.as_flattened());
        }
    }
}

/// Reads all words, and checks the index.
pub(super) fn read_words(
    input: &mut FieldReader<'_>,
    version: u8,
) -> Result<SearchWords, RowError> {
    let mut left = input.count()?;
    let mut index = read_index(input, version, left)?.iter();
    let (mut words, mut hash, start) = (SearchWords::default(), 0, input.0.len());
    words.reserve(left);
    while left > 0 {
        let run = left.min(RUN_WORDS);
        for _ in 0..run {
            let step = input.num()?;
            hash = add_step(hash, step)?;
            read_word(input, &mut words, hash, step)?;
        }
        left = left.saturating_sub(run);
        let end = start.saturating_sub(input.0.len());
        if index.next().is_some_and(|entry| parse_entry(entry) != (hash, end)) {
            return Err(RowError("index does not match the words"));
        }
    }
    Ok(words)
}

/// Reads those of the words that are wanted, and passes over the others. The hashes that are wanted
/// ascend, without duplicates.
pub(super) fn read_wanted_words(
    input: &mut FieldReader<'_>,
    version: u8,
    wanted: &[u32],
) -> Result<SearchWords, RowError> {
    let mut found = SearchWords::default();
    if version < INDEXED_VERSION {
        let words = read_words(input, version)?;
        for word in words.iter().filter(|word| wanted.binary_search(&word.hash).is_ok()) {
            found.push_word(word.hash, word.positions.iter().copied());
        }
        return Ok(found);
    }
    let count = input.count()?;
    let index = read_index(input, version, count)?;
    let end = index.last().map_or(0, |entry| parse_entry(entry).1);
    let mut finder = WordFinder { index, words: input.0, count, next: 0, hash: 0, input: *input };
    wanted.iter().try_for_each(|hash| finder.find(*hash, &mut found))?;
    input.0 = behind(input.0, end)?;
    Ok(found)
}

/// Reads the index of `count` words; empty before version 3.
fn read_index<'a>(
    input: &mut FieldReader<'a>,
    version: u8,
    count: usize,
) -> Result<&'a [[u8; ENTRY_BYTES]], RowError> {
    let runs = if version < INDEXED_VERSION { 0 } else { count.div_ceil(RUN_WORDS) };
    let (entries, _) = input.0.as_chunks();
    let entries = entries.get(..runs).ok_or(RowError("too short"))?;
    input.0 = behind(input.0, entries.as_flattened().len())?;
    Ok(entries)
}

/// Finds words of a row, in the order of their hashes.
struct WordFinder<'a> {
    index: &'a [[u8; ENTRY_BYTES]],
    /// All words, of which there are `count`.
    words: &'a [u8],
    count: usize,
    /// The number of the word that is read next.
    next: usize,
    /// The hash of the word before it.
    hash: u32,
    /// What is left from that word on.
    input: FieldReader<'a>,
}

impl WordFinder<'_> {
    /// Adds a word to `found` if the row has it.
    fn find(&mut self, wanted: u32, found: &mut SearchWords) -> Result<(), RowError> {
        let run = self.index.partition_point(|entry| parse_entry(entry).0 < wanted);
        let first = run.saturating_mul(RUN_WORDS);
        if first > self.next {
            let before = run.checked_sub(1).and_then(|run| self.index.get(run));
            let (hash, start) = before.map_or((0, 0), parse_entry);
            (self.next, self.hash) = (first, hash);
            self.input = FieldReader(behind(self.words, start)?);
        }
        while self.next < self.count {
            let mut input = self.input;
            let (step, behind_next) = input.num_and_behind_next()?;
            let hash = add_step(self.hash, step)?;
            if hash > wanted {
                break;
            } else if hash == wanted {
                read_word(&mut input, found, hash, step)?;
            } else if step & 1 == 0
                && let Some(behind_position) = behind_next
            {
                input.0 = behind_position;
            } else {
                let positions = if step & 1 == 0 { 1 } else { input.count()? };
                (0..positions).try_for_each(|_| input.skip_num())?;
            }
            (self.next, self.hash, self.input) = (self.next.saturating_add(1), hash, input);
        }
        Ok(())
    }
}

/// Returns the hash and the end of a run.
fn parse_entry(entry: &[u8; ENTRY_BYTES]) -> (u32, usize) {
    let [a, b, c, d, e, f, g, h] = *entry;
    let end = u32::from_be_bytes([e, f, g, h]);
    (u32::from_be_bytes([a, b, c, d]), usize::try_from(end).unwrap_or(usize::MAX))
}

fn behind(bytes: &[u8], start: usize) -> Result<&[u8], RowError> {
    bytes.get(start..).ok_or(RowError("too short"))
}

/// Adds to the hash of a word the difference to that of the next one. The lowest bit of `step` says
/// something else (`write_words`).
fn add_step(hash: u32, step: u64) -> Result<u32, RowError> {
    let next = u32::try_from(step >> 1).ok().and_then(|step| hash.checked_add(step));
    next.ok_or(RowError("hash too large"))
}

/// Reads the positions of a word, and adds the word. `step` is that before the positions.
fn read_word(
    input: &mut FieldReader<'_>,
    words: &mut SearchWords,
    hash: u32,
    step: u64,
) -> Result<(), RowError> {
    if step & 1 == 0 {
        words.push_word(hash, [input.num32()?]);
        Ok(())
    } else {
        words.try_push_word(hash, input.each_ascending()?)
    }
}
