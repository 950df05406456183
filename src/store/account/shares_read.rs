//! Which accounts share mailboxes with which users.

use crate::model::{AccountId, DataType, ModSeq};
use crate::store::engine::typed::{KeyRange, TypedRead as _};
use crate::store::error::Error;
use crate::store::table::keys::SharedKey;
use crate::store::table::{Mailboxes, Shared};
use crate::store::txn::snapshot::Snapshot;

impl Snapshot<'_> {
    /// The other accounts that share something with a user.
    ///
    /// # Errors
    /// Those of reading; so for every function here.
    pub fn accounts_shared_with(&self, user: AccountId) -> Result<Vec<AccountId>, Error> {
        let mut out = Vec::new();
        self.read.keys::<Shared>(&KeyRange::under(&(user,)), |key, _| {
            out.push(key.account);
            Ok(true)
        })?;
        Ok(out)
    }

    /// Whether the mailboxes of an account are shared as they were at a state.
    ///
    /// # Errors
    /// Those of reading.
    pub fn is_sharing_unchanged_since(
        &self,
        account: AccountId,
        since: ModSeq,
    ) -> Result<bool, Error> {
        if since < self.account_state(account)?.low_mark(DataType::Mailbox) {
            return Ok(false);
        }
        let mut is_same = true;
        // Those that are gone, too.
        self.read.rows::<Mailboxes>(&KeyRange::under(&(account,)), |_, row| {
            is_same = row.updated_shares <= since;
            Ok(is_same)
        })?;
        Ok(is_same)
    }

    /// Whether an account shares something with a user.
    ///
    /// # Errors
    /// Those of reading.
    pub fn is_shared_with(&self, user: AccountId, account: AccountId) -> Result<bool, Error> {
        Ok(self.read.bytes::<Shared>(&SharedKey { with: user, account })?.is_some())
    }
}
