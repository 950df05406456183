//! Blocks of the search index: postings of many emails, in the order of their tokens.
//!
//! A posting says of a token and an email (by its ordinal in the fold) in which fields it stands,
//! and at which positions. Postings ascend by token, ordinal and first position; one with very many
//! positions goes on in the next. A block holds words or texts and begins with a whole posting, so
//! that each can be read without the one before it:
//!
//! ```text
//! version kind:1 { token ordinal fields positions }*
//! token   = a word: difference from the word before (0: the same), the first from 0
//!         | a text: how many octets of the text before it begins with, the rest
//! ordinal = difference from the one before it if the token is the same
//! ```

use super::{FieldReader, FieldWriter, RowError, decode_with};
use crate::model::{Positions, Token};
use crate::store::engine::Table;
use crate::store::error::Error;

/// A token in an email.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Posting {
    /// The token.
    pub token: Token,
    /// Which email of the fold.
    pub ordinal: u32,
    /// In which fields: the bits of `message::tokens`.
    pub fields: u16,
    /// Where, ascending; nothing for texts.
    pub positions: Positions,
}

impl Posting {
    /// What postings are ordered by.
    #[must_use]
    pub fn sort_key(&self) -> (&Token, u32, u32) {
        (&self.token, self.ordinal, self.positions.first().copied().unwrap_or(0))
    }
}

/// A finished block, and the place of its first posting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// The first token.
    pub token: Token,
    /// Its email.
    pub ordinal: u32,
    /// Its first position.
    pub position: u32,
    /// The row.
    pub value: Vec<u8>,
}

/// Makes blocks of postings that come in order.
#[derive(Debug)]
pub struct Blocks {
    most: usize,
    done: Vec<Block>,
    octets: usize,
    open: Option<Block>,
    last: Option<(Token, u32)>,
}

impl Blocks {
    /// Limits the size of a block to `most` bytes; a block holds one posting at least.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self { most, done: Vec::new(), octets: 0, open: None, last: None }
    }

    /// Octets so far.
    #[must_use]
    pub fn octets(&self) -> usize {
        self.octets.saturating_add(self.open.as_ref().map_or(0, |block| block.value.len()))
    }

    /// Adds a posting; it must not come before the last one.
    pub fn push(&mut self, token: &Token, ordinal: u32, fields: u16, positions: &[u32]) {
        // A position takes 5 octets at most, and what is beside them has its place.
        let many = (self.most.saturating_sub(320) / 5).max(1);
        let mut rest = positions;
        loop {
            let (now, later) = rest.split_at_checked(many).unwrap_or((rest, &[]));
            self.one(token, ordinal, fields, now);
            rest = later;
            if rest.is_empty() {
                return;
            }
        }
    }

    fn one(&mut self, token: &Token, ordinal: u32, fields: u16, positions: &[u32]) {
        let mut entry = FieldWriter(Vec::with_capacity(16));
        if self.open.is_some()
            && self.last.as_ref().is_some_and(|(last, _)| kind(last) == kind(token))
        {
            write(&mut entry, self.last.as_ref(), token, ordinal, fields, positions);
            let fits =
                |block: &&mut Block| block.value.len().saturating_add(entry.0.len()) <= self.most;
            if let Some(block) = self.open.as_mut().filter(fits) {
                block.value.extend_from_slice(&entry.0);
                return self.remember(token, ordinal);
            }
        }
        self.close();
        let mut value = FieldWriter::new(1);
        value.fixed(&[kind(token)]);
        write(&mut value, None, token, ordinal, fields, positions);
        let position = positions.first().copied().unwrap_or(0);
        self.open = Some(Block { token: token.clone(), ordinal, position, value: value.0 });
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
            self.octets = self.octets.saturating_add(block.value.len());
            self.done.push(block);
        }
    }

    /// The blocks.
    #[must_use]
    pub fn finish(mut self) -> Vec<Block> {
        self.close();
        self.done
    }
}

fn kind(token: &Token) -> u8 {
    match token {
        Token::Word(_) => 1,
        Token::Text(_) => 2,
    }
}

fn write(
    out: &mut FieldWriter,
    last: Option<&(Token, u32)>,
    token: &Token,
    ordinal: u32,
    fields: u16,
    positions: &[u32],
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
    write_positions(out, positions);
}

fn write_positions(out: &mut FieldWriter, positions: &[u32]) {
    let mut before = 0;
    out.list(positions.iter(), |out, at| {
        out.num(at.saturating_sub(before));
        before = *at;
    });
}

/// Reads the postings of a block in order. `wanted` says which: of the others nothing is kept, and
/// after `None` nothing is read.
///
/// # Errors
/// `Corrupt`, also where they are not in order.
pub fn read_block(
    key: &[u8],
    bytes: &[u8],
    mut wanted: impl FnMut(&Token, u32) -> Option<bool>,
    mut each: impl FnMut(Posting),
) -> Result<(), Error> {
    let mut block = BlockReader::new(key, bytes)?;
    while let Some(posting) = block.next_of(key, &mut wanted)? {
        each(posting);
    }
    Ok(())
}

/// A block that is read posting by posting.
#[derive(Debug)]
pub struct BlockReader<B> {
    bytes: B,
    /// Octets that were read.
    at: usize,
    token: Token,
    ordinal: u32,
    first: bool,
}

impl<B: AsRef<[u8]>> BlockReader<B> {
    /// From its beginning.
    ///
    /// # Errors
    /// `Corrupt`: it is no block.
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

    /// The next posting that is wanted, as of `read_block`; nothing at the end, or where `wanted`
    /// ends it.
    ///
    /// # Errors
    /// `Corrupt`, also where they are not in order.
    pub fn next_of(
        &mut self,
        key: &[u8],
        mut wanted: impl FnMut(&Token, u32) -> Option<bool>,
    ) -> Result<Option<Posting>, Error> {
        let octets = self.bytes.as_ref();
        let mut input = FieldReader(octets.get(self.at..).unwrap_or_default());
        let (token, ordinal, first) = (&mut self.token, &mut self.ordinal, &mut self.first);
        let mut next = || -> Result<Option<Posting>, RowError> {
            while !input.0.is_empty() {
                let same = read_token(&mut input, token)? && !*first;
                let step = input.num32()?;
                let before = if same { *ordinal } else { 0 };
                *ordinal = before.checked_add(step).ok_or(RowError("ordinal too large"))?;
                let fields = u16::try_from(input.num()?).map_err(|_| RowError("unknown fields"))?;
                *first = false;
                match wanted(token, *ordinal) {
                    Some(true) => {
                        let positions = read_positions(&mut input)?;
                        return Ok(Some(Posting {
                            token: token.clone(),
                            ordinal: *ordinal,
                            fields,
                            positions,
                        }));
                    }
                    Some(false) => {
                        for _ in 0..input.num()? {
                            input.num()?;
                        }
                    }
                    None => input.0 = &[],
                }
            }
            Ok(None)
        };
        let found = next();
        self.at = octets.len().saturating_sub(input.0.len());
        found.map_err(|bad| bad.of(Table::SearchFolds, key))
    }
}

/// Reads a token into the one before it; says whether it is the same.
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
                text.as_bytes().get(..same).ok_or(RowError("begins with more than there is"))?;
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

fn read_positions(input: &mut FieldReader<'_>) -> Result<Positions, RowError> {
    let mut before = 0u32;
    input.list(|input| {
        before = before.checked_add(input.num32()?).ok_or(RowError("position too large"))?;
        Ok(before)
    })
}

#[cfg(test)]
mod tests;
