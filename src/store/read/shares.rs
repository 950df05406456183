//! What is shared with whom.

use std::collections::BTreeMap;

use super::View;
use crate::model::{AccountId, MailboxUid};
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

    /// The mailboxes of an account in which a user has any right, with his rights (`Mailbox::rights`).
    ///
    /// # Errors
    /// Those of reading.
    pub fn rights(&self, account: AccountId, user: AccountId) -> Result<BTreeMap<MailboxUid, u16>, Error> {
        let all = self.mailboxes(account)?.into_iter();
        Ok(all.map(|(uid, row)| (uid, row.rights_of(account, user))).filter(|(_, rights)| *rights != 0).collect())
    }
}
