//! Reads the search index: the token rows, and the emails and texts of folds.
//!
//! A fold numbers its emails newest first, and its postings name an email by that ordinal. The
//! email may have been destroyed since ([`Snapshot::is_current_in_fold`]).

use crate::model::{AccountId, EmailId, ModSeq, Token, Tokens, WantedTokens};
use crate::store::engine::typed::{KeyRange, TypedRead as _};
use crate::store::error::Error;
use crate::store::row::block::read_block;
use crate::store::row::fold::{Fold, Folds, read_fold_emails};
use crate::store::row::{Row as _, decode_wanted_tokens};
use crate::store::table::codec::Prefix as _;
use crate::store::table::folds::{FoldEmailsKey, FoldId, FoldKey, FoldRows};
use crate::store::table::keys::EmailKey;
use crate::store::table::{self, EmailTokens, SearchFolds};
use crate::store::txn::snapshot::Snapshot;

impl Snapshot<'_> {
    /// Returns the list of an account's folds. It is empty if nothing was folded yet.
    pub fn folds(&self, account: AccountId) -> Result<Folds, Error> {
        Ok(self
            .read
            .row_with::<SearchFolds, _>(&FoldKey::list(account), Folds::decode)?
            .unwrap_or_default())
    }

    /// Calls `each` for the emails that are not folded, newest first from `start` on, each with
    /// those of its tokens that are wanted, until `each` returns false.
    pub fn scan_unfolded_tokens(
        &self,
        account: AccountId,
        start: EmailId,
        wanted: &WantedTokens,
        mut each: impl FnMut(EmailId, Tokens) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        let range = KeyRange::from(&(account,), &EmailKey { account, email: start });
        let decode = |key: &[u8], row: &[u8]| decode_wanted_tokens(key, row, wanted);
        self.read.rows_with::<EmailTokens, _>(&range, decode, |key, tokens| each(key.email, tokens))
    }

    /// Whether an id in a fold with this `created_upto` still names a live email of the fold. After
    /// a purge, a younger email may have the id.
    pub fn is_current_in_fold(
        &self,
        account: AccountId,
        created_upto: ModSeq,
        id: EmailId,
    ) -> Result<bool, Error> {
        let row = self.read.row::<table::EmailMetadata>(&EmailKey { account, email: id })?;
        Ok(row.is_some_and(|email| email.destroyed.is_none() && email.created <= created_upto))
    }

    /// Returns all emails of a fold by ordinal, which is newest first.
    pub fn fold_emails(&self, account: AccountId, fold: FoldId) -> Result<Vec<EmailId>, Error> {
        let range = KeyRange::under(&(account, fold, FoldRows::Emails));
        let mut ids = Vec::new();
        self.read.rows_with::<SearchFolds, _>(&range, read_fold_emails, |_, row| {
            ids.extend(row);
            Ok(true)
        })?;
        Ok(ids)
    }

    /// Returns a cursor that translates the ordinals of a fold into emails, and back.
    #[must_use]
    pub fn fold_ordinals(&self, account: AccountId, fold: Fold) -> Ordinals<'_> {
        Ordinals { snapshot: self, account, fold, first: 0, ids: Vec::new() }
    }

    /// Returns the ordinals of the emails of a fold that have a text, ascending, each with the
    /// fields that have it.
    pub fn postings_of_text(
        &self,
        account: AccountId,
        fold: FoldId,
        text: &str,
    ) -> Result<Vec<(u32, u16)>, Error> {
        let (mut out, mut next) = (Vec::new(), 0);
        let mut postings = self.postings(account, fold, Token::Text(text.to_owned()));
        while let Some(posting) = postings.seek(next)? {
            out.push((posting.ordinal, posting.fields));
            next = posting.ordinal.saturating_add(1);
        }
        Ok(out)
    }

    /// Returns the texts of a fold that begin with a prefix, in order and without duplicates. Skips
    /// the blocks that have only postings of one text.
    pub fn texts(
        &self,
        account: AccountId,
        fold: FoldId,
        prefix: &str,
    ) -> Result<Vec<String>, Error> {
        let all = (account, fold, FoldRows::Texts(""));
        let first = (account, fold, FoldRows::Texts(prefix));
        let mut texts = Vec::<String>::new();
        loop {
            let before = texts.len();
            // The blocks up to the last one that begins with the last text found, and the blocks
            // behind it.
            let last = texts.last().map(|last| Token::Text(last.clone()));
            let (upto, behind) = match &last {
                Some(last) => {
                    let last = (account, fold, FoldRows::Token(last));
                    (
                        KeyRange::<SearchFolds>::through(&all, &last),
                        KeyRange::<SearchFolds>::behind(&first, &last),
                    )
                }
                None => (KeyRange::before(&all, &first), KeyRange::under(&first)),
            };
            // The last block of `upto` may end with further texts; otherwise the first block of
            // `behind` begins with one.
            let mut take = |key: FoldKey, value: &[u8]| {
                more_texts(&key, value, prefix, &mut texts).map(|()| false)
            };
            self.read.keys(&upto.reversed(), &mut take)?;
            if texts.len() == before {
                let mut take = |key: FoldKey, value: &[u8]| {
                    more_texts(&key, value, prefix, &mut texts).map(|()| false)
                };
                self.read.keys(&behind, &mut take)?;
            }
            if texts.len() == before {
                return Ok(texts);
            }
        }
    }

    /// Does as `postings_of_text` for all texts with this prefix.
    pub fn postings_of_texts(
        &self,
        account: AccountId,
        fold: FoldId,
        prefix: &str,
    ) -> Result<Vec<(u32, u16)>, Error> {
        let mut out: Vec<(u32, u16)> = Vec::new();
        let first = (account, fold, FoldRows::Texts(prefix));
        let mut take = |key: &FoldKey, value: &[u8]| {
            let wanted = |token: &Token, _| match token {
                Token::Text(text) if text.starts_with(prefix) => Some(true),
                Token::Text(text) if text.as_str() > prefix => None,
                _ => Some(false),
            };
            read_block(&key.encode(), value, wanted, |posting| {
                out.push((posting.ordinal, posting.fields));
            })
        };
        // The block before the range may end with such texts.
        let before = KeyRange::<SearchFolds>::before(&(account, fold, FoldRows::Texts("")), &first);
        self.read.keys(&before.reversed(), |key, value| {
            take(&key, value)?;
            Ok(false)
        })?;
        self.read.keys(&KeyRange::<SearchFolds>::under(&first), |key, value| {
            take(&key, value)?;
            Ok(true)
        })?;
        out.sort_unstable();
        out.dedup_by(|next, previous| {
            let is_same_email = next.0 == previous.0;
            if is_same_email {
                previous.1 |= next.1;
            }
            is_same_email
        });
        Ok(out)
    }
}

/// Adds the texts of a block that begin with a prefix and come after the last text found.
fn more_texts(
    key: &FoldKey,
    value: &[u8],
    prefix: &str,
    texts: &mut Vec<String>,
) -> Result<(), Error> {
    let each = |token: &Token, _| {
        let Token::Text(text) = token else { return None };
        let has_prefix = text.starts_with(prefix);
        if has_prefix && texts.last().is_none_or(|last| last < text) {
            texts.push(text.clone());
        }
        (has_prefix || text.as_str() < prefix).then_some(false)
    };
    read_block(&key.encode(), value, each, drop)
}

/// An ordinal that is less than this far behind the row that was read last is looked for in the
/// next row: most rows have this many emails (`FoldSizes::emails_of_row`).
const NEXT_ROW_DISTANCE: u32 = 1024;

/// A cursor over the rows with the emails of one fold.
#[derive(Debug)]
pub struct Ordinals<'v> {
    snapshot: &'v Snapshot<'v>,
    account: AccountId,
    fold: Fold,
    /// The ordinal of the first email of `ids`.
    first: u32,
    /// The emails of the row that was read last; empty before.
    ids: Vec<EmailId>,
}

impl Ordinals<'_> {
    /// Returns the email of an ordinal; `None` behind the last. Ordinals may come in any order.
    pub fn email(&mut self, ordinal: u32) -> Result<Option<EmailId>, Error> {
        if self.loaded(ordinal).is_none() && ordinal < self.fold.emails {
            if ordinal.checked_sub(self.end()).is_some_and(|gap| gap < NEXT_ROW_DISTANCE) {
                self.load_next()?;
            }
            if self.loaded(ordinal).is_none() {
                self.load(ordinal)?;
            }
        }
        Ok(self.loaded(ordinal))
    }

    /// Returns the first ordinal whose email has an id of at least `id`; `None` if there is none.
    /// Ids must not descend from call to call.
    pub fn seek(&mut self, id: EmailId) -> Result<Option<u32>, Error> {
        for _ in 0..self.snapshot.thresholds.fold_scan_rows {
            if self.reaches(id) || self.end() >= self.fold.emails {
                break;
            }
            self.load_next()?;
        }
        if !self.reaches(id) {
            self.load_by_search(id)?;
        }
        let at = self.ids.partition_point(|other| *other < id);
        let ordinal = u32::try_from(at).ok().and_then(|at| self.first.checked_add(at));
        Ok(ordinal.filter(|_| self.reaches(id)))
    }

    /// Whether the row that was read last has an email that is not before `id`.
    fn reaches(&self, id: EmailId) -> bool {
        self.ids.last().is_some_and(|last| *last >= id)
    }

    /// Finds the row of the first email that is not before `id`, behind the row that was read last,
    /// by binary search.
    fn load_by_search(&mut self, id: EmailId) -> Result<(), Error> {
        // Ordinals below `low` are before `id`; those from `high` on are not.
        let (mut low, mut high) = (self.end(), self.fold.emails);
        while low < high {
            let middle = low.midpoint(high);
            self.load(middle)?;
            if !self.reaches(id) {
                low = self.end().max(middle.saturating_add(1));
            } else if self.first <= low || self.ids.first().is_some_and(|first| *first < id) {
                return Ok(());
            } else {
                high = self.first;
            }
        }
        if low < self.fold.emails { self.load(low) } else { Ok(()) }
    }

    /// The ordinal behind the last email of `ids`.
    fn end(&self) -> u32 {
        self.first.saturating_add(u32::try_from(self.ids.len()).unwrap_or(u32::MAX))
    }

    /// Reads the row behind the one that was read last.
    fn load_next(&mut self) -> Result<(), Error> {
        self.first = self.end();
        let key = FoldKey::emails(self.account, self.fold.id, self.first);
        let row = self.snapshot.read.row_with::<SearchFolds, _>(&key, read_fold_emails)?;
        self.ids = row.unwrap_or_default();
        Ok(())
    }

    /// Reads the row that has an ordinal.
    fn load(&mut self, ordinal: u32) -> Result<(), Error> {
        let all = (self.account, self.fold.id, FoldRows::Emails);
        let range = KeyRange::through(&all, &FoldKey::emails(self.account, self.fold.id, ordinal));
        (self.first, self.ids) = (0, Vec::new());
        self.snapshot.read.rows_with::<SearchFolds, _>(
            &range.reversed(),
            read_fold_emails,
            |key, ids| {
                if let FoldKey::Emails(FoldEmailsKey { first, .. }) = key {
                    (self.first, self.ids) = (first, ids);
                }
                Ok(false)
            },
        )?;
        Ok(())
    }

    /// Returns the email of an ordinal, if it is in the row that was read last.
    fn loaded(&self, ordinal: u32) -> Option<EmailId> {
        let at = usize::try_from(ordinal.checked_sub(self.first)?).ok()?;
        self.ids.get(at).copied()
    }
}
