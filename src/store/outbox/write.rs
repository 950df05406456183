//! Queued actions: in the same commit as what gave rise to them, and each with what wakes it.
//!
//! What must hold: an action that waits has one wake-up and no other has any; the account's count
//! is that of its actions; octets, holds and the mark of its deed come and go with it.

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
    ActionBlobKey, ActionKey, DueKey, SameKey, SiteKey, WakeCondition,
};
use crate::store::table::{
    BlobRefs, Outbox, OutboxBlobs, OutboxDue, OutboxMessages, OutboxSame, Present, Site,
};
use crate::store::txn::Txn;

/// Actions that may depend on one another in a chain; what hangs further down goes with a later
/// step.
const MAX_CHAIN: usize = 1000;

impl Txn<'_> {
    /// Queues an action under a new id, with octets of its own; the id and the count of octets that
    /// it has are not looked at. Where an equal deed waits already, that one's id is given back,
    /// and nothing is queued. One that depends on another waits for it, if that is still to be
    /// done.
    ///
    /// A message that it names must be put by this very commit, or be held by an email of this
    /// account.
    ///
    /// # Errors
    /// `QueueFull`; `Conflict` where it has no recipient, or what it depends on has failed; those
    /// of reading.
    pub fn queue_action(&mut self, action: Action, octets: &[u8]) -> Result<ActionId, Error> {
        if action.recipients.is_empty() {
            return Err(Error::Conflict("an action needs a recipient".into()));
        }
        let most = if action.kind == ActionKind::Report {
            2 * limits::MAX_QUEUED_ACTIONS
        } else {
            limits::MAX_QUEUED_ACTIONS
        };
        if self.state.queued >= most {
            return Err(Error::QueueFull(self.account));
        }
        if let Some(hash) = action.duplicate_key
            && let Some(SameAction(known)) =
                self.row::<OutboxSame>(&SameKey { account: self.account, hash })?
        {
            return Ok(known);
        }
        let before =
            action.after.map(|id| self.row::<Outbox>(&self.action_key(id))).transpose()?.flatten();
        let state = match before {
            Some(before) if before.state == ActionState::Failed => {
                return Err(Error::Conflict("what it depends on has failed".into()));
            }
            Some(before) if before.state.is_open() => ActionState::Blocked,
            _ if action.state == ActionState::Blocked => ActionState::Waiting,
            _ => action.state,
        };
        self.state.last_action += 1;
        let id = ActionId(self.state.last_action);
        let action = Action { id, state, own_bytes: octets.len() as u64, ..action };
        self.next_modseq();
        if !octets.is_empty() {
            self.put_bytes::<OutboxMessages>(&self.action_key(id), encode_outbox_message(octets));
        }
        if let Some(blob) = action.blob {
            self.put::<OutboxBlobs>(
                &ActionBlobKey { blob, account: self.account, action: id },
                &Present,
            );
        }
        if let Some(hash) = &action.duplicate_key {
            self.put::<OutboxSame>(
                &SameKey { account: self.account, hash: *hash },
                &SameAction(id),
            );
        }
        self.state.queued += 1;
        self.write_action(&action);
        Ok(id)
    }

    /// Queues an action whose message no email holds: it is put beside, and its hash is the
    /// action's `blob`.
    ///
    /// # Errors
    /// Those of `queue_action`.
    pub fn queue_message(
        &mut self,
        action: Action,
        hash: &BlobHash,
        raw: &[u8],
    ) -> Result<ActionId, Error> {
        let id = self.queue_action(Action { blob: Some(*hash), ..action }, b"")?;
        self.put_blob(hash, raw);
        Ok(id)
    }

    /// Writes `new` in the place of an action that was read as `read`. One that is sent keeps its
    /// head alone; one that is not open any more is no deed's.
    ///
    /// # Errors
    /// `NotFound` where it was removed since it was read, `Conflict` where it was changed.
    pub fn update_action(&mut self, read: &Action, new: &Action) -> Result<(), Error> {
        self.assert_action(read)?;
        let old = read.clone();
        self.wake(&old, false);
        let mut new = new.clone();
        if !new.state.is_open() {
            self.forget_same(&old);
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

    /// Removes an action that is done: what depends on it goes on.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn complete_action(&mut self, id: ActionId) -> Result<Action, Error> {
        let old = self.erase_action(id)?;
        self.release_dependants(id)?;
        Ok(old)
    }

    /// Removes an action that is not done, and what depends on it; gives them back, the first
    /// first.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn remove_action(&mut self, id: ActionId) -> Result<Vec<Action>, Error> {
        let mut gone = vec![self.erase_action(id)?];
        gone.extend(self.drop_dependants(id)?);
        Ok(gone)
    }

    /// Removes an action whose message surely went to nobody, and what depends on it, as
    /// `remove_action` does. The copy of a reply that was filed for its owner goes with it, as one
    /// that the owner destroys: it was never sent.
    ///
    /// # Errors
    /// `NotFound`.
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

    /// What waits for an action goes on: it is done.
    ///
    /// # Errors
    /// Those of reading.
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

    /// What waits for an action goes with it: it will not be done. Gives what went.
    ///
    /// # Errors
    /// Those of reading.
    pub fn drop_dependants(&mut self, id: ActionId) -> Result<Vec<Action>, Error> {
        let mut gone = Vec::new();
        let mut left = vec![id];
        while let Some(id) = left.pop() {
            for next in self.dependants(id)? {
                gone.push(self.erase_action(next)?);
                left.push(next);
            }
        }
        Ok(gone)
    }

    fn dependants(&self, id: ActionId) -> Result<Vec<ActionId>, Error> {
        let mut found = Vec::new();
        self.keys(
            &KeyRange::<OutboxDue>::under(&(WakeCondition::After(id), self.account)),
            |key, _| {
                found.push(key.action);
                Ok(found.len() < MAX_CHAIN)
            },
        )?;
        Ok(found)
    }

    fn erase_action(&mut self, id: ActionId) -> Result<Action, Error> {
        let old = self.action(id)?;
        self.next_modseq();
        self.wake(&old, false);
        self.forget_same(&old);
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

    /// Puts off actions that wait until a time, with their place among the others. Those that are
    /// gone, or that something else wakes by now than what the caller saw, are left as they are.
    /// Nobody is told: nothing was tried.
    ///
    /// # Errors
    /// Those of reading.
    pub fn defer_actions(
        &mut self,
        seen: &[(ActionId, WakeCondition)],
        until: UtcMillis,
    ) -> Result<(), Error> {
        for (id, wake) in seen {
            let found = self.row::<Outbox>(&self.action_key(*id))?;
            let is_as_seen = |action: &Action| {
                action.state == ActionState::Waiting
                    && wake_condition(action) == Some(*wake)
                    && action.due < until
            };
            if let Some(action) = found.filter(is_as_seen) {
                self.wake(&action, false);
                let action = Action { due: until, ..action };
                self.wake(&action, true);
                self.put::<Outbox>(&self.action_key(action.id), &action);
            }
        }
        Ok(())
    }

    /// Makes sure that an action is still what the caller read before this commit: whoever acts on
    /// an older state would undo what a person, a client or an attempt did to it since.
    ///
    /// # Errors
    /// `NotFound` where it was removed, `Conflict` where it was changed.
    pub fn assert_action(&self, read: &Action) -> Result<(), Error> {
        if self.action(read.id)? == *read {
            return Ok(());
        }
        Err(Error::Conflict(format!("action {} was changed meanwhile", read.id)))
    }

    /// A queued action.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn action(&self, id: ActionId) -> Result<Action, Error> {
        self.row::<Outbox>(&self.action_key(id))?.ok_or(Error::NotFound("action"))
    }

    fn action_key(&self, action: ActionId) -> ActionKey {
        ActionKey { account: self.account, action }
    }

    /// The account's count of actions is what there is.
    ///
    /// # Errors
    /// Those of reading.
    pub fn recount_actions(&mut self) -> Result<u64, Error> {
        let count = self.count(&KeyRange::<Outbox>::under(&(self.account,)))?;
        let said = std::mem::replace(&mut self.state.queued, count);
        if said != count {
            self.stage_state();
        }
        Ok(said)
    }

    /// Of the site: says which line of history the queue is of, and why nothing is sent, if so.
    pub fn mark_queue(&mut self, mark: &QueueMark) {
        debug_assert_eq!(self.account, AccountId::SITE, "the queue's mark is the site's");
        self.next_modseq();
        self.put_bytes::<Site>(&SiteKey::Queue, mark.encode());
        self.touch(DataType::Outbox);
    }

    /// Of every account that it wakes: another look is due.
    fn write_action(&mut self, action: &Action) {
        self.put::<Outbox>(&self.action_key(action.id), action);
        self.wake(action, true);
        self.touch(DataType::Outbox);
    }

    /// Writes or deletes what wakes an action.
    pub(in crate::store) fn wake(&mut self, action: &Action, is_set: bool) {
        let Some(wake) = wake_condition(action) else { return };
        let key = DueKey { wake, account: self.account, action: action.id };
        if is_set {
            self.put::<OutboxDue>(&key, &Destination::of(self.account, action));
        } else {
            self.delete::<OutboxDue>(&key);
        }
    }

    fn forget_same(&mut self, action: &Action) {
        if let Some(hash) = &action.duplicate_key {
            self.delete::<OutboxSame>(&SameKey { account: self.account, hash: *hash });
        }
    }
}
