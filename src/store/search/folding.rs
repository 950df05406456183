//! The next small piece of an account's folding, made from a snapshot without the account's lock;
//! [`Txn::write_folds`](crate::store::Txn::write_folds) writes it.
//!
//! A fold inverts token rows into blocks. When enough folds of a level have gathered they are
//! merged into one of the next, piece by piece; where a merge stands is in its row, so that whoever
//! comes next goes on from there, after a kill too. Emails that are gone are left out of a merge.
//! Folds of the last level stay, so that the largest has a bounded size.
//!
//! Newest first: folding goes before merging, or a search would read ever more token rows; but when
//! folds have piled up (a large import), merging goes first.

use std::collections::BTreeMap;

use crate::model::{AccountId, EmailId, SearchWord, Token, Tokens};
use crate::store::engine::typed::{KeyRange, TypedRead as _};
use crate::store::error::Error;
use crate::store::row::block::{Block, Blocks};
use crate::store::row::decode_tokens;
use crate::store::row::fold::{Fold, Folds, MergePosition, fold_emails};
use crate::store::table::folds::{FoldId, FoldKey};
use crate::store::table::{EmailTokens, SearchFolds};
use crate::store::txn::snapshot::Snapshot;

/// How much is folded and merged at once. The rows do not depend on it: it may change at any time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FoldSizes {
    /// Token rows that must have gathered; a fold has fewer than twice as many.
    pub rows: usize,
    /// Octets of token rows after which a fold takes no more.
    pub row_octets: usize,
    /// Octets of a block.
    pub block: usize,
    /// Folds of a level that are merged into one of the next.
    pub fan: usize,
    /// Octets that a piece of a merge writes, some blocks more at most.
    pub piece: usize,
    /// The level whose folds are not merged: with the others as they are, folds of 131,072 emails.
    pub last_level: u8,
}

impl Default for FoldSizes {
    fn default() -> Self {
        Self {
            rows: 512,
            row_octets: 4 << 20,
            block: 8192,
            fan: 16,
            piece: 256 << 10,
            last_level: 2,
        }
    }
}

impl FoldSizes {
    /// Emails of one row of a fold's emails.
    pub(in crate::store) fn emails_of_row(&self) -> usize {
        (self.block / 8).max(1)
    }
}

/// A change of an account's folds: what it was made from, and what is to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoldPiece {
    pub(in crate::store) before: Folds,
    pub(in crate::store) after: Folds,
    /// Rows of `search_folds`.
    pub(in crate::store) puts: Vec<(FoldKey, Vec<u8>)>,
    /// Rows of `search_folds` that go.
    pub(in crate::store) gone: Vec<FoldKey>,
    /// Emails whose token rows go.
    pub(in crate::store) folded: Vec<EmailId>,
}

impl FoldPiece {
    pub(in crate::store) fn of(before: &Folds) -> Self {
        let (before, after) = (before.clone(), before.clone());
        Self { before, after, puts: Vec::new(), gone: Vec::new(), folded: Vec::new() }
    }

    pub(in crate::store) fn put_emails(
        &mut self,
        account: AccountId,
        fold: FoldId,
        first: u32,
        ids: &[EmailId],
    ) {
        self.puts.push((FoldKey::emails(account, fold, first), fold_emails(ids)));
    }

    pub(in crate::store) fn put_blocks(
        &mut self,
        account: AccountId,
        fold: FoldId,
        blocks: Vec<Block>,
    ) {
        for block in blocks {
            let key = FoldKey::block(account, fold, &block.token, block.ordinal, block.position);
            self.puts.push((key, block.value));
        }
    }
}

impl Snapshot<'_> {
    /// What is next to be done for the folds of an account; nothing where nothing is.
    ///
    /// # Errors
    /// Any read error.
    pub fn next_fold_piece(
        &self,
        account: AccountId,
        sizes: &FoldSizes,
    ) -> Result<Option<FoldPiece>, Error> {
        let folds = self.folds(account)?;
        let unfolded = self.account_state(account)?.unfolded;
        let piled = folds.free(0).len() >= sizes.fan.saturating_mul(4) && sizes.last_level > 0;
        if unfolded >= sizes.rows as u64 && !piled {
            // A last piece takes all: rows left over would sink below the remains of those that
            // were folded, and every search would walk over these to reach them.
            let all =
                usize::try_from(unfolded).ok().filter(|all| *all < sizes.rows.saturating_mul(2));
            return self.fold_rows(account, &folds, all.unwrap_or(sizes.rows), sizes);
        }
        if let Some(gone) = folds.dropped.first() {
            return self.drop_rows(account, &folds, *gone, sizes).map(Some);
        }
        for level in 0..sizes.last_level {
            let running = folds
                .merges
                .iter()
                .position(|merge| merge.into.id.level == level.saturating_add(1));
            match running {
                Some(at) => return self.merge_on(account, &folds, at, sizes).map(Some),
                None if folds.free(level).len() >= sizes.fan => {
                    return self.merge_begin(account, &folds, level, sizes).map(Some);
                }
                None => {}
            }
        }
        Ok(None)
    }

    /// Inverts the newest token rows, `limit` of them.
    fn fold_rows(
        &self,
        account: AccountId,
        folds: &Folds,
        limit: usize,
        sizes: &FoldSizes,
    ) -> Result<Option<FoldPiece>, Error> {
        let (mut rows, mut octets) = (Vec::new(), 0);
        let decode = |key: &[u8], value: &[u8]| Ok((value.len(), decode_tokens(key, value)?));
        self.read.rows_with::<EmailTokens, _>(
            &KeyRange::under(&(account,)),
            decode,
            |key, (length, tokens)| {
                octets += length;
                rows.push((key.email, tokens));
                Ok(rows.len() < limit && octets < sizes.row_octets)
            },
        )?;
        let ids: Vec<EmailId> = rows.iter().map(|(id, _)| *id).collect();
        let (Some(newest), Some(oldest)) = (ids.first().copied(), ids.last().copied()) else {
            return Ok(None);
        };
        let mut piece = FoldPiece::of(folds);
        piece.after.last += 1;
        let id = FoldId { level: 0, number: piece.after.last };
        let mut first = 0;
        for some in ids.chunks(sizes.emails_of_row()) {
            piece.put_emails(account, id, first, some);
            first = first.saturating_add(u32::try_from(some.len()).unwrap_or(u32::MAX));
        }
        piece.put_blocks(account, id, invert(&rows, sizes.block));
        let made = self.account_state(account)?.modseq;
        piece.after.live.push(Fold {
            id,
            made,
            emails: first,
            newest,
            oldest,
            knows_delivery: true,
        });
        piece.folded = ids;
        Ok(Some(piece))
    }

    /// Removes rows of a fold that was merged away.
    fn drop_rows(
        &self,
        account: AccountId,
        folds: &Folds,
        gone: FoldId,
        sizes: &FoldSizes,
    ) -> Result<FoldPiece, Error> {
        let mut piece = FoldPiece::of(folds);
        let limit = (sizes.piece / 512).max(1);
        self.read.keys::<SearchFolds>(&KeyRange::under(&(account, gone)), |key, _| {
            piece.gone.push(key);
            Ok(piece.gone.len() < limit)
        })?;
        if piece.gone.len() < limit {
            piece.after.dropped.retain(|fold| *fold != gone);
        }
        Ok(piece)
    }
}

/// The blocks of some emails' tokens.
fn invert(rows: &[(EmailId, Tokens)], limit: usize) -> Vec<Block> {
    let mut words: Vec<(u32, u32, &SearchWord)> = Vec::new();
    let mut texts: BTreeMap<&str, Vec<(u32, u16)>> = BTreeMap::new();
    for (ordinal, (_, tokens)) in (0u32..).zip(rows) {
        words.extend(tokens.words.iter().map(|word| (word.hash, ordinal, word)));
        for (text, fields) in &tokens.texts {
            texts.entry(text).or_default().push((ordinal, *fields));
        }
    }
    words.sort_unstable_by_key(|(hash, ordinal, _)| (*hash, *ordinal));
    let mut blocks = Blocks::new(limit);
    for (hash, ordinal, word) in words {
        blocks.push(&Token::Word(hash), ordinal, word.fields(), &word.positions);
    }
    for (text, postings) in texts {
        let token = Token::Text(text.to_owned());
        for (ordinal, fields) in postings {
            blocks.push(&token, ordinal, fields, &[]);
        }
    }
    blocks.finish()
}

impl MergePosition {
    /// Where a merge begins.
    pub(in crate::store) const FIRST_EMAIL: Self = Self::Email(EmailId(0));
    /// Where its postings begin.
    pub(in crate::store) const FIRST_POSTING: Self = Self::Posting(Token::Word(0), 0, 0);
}
