//! Makes the next small piece of an account's folding from a snapshot, without the account's lock.
//! [`Txn::write_folds`](crate::store::Txn::write_folds) writes it.
//!
//! - A fold is made of token rows, the oldest first, which are inverted into blocks.
//! - When a level has `FoldSizes::fan` folds, they are merged into one fold of the next level,
//!   piece by piece, without the emails that are destroyed by then. Folds of the last level are not
//!   merged.
//! - Folding comes before merging, unless four times `fan` folds of the first level wait.

use std::collections::BTreeMap;

use crate::model::{AccountId, EmailId, SearchWord, Token, Tokens};
use crate::store::engine::typed::{KeyRange, TypedRead as _};
use crate::store::error::Error;
use crate::store::row::block::{Block, BlockWriter};
use crate::store::row::decode_tokens;
use crate::store::row::fold::{Fold, Folds, MergePosition, fold_emails};
use crate::store::table::folds::{FoldId, FoldKey};
use crate::store::table::keys::EmailKey;
use crate::store::table::{EmailTokens, SearchFolds};
use crate::store::txn::snapshot::Snapshot;

/// About how many words of token rows are in a range that is inverted at a time.
const WORDS_PER_RANGE: usize = 2048;
const ROWS_BETWEEN_YIELDS: usize = 8;
const TEXTS_BETWEEN_YIELDS: usize = 256;

/// How much is folded and merged at once. Rows of other sizes stay valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FoldSizes {
    /// A fold is made once there are this many token rows. It takes this many, or all of them if
    /// there are fewer than twice as many.
    pub rows: usize,
    /// Bytes of token rows after which a new fold takes no further row.
    pub row_bytes: usize,
    /// Bytes of a block of postings, at most (`BlockWriter::new`).
    pub block: usize,
    /// The number of folds of a level that are merged into one of the next level.
    pub fan: usize,
    /// Bytes after which a piece of a merge, or a part of a new fold, ends; it may be some blocks
    /// larger.
    pub piece: usize,
    /// The level whose folds are not merged. The first level is 0.
    pub last_level: u8,
}

impl Default for FoldSizes {
    fn default() -> Self {
        Self {
            rows: 512,
            row_bytes: 4 << 20,
            block: 8192,
            fan: 16,
            piece: 128 << 10,
            last_level: 2,
        }
    }
}

impl FoldSizes {
    /// The most emails in one row of a fold's emails: so many that the row is about as large as a
    /// block, with 8 bytes for an email.
    pub(in crate::store) fn emails_of_row(&self) -> usize {
        (self.block / 8).max(1)
    }
}

/// A change of the list of an account's folds from `before` to `after`, with the rows to write. It
/// is only written if the list is still `before`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoldPiece {
    pub(in crate::store) before: Folds,
    pub(in crate::store) after: Folds,
    /// Rows of `search_folds` to write, without the list.
    pub(in crate::store) puts: Vec<(FoldKey, Vec<u8>)>,
    pub(in crate::store) deletes: Vec<FoldKey>,
    /// Emails whose token rows are deleted, newest first.
    pub(in crate::store) folded: Vec<EmailId>,
    /// The fold that the piece makes of token rows.
    new: Option<FoldId>,
}

impl FoldPiece {
    pub(in crate::store) fn of(before: &Folds) -> Self {
        let (before, after) = (before.clone(), before.clone());
        let (puts, deletes, folded) = (Vec::new(), Vec::new(), Vec::new());
        Self { before, after, puts, deletes, folded, new: None }
    }

    /// Divides a piece that makes a fold of token rows into parts with about this many bytes, which
    /// must be written one after the other: a write of the whole would hold up others. Until the
    /// last part is written the fold counts as dropped, so what a kill leaves of it is deleted.
    /// Each part changes the list of folds, so that none is written after another piece. A piece of
    /// another kind is its only part.
    #[must_use]
    pub fn parts(self, bytes: usize) -> Vec<Self> {
        let Some(new) = self.new else { return vec![self] };
        let mut unfinished = self.before.clone();
        unfinished.last = self.after.last;
        unfinished.dropped.push(new);
        let (mut parts, mut part, mut part_bytes) = (Vec::new(), Self::of(&self.before), 0);
        for (key, value) in self.puts {
            if part_bytes >= bytes {
                part.after.clone_from(&unfinished);
                parts.push(std::mem::replace(&mut part, Self::of(&unfinished)));
                unfinished.last += 1;
                part_bytes = 0;
            }
            part_bytes += value.len();
            part.puts.push((key, value));
        }
        part.after = Folds { last: unfinished.last, ..self.after };
        part.folded = self.folded;
        parts.push(part);
        parts
    }

    /// Adds a row of emails of a fold, of which the first has the ordinal `first`.
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
    /// Makes the next piece of folding, of deleting a dropped fold, or of a merge. `None` if
    /// nothing is to be done.
    pub fn next_fold_piece(
        &self,
        account: AccountId,
        sizes: &FoldSizes,
    ) -> Result<Option<FoldPiece>, Error> {
        let folds = self.folds(account)?;
        let unfolded = self.account_state(account)?.unfolded;
        let has_backlog =
            folds.free(0).len() >= sizes.fan.saturating_mul(4) && sizes.last_level > 0;
        // Folds that were not finished, because their emails changed meanwhile, must not pile up.
        let has_remains = folds.dropped.len() > sizes.fan;
        if unfolded >= sizes.rows as u64 && !has_backlog && !has_remains {
            // The last piece takes all rows, so that few are left to be read one by one.
            let all =
                usize::try_from(unfolded).ok().filter(|all| *all < sizes.rows.saturating_mul(2));
            return self.fold_rows(account, &folds, all.unwrap_or(sizes.rows), sizes);
        }
        if let Some(dropped) = folds.dropped.first() {
            return self.drop_rows(account, &folds, *dropped, sizes).map(Some);
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

    /// Makes a fold of `limit` token rows, or of fewer that have `FoldSizes::row_bytes`.
    ///
    /// These are the oldest rows, so that a search from the newest row on need not step over the
    /// remains of folded ones. First come those that are newer than all folds, because the remains
    /// lie behind them. If there are too few, because mail was stored under an older date, the fold
    /// takes the oldest of all.
    fn fold_rows(
        &self,
        account: AccountId,
        folds: &Folds,
        limit: usize,
        sizes: &FoldSizes,
    ) -> Result<Option<FoldPiece>, Error> {
        let all = || KeyRange::under(&(account,));
        let newer = match folds.live.iter().map(|fold| fold.newest).min() {
            Some(newest) => KeyRange::before(&(account,), &EmailKey { account, email: newest }),
            None => all(),
        };
        let (mut rows, is_full) = self.token_rows(&newer.reversed(), limit, sizes.row_bytes)?;
        if !is_full {
            (rows, _) = self.token_rows(&all().reversed(), limit, sizes.row_bytes)?;
        }
        rows.reverse();
        let ids: Vec<EmailId> = rows.iter().map(|(id, _)| *id).collect();
        let (Some(newest), Some(oldest)) = (ids.first().copied(), ids.last().copied()) else {
            return Ok(None);
        };
        let mut piece = FoldPiece::of(folds);
        piece.after.last += 1;
        let id = FoldId { level: 0, number: piece.after.last };
        let mut first = 0;
        for row in ids.chunks(sizes.emails_of_row()) {
            piece.put_emails(account, id, first, row);
            first = first.saturating_add(u32::try_from(row.len()).unwrap_or(u32::MAX));
        }
        piece.put_blocks(account, id, invert(&rows, sizes.block));
        let created_upto = self.account_state(account)?.modseq;
        piece.after.live.push(Fold {
            id,
            created_upto,
            emails: first,
            newest,
            oldest,
            knows_delivery: true,
        });
        piece.folded = ids;
        piece.new = Some(id);
        Ok(Some(piece))
    }

    /// Returns the first token rows of a range, until there are `limit` of them or they have
    /// `max_bytes`. Also returns whether one of the bounds was reached.
    fn token_rows(
        &self,
        range: &KeyRange<EmailTokens>,
        limit: usize,
        max_bytes: usize,
    ) -> Result<(Vec<(EmailId, Tokens)>, bool), Error> {
        let (mut rows, mut bytes) = (Vec::new(), 0);
        let mut is_full = false;
        let decode = |key: &[u8], value: &[u8]| Ok((value.len(), decode_tokens(key, value)?));
        self.read.rows_with::<EmailTokens, _>(range, decode, |key, (length, tokens)| {
            bytes += length;
            rows.push((key.email, tokens));
            if rows.len().is_multiple_of(ROWS_BETWEEN_YIELDS) {
                yield_thread();
            }
            is_full = rows.len() >= limit || bytes >= max_bytes;
            Ok(!is_full)
        })?;
        Ok((rows, is_full))
    }

    /// Makes a piece that deletes rows of a merged fold, or of a new one that was not finished.
    fn drop_rows(
        &self,
        account: AccountId,
        folds: &Folds,
        dropped: FoldId,
        sizes: &FoldSizes,
    ) -> Result<FoldPiece, Error> {
        let mut piece = FoldPiece::of(folds);
        // So that the piece costs about as much as a piece of a merge: a row counts as 512 bytes.
        let limit = (sizes.piece / 512).max(1);
        self.read.keys::<SearchFolds>(&KeyRange::under(&(account, dropped)), |key, _| {
            piece.deletes.push(key);
            Ok(piece.deletes.len() < limit)
        })?;
        if piece.deletes.len() < limit {
            piece.after.dropped.retain(|fold| *fold != dropped);
        }
        // So that no other piece that was made from the same list is written after this one.
        piece.after.last += 1;
        Ok(piece)
    }
}

/// Returns the blocks with the postings of these token rows. The position of a row is the ordinal
/// of its email.
fn invert(rows: &[(EmailId, Tokens)], block_bytes: usize) -> Vec<Block> {
    let mut blocks = BlockWriter::new(block_bytes);
    let words: usize = rows.iter().map(|(_, tokens)| tokens.words.iter().len()).sum();
    let ranges = u64::try_from(words.div_ceil(WORDS_PER_RANGE)).unwrap_or(u64::MAX);
    invert_words(rows, ranges.max(1), &mut blocks);
    let mut texts: BTreeMap<&str, Vec<(u32, u16)>> = BTreeMap::new();
    for (ordinal, (_, tokens)) in (0u32..).zip(rows) {
        for (text, fields) in &tokens.texts {
            texts.entry(text).or_default().push((ordinal, *fields));
        }
    }
    for (number, (text, postings)) in texts.into_iter().enumerate() {
        if number.is_multiple_of(TEXTS_BETWEEN_YIELDS) {
            yield_thread();
        }
        let token = Token::Text(text.to_owned());
        for (ordinal, fields) in postings {
            blocks.push(&token, ordinal, fields, &[]);
        }
    }
    blocks.finish()
}

/// Adds the postings of the words to blocks, one range of hashes after the other: so only one range
/// is collected and sorted at a time.
fn invert_words(rows: &[(EmailId, Tokens)], ranges: u64, blocks: &mut BlockWriter) {
    let mut unread: Vec<_> =
        rows.iter().map(|(_, tokens)| tokens.words.iter().peekable()).collect();
    let mut words: Vec<(u32, u32, &[u32])> = Vec::new();
    for number in 1..=ranges {
        let end = end_of_range(number, ranges);
        for (ordinal, row) in (0u32..).zip(&mut unread) {
            while let Some(word) = row.next_if(|word| u64::from(word.hash) < end) {
                words.push((word.hash, ordinal, word.positions));
            }
        }
        words.sort_unstable_by_key(|(hash, ordinal, _)| (*hash, *ordinal));
        for (hash, ordinal, positions) in words.drain(..) {
            let fields = SearchWord { hash, positions }.fields();
            blocks.push(&Token::Word(hash), ordinal, fields, positions);
        }
        yield_thread();
    }
}

/// Returns the end of the range `number`, from 1 on, if hashes are divided into this many ranges.
fn end_of_range(number: u64, ranges: u64) -> u64 {
    if number < ranges {
        (number << SearchWord::HASH_BITS).checked_div(ranges).unwrap_or(u64::MAX)
    } else {
        u64::MAX
    }
}

/// Lets a thread run that waits for this processor. Folding computes for milliseconds at a time. A
/// session on the same processor would have to wait until folding's time slice ends, up to 3 ms.
pub(in crate::store) fn yield_thread() {
    std::thread::yield_now();
}

impl MergePosition {
    pub(in crate::store) const FIRST_EMAIL: Self = Self::Email(EmailId(0));
    pub(in crate::store) const FIRST_POSTING: Self = Self::Posting(Token::Word(0), 0, 0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::SearchWords;
    use crate::store::row::block::{Posting, read_block};

    #[test]
    fn words_of_several_ranges_come_in_the_order_of_their_hashes() {
        let mut dice = 1u32;
        let mut roll = move || {
            dice = dice.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            dice >> 8
        };
        for ranges in [1u64, 2, 3, 6, 500] {
            // The hashes at the ends of ranges, one that is longer than those of words, and others.
            let ends =
                (1..ranges).map(|number| u32::try_from(end_of_range(number, ranges)).unwrap());
            let ends: Vec<u32> = ends.flat_map(|end| [end - 1, end]).collect();
            let rows: Vec<(EmailId, Tokens)> = (0..20)
                .map(|id| {
                    let mut hashes: Vec<u32> = (0..100).map(|_| roll() * 16).collect();
                    hashes.extend(ends.iter().filter(|end| (**end + id) % 3 != 0));
                    hashes.extend([0, (1 << SearchWord::HASH_BITS) - 1, u32::MAX]);
                    hashes.sort_unstable();
                    hashes.dedup();
                    let mut words = SearchWords::default();
                    hashes
                        .iter()
                        .for_each(|hash| words.push_word(*hash, [id, id + *hash % 99 + 1]));
                    (EmailId(u64::from(id)), Tokens { words, texts: Vec::new() })
                })
                .collect();
            let mut wanted = Vec::new();
            for (ordinal, (_, tokens)) in (0..).zip(&rows) {
                let words = tokens.words.iter();
                wanted.extend(words.map(|word| (word.hash, ordinal, word.positions.to_vec())));
            }
            wanted.sort_unstable();
            let mut blocks = BlockWriter::new(1 << 13);
            invert_words(&rows, ranges, &mut blocks);
            let mut found = Vec::new();
            for block in blocks.finish() {
                let each = |posting: Posting| {
                    let Token::Word(hash) = posting.token else { panic!("a text") };
                    found.push((hash, posting.ordinal, posting.positions.to_vec()));
                };
                read_block(b"key", &block.value, |_, _| Some(true), each).unwrap();
            }
            assert_eq!(found, wanted, "{ranges}");
        }
    }
}
