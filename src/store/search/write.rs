//! Writes a piece of folding or merging that was made from a snapshot, if its rows are unchanged.
//!
//! Each piece is one batch. The row `Folds` says what is still to be done, so that after a kill the
//! next piece goes on.

use crate::store::engine::typed::TypedRead as _;
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
        for id in &piece.folded {
            if self.bytes::<EmailTokens>(&self.email_key(*id))?.is_none() {
                return Ok(false);
            }
        }
        for (key, value) in &piece.puts {
            self.put_bytes::<SearchFolds>(key, value.clone());
        }
        for key in &piece.deletes {
            self.delete::<SearchFolds>(key);
        }
        for id in &piece.folded {
            self.delete_tokens(*id)?;
        }
        if piece.after == Folds::default() {
            self.delete::<SearchFolds>(&own);
        } else {
            self.put_bytes::<SearchFolds>(&own, piece.after.encode());
        }
        Ok(true)
    }
}
