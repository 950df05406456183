//! The folds of the search index: a piece that was made from a snapshot is written, if what it was
//! made from still stands.
//!
//! Each piece is one batch, and names in the row of the folds what it leaves to be done: after a
//! kill between two of them every search answers as before, and the next piece goes on. Token rows
//! go in the batch that writes their blocks.
//!
//! An email that is destroyed before it was folded loses its token row at once (`email::write`),
//! and one that was folded is left out of the next merge: a restored email has a new id and comes
//! in as any other does, through `message::rows`, for the store cannot read mail.

use crate::store::engine::typed::TypedRead as _;
use crate::store::error::Error;
use crate::store::row::Row as _;
use crate::store::row::fold::Folds;
use crate::store::search::folding::FoldPiece;
use crate::store::table::folds::FoldKey;
use crate::store::table::{EmailTokens, SearchFolds};
use crate::store::txn::Txn;

impl Txn<'_> {
    /// Writes a piece; false, and nothing is staged, where the account has changed under it and it
    /// must be made anew.
    ///
    /// # Errors
    /// Any read error.
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
        for key in &piece.gone {
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
