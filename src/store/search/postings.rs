//! The postings of one token in one fold, walked: a block is read when something in it is asked
//! for.
//!
//! A posting that goes on in the next block is put together here, so that nobody above knows of
//! blocks.

use crate::model::{AccountId, Token};
use crate::store::engine::typed::{KeyRange, TypedRead as _};
use crate::store::error::Error;
use crate::store::row::block::{BlockReader, Posting};
use crate::store::table::SearchFolds;
use crate::store::table::codec::Prefix as _;
use crate::store::table::folds::{FoldId, FoldKey, FoldRows};
use crate::store::txn::snapshot::Snapshot;

impl Snapshot<'_> {
    /// The postings of a token in a fold, to be walked.
    #[must_use]
    pub fn postings(&self, account: AccountId, fold: FoldId, token: Token) -> Postings<'_> {
        Postings {
            snapshot: self,
            account,
            fold,
            token,
            block: None,
            open: true,
            at: None,
            ahead: None,
        }
    }
}

/// The postings of one token in one fold, newest email first.
#[derive(Debug)]
pub struct Postings<'v> {
    snapshot: &'v Snapshot<'v>,
    account: AccountId,
    fold: FoldId,
    token: Token,
    /// The key of the block that is read, and how far it was.
    block: Option<(FoldKey, BlockReader<Vec<u8>>)>,
    /// The token may go on behind what was read.
    open: bool,
    /// Where the walk stands.
    at: Option<Posting>,
    /// What was read behind that.
    ahead: Option<Posting>,
}

impl Postings<'_> {
    /// The first posting of an email not before `ordinal`; ordinals must not descend from call to
    /// call.
    ///
    /// # Errors
    /// Any read error.
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
        block.next_of(&key.encode(), |token, at| match token.cmp(&self.token) {
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
                    self.at
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

    /// Goes on to the block that follows, if that begins with the token.
    fn next_block(&mut self) -> Result<bool, Error> {
        let own = (self.account, self.fold, FoldRows::Token(&self.token));
        let range =
            self.block.as_ref().map(|(key, _)| KeyRange::behind(&own, key)).filter(|_| self.open);
        self.open = range.map_or(Ok(false), |range| self.load_first(&range))?;
        Ok(self.open)
    }

    /// Reads the first block of a range; false where there is none.
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

    /// Reads the next block that may hold the token at `ordinal` or after; false at the end.
    fn load(&mut self, ordinal: u32) -> Result<bool, Error> {
        if !self.open {
            return Ok(false);
        }
        let own = (self.account, self.fold, FoldRows::Token(&self.token));
        let target = FoldKey::block(self.account, self.fold, &self.token, ordinal, 0);
        // The last block that begins no later than the target, if it is not read yet, else the one
        // that follows.
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
        self.open = match before {
            Some(before) => self.load_first(&before.reversed())?,
            None => false,
        };
        self.open = self.open || self.load_first(&next)?;
        Ok(self.open)
    }
}
