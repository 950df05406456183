//! A repair's writes: while an account is marked, nobody else writes it, and what the repair found holds until it is done.

use super::Txn;
use crate::model::{AccountId, BlobHash, DataType, EmailId, Kept, Mailbox};
use crate::store::check::{held_by, holds, is_due, is_upload, sends, shared_by, shares_of, uploaded_by, whose};
use crate::store::engine::{Table, after};
use crate::store::error::Error;
use crate::store::key::{self, Parts};
use crate::store::repair::Scope;
use crate::store::row::{Row, State};
use crate::store::version;

/// What clients see by states that a repair may have made untrue.
const SEEN: [DataType; 7] = [
    DataType::Email,
    DataType::EmailDelivery,
    DataType::Thread,
    DataType::Mailbox,
    DataType::MailboxCounts,
    DataType::Identity,
    DataType::EmailSubmission,
];

impl Txn<'_> {
    /// Marks the account as one that is being repaired.
    pub(in crate::store) fn begin_repair(&mut self, scope: Scope) {
        self.put(Table::Site, version::unfinished_key(self.account), scope.row());
    }

    /// Writes rows as they should be; the account's own goes by its fields.
    pub(in crate::store) fn mend(
        &mut self,
        rows: impl IntoIterator<Item = (Table, Vec<u8>, Option<Vec<u8>>)>,
    ) -> Result<(), Error> {
        let own = key::account(self.account);
        for (table, key, value) in rows {
            if matches!(table, Table::Accounts | Table::Addresses) {
                self.next_modseq();
                self.touch(DataType::Account);
            }
            match value {
                Some(row) if table == Table::AccountState && key == own => {
                    self.state = State::decode(&key, &row)?;
                    self.mark_state();
                }
                Some(row) => self.put(table, key, row),
                None => self.delete(table, key),
            }
        }
        Ok(())
    }

    /// Every state that a client may hold is refused from now on.
    pub(in crate::store) fn refuse_states(&mut self) -> Result<(), Error> {
        let now = self.next_modseq();
        for data in SEEN {
            self.touch(data);
            if let Some(low) = self.state.low.get_mut(data as usize) {
                *low = now;
            }
        }
        let renewed = |kept: &mut Vec<Kept>| kept.iter_mut().for_each(|entry| entry.begin(now));
        renewed(&mut self.state.kept);
        let prefix = key::account(self.account);
        let mut rows: Vec<(Vec<u8>, Mailbox)> = Vec::new();
        crate::store::engine::Read::scan(
            self,
            Table::Mailboxes,
            &prefix,
            &after(&prefix),
            false,
            &mut |key, value| {
                rows.push((key.to_vec(), Mailbox::decode(key, value)?));
                Ok(true)
            },
        )?;
        for (key, mut mailbox) in rows {
            renewed(&mut mailbox.kept);
            self.put_row(key, &mailbox);
        }
        self.mark_state();
        Ok(())
    }

    /// The repair is done.
    pub(in crate::store) fn end_repair(&mut self) {
        self.delete(Table::Site, version::unfinished_key(self.account));
    }

    /// Deletes references and hints that name nothing, as seen under the account's lock; says how many.
    pub(in crate::store) fn drop_strays(&mut self, rows: &[(Table, Vec<u8>)]) -> Result<u64, Error> {
        let mut gone = 0;
        for (table, key) in rows {
            match table {
                Table::BlobRefs => {
                    let mut parts = Parts::of(*table, key);
                    let (email, account) = (EmailId(parts.u64()?), AccountId(parts.u32()?));
                    let blob = BlobHash(parts.take()?);
                    if account == self.account && !holds(self, account, email, &blob)? {
                        self.let_go(&blob, email);
                        gone += 1;
                    }
                }
                Table::OutboxDue => {
                    if let Some((account, action)) = whose(key)
                        && account == self.account
                        && !is_due(self, account, action, key)?
                    {
                        self.delete(*table, key.clone());
                        gone += 1;
                    }
                }
                Table::OutboxBlobs => {
                    if let Some((account, _, blob)) = held_by(key)
                        && account == self.account
                        && !sends(self, key)?
                    {
                        self.delete(*table, key.clone());
                        self.put(Table::BlobPurge, key::blob_purge(self.now, &blob), vec![1]);
                        gone += 1;
                    }
                }
                Table::Shared => {
                    if let Some((owner, with)) = shared_by(key)
                        && (owner == self.account || self.view().account(owner)?.is_none())
                        && !(shares_of(self, owner)?.contains(&with) && self.view().account(with)?.is_some())
                    {
                        self.delete(*table, key.clone());
                        gone += 1;
                    }
                }
                Table::UploadBlobs => {
                    if let Some((account, _, blob)) = uploaded_by(key)
                        && account == self.account
                        && !is_upload(self, key)?
                    {
                        self.delete(*table, key.clone());
                        self.put(Table::BlobPurge, key::blob_purge(self.now, &blob), vec![1]);
                        gone += 1;
                    }
                }
                _ => {}
            }
        }
        Ok(gone)
    }
}
