//! Blocks of the search index: postings of many emails, sorted by token.
//!
//! - A posting says in which fields of an email, and at which positions, a token occurs. One with
//!   very many positions is split.
//! - A block has only words or only texts. It begins with a posting in full, so it can be read
//!   without the block before it.
//!
//! ```text
//! version kind { token ordinal fields positions }*
//! version = a byte, 1
//! kind    = a byte: 1 for words, 2 for texts
//! token   = a word: the difference from the word before (0: the same word), the first from 0
//!         | a text: how many of its first bytes are those of the text before; then the rest
//! ordinal = the difference from the ordinal before, if the token is the same; else the ordinal
//! fields  = `Posting::fields`
//! positions = their number, then each as the difference from the one before, the first from 0
//! ```

use smallvec::SmallVec;

use super::{FieldReader, FieldWriter, RowError, decode_with};
use crate::model::{Positions, Token};
use crate::store::engine::Table;
use crate::store::error::Error;

/// One token in one email.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Posting {
    pub token: Token,
    /// The position of the email within the fold.
    pub ordinal: u32,
    /// Bits of `model::field`.
    pub fields: u16,
    /// The positions of a word, ascending; empty for texts.
    pub positions: Positions,
}

impl Posting {
    #[must_use]
    pub fn sort_key(&self) -> (&Token, u32, u32) {
        (&self.token, self.ordinal, self.positions.first().copied().unwrap_or(0))
    }
}

/// A posting whose positions stay as they are in a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncodedPosting {
    pub token: Token,
    pub ordinal: u32,
    pub fields: u16,
    /// The first position; 0 if there is none.
    pub first_position: u32,
    /// The positions as a block stores them: their count, then the differences.
    pub encoded_positions: SmallVec<[u8; 16]>,
}

impl EncodedPosting {
    #[must_use]
    pub fn of_text(text: &str, ordinal: u32, fields: u16) -> Self {
        Self {
            token: Token::Text(text.to_owned()),
            ordinal,
            fields,
            first_position: 0,
            encoded_positions: SmallVec::from_slice(&[0]),
        }
    }

    #[must_use]
    pub fn sort_key(&self) -> (&Token, u32, u32) {
        (&self.token, self.ordinal, self.first_position)
    }
}

/// A block as it is stored in `value`. The other fields are the sort key of its first posting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    pub token: Token,
    pub ordinal: u32,
    pub position: u32,
    pub value: Vec<u8>,
}

/// Writes postings into blocks.
#[derive(Debug)]
pub struct BlockWriter {
    max_bytes: usize,
    finished: Vec<Block>,
    finished_bytes: usize,
    /// The block that is being written; `None` before the first posting.
    open: Option<Block>,
    /// The token and the ordinal of the last posting.
    last: Option<(Token, u32)>,
    /// The last posting that was to be added to a block. Kept for its memory.
    entry: Vec<u8>,
}

impl BlockWriter {
    /// Limits the size of a block to `max_bytes`. A block of a single posting may be larger.
    #[must_use]
    pub fn new(max_bytes: usize) -> Self {
        Self {
            max_bytes,
            finished: Vec::new(),
            finished_bytes: 0,
            open: None,
            last: None,
            entry: Vec::new(),
        }
    }

    /// Returns the bytes of all blocks so far, with the one that is not finished.
    #[must_use]
    pub fn byte_len(&self) -> usize {
        self.finished_bytes.saturating_add(self.open.as_ref().map_or(0, |block| block.value.len()))
    }

    /// Adds a posting, which must not sort before the last one (`Posting::sort_key`). `positions`
    /// must ascend.
    pub fn push(&mut self, token: &Token, ordinal: u32, fields: u16, positions: &[u32]) {
        // A position takes at most 5 bytes. Only words have positions, and the rest of the posting
        // of a word takes far fewer than 320 bytes.
        let max_positions = (self.max_bytes.saturating_sub(320) / 5).max(1);
        let mut rest = positions;
        loop {
            let (part, later) = rest.split_at_checked(max_positions).unwrap_or((rest, &[]));
            let first = part.first().copied().unwrap_or(0);
            self.push_entry(token, ordinal, fields, first, |out| out.ascending(part));
            rest = later;
            if rest.is_empty() {
                return;
            }
        }
    }

    /// Adds a posting of another block. It must not sort before the last one.
    pub fn push_encoded(&mut self, posting: &EncodedPosting) {
        let EncodedPosting { token, ordinal, fields, first_position, encoded_positions } = posting;
        self.push_entry(token, *ordinal, *fields, *first_position, |out| {
            out.fixed(encoded_positions);
        });
    }

    /// Adds a posting. `first_position` is its first position; `write_positions` writes all.
    fn push_entry(
        &mut self,
        token: &Token,
        ordinal: u32,
        fields: u16,
        first_position: u32,
        write_positions: impl Fn(&mut FieldWriter),
    ) {
        let last = self.last.as_ref().filter(|(last, _)| kind(last) == kind(token));
        if let (Some(block), Some(last)) = (&mut self.open, last) {
            let mut entry = FieldWriter(std::mem::take(&mut self.entry));
            entry.0.clear();
            write(&mut entry, Some(last), token, ordinal, fields);
            write_positions(&mut entry);
            self.entry = entry.0;
            if block.value.len().saturating_add(self.entry.len()) <= self.max_bytes {
                block.value.extend_from_slice(&self.entry);
                return self.remember(token, ordinal);
            }
        }
        self.close();
        let mut out = FieldWriter::new(1);
        out.0.reserve(self.max_bytes);
        out.fixed(&[kind(token)]);
        write(&mut out, None, token, ordinal, fields);
        write_positions(&mut out);
        self.open =
            Some(Block { token: token.clone(), ordinal, position: first_position, value: out.0 });
        self.remember(token, ordinal);
    }

    fn remember(&mut self, token: &Token, ordinal: u32) {
        match &mut self.last {
            Some((last, at)) if last == token => *at = ordinal,
            last => *last = Some((token.clone(), ordinal)),
        }
    }

    fn close(&mut self) {
        if let Some(block) = self.open.take() {
            self.finished_bytes = self.finished_bytes.saturating_add(block.value.len());
            self.finished.push(block);
        }
    }

    #[must_use]
    pub fn finish(mut self) -> Vec<Block> {
        self.close();
        self.finished
    }
}

fn kind(token: &Token) -> u8 {
    match token {
        Token::Word(_) => 1,
        Token::Text(_) => 2,
    }
}

/// Writes a posting as the one after `last`, without its positions; in full if `last` is `None`.
fn write(
    out: &mut FieldWriter,
    last: Option<&(Token, u32)>,
    token: &Token,
    ordinal: u32,
    fields: u16,
) {
    match (token, last.map(|(token, _)| token)) {
        (Token::Word(hash), Some(Token::Word(before))) => out.num(hash.saturating_sub(*before)),
        (Token::Word(hash), _) => out.num(*hash),
        (Token::Text(text), before) => {
            let before = if let Some(Token::Text(before)) = before { before.as_str() } else { "" };
            let same = text.bytes().zip(before.bytes()).take_while(|(a, b)| a == b).count();
            out.len(same);
            out.bytes(text.as_bytes().get(same..).unwrap_or_default());
        }
    }
    let before = last.filter(|(last, _)| last == token).map_or(0, |(_, ordinal)| *ordinal);
    out.num(ordinal.saturating_sub(before));
    out.num(fields);
}

/// Calls `each` with the postings of a block for whose token and ordinal `wanted` returns
/// `Some(true)`, in order. `Some(false)` passes over a posting, and `None` ends the reading. `key`
/// is that of the block's row, for errors.
///
/// # Errors
/// `Corrupt`, also if the postings are not in order.
pub fn read_block(
    key: &[u8],
    bytes: &[u8],
    mut wanted: impl FnMut(&Token, u32) -> Option<bool>,
    mut each: impl FnMut(Posting),
) -> Result<(), Error> {
    let mut block = BlockReader::new(key, bytes)?;
    while let Some(posting) = block.next_wanted(key, &mut wanted)? {
        each(posting);
    }
    Ok(())
}

/// A cursor over the postings of a block.
#[derive(Debug)]
pub struct BlockReader<B> {
    bytes: B,
    /// Where the next posting begins in `bytes`.
    at: usize,
    /// The token and the ordinal of the last posting that was read or passed over.
    token: Token,
    ordinal: u32,
    /// Whether there was no such posting yet.
    first: bool,
}

impl<B: AsRef<[u8]>> BlockReader<B> {
    /// Begins to read a block, which was stored under `key`.
    ///
    /// # Errors
    /// `Corrupt`, if the bytes are not a block.
    pub fn new(key: &[u8], bytes: B) -> Result<Self, Error> {
        let token = decode_with(Table::SearchFolds, key, bytes.as_ref(), 1, |input, _| {
            let kind = input.byte()?;
            input.0 = &[];
            match kind {
                1 => Ok(Token::Word(0)),
                2 => Ok(Token::Text(String::new())),
                _ => Err(RowError("a block of neither words nor texts")),
            }
        })?;
        Ok(Self { bytes, at: 2, token, ordinal: 0, first: true })
    }

    /// Returns the next posting for which `wanted` returns `Some(true)` (see `read_block`). `None`
    /// at the end of the block, or after `wanted` returned `None`.
    ///
    /// # Errors
    /// `Corrupt`, also if the postings are not in order.
    pub fn next_wanted(
        &mut self,
        key: &[u8],
        wanted: impl FnMut(&Token, u32) -> Option<bool>,
    ) -> Result<Option<Posting>, Error> {
        self.next_with(key, wanted, |input, token, ordinal, fields| {
            let positions = input.ascending()?;
            Ok(Posting { token: token.clone(), ordinal, fields, positions })
        })
    }

    /// Does the same as `next_wanted`, and leaves the positions as they are.
    ///
    /// # Errors
    /// Those of `next_wanted`. But damage of the positions after the first is not found: `check`,
    /// or a search that reads them, finds it.
    pub fn next_encoded(
        &mut self,
        key: &[u8],
        wanted: impl FnMut(&Token, u32) -> Option<bool>,
    ) -> Result<Option<EncodedPosting>, Error> {
        self.next_with(key, wanted, |input, token, ordinal, fields| {
            let (first_position, bytes) = input.skip_ascending()?;
            let encoded_positions = SmallVec::from_slice(bytes);
            let token = token.clone();
            Ok(EncodedPosting { token, ordinal, fields, first_position, encoded_positions })
        })
    }

    /// Finds the next wanted posting. `read` reads its positions, and makes what is returned.
    fn next_with<T>(
        &mut self,
        key: &[u8],
        mut wanted: impl FnMut(&Token, u32) -> Option<bool>,
        mut read: impl FnMut(&mut FieldReader<'_>, &Token, u32, u16) -> Result<T, RowError>,
    ) -> Result<Option<T>, Error> {
        let bytes = self.bytes.as_ref();
        let mut input = FieldReader(bytes.get(self.at..).unwrap_or_default());
        let (token, ordinal, first) = (&mut self.token, &mut self.ordinal, &mut self.first);
        let mut next = || -> Result<Option<T>, RowError> {
            while !input.0.is_empty() {
                let same = read_token(&mut input, token)? && !*first;
                let step = input.num32()?;
                let before = if same { *ordinal } else { 0 };
                *ordinal = before.checked_add(step).ok_or(RowError("ordinal too large"))?;
                let fields = u16::try_from(input.num()?).map_err(|_| RowError("unknown fields"))?;
                *first = false;
                match wanted(token, *ordinal) {
                    Some(true) => return read(&mut input, token, *ordinal, fields).map(Some),
                    Some(false) => {
                        let count = input.num()?;
                        (0..count).try_for_each(|_| input.skip_num())?;
                    }
                    None => input.0 = &[],
                }
            }
            Ok(None)
        };
        let found = next();
        self.at = bytes.len().saturating_sub(input.0.len());
        found.map_err(|bad| bad.of(Table::SearchFolds, key))
    }
}

/// Replaces a token by the next one, and returns whether it is the same token.
fn read_token(input: &mut FieldReader<'_>, token: &mut Token) -> Result<bool, RowError> {
    match token {
        Token::Word(hash) => {
            let step = input.num32()?;
            *hash = hash.checked_add(step).ok_or(RowError("hash too large"))?;
            Ok(step == 0)
        }
        Token::Text(text) => {
            let same = usize::try_from(input.num()?).map_err(|_| RowError("length too large"))?;
            let rest = input.bytes()?;
            let begin =
                text.as_bytes().get(..same).ok_or(RowError("the text before is too short"))?;
            let next = String::from_utf8([begin, rest].concat())
                .map_err(|_| RowError("text is not UTF-8"))?;
            let unchanged = next == *text;
            if next < *text {
                return Err(RowError("texts out of order"));
            }
            *text = next;
            Ok(unchanged)
        }
    }
}

#[cfg(test)]
mod tests;
