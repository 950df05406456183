//! The arguments and the answer of /set (RFC 8620 §5.3), and the states around it.

use serde_json::{Map, Value, json};

use super::state::state;
use crate::jmap::context::{Account, Context, NamedObjects, distinct};
use crate::jmap::creation_ids::CreationIds;
use crate::jmap::failure::SetFailure;
use crate::model::{DataType, ModSeq, limits};
use crate::store::{Error, Txn};
use crate::wire::jmap::json::{members, or_null};
use crate::wire::jmap::standard::{SetAnswer, SetArgs};
use crate::wire::jmap::{JsonObject, MethodError, SetError};

/// What a /set asks for. In `update` and `destroy`, the creation ids of earlier calls are replaced
/// by the ids of the objects. Those of objects that this call creates stay as they are.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::jmap) struct SetArguments {
    /// `None`: the changes are made in any state.
    if_in_state: Option<String>,
    pub(in crate::jmap) create: NamedObjects,
    /// By id, without the objects that the same call destroys.
    pub(in crate::jmap) update: Vec<(String, Value)>,
    /// Each id once.
    pub(in crate::jmap) destroy: Vec<String>,
    /// The changes that are refused already.
    pub(in crate::jmap) done: SetResponse,
}

impl SetArguments {
    /// Reads the arguments of a /set. Refuses updates of objects that the same call destroys.
    ///
    /// # Errors
    /// `RequestTooLarge` for more objects than one call may name.
    pub(in crate::jmap) fn read(ids: &CreationIds, args: SetArgs) -> Result<Self, MethodError> {
        let SetArgs { if_in_state, create, update, destroy, .. } = args;
        let resolved = |id: String| ids.resolve(&id).unwrap_or(id);
        let destroy = distinct(destroy.into_iter().map(resolved));
        if create.len() + update.len() + destroy.len() > limits::MAX_OBJECTS_IN_SET {
            return Err(MethodError::RequestTooLarge("maxObjectsInSet"));
        }
        let mut done = SetResponse::default();
        let mut updates = Vec::with_capacity(update.len());
        for (id, patch) in update {
            let id = resolved(id);
            if destroy.contains(&id) {
                done.not_updated(&id, &SetError::WillDestroy);
            } else {
                updates.push((id, Value::Object(patch)));
            }
        }
        let create = create.into_iter().collect();
        Ok(Self { if_in_state, create, update: updates, destroy, done })
    }

    /// Runs all changes in one commit, and waits until it is durable. The answer must report every
    /// change of the commit. Returns the outcomes, the states, and what `change` returned.
    ///
    /// `change` may be run more than once, each time with a new copy of `done`. It must first
    /// restore the creation ids (`CreationIds::restore`).
    ///
    /// # Errors
    /// `StateMismatch`, and those of the commit.
    pub(in crate::jmap) fn commit_each<T>(
        &self,
        context: &Context,
        account: &Account,
        data: DataType,
        mut change: impl FnMut(&mut Txn<'_>, &mut SetResponse) -> Result<T, Error>,
    ) -> Result<(SetResponse, SetStates, T), MethodError> {
        let (result, ticket) = context.store.commit(account.id, |txn| {
            let before = txn.state().high_mark(data);
            if !self.is_in_state(context, before) {
                return Ok(None);
            }
            let (mut done, mut states) = (self.done.clone(), SetStates::new(before));
            let value = change(txn, &mut done)?;
            states.after(txn.state().high_mark(data), true);
            Ok(Some((done, states, value)))
        })?;
        ticket.wait_blocking()?;
        result.ok_or(MethodError::StateMismatch)
    }

    /// Whether `ifInState` allows the change, given the newest change of the type. Must be called
    /// in the commit that makes the change, as `commit_each` does.
    pub(in crate::jmap) fn is_in_state(&self, context: &Context, now: ModSeq) -> bool {
        self.allows_state(&state(&context.store, now))
    }

    /// Whether `ifInState` allows the change, given the present state string: for a type whose
    /// states are no modseqs.
    pub(in crate::jmap) fn allows_state(&self, state: &str) -> bool {
        self.if_in_state.as_ref().is_none_or(|expected| expected == state)
    }
}

/// The outcome of a /set for each object that it names.
#[derive(Debug, Clone, PartialEq, Default)]
pub(in crate::jmap) struct SetResponse {
    created: Map<String, Value>,
    updated: Map<String, Value>,
    destroyed: Vec<String>,
    not_created: Map<String, Value>,
    not_updated: Map<String, Value>,
    not_destroyed: Map<String, Value>,
}

impl SetResponse {
    /// Records the outcome of a creation: an object as in `created`, or its error.
    ///
    /// # Errors
    /// That of `SetFailure::Call`.
    pub(in crate::jmap) fn create<E>(
        &mut self,
        ids: &CreationIds,
        name: &str,
        outcome: Result<Map<String, Value>, SetFailure<E>>,
    ) -> Result<(), E> {
        match outcome {
            Ok(object) => self.created(ids, name, object),
            Err(failure) => self.not_created(name, &failure.object()?),
        }
        Ok(())
    }

    /// Records the outcome of an update: other changes as in `updated`, or the object's error.
    ///
    /// # Errors
    /// That of `SetFailure::Call`.
    pub(in crate::jmap) fn update<E>(
        &mut self,
        id: &str,
        outcome: Result<Map<String, Value>, SetFailure<E>>,
    ) -> Result<(), E> {
        match outcome {
            Ok(other_changes) => self.updated(id, other_changes),
            Err(failure) => self.not_updated(id, &failure.object()?),
        }
        Ok(())
    }

    /// Records the outcome of a destruction.
    ///
    /// # Errors
    /// That of `SetFailure::Call`.
    pub(in crate::jmap) fn destroy<E>(
        &mut self,
        id: &str,
        outcome: Result<(), SetFailure<E>>,
    ) -> Result<(), E> {
        match outcome {
            Ok(()) => self.destroyed(id),
            Err(failure) => self.not_destroyed(id, &failure.object()?),
        }
        Ok(())
    }

    /// Records that an object was created, and the id for its creation id. `object` has the `id`
    /// and the properties that the client did not set.
    pub(in crate::jmap) fn created(
        &mut self,
        ids: &CreationIds,
        name: &str,
        object: Map<String, Value>,
    ) {
        if let Some(id) = object.get("id").and_then(Value::as_str) {
            ids.note(name, id);
        }
        self.created.insert(name.into(), Value::Object(object));
    }

    /// Records that an object was updated. `other_changes` has the properties that changed beyond
    /// the patch.
    pub(in crate::jmap) fn updated(&mut self, id: &str, other_changes: Map<String, Value>) {
        let value =
            if other_changes.is_empty() { Value::Null } else { Value::Object(other_changes) };
        self.updated.insert(id.into(), value);
    }

    pub(in crate::jmap) fn destroyed(&mut self, id: &str) {
        self.destroyed.push(id.into());
    }

    pub(in crate::jmap) fn not_created(&mut self, name: &str, error: &SetError) {
        self.not_created.insert(name.into(), error.object());
    }

    pub(in crate::jmap) fn not_updated(&mut self, id: &str, error: &SetError) {
        self.not_updated.insert(id.into(), error.object());
    }

    pub(in crate::jmap) fn not_destroyed(&mut self, id: &str, error: &SetError) {
        self.not_destroyed.insert(id.into(), error.object());
    }

    /// Whether any object was refused.
    pub(in crate::jmap) fn has_refusals(&self) -> bool {
        !(self.not_created.is_empty()
            && self.not_updated.is_empty()
            && self.not_destroyed.is_empty())
    }

    /// Reports that the call changed a property of an object for another reason than its own
    /// creation or patch.
    pub(in crate::jmap) fn also_changed(&mut self, id: &str, property: &str, value: Value) {
        let is_same = |object: &&mut Value| object.get("id").and_then(Value::as_str) == Some(id);
        let object = match self.created.values_mut().find(is_same) {
            Some(created) => created,
            None => self.updated.entry(id).or_insert(Value::Null),
        };
        if object.is_null() {
            *object = JsonObject::new().into();
        }
        if let Some(members) = object.as_object_mut() {
            members.insert(property.to_owned(), value);
        }
    }

    /// Returns the answer of a /set without account and states, for `PushSubscription`, which has
    /// neither.
    pub(in crate::jmap) fn into_members(self) -> Map<String, Value> {
        let destroyed = if self.destroyed.is_empty() { Value::Null } else { self.destroyed.into() };
        members(json!({
            "created": or_null(self.created),
            "updated": or_null(self.updated),
            "destroyed": destroyed,
            "notCreated": or_null(self.not_created),
            "notUpdated": or_null(self.not_updated),
            "notDestroyed": or_null(self.not_destroyed),
        }))
    }

    /// Returns what was created and what was not, for a method that does nothing else.
    pub(in crate::jmap) fn into_creations(self) -> (Option<JsonObject>, Option<JsonObject>) {
        (none_if_empty(self.created), none_if_empty(self.not_created))
    }

    /// Makes the answer of a /set.
    pub(in crate::jmap) fn into_answer(
        self,
        context: &Context,
        account: &Account,
        states: SetStates,
    ) -> SetAnswer {
        let text = |mark| state(&context.store, mark);
        self.into_answer_between(account, text(states.old), text(states.new))
    }

    /// Makes the answer of a /set from two state strings, for a type whose states are no modseqs.
    pub(in crate::jmap) fn into_answer_between(
        self,
        account: &Account,
        old: String,
        new: String,
    ) -> SetAnswer {
        SetAnswer {
            account_id: account.id.to_string(),
            old_state: old,
            new_state: new,
            created: none_if_empty(self.created),
            updated: none_if_empty(self.updated),
            destroyed: Some(self.destroyed).filter(|ids| !ids.is_empty()),
            not_created: none_if_empty(self.not_created),
            not_updated: none_if_empty(self.not_updated),
            not_destroyed: none_if_empty(self.not_destroyed),
        }
    }
}

/// An empty object is null in an answer (RFC 8620 §5.3).
fn none_if_empty(members: JsonObject) -> Option<JsonObject> {
    Some(members).filter(|members| !members.is_empty())
}

/// The states before and after a /set that may take several commits.
///
/// Between the two states lie only changes that the answer reports. If there is another change, the
/// new state stays before it, and the client learns of this change by /changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::jmap) struct SetStates {
    old: ModSeq,
    new: ModSeq,
    /// Whether the answer reports all changes of the type so far. After one that it does not
    /// report, `new` stays.
    is_contiguous: bool,
}

impl SetStates {
    /// Starts with the state at the beginning of the first commit.
    pub(in crate::jmap) fn new(now: ModSeq) -> Self {
        Self { old: now, new: now, is_contiguous: true }
    }

    /// Takes the state at the beginning of a further commit.
    pub(in crate::jmap) fn before(&mut self, now: ModSeq) {
        self.is_contiguous &= now == self.new;
    }

    /// Takes the state at the end of a commit. `is_reported` says whether the answer reports all
    /// changes of the commit.
    pub(in crate::jmap) fn after(&mut self, now: ModSeq, is_reported: bool) {
        self.is_contiguous &= is_reported;
        if self.is_contiguous {
            self.new = now;
        }
    }
}
