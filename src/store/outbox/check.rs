//! Checks queued actions and the rows that belong to them.

use crate::model::{AccountId, ActionId, BlobHash};
use crate::store::engine::typed::TypedRead as _;
use crate::store::engine::{RowReader, Table};
use crate::store::error::Error;
use crate::store::repair::check::rows::RowCursor;
use crate::store::repair::check::{CheckObserver, Checker, FaultFn, RowFault, RowFix};
use crate::store::repair::references::{is_action_blob, is_wakeup};
use crate::store::row::{Destination, SameAction, wake_condition};
use crate::store::table::keys::{ActionBlobKey, ActionKey, BlobKey, DueKey, SameActionKey};
use crate::store::table::{
    Blobs, Outbox, OutboxBlobs, OutboxDue, OutboxMessages, OutboxSame, Present, decode_key,
};

impl Checker<'_> {
    /// Checks the tables of queued actions, and counts the actions in the census. Of `outbox_due`
    /// and `outbox_blobs`, which all accounts share, finds rows that are missing or wrong;
    /// `check_hints` finds those that should not exist.
    pub(in crate::store) fn check_actions(&mut self) -> Result<(), Error> {
        let account = self.account;
        let mut same: Vec<(SameActionKey, ActionId)> = Vec::new();
        let mut rows = self.rows::<Outbox>();
        let mut messages = self.rows::<OutboxMessages>();
        while let Some(found) = rows.next()? {
            let key = found.key.as_slice();
            while let Some(stray) = messages.below(key)? {
                self.report_extra(Table::OutboxMessages, &stray.key)?;
            }
            self.census.queued = self.census.queued.saturating_add(1);
            // The first byte of the row is the version of its format.
            let bytes = messages.raw.at(key)?.map_or(0, |row| row.len().saturating_sub(1) as u64);
            let (Some(ActionKey { action: id, .. }), Ok(action)) = (found.id(), found.row()) else {
                self.report(
                    Table::Outbox,
                    key,
                    "cannot be read: only a backup has it",
                    RowFix::Nothing,
                )?;
                continue;
            };
            self.note_action(id);
            if bytes != action.own_bytes {
                let what = format!(
                    "should have {} bytes of its own, and {bytes} are stored",
                    action.own_bytes
                );
                self.report(Table::OutboxMessages, key, what, RowFix::Nothing)?;
            }
            if let Some(wake) = wake_condition(&action) {
                self.expect_row::<OutboxDue>(
                    &DueKey { wake, account, action: id },
                    &Destination::of(account, &action),
                )?;
            }
            if let Some(blob) = action.blob {
                self.expect_row::<OutboxBlobs>(
                    &ActionBlobKey { blob, account, action: id },
                    &Present,
                )?;
                if self.read.bytes::<Blobs>(&BlobKey { blob })?.is_none() {
                    self.report(
                        Table::Outbox,
                        key,
                        "the message that it sends is missing",
                        RowFix::Nothing,
                    )?;
                }
            }
            if let Some(hash) = action.duplicate_key.filter(|_| action.state.is_open()) {
                same.push((SameActionKey { account, hash }, id));
            }
        }
        while let Some(stray) = messages.next()? {
            self.report_extra(Table::OutboxMessages, &stray.key)?;
        }
        same.sort_unstable();
        // `queue_action` queues no second one. If there are two all the same, the row should name
        // the older.
        same.dedup_by(|later, first| later.0 == first.0);
        self.expect_rows::<OutboxSame>(same.into_iter().map(|(key, id)| (key, SameAction(id))))
    }
}

/// Checks that every wake-up and every row of `outbox_blobs` is that of its action.
pub(in crate::store) fn check_hints(
    read: &dyn RowReader,
    run: &dyn CheckObserver,
    on_fault: &mut FaultFn<'_>,
) -> Result<(), Error> {
    let mut wakeups = RowCursor::<OutboxDue>::of_table(read, run);
    while let Some(found) = wakeups.next()? {
        let (account, is_right) = match woken_by(&found.key) {
            Some((account, action)) => (account, is_wakeup(read, account, action, &found.key)?),
            None => (AccountId::SITE, false),
        };
        if !is_right {
            let (key, what) = (found.key, "wakes no action".into());
            on_fault(RowFault {
                account,
                table: Table::OutboxDue,
                key,
                what,
                fix: RowFix::Delete,
                seen_by_clients: false,
            })?;
        }
    }
    let mut holds = RowCursor::<OutboxBlobs>::of_table(read, run);
    while let Some(found) = holds.next()? {
        let holder = held_by(&found.key);
        if holder.is_none() || !is_action_blob(read, &found.key)? {
            let account = holder.map_or(AccountId::SITE, |(account, ..)| account);
            let (key, what) =
                (found.key, "holds a message for an action that does not send it".into());
            on_fault(RowFault {
                account,
                table: Table::OutboxBlobs,
                key,
                what,
                fix: RowFix::Delete,
                seen_by_clients: false,
            })?;
        }
    }
    Ok(())
}

fn woken_by(wakeup: &[u8]) -> Option<(AccountId, ActionId)> {
    decode_key::<OutboxDue>(wakeup).ok().map(|key| (key.account, key.action))
}

fn held_by(hold: &[u8]) -> Option<(AccountId, ActionId, BlobHash)> {
    decode_key::<OutboxBlobs>(hold).ok().map(|key| (key.account, key.action, key.blob))
}
