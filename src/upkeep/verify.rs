//! Compares what was derived from messages with the messages themselves: what the store's own check cannot, for it does
//! not read mail.

use crate::message::rows;
use crate::model::AccountId;
use crate::store::check::Breach;
use crate::store::{Error, Store};

/// Compares the search tokens of every live email of an account with those of its message.
///
/// # Errors
/// Those of the store.
pub fn tokens(store: &Store, account: AccountId) -> Result<Vec<Breach>, Error> {
    store.check_tokens(account, |raw| rows(raw, store.secrets()).tokens)
}
