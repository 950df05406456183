//! Reads which accounts share mailboxes with which users.

use crate::model::{AccountId, DataType, ModSeq};
use crate::store::engine::typed::{KeyRange, TypedRead as _};
use crate::store::error::Error;
use crate::store::table::keys::SharedKey;
use crate::store::table::{Mailboxes, Shared};
use crate::store::txn::snapshot::Snapshot;

impl Snapshot<'_> {
    /// Returns the other accounts that share a mailbox with a user, ascending.
    pub fn accounts_shared_with(&self, user: AccountId) -> Result<Vec<AccountId>, Error> {
        let mut out = Vec::new();
        self.read.keys::<Shared>(&KeyRange::under(&(user,)), |key, _| {
            out.push(key.account);
            Ok(true)
        })?;
        Ok(out)
    }

    /// Whether no share of an account was changed after the change `since`. False also if that is
    /// not known any more: `since` is below the low mark of mailboxes.
    pub fn is_sharing_unchanged_since(
        &self,
        account: AccountId,
        since: ModSeq,
    ) -> Result<bool, Error> {
        if since < self.account_state(account)?.low_mark(DataType::Mailbox) {
            return Ok(false);
        }
        let mut is_same = true;
        // Tombstones of destroyed mailboxes count, too.
        self.read.rows::<Mailboxes>(&KeyRange::under(&(account,)), |_, row| {
            is_same = row.updated_shares <= since;
            Ok(is_same)
        })?;
        Ok(is_same)
    }

    /// Whether `account` shares a mailbox with `user`.
    pub fn is_shared_with(&self, user: AccountId, account: AccountId) -> Result<bool, Error> {
        Ok(self.read.bytes::<Shared>(&SharedKey { user, account })?.is_some())
    }
}
