//! The postings of one token in one fold, walked: a block is read when something in it is asked for.
//!
//! A posting that goes on in the next block is put together here, so that nobody above knows of blocks.

use super::View;
use crate::model::{AccountId, Token};
use crate::store::engine::{Table, after};
use crate::store::error::Error;
use crate::store::key::{self, FoldId};
use crate::store::row::block::{Posting, read_block};

impl View<'_> {
    /// The postings of a token in a fold, to be walked.
    #[must_use]
    pub fn postings(&self, account: AccountId, fold: FoldId, token: Token) -> Postings<'_> {
        Postings { view: self, account, fold, token, block: None, found: Vec::new(), at: 0 }
    }
}

/// The postings of one token in one fold, newest email first.
#[derive(Debug)]
pub struct Postings<'v> {
    view: &'v View<'v>,
    account: AccountId,
    fold: FoldId,
    token: Token,
    /// The key of the block that was read last.
    block: Option<Vec<u8>>,
    found: Vec<Posting>,
    at: usize,
}

impl Postings<'_> {
    /// The first posting of an email not before `ordinal`; ordinals must not descend from call to call.
    ///
    /// # Errors
    /// Those of reading.
    pub fn seek(&mut self, ordinal: u32) -> Result<Option<&Posting>, Error> {
        loop {
            while self.found.get(self.at).is_some_and(|posting| posting.ordinal < ordinal) {
                self.at += 1;
            }
            if self.at < self.found.len() || !self.load(ordinal)? {
                return Ok(self.found.get(self.at));
            }
        }
    }

    /// The posting that `seek` gave last.
    #[must_use]
    pub fn current(&self) -> Option<&Posting> {
        self.found.get(self.at)
    }

    /// Reads the next block that may hold the token at `ordinal` or after; false at the end.
    fn load(&mut self, ordinal: u32) -> Result<bool, Error> {
        let own = key::fold_token(self.account, self.fold, &self.token);
        let target = key::fold_block(self.account, self.fold, &self.token, ordinal, 0);
        // The last block that begins no later than the target, if it is not read yet, else the one that follows.
        let start = match &self.block {
            Some(block) => after_key(block),
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
        if let Some((key, value)) = found {
            self.take(key, &value, ordinal)?;
            if !self.found.is_empty() {
                return Ok(true);
            }
        }
        let start = self.block.as_ref().map_or(end.clone(), |block| after_key(block)).max(end);
        let mut next = None;
        self.view.keys(Table::SearchFolds, &start, &after(&own), |key, value| {
            next = Some((key.to_vec(), value.to_vec()));
            Ok(false)
        })?;
        match next {
            Some((key, value)) => {
                self.take(key, &value, ordinal)?;
                Ok(true)
            }
            None => Ok(false),
        }
    }

    /// Takes the token's postings of a block; one that goes on in the next block is completed from there.
    fn take(&mut self, key: Vec<u8>, value: &[u8], ordinal: u32) -> Result<(), Error> {
        let (found, mut open) = self.read(&key, value, ordinal)?;
        (self.found, self.at, self.block) = (found, 0, Some(key));
        let own = after(&key::fold_token(self.account, self.fold, &self.token));
        while open && let Some((last, block)) = self.found.last().zip(self.block.as_ref()) {
            let (last, mut next) = (last.ordinal, None);
            self.view.keys(Table::SearchFolds, &after_key(block), &own, |key, value| {
                next = Some((key.to_vec(), value.to_vec()));
                Ok(false)
            })?;
            let Some((key, value)) = next else { break };
            let (more, goes_on) = self.read(&key, &value, last)?;
            if more.first().is_none_or(|posting| posting.ordinal != last) {
                break;
            }
            more.into_iter().for_each(|posting| push(&mut self.found, posting));
            (open, self.block) = (goes_on, Some(key));
        }
        Ok(())
    }

    /// The token's postings of a block from an ordinal on, and whether they reach the block's end.
    fn read(&self, key: &[u8], value: &[u8], ordinal: u32) -> Result<(Vec<Posting>, bool), Error> {
        let (mut found, mut open) = (Vec::new(), true);
        let wanted = |token: &Token, at: u32| match token.cmp(&self.token) {
            std::cmp::Ordering::Less => Some(false),
            std::cmp::Ordering::Equal => Some(at >= ordinal),
            std::cmp::Ordering::Greater => {
                open = false;
                None
            }
        };
        read_block(key, value, wanted, |posting| push(&mut found, posting))?;
        Ok((found, open))
    }
}

/// Adds a posting; one that goes on is one.
fn push(found: &mut Vec<Posting>, posting: Posting) {
    match found.last_mut() {
        Some(last) if last.ordinal == posting.ordinal => last.positions.extend(posting.positions),
        _ => found.push(posting),
    }
}

/// The first key after this one.
fn after_key(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}
