//! The postings of one token in one fold, walked: a block is read when something in it is asked for.
//!
//! A posting that goes on in the next block is put together here, so that nobody above knows of blocks.

use super::View;
use crate::model::{AccountId, Token};
use crate::store::engine::{Table, after};
use crate::store::error::Error;
use crate::store::key::{self, FoldId};
use crate::store::row::block::{Posting, Reading};

impl View<'_> {
    /// The postings of a token in a fold, to be walked.
    #[must_use]
    pub fn postings(&self, account: AccountId, fold: FoldId, token: Token) -> Postings<'_> {
        Postings { view: self, account, fold, token, block: None, open: true, at: None, ahead: None }
    }
}

/// The postings of one token in one fold, newest email first.
#[derive(Debug)]
pub struct Postings<'v> {
    view: &'v View<'v>,
    account: AccountId,
    fold: FoldId,
    token: Token,
    /// The key of the block that is read, and how far it was.
    block: Option<(Vec<u8>, Reading<Vec<u8>>)>,
    /// The token may go on behind what was read.
    open: bool,
    /// Where the walk stands.
    at: Option<Posting>,
    /// What was read behind that.
    ahead: Option<Posting>,
}

impl Postings<'_> {
    /// The first posting of an email not before `ordinal`; ordinals must not descend from call to call.
    ///
    /// # Errors
    /// Those of reading.
    pub fn seek(&mut self, ordinal: u32) -> Result<Option<&Posting>, Error> {
        while self.at.as_ref().is_none_or(|posting| posting.ordinal < ordinal) {
            self.at = match self.ahead.take().filter(|posting| posting.ordinal >= ordinal) {
                Some(posting) => Some(posting),
                None => self.pull(ordinal)?,
            };
            if self.at.is_some() {
                self.complete()?;
            } else if !self.load(ordinal)? {
                return Ok(None);
            }
        }
        Ok(self.at.as_ref())
    }

    /// The posting that `seek` gave last.
    #[must_use]
    pub fn current(&self) -> Option<&Posting> {
        self.at.as_ref()
    }

    /// The token's next posting of the block, from an ordinal on.
    fn pull(&mut self, ordinal: u32) -> Result<Option<Posting>, Error> {
        let Some((key, block)) = &mut self.block else { return Ok(None) };
        block.next_of(key, |token, at| match token.cmp(&self.token) {
            std::cmp::Ordering::Less => Some(false),
            std::cmp::Ordering::Equal => Some(at >= ordinal),
            std::cmp::Ordering::Greater => {
                self.open = false;
                None
            }
        })
    }

    /// Puts together a posting that goes on, be it in the blocks that follow.
    fn complete(&mut self) -> Result<(), Error> {
        let Some(ordinal) = self.at.as_ref().map(|posting| posting.ordinal) else { return Ok(()) };
        loop {
            match self.pull(ordinal)? {
                Some(more) if more.ordinal == ordinal => {
                    self.at.iter_mut().for_each(|posting| posting.positions.extend_from_slice(&more.positions));
                }
                None if self.next_block()? => {}
                more => {
                    self.ahead = more;
                    return Ok(());
                }
            }
        }
    }

    /// Goes on to the block that follows, if that begins with the token.
    fn next_block(&mut self) -> Result<bool, Error> {
        let own = key::fold_token(self.account, self.fold, &self.token);
        let start = self.block.as_ref().map(|(key, _)| after_key(key)).filter(|_| self.open);
        self.open = match start {
            Some(start) => self.load_first(&start, &after(&own))?,
            None => false,
        };
        Ok(self.open)
    }

    fn load_first(&mut self, start: &[u8], end: &[u8]) -> Result<bool, Error> {
        let mut next = None;
        self.view.keys(Table::SearchFolds, start, end, |key, value| {
            next = Some((key.to_vec(), value.to_vec()));
            Ok(false)
        })?;
        self.enter(next)
    }

    fn enter(&mut self, row: Option<(Vec<u8>, Vec<u8>)>) -> Result<bool, Error> {
        let Some((key, value)) = row else { return Ok(false) };
        let reading = Reading::new(&key, value)?;
        self.block = Some((key, reading));
        Ok(true)
    }

    /// Reads the next block that may hold the token at `ordinal` or after; false at the end.
    fn load(&mut self, ordinal: u32) -> Result<bool, Error> {
        if !self.open {
            return Ok(false);
        }
        let own = key::fold_token(self.account, self.fold, &self.token);
        let target = key::fold_block(self.account, self.fold, &self.token, ordinal, 0);
        // The last block that begins no later than the target, if it is not read yet, else the one that follows.
        let start = match &self.block {
            Some((block, _)) => after_key(block),
            None => key::fold_blocks(self.account, self.fold),
        };
        let end = after_key(&target);
        let mut found = None;
        if start < end {
            self.view.read.scan(Table::SearchFolds, &start, &end, true, &mut |key, value| {
                found = Some((key.to_vec(), value.to_vec()));
                Ok(false)
            })?;
        }
        self.open = self.enter(found)? || self.load_first(&start.max(end), &after(&own))?;
        Ok(self.open)
    }
}

/// The first key after this one.
fn after_key(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}
