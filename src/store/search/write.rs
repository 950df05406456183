//! Writes a piece of folding or merging that was made from a snapshot, if its rows are unchanged.
//!
//! Each piece, or part of one, is one batch. The row `Folds` says what is still to be done, so that
//! after a kill the next piece goes on.

use crate::model::EmailId;
use crate::store::engine::typed::{KeyRange, TypedRead as _};
use crate::store::error::Error;
use crate::store::row::Row as _;
use crate::store::row::fold::Folds;
use crate::store::search::folding::FoldPiece;
use crate::store::table::folds::FoldKey;
use crate::store::table::{EmailTokens, SearchFolds};
use crate::store::txn::Txn;

impl Txn<'_> {
    /// Stages the rows of a piece. Returns `false` and stages nothing if the piece is out of date:
    /// since it was made, the folds have changed, or an email that it folds has lost its token row.
    pub fn write_folds(&mut self, piece: &FoldPiece) -> Result<bool, Error> {
        let own = FoldKey::list(self.account);
        if self.row_with::<SearchFolds, _>(&own, Folds::decode)?.unwrap_or_default() != piece.before
        {
            return Ok(false);
        }
        if !self.have_tokens(&piece.folded)? {
            return Ok(false);
        }
        for (key, value) in &piece.puts {
            self.put_bytes::<SearchFolds>(key, value.clone());
        }
        for key in &piece.deletes {
            self.delete::<SearchFolds>(key);
        }
        for id in &piece.folded {
            self.delete::<EmailTokens>(&self.email_key(*id));
        }
        self.state.unfolded = self.state.unfolded.saturating_sub(piece.folded.len() as u64);
        if piece.after == Folds::default() {
            self.delete::<SearchFolds>(&own);
        } else {
            self.put_bytes::<SearchFolds>(&own, piece.after.encode());
        }
        Ok(true)
    }

    /// Whether each of these emails, newest first, has a token row.
    fn have_tokens(&self, emails: &[EmailId]) -> Result<bool, Error> {
        let (Some(newest), Some(oldest)) = (emails.first(), emails.last()) else { return Ok(true) };
        let range = KeyRange::through(&self.email_key(*newest), &self.email_key(*oldest));
        let mut left = emails.iter().peekable();
        self.keys::<EmailTokens>(&range, |key, _| {
            left.next_if_eq(&&key.email);
            Ok(left.peek().is_some())
        })?;
        Ok(left.peek().is_none())
    }
}
