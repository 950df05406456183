//! Writes the mark, the rows and the end of a repair, and deletes references and wake-ups that name
//! nothing. While an account is marked, only its repair writes it.

use crate::model::{DataType, MaintainedListing};
use crate::store::engine::Table;
use crate::store::engine::typed::{KeyRange, TypedRead as _};
use crate::store::error::Error;
use crate::store::repair::references::{
    is_action_blob, is_email_blob, is_upload_blob, is_wakeup, shares_of,
};
use crate::store::row::{AccountStateRow, RepairScope, Row as _};
use crate::store::table::codec::Prefix as _;
use crate::store::table::keys::{SharedKey, SiteKey};
use crate::store::table::{
    BlobRefs, Mailboxes, OutboxBlobs, OutboxDue, RepairMethod, Shared, Site, StrayKind, Sweeps,
    UploadBlobs, decode_key,
};
use crate::store::txn::Txn;

/// The data types whose earlier states are refused after a repair that begins the history anew.
const REPAIRED_TYPES: [DataType; 9] = [
    DataType::Email,
    DataType::EmailDelivery,
    DataType::Thread,
    DataType::Mailbox,
    DataType::MailboxCounts,
    DataType::Identity,
    DataType::EmailSubmission,
    DataType::ShareNotification,
    DataType::SieveScript,
];

impl Txn<'_> {
    pub(in crate::store) fn begin_repair(&mut self, scope: RepairScope) {
        self.put_bytes::<Site>(&SiteKey::Repair(self.account), scope.row());
    }

    /// Stages the right rows; a row without a value is deleted. If the account's state is among
    /// them, it becomes the state of this transaction, but for change numbers and account ids that
    /// were taken since the check read the row. Each row of the directory is a change of
    /// `DataType::Account`.
    pub(in crate::store) fn mend(
        &mut self,
        rows: impl IntoIterator<Item = (Table, Vec<u8>, Option<Vec<u8>>)>,
    ) -> Result<(), Error> {
        let own = self.account_key().encode();
        for (table, key, value) in rows {
            if table.repair() == RepairMethod::Directory {
                self.next_modseq();
                self.touch(DataType::Account);
            }
            match value {
                Some(row) if table.repair() == RepairMethod::State && key == own => {
                    let mut state = AccountStateRow::decode(&key, &row)?;
                    state.modseq = state.modseq.max(self.state.modseq);
                    state.last_account = state.last_account.max(self.state.last_account);
                    for (mark, newer) in state.high.iter_mut().zip(self.state.high) {
                        *mark = newer.max(*mark);
                    }
                    self.state = state;
                    self.stage_state();
                }
                value => self.stage_row(table, key, value),
            }
        }
        Ok(())
    }

    /// Refuses earlier states of `REPAIRED_TYPES` and the history of all listings: their low marks
    /// rise to a new change number.
    pub(in crate::store) fn refuse_states(&mut self) -> Result<(), Error> {
        let now = self.next_modseq();
        for data in REPAIRED_TYPES {
            self.touch(data);
            if let Some(low) = self.state.low.get_mut(data as usize) {
                *low = now;
            }
        }
        let restart = |listings: &mut Vec<MaintainedListing>| {
            listings.iter_mut().for_each(|entry| entry.restart_history(now));
        };
        restart(&mut self.state.listings);
        let mut rows = Vec::new();
        self.rows(&KeyRange::<Mailboxes>::under(&(self.account,)), |key, mailbox| {
            rows.push((key, mailbox));
            Ok(true)
        })?;
        for (key, mut mailbox) in rows {
            restart(&mut mailbox.listings);
            self.put::<Mailboxes>(&key, &mailbox);
        }
        self.stage_state();
        Ok(())
    }

    pub(in crate::store) fn end_repair(&mut self) {
        self.delete::<Site>(&SiteKey::Repair(self.account));
    }

    /// Looks at these references and wake-ups again, now under the account's lock. Deletes those
    /// that still name nothing, sweeps that still cannot be read, and all rows whose keys are
    /// damaged. Returns how many rows it deleted.
    pub(in crate::store) fn drop_strays(
        &mut self,
        rows: &[(Table, Vec<u8>)],
    ) -> Result<u64, Error> {
        let mut gone = 0;
        for (table, key) in rows {
            if table.check_key(key).is_err() {
                self.delete_unplaced(*table, key);
                gone += 1;
                continue;
            }
            if *table == Table::Sweeps {
                gone += u64::from(self.drop_damaged_sweep(key)?);
                continue;
            }
            let RepairMethod::Strays(kind) = table.repair() else { continue };
            let is_gone = match kind {
                StrayKind::EmailBlob => self.drop_blob_ref(key)?,
                StrayKind::WakeUp => self.drop_due(key)?,
                StrayKind::ActionBlob => self.drop_action_blob(key)?,
                StrayKind::Share => self.drop_shared(key)?,
                StrayKind::UploadBlob => self.drop_upload_blob(key)?,
            };
            gone += u64::from(is_gone);
        }
        Ok(gone)
    }

    /// Deletes a row whose key is damaged.
    fn delete_unplaced(&mut self, table: Table, key: &[u8]) {
        if table.repair() == RepairMethod::Directory {
            self.next_modseq();
            self.touch(DataType::Account);
        }
        self.stage_row(table, key.to_vec(), None);
    }

    /// Deletes a row of `sweeps` of this account that cannot be read. Returns whether it did.
    fn drop_damaged_sweep(&mut self, bytes: &[u8]) -> Result<bool, Error> {
        let Ok(key) = decode_key::<Sweeps>(bytes) else { return Ok(false) };
        let is_damaged =
            key.account == self.account && matches!(self.row_if_any::<Sweeps>(&key)?, Some(Err(_)));
        if is_damaged {
            self.delete::<Sweeps>(&key);
        }
        Ok(is_damaged)
    }

    /// Deletes a row of `blob_refs` of this account that names no email. Returns whether it did;
    /// the functions below likewise, for their tables.
    fn drop_blob_ref(&mut self, bytes: &[u8]) -> Result<bool, Error> {
        let Ok(key) = decode_key::<BlobRefs>(bytes) else { return Ok(false) };
        let is_stray =
            key.account == self.account && !is_email_blob(self, key.account, key.email, &key.blob)?;
        if is_stray {
            self.release_email_blob(&key.blob, key.email);
        }
        Ok(is_stray)
    }

    fn drop_due(&mut self, bytes: &[u8]) -> Result<bool, Error> {
        let Ok(key) = decode_key::<OutboxDue>(bytes) else { return Ok(false) };
        let is_stray =
            key.account == self.account && !is_wakeup(self, key.account, key.action, bytes)?;
        if is_stray {
            self.delete::<OutboxDue>(&key);
        }
        Ok(is_stray)
    }

    fn drop_action_blob(&mut self, bytes: &[u8]) -> Result<bool, Error> {
        let Ok(key) = decode_key::<OutboxBlobs>(bytes) else { return Ok(false) };
        let is_stray = key.account == self.account && !is_action_blob(self, bytes)?;
        if is_stray {
            self.delete::<OutboxBlobs>(&key);
            self.note_blob_release(self.now, key.blob);
        }
        Ok(is_stray)
    }

    fn drop_shared(&mut self, bytes: &[u8]) -> Result<bool, Error> {
        let Ok(key) = decode_key::<Shared>(bytes) else { return Ok(false) };
        let SharedKey { user: with, account: owner } = key;
        // A row whose owner is gone belongs to nobody, so any account may delete it.
        let is_mine = owner == self.account || self.snapshot().account(owner)?.is_none();
        let is_stray = is_mine
            && !(shares_of(self, owner)?.contains(&with)
                && self.snapshot().account(with)?.is_some());
        if is_stray {
            self.delete::<Shared>(&key);
        }
        Ok(is_stray)
    }

    fn drop_upload_blob(&mut self, bytes: &[u8]) -> Result<bool, Error> {
        let Ok(key) = decode_key::<UploadBlobs>(bytes) else { return Ok(false) };
        let is_stray = key.account == self.account && !is_upload_blob(self, bytes)?;
        if is_stray {
            self.delete::<UploadBlobs>(&key);
            self.note_blob_release(self.now, key.blob);
        }
        Ok(is_stray)
    }
}
