//! What is shared with whom.

use super::View;
use crate::model::{AccountId, DataType, Mailbox, ModSeq};
use crate::store::engine::{Table, after};
use crate::store::error::Error;
use crate::store::key::{self, Parts};

impl View<'_> {
    /// The accounts that share something with a user, beside his own.
    ///
    /// # Errors
    /// Those of reading; so for every function here.
    pub fn shared_with(&self, user: AccountId) -> Result<Vec<AccountId>, Error> {
        let prefix = key::account(user);
        let mut out = Vec::new();
        self.keys(Table::Shared, &prefix, &after(&prefix), |key, _| {
            out.push(AccountId(Parts::of(Table::Shared, key).u32()?));
            Ok(true)
        })?;
        Ok(out)
    }

    /// Whether the mailboxes of an account are shared as they were at a state.
    ///
    /// # Errors
    /// Those of reading.
    pub fn is_shared_as_at(&self, account: AccountId, since: ModSeq) -> Result<bool, Error> {
        if since < self.account_state(account)?.purged(DataType::Mailbox) {
            return Ok(false);
        }
        let mut is_same = true;
        // Those that are gone, too.
        self.rows::<Mailbox>(&key::account(account), |_, row| {
            is_same = row.updated_shares <= since;
            Ok(is_same)
        })?;
        Ok(is_same)
    }

    /// Whether an account shares something with a user.
    ///
    /// # Errors
    /// Those of reading.
    pub fn is_shared(&self, user: AccountId, account: AccountId) -> Result<bool, Error> {
        Ok(self.read.get(Table::Shared, &key::shared(user, account))?.is_some())
    }
}
