//! The directory's rows, and the end of an account.

use std::collections::BTreeSet;

use super::Txn;
use crate::model::{AccountId, AccountRow, Action, AddressRow, DataType, EmailId, EmailMetadata, Mailbox};
use crate::store::engine::{Read, Table, after};
use crate::store::error::Error;
use crate::store::key::{self, Parts};
use crate::store::row::Row;

/// The tables whose keys begin with the account, but for its own row and state, which go last. What others share with it
/// goes out of their mailboxes later (`unshare`).
const OWNED: [Table; 31] = [
    Table::EmailMetadata,
    Table::EmailByModseq,
    Table::EmailByThread,
    Table::EmailContent,
    Table::EmailTokens,
    Table::SearchFolds,
    Table::MailboxEmailList,
    Table::MailboxEmailIndex,
    Table::MailboxRank,
    Table::MailboxThreadIndex,
    Table::Threads,
    Table::ThreadByModseq,
    Table::Mailboxes,
    Table::Subscriptions,
    Table::ThreadRefs,
    Table::Deliveries,
    Table::DeliveryByTime,
    Table::Vacation,
    Table::VacationTold,
    Table::ToldByTime,
    Table::Decisions,
    Table::EmailPurge,
    Table::Outbox,
    Table::OutboxMessages,
    Table::OutboxSame,
    Table::History,
    Table::Sweeps,
    Table::Uploads,
    Table::Objects,
    Table::ObjectByModseq,
    Table::Shared,
];

impl Txn<'_> {
    /// Of the site: an account id that none had.
    pub fn next_account(&mut self) -> AccountId {
        self.state.last_account += 1;
        self.mark_state();
        AccountId(self.state.last_account)
    }

    /// Writes the row of a new account, and the address that leads to it: for stores that no directory stands over, as those
    /// of tests, fuzzers and benches.
    pub fn register(&mut self, row: &AccountRow) {
        self.set_account(row);
        let primary = row.primary.to_string().into_bytes();
        self.put_row(primary, &AddressRow::Primary(self.account));
    }

    /// Writes the account's own row.
    pub fn set_account(&mut self, row: &AccountRow) {
        self.next_modseq();
        self.put_row(key::account(self.account), row);
        self.touch(DataType::Account);
    }

    /// Writes which addresses lead to the account beside its primary one: in one commit with the rows of those that change
    /// (`Store::commit_together`). Clients do not see it, so it takes no change number.
    ///
    /// # Errors
    /// `NotFound`, and those of reading.
    pub fn set_account_addresses(&mut self, addresses: BTreeSet<String>) -> Result<(), Error> {
        let own = key::account(self.account);
        let row = self.row::<AccountRow>(&own)?.ok_or(Error::NotFound("account"))?;
        self.put_row(own, &AccountRow { addresses: Some(addresses), ..row });
        Ok(())
    }

    /// Of the site: says where an address leads, or that it leads nowhere.
    pub fn set_address(&mut self, address: &str, row: Option<&AddressRow>) {
        self.next_modseq();
        match row {
            Some(row) => self.put_row(address.as_bytes().to_vec(), row),
            None => self.delete(Table::Addresses, address.as_bytes().to_vec()),
        }
        self.touch(DataType::Account);
    }

    /// Removes up to `most` rows of the account, its own row last; says whether any is left. Each step is safe to stop at.
    ///
    /// # Errors
    /// Those of reading.
    pub fn erase(&mut self, most: usize) -> Result<bool, Error> {
        let prefix = key::account(self.account);
        let mut rows: Vec<(Table, Vec<u8>, Vec<u8>)> = Vec::new();
        for table in OWNED {
            self.scan(table, &prefix, &after(&prefix), false, &mut |key, value| {
                rows.push((table, key.to_vec(), value.to_vec()));
                Ok(rows.len() < most)
            })?;
            if rows.len() >= most {
                break;
            }
        }
        let left = rows.len() >= most;
        for (table, key, value) in rows {
            match table {
                Table::EmailMetadata => {
                    let email = EmailMetadata::decode(&key, &value)?;
                    self.let_go(&email.blob, EmailId(Parts::of(table, &key).u64()?));
                }
                Table::Outbox => {
                    let action = Action::decode(&key, &value)?;
                    self.wake(&action, false);
                    self.release_blob(&action);
                }
                Table::Mailboxes => {
                    // One that cannot be read does not keep its account.
                    let row = Mailbox::decode(&key, &value).unwrap_or_default();
                    for with in row.shares.into_keys() {
                        self.delete(Table::Shared, key::shared(with, self.account));
                    }
                }
                Table::Uploads => self.forget_upload(&key)?,
                _ => {}
            }
            self.delete(table, key);
        }
        if !left {
            // The address that only this row names; the others are taken away before.
            let row = self.get(Table::Accounts, &prefix)?.and_then(|row| AccountRow::decode(&prefix, &row).ok());
            let address = row.map(|row| row.primary.to_string().into_bytes()).unwrap_or_default();
            let leads = self.get(Table::Addresses, &address)?;
            if leads.is_some_and(|row| AddressRow::decode(&address, &row) == Ok(AddressRow::Primary(self.account))) {
                self.delete(Table::Addresses, address);
            }
            self.delete(Table::Accounts, prefix.clone());
            self.delete(Table::AccountState, prefix);
        }
        Ok(left)
    }
}
