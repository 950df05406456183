//! Reads the postings of one token in one fold. Callers do not see blocks: a posting that continues
//! in the next block is joined here.

use crate::model::{AccountId, Token};
use crate::store::engine::typed::{KeyRange, TypedRead as _};
use crate::store::error::Error;
use crate::store::row::block::{BlockReader, Posting};
use crate::store::table::SearchFolds;
use crate::store::table::codec::Prefix as _;
use crate::store::table::folds::{FoldId, FoldKey, FoldRows};
use crate::store::txn::snapshot::Snapshot;

impl Snapshot<'_> {
    /// Returns a cursor over the postings of a token in a fold. It reads nothing before `seek`.
    #[must_use]
    pub fn postings(&self, account: AccountId, fold: FoldId, token: Token) -> Postings<'_> {
        Postings {
            snapshot: self,
            account,
            fold,
            token,
            block: None,
            has_more: true,
            current: None,
            ahead: None,
        }
    }
}

/// A cursor over the postings of one token in one fold, newest email first.
#[derive(Debug)]
pub struct Postings<'v> {
    snapshot: &'v Snapshot<'v>,
    account: AccountId,
    fold: FoldId,
    token: Token,
    /// The block that is being read, with its key.
    block: Option<(FoldKey, BlockReader<Vec<u8>>)>,
    /// Whether later blocks may have postings of the token.
    has_more: bool,
    /// The posting that `seek` returned last.
    current: Option<Posting>,
    /// The posting after the current one, if it was read already.
    ahead: Option<Posting>,
}

impl Postings<'_> {
    /// Returns the first posting whose ordinal is at least `ordinal`; `None` if there is none.
    /// Ordinals must not descend from call to call.
    pub fn seek(&mut self, ordinal: u32) -> Result<Option<&Posting>, Error> {
        while self.current.as_ref().is_none_or(|posting| posting.ordinal < ordinal) {
            self.current = match self.ahead.take().filter(|posting| posting.ordinal >= ordinal) {
                Some(posting) => Some(posting),
                None => self.pull(ordinal)?,
            };
            if self.current.is_some() {
                self.complete()?;
            } else if !self.load(ordinal)? {
                return Ok(None);
            }
        }
        Ok(self.current.as_ref())
    }

    /// Returns the posting that `seek` returned last; `None` before the first call, or at the end.
    #[must_use]
    pub fn current(&self) -> Option<&Posting> {
        self.current.as_ref()
    }

    /// Returns the token's next posting in the current block with an ordinal of at least `ordinal`.
    /// Clears `has_more` if a later token follows.
    fn pull(&mut self, ordinal: u32) -> Result<Option<Posting>, Error> {
        let Some((key, block)) = &mut self.block else { return Ok(None) };
        block.next_wanted(&key.encode(), |token, at| match token.cmp(&self.token) {
            std::cmp::Ordering::Less => Some(false),
            std::cmp::Ordering::Equal => Some(at >= ordinal),
            std::cmp::Ordering::Greater => {
                self.has_more = false;
                None
            }
        })
    }

    /// Joins the current posting with its continuation in the blocks that follow.
    fn complete(&mut self) -> Result<(), Error> {
        let Some(ordinal) = self.current.as_ref().map(|posting| posting.ordinal) else {
            return Ok(());
        };
        loop {
            match self.pull(ordinal)? {
                Some(more) if more.ordinal == ordinal => {
                    self.current
                        .iter_mut()
                        .for_each(|posting| posting.positions.extend_from_slice(&more.positions));
                }
                None if self.next_block()? => {}
                more => {
                    self.ahead = more;
                    return Ok(());
                }
            }
        }
    }

    /// Reads the next block, if it begins with the token. Returns whether it does.
    fn next_block(&mut self) -> Result<bool, Error> {
        let own = (self.account, self.fold, FoldRows::Token(&self.token));
        let range = self
            .block
            .as_ref()
            .map(|(key, _)| KeyRange::behind(&own, key))
            .filter(|_| self.has_more);
        self.has_more = range.map_or(Ok(false), |range| self.load_first(&range))?;
        Ok(self.has_more)
    }

    /// Reads the first block of a range. Returns false if there is none.
    fn load_first(&mut self, range: &KeyRange<SearchFolds>) -> Result<bool, Error> {
        let mut found = None;
        self.snapshot.read.keys(range, |key, value| {
            found = Some((key, value.to_vec()));
            Ok(false)
        })?;
        let Some((key, value)) = found else { return Ok(false) };
        let reading = BlockReader::new(&key.encode(), value)?;
        self.block = Some((key, reading));
        Ok(true)
    }

    /// Reads the next block that may have postings of the token from `ordinal` on. Returns false at
    /// the end.
    fn load(&mut self, ordinal: u32) -> Result<bool, Error> {
        if !self.has_more {
            return Ok(false);
        }
        let own = (self.account, self.fold, FoldRows::Token(&self.token));
        let target = FoldKey::block(self.account, self.fold, &self.token, ordinal, 0);
        // The last block that begins at or before the target, if it was not read yet; otherwise the
        // next block.
        let (before, next) = match &self.block {
            Some((block, _)) if *block >= target => (None, KeyRange::behind(&own, block)),
            Some((block, _)) => {
                (Some(KeyRange::behind_through(block, &target)), KeyRange::behind(&own, &target))
            }
            None => {
                let first = (self.account, self.fold, FoldRows::Words);
                (Some(KeyRange::through(&first, &target)), KeyRange::behind(&own, &target))
            }
        };
        self.has_more = match before {
            Some(before) => self.load_first(&before.reversed())?,
            None => false,
        };
        self.has_more = self.has_more || self.load_first(&next)?;
        Ok(self.has_more)
    }
}
