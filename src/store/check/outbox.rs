//! Queued actions: their wake-ups, their octets, what they hold, and which deed they are.

use super::rows::{Pair, Rows};
use super::{Checker, Fault, Hear, Mend, Pace};
use crate::model::{AccountId, Action, ActionId, BlobHash};
use crate::store::engine::{Read, Table};
use crate::store::error::Error;
use crate::store::key::{self, Parts};
use crate::store::row::{Row, same_value, wake_of, wake_value};

impl Checker<'_> {
    pub(super) fn actions(&mut self) -> Result<(), Error> {
        let (account, own) = (self.account, key::account(self.account));
        let mut same: Vec<Pair> = Vec::new();
        let mut rows = self.rows(Table::Outbox, &own);
        let mut messages = self.rows(Table::OutboxMessages, &own);
        while let Some((key, value)) = rows.next()? {
            while let Some((stray, _)) = messages.below(&key)? {
                self.extra(Table::OutboxMessages, &stray)?;
            }
            self.census.queued = self.census.queued.saturating_add(1);
            let octets = messages.at(&key)?.map_or(0, |row| row.len().saturating_sub(1) as u64);
            let id = Parts::of(Table::Outbox, &key).u64().ok().filter(|_| key.len() == 12).map(ActionId);
            let (Some(id), Ok(action)) = (id, Action::decode(&key, &value)) else {
                self.say(Table::Outbox, &key, "cannot be read: what it said is in a backup alone", Mend::Nothing)?;
                continue;
            };
            self.note_action(id);
            if octets != action.octets {
                let what = format!("has {} octets of its own, and {octets} are there", action.octets);
                self.say(Table::OutboxMessages, &key, what, Mend::Nothing)?;
            }
            if let Some(wake) = wake_of(&action) {
                let hint = key::due(wake, account, id);
                let found = self.read.get(Table::OutboxDue, &hint)?;
                self.expect(Table::OutboxDue, &hint, found.as_deref(), wake_value(account, &action))?;
            }
            if let Some(blob) = &action.blob {
                let hold = key::action_blob(blob, account, id);
                let found = self.read.get(Table::OutboxBlobs, &hold)?;
                self.expect(Table::OutboxBlobs, &hold, found.as_deref(), vec![1])?;
                if self.read.get(Table::Blobs, &key::blob(blob))?.is_none() {
                    self.say(Table::Outbox, &key, "the message that it sends is missing", Mend::Nothing)?;
                }
            }
            if let Some(hash) = action.same.filter(|_| action.state.is_open()) {
                same.push((key::same(account, &hash), same_value(id)));
            }
        }
        while let Some((stray, _)) = messages.within(&own)? {
            self.extra(Table::OutboxMessages, &stray)?;
        }
        same.sort_unstable();
        // Of two that are the same deed the older one is it.
        same.dedup_by(|later, first| later.0 == first.0);
        self.compare(Table::OutboxSame, same.into_iter())
    }
}

/// Every wake-up is of an action that is woken so, and every hold of one that holds that message.
pub(super) fn hints(read: &dyn Read, run: &dyn Pace, hear: &mut Hear<'_>) -> Result<(), Error> {
    read.scan(Table::OutboxDue, &[], &[0xff; 22], false, &mut |key, _| {
        run.step(Table::OutboxDue)?;
        let (account, due) = match whose(key) {
            Some((account, action)) => (account, is_due(read, account, action, key)?),
            None => (AccountId::SITE, false),
        };
        if !due {
            let what = "wakes no action".into();
            let (table, key, mend) = (Table::OutboxDue, key.to_vec(), Mend::Delete);
            hear(Fault { account, table, key, what, mend, history: false })?;
        }
        Ok(true)
    })?;
    let mut holds = Rows::new(read, run, Table::OutboxBlobs, &[]);
    while let Some((key, _)) = holds.next()? {
        let holder = held_by(&key);
        if holder.is_none() || !sends(read, &key)? {
            let account = holder.map_or(AccountId::SITE, |(account, ..)| account);
            let what = "holds a message for an action that does not send it".into();
            hear(Fault { account, table: Table::OutboxBlobs, key, what, mend: Mend::Delete, history: false })?;
        }
    }
    Ok(())
}

/// Whose wake-up it is, and of which action.
pub(in crate::store) fn whose(hint: &[u8]) -> Option<(AccountId, ActionId)> {
    let mut parts = Parts::of(Table::OutboxDue, hint);
    let (action, account) = (parts.u64().ok()?, parts.u32().ok()?);
    (hint.len() == 21).then_some((AccountId(account), ActionId(action)))
}

/// Whether a wake-up is an action's. One that cannot be read may be.
pub(in crate::store) fn is_due(
    read: &dyn Read,
    account: AccountId,
    action: ActionId,
    hint: &[u8],
) -> Result<bool, Error> {
    let row = key::action(account, action);
    let found = read.get(Table::Outbox, &row)?;
    Ok(found.is_some_and(|value| {
        let wake = |found: Action| wake_of(&found).is_some_and(|wake| key::due(wake, account, action) == hint);
        Action::decode(&row, &value).map_or(true, wake)
    }))
}

/// Which message an action holds by this key.
pub(in crate::store) fn held_by(hold: &[u8]) -> Option<(AccountId, ActionId, BlobHash)> {
    let mut parts = Parts::of(Table::OutboxBlobs, hold);
    let (action, account, hash) = (parts.u64().ok()?, parts.u32().ok()?, parts.take().ok()?);
    (hold.len() == 44).then_some((AccountId(account), ActionId(action), BlobHash(hash)))
}

/// Whether the action of a hold sends that message. One that cannot be read may do so.
pub(in crate::store) fn sends(read: &dyn Read, hold: &[u8]) -> Result<bool, Error> {
    let Some((account, action, blob)) = held_by(hold) else { return Ok(false) };
    let row = key::action(account, action);
    let found = read.get(Table::Outbox, &row)?;
    Ok(found.is_some_and(|value| Action::decode(&row, &value).map_or(true, |found| found.blob == Some(blob))))
}
