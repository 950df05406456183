//! Folding the search index of an account (`storage.md`, "Search").
//!
//! A piece is made from a view without the account's lock, and written in one commit if what it was made from still stands;
//! where the account changed meanwhile nothing is written, and the next step makes it anew. What is half done is in the
//! account's rows, so that a kill at any point costs a piece and no more.

use crate::model::AccountId;
use crate::store::{Error, FoldSizes, Store};

/// Folds gathered token rows, or does a piece of a merge; says whether more is to be done.
///
/// # Errors
/// Those of the store.
pub fn step(store: &Store, account: AccountId) -> Result<bool, Error> {
    step_of(store, account, &FoldSizes::default())
}

/// A step of other sizes.
///
/// # Errors
/// Those of the store.
pub fn step_of(store: &Store, account: AccountId, sizes: &FoldSizes) -> Result<bool, Error> {
    let Some(piece) = store.view().next_fold_piece(account, sizes)? else { return Ok(false) };
    let (_, ticket) = store.commit(account, |txn| txn.write_folds(piece))?;
    ticket.wait_blocking()?;
    Ok(true)
}
