//! Queues, changes and removes actions.
//!
//! - An action has one wake-up, unless it is held or has failed (`wake_condition`).
//! - The account's count of actions equals the number of its actions.
//! - When an action is deleted, so are its own bytes, its hold of a message and its row in
//!   `outbox_same`.
//! - Of open actions with the same `duplicate_key` there is one, and the row in `outbox_same` names
//!   it. An equal action that is over does not own the row.

use crate::model::{
    AccountId, Action, ActionId, ActionKind, ActionState, BlobHash, DataType, UtcMillis, limits,
};
use crate::store::engine::typed::{KeyRange, TypedRead as _};
use crate::store::error::Error;
use crate::store::row::{
    Destination, QueueMark, SameAction, decode_outbox_message, encode_outbox_message,
    wake_condition,
};
use crate::store::table::keys::{
    ActionBlobKey, ActionKey, DueKey, SameActionKey, SiteKey, WakeCondition,
};
use crate::store::table::{
    BlobRefs, Outbox, OutboxBlobs, OutboxDue, OutboxMessages, OutboxSame, Present, Site,
};
use crate::store::txn::Txn;

/// At most this many direct dependants of one action are released or removed with it, so that a
/// commit stays small. The others stay blocked.
const MAX_DEPENDANTS: usize = 1000;

impl Txn<'_> {
    /// Queues an action with bytes of its own, and returns its new id. The fields `id` and
    /// `own_bytes` of `action` are ignored.
    ///
    /// If an equal action (`Action::duplicate_key`) is queued already, returns its id and queues
    /// nothing. An action that depends on another one (`Action::after`) is blocked until the other
    /// is done, but not if the other is sent or gone already.
    ///
    /// A message that the action names must be stored by this commit, or be held by an email of
    /// this account.
    ///
    /// # Errors
    /// `QueueFull` if the account has `limits::MAX_QUEUED_ACTIONS` actions (for a report: twice as
    /// many); `Conflict` if the action has no recipient, or the action on which it depends has
    /// failed.
    pub fn queue_action(&mut self, action: Action, bytes: &[u8]) -> Result<ActionId, Error> {
        if action.recipients.is_empty() {
            return Err(Error::Conflict("an action needs a recipient".into()));
        }
        if let Some(queued) = self.same_action(&action)? {
            return Ok(queued);
        }
        // A report must also be queued if the actions that are reported on fill the queue.
        let limit = if action.kind == ActionKind::Report {
            2 * limits::MAX_QUEUED_ACTIONS
        } else {
            limits::MAX_QUEUED_ACTIONS
        };
        if self.state.queued >= limit {
            return Err(Error::QueueFull(self.account));
        }
        let before =
            action.after.map(|id| self.row::<Outbox>(&self.action_key(id))).transpose()?.flatten();
        let state = match before {
            Some(before) if before.state == ActionState::Failed => {
                return Err(Error::Conflict("the action on which it depends has failed".into()));
            }
            Some(before) if before.state.is_open() => ActionState::Blocked,
            _ if action.state == ActionState::Blocked => ActionState::Waiting,
            _ => action.state,
        };
        self.state.last_action += 1;
        let id = ActionId(self.state.last_action);
        let action = Action { id, state, own_bytes: bytes.len() as u64, ..action };
        self.next_modseq();
        if !bytes.is_empty() {
            self.put_bytes::<OutboxMessages>(&self.action_key(id), encode_outbox_message(bytes));
        }
        if let Some(blob) = action.blob {
            self.put::<OutboxBlobs>(
                &ActionBlobKey { blob, account: self.account, action: id },
                &Present,
            );
        }
        self.put_same(&action);
        self.state.queued += 1;
        self.write_action(&action);
        Ok(id)
    }

    /// Queues an action whose message no email holds, and stores the message.
    ///
    /// # Errors
    /// Those of `queue_action` and `put_blob`.
    pub fn queue_message(
        &mut self,
        action: Action,
        hash: &BlobHash,
        raw: &[u8],
    ) -> Result<ActionId, Error> {
        let id = self.queue_action(Action { blob: Some(*hash), ..action }, b"")?;
        self.put_blob(hash, raw)?;
        Ok(id)
    }

    /// Replaces an action that was read as `read` by `new`, which has the same id. A sent action
    /// loses its bytes and its message. Once an action is not open, an equal one can be queued.
    ///
    /// # Errors
    /// `NotFound` if the action was removed since it was read. `Conflict` if it was changed, or if
    /// it would be open again while an equal one is queued.
    pub fn update_action(&mut self, read: &Action, new: &Action) -> Result<(), Error> {
        self.assert_action(read)?;
        let old = read.clone();
        let is_reopened = new.state.is_open() && !old.state.is_open();
        // Before the first change: the caller may go on after the error.
        if is_reopened && self.same_action(&old)?.is_some() {
            return Err(Error::Conflict("an equal message is queued already".into()));
        }
        self.wake(&old, false);
        let mut new = new.clone();
        debug_assert_eq!(old.duplicate_key, new.duplicate_key, "the key of an action stays");
        if is_reopened {
            self.put_same(&new);
        } else if !new.state.is_open() {
            self.forget_same(&old)?;
        }
        if new.state == ActionState::Sent {
            self.release_action_blob(&old);
            self.delete::<OutboxMessages>(&self.action_key(old.id));
            (new.own_bytes, new.blob) = (0, None);
        }
        self.next_modseq();
        self.write_action(&new);
        self.update_submission_status(&new, false)
    }

    /// Removes an action that is done, and returns it. The actions that depend on it go on.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn complete_action(&mut self, id: ActionId) -> Result<Action, Error> {
        let old = self.erase_action(id)?;
        self.release_dependants(id)?;
        Ok(old)
    }

    /// Removes an action that is not done, and those that depend on it (`drop_dependants`). Returns
    /// them, the named one first.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn remove_action(&mut self, id: ActionId) -> Result<Vec<Action>, Error> {
        let mut removed = vec![self.erase_action(id)?];
        removed.extend(self.drop_dependants(id)?);
        Ok(removed)
    }

    /// Does as `remove_action` for an action whose message was certainly not sent to anybody.
    /// Destroys the copy of a reply that was filed for the owner.
    ///
    /// # Errors
    /// Those of `remove_action`.
    pub fn remove_unsent_action(&mut self, id: ActionId) -> Result<Vec<Action>, Error> {
        let action = self.action(id)?;
        let hash = |key: &[u8], row: &[u8]| {
            Ok(BlobHash(*blake3::hash(decode_outbox_message(key, row)?).as_bytes()))
        };
        if action.kind == ActionKind::Reply
            && let Some(blob) = self.row_with::<OutboxMessages, _>(&self.action_key(id), hash)?
        {
            let mut copies = Vec::new();
            self.keys(&KeyRange::<BlobRefs>::under(&(blob, self.account)), |key, _| {
                copies.push(key.email);
                Ok(true)
            })?;
            for copy in copies {
                if self.snapshot().email(self.account, copy)?.is_some() {
                    self.destroy_email(copy)?;
                }
            }
        }
        self.remove_action(id)
    }

    /// Lets the actions go on that are blocked by an action, up to `MAX_DEPENDANTS`.
    pub fn release_dependants(&mut self, id: ActionId) -> Result<(), Error> {
        for next in self.dependants(id)? {
            let action = self.action(next)?;
            let due = action.due.max(self.now);
            self.update_action(
                &action,
                &Action { state: ActionState::Waiting, due, ..action.clone() },
            )?;
        }
        Ok(())
    }

    /// Removes the actions that depend, directly or not, on an action that will not be done: of
    /// each action, up to `MAX_DEPENDANTS` that depend on it directly. Returns them.
    pub fn drop_dependants(&mut self, id: ActionId) -> Result<Vec<Action>, Error> {
        let mut removed = Vec::new();
        let mut pending = vec![id];
        while let Some(id) = pending.pop() {
            for next in self.dependants(id)? {
                removed.push(self.erase_action(next)?);
                pending.push(next);
            }
        }
        Ok(removed)
    }

    /// Returns up to `MAX_DEPENDANTS` actions that are blocked by an action.
    fn dependants(&self, id: ActionId) -> Result<Vec<ActionId>, Error> {
        let mut found = Vec::new();
        self.keys(
            &KeyRange::<OutboxDue>::under(&(WakeCondition::After(id), self.account)),
            |key, _| {
                found.push(key.action);
                Ok(found.len() < MAX_DEPENDANTS)
            },
        )?;
        Ok(found)
    }

    /// Deletes the rows of an action, and returns it. Leaves its dependants as they are.
    fn erase_action(&mut self, id: ActionId) -> Result<Action, Error> {
        let old = self.action(id)?;
        self.next_modseq();
        self.wake(&old, false);
        self.forget_same(&old)?;
        self.release_action_blob(&old);
        if old.own_bytes > 0 {
            self.delete::<OutboxMessages>(&self.action_key(id));
        }
        self.delete::<Outbox>(&self.action_key(id));
        self.state.queued = self.state.queued.saturating_sub(1);
        self.touch(DataType::Outbox);
        self.update_submission_status(&old, true)?;
        Ok(old)
    }

    /// Moves the due time of waiting actions to `until`, and returns those that it moved. Leaves an
    /// action as it is if it is due then or later, or if its wake-up is not the one that the caller
    /// saw. Takes no change number: no attempt was made.
    pub fn defer_actions(
        &mut self,
        seen: &[(ActionId, WakeCondition)],
        until: UtcMillis,
    ) -> Result<Vec<ActionId>, Error> {
        let mut moved = Vec::with_capacity(seen.len());
        for (id, wake) in seen {
            let found = self.row::<Outbox>(&self.action_key(*id))?;
            let is_unchanged = |action: &Action| {
                action.state == ActionState::Waiting
                    && wake_condition(action) == Some(*wake)
                    && action.due < until
            };
            if let Some(action) = found.filter(is_unchanged) {
                self.wake(&action, false);
                let action = Action { due: until, ..action };
                self.wake(&action, true);
                self.put::<Outbox>(&self.action_key(action.id), &action);
                moved.push(action.id);
            }
        }
        Ok(moved)
    }

    /// Checks that an action is still what the caller read before this commit.
    ///
    /// # Errors
    /// `NotFound` if the action was removed, `Conflict` if it was changed.
    pub fn assert_action(&self, read: &Action) -> Result<(), Error> {
        if self.action(read.id)? == *read {
            return Ok(());
        }
        Err(Error::Conflict(format!("action {} was changed meanwhile", read.id)))
    }

    /// Returns an action as it is with this transaction's changes.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn action(&self, id: ActionId) -> Result<Action, Error> {
        self.row::<Outbox>(&self.action_key(id))?.ok_or(Error::NotFound("action"))
    }

    fn action_key(&self, action: ActionId) -> ActionKey {
        ActionKey { account: self.account, action }
    }

    /// Sets the account's count of actions to the number of its actions. Returns the earlier count.
    pub fn recount_actions(&mut self) -> Result<u64, Error> {
        let count = self.count(&KeyRange::<Outbox>::under(&(self.account,)))?;
        let before = std::mem::replace(&mut self.state.queued, count);
        if before != count {
            self.stage_state();
        }
        Ok(before)
    }

    /// Writes the queue's mark. Called in a transaction of the site.
    pub fn mark_queue(&mut self, mark: &QueueMark) {
        debug_assert_eq!(self.account, AccountId::SITE, "the queue's mark is the site's");
        self.next_modseq();
        self.put_bytes::<Site>(&SiteKey::Queue, mark.encode());
        self.touch(DataType::Outbox);
    }

    /// Writes an action and its wake-up, and moves the outbox state, which wakes the queue.
    fn write_action(&mut self, action: &Action) {
        self.put::<Outbox>(&self.action_key(action.id), action);
        self.wake(action, true);
        self.touch(DataType::Outbox);
    }

    /// Sets or deletes the wake-up of an action, if it has one.
    pub(in crate::store) fn wake(&mut self, action: &Action, is_set: bool) {
        let Some(wake) = wake_condition(action) else { return };
        let key = DueKey { wake, account: self.account, action: action.id };
        if is_set {
            self.put::<OutboxDue>(&key, &Destination::of(self.account, action));
        } else {
            self.delete::<OutboxDue>(&key);
        }
    }

    fn same_key(&self, action: &Action) -> Option<SameActionKey> {
        action.duplicate_key.map(|hash| SameActionKey { account: self.account, hash })
    }

    /// Returns the open action that has the same `duplicate_key`. It may be this action itself.
    fn same_action(&self, action: &Action) -> Result<Option<ActionId>, Error> {
        let Some(key) = self.same_key(action) else { return Ok(None) };
        Ok(self.row::<OutboxSame>(&key)?.map(|SameAction(id)| id))
    }

    /// Has no equal action be queued while this one is open.
    fn put_same(&mut self, action: &Action) {
        if let Some(key) = self.same_key(action) {
            self.put::<OutboxSame>(&key, &SameAction(action.id));
        }
    }

    /// Lets an equal action be queued again, unless the row is that of another action. A row that
    /// cannot be read is deleted, so that an action that is over can be recorded as such.
    fn forget_same(&mut self, action: &Action) -> Result<(), Error> {
        let Some(key) = self.same_key(action) else { return Ok(()) };
        match self.row_if_any::<OutboxSame>(&key)? {
            Some(Ok(SameAction(id))) if id != action.id => {}
            _ => self.delete::<OutboxSame>(&key),
        }
        Ok(())
    }
}
