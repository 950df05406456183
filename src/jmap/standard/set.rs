//! /set (RFC 8620 §5.3).

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

/// What a /set asks for.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::jmap) struct SetArguments {
    if_in_state: Option<String>,
    /// By creation id.
    pub(in crate::jmap) create: NamedObjects,
    /// By id, creation ids replaced: patches. None of what is to be destroyed.
    pub(in crate::jmap) update: Vec<(String, Value)>,
    /// Ids, each once, creation ids of earlier calls replaced.
    pub(in crate::jmap) destroy: Vec<String>,
    /// What is refused already.
    pub(in crate::jmap) done: SetResponse,
}

impl SetArguments {
    /// What the arguments ask for; changes of what is destroyed in the same call are refused
    /// already.
    ///
    /// # Errors
    /// `requestTooLarge`.
    pub(in crate::jmap) fn of(ids: &CreationIds, args: SetArgs) -> Result<Self, MethodError> {
        let SetArgs { if_in_state, create, update, destroy, .. } = args;
        let resolved = |id: String| ids.resolve(&id).unwrap_or(id);
        let destroy = distinct(destroy.into_iter().map(resolved));
        if create.len() + update.len() + destroy.len() > limits::MAX_OBJECTS_IN_SET {
            return Err(MethodError::RequestTooLarge("maxObjectsInSet"));
        }
        let mut done = SetResponse::default();
        let mut changed = Vec::with_capacity(update.len());
        for (id, patch) in update {
            let id = resolved(id);
            if destroy.contains(&id) {
                done.not_updated(&id, &SetError::WillDestroy);
            } else {
                changed.push((id, Value::Object(patch)));
            }
        }
        let create = create.into_iter().collect();
        Ok(Self { if_in_state, create, update: changed, destroy, done })
    }

    /// Does it in one commit, whose answer tells all that it changed, and waits for the disk. Gives
    /// what became of each object, and the states around it.
    ///
    /// # Errors
    /// `stateMismatch`, and those of the commit.
    pub(in crate::jmap) fn commit_each<T>(
        &self,
        context: &Context,
        account: &Account,
        data: DataType,
        mut change: impl FnMut(&mut Txn<'_>, &mut SetResponse) -> Result<T, Error>,
    ) -> Result<(SetResponse, SetStates, T), MethodError> {
        let (result, ticket) = context.store.commit(account.id, |txn| {
            let before = txn.state().state(data);
            if !self.is_in_state(context, before) {
                return Ok(None);
            }
            let (mut done, mut states) = (self.done.clone(), SetStates::new(before));
            let made = change(txn, &mut done)?;
            states.after(txn.state().state(data), true);
            Ok(Some((done, states, made)))
        })?;
        ticket.wait_blocking()?;
        result.ok_or(MethodError::StateMismatch)
    }

    /// Whether the state of the type is the one that the change was made for. To be asked in the
    /// commit that changes it.
    pub(in crate::jmap) fn is_in_state(&self, context: &Context, now: ModSeq) -> bool {
        self.is_in(&state(&context.store, now))
    }

    /// The same of a state that is no change number.
    pub(in crate::jmap) fn is_in(&self, state: &str) -> bool {
        self.if_in_state.as_ref().is_none_or(|wanted| wanted == state)
    }
}

/// What became of each object.
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
    /// Records what became of an object that was to be created.
    ///
    /// # Errors
    /// That of the call.
    pub(in crate::jmap) fn create<E>(
        &mut self,
        ids: &CreationIds,
        name: &str,
        made: Result<Map<String, Value>, SetFailure<E>>,
    ) -> Result<(), E> {
        match made {
            Ok(object) => self.created(ids, name, object),
            Err(failure) => self.not_created(name, &failure.object()?),
        }
        Ok(())
    }

    /// Records what became of an object that was to be changed.
    ///
    /// # Errors
    /// That of the call.
    pub(in crate::jmap) fn update<E>(
        &mut self,
        id: &str,
        changed: Result<Map<String, Value>, SetFailure<E>>,
    ) -> Result<(), E> {
        match changed {
            Ok(also) => self.updated(id, also),
            Err(failure) => self.not_updated(id, &failure.object()?),
        }
        Ok(())
    }

    /// Records what became of an object that was to be destroyed.
    ///
    /// # Errors
    /// That of the call.
    pub(in crate::jmap) fn destroy<E>(
        &mut self,
        id: &str,
        gone: Result<(), SetFailure<E>>,
    ) -> Result<(), E> {
        match gone {
            Ok(()) => self.destroyed(id),
            Err(failure) => self.not_destroyed(id, &failure.object()?),
        }
        Ok(())
    }

    /// One was made; `object` is its `id` and all that the client does not know of it.
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

    /// One was changed; `also` is what changed of it beside what was asked.
    pub(in crate::jmap) fn updated(&mut self, id: &str, also: Map<String, Value>) {
        self.updated
            .insert(id.into(), if also.is_empty() { Value::Null } else { Value::Object(also) });
    }

    /// One is gone.
    pub(in crate::jmap) fn destroyed(&mut self, id: &str) {
        self.destroyed.push(id.into());
    }

    /// One was not made.
    pub(in crate::jmap) fn not_created(&mut self, name: &str, error: &SetError) {
        self.not_created.insert(name.into(), error.object());
    }

    /// One was not changed.
    pub(in crate::jmap) fn not_updated(&mut self, id: &str, error: &SetError) {
        self.not_updated.insert(id.into(), error.object());
    }

    /// One stays.
    pub(in crate::jmap) fn not_destroyed(&mut self, id: &str, error: &SetError) {
        self.not_destroyed.insert(id.into(), error.object());
    }

    /// What became of all, without account and states. What nothing became of is null, as RFC 8620
    /// §5.3 has it.
    pub(in crate::jmap) fn outcomes(self) -> Map<String, Value> {
        let destroyed = if self.destroyed.is_empty() { Value::Null } else { self.destroyed.into() };
        members(json!({
            "created": or_null(self.created), "updated": or_null(self.updated), "destroyed": destroyed,
            "notCreated": or_null(self.not_created), "notUpdated": or_null(self.not_updated),
            "notDestroyed": or_null(self.not_destroyed),
        }))
    }

    /// What was created and what was not, of a method that does nothing else; none is null.
    pub(in crate::jmap) fn creations(self) -> (Option<JsonObject>, Option<JsonObject>) {
        (none_if_empty(self.created), none_if_empty(self.not_created))
    }

    /// The answer.
    pub(in crate::jmap) fn into_answer(
        self,
        context: &Context,
        account: &Account,
        states: SetStates,
    ) -> SetAnswer {
        let text = |mark| state(&context.store, mark);
        self.into_answer_between(account, text(states.old), text(states.new))
    }

    /// The answer between two states.
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

/// What nothing became of is null in an answer (RFC 8620 §5.3).
fn none_if_empty(members: JsonObject) -> Option<JsonObject> {
    Some(members).filter(|members| !members.is_empty())
}

/// From which state to which a /set led that is done in several commits.
///
/// What must hold: between the two states lies nothing but what the answer tells. Where another's
/// change came between, or a change altered objects that the answer does not name, the new state
/// stays before it, and the client learns of it by /changes, as of any other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::jmap) struct SetStates {
    old: ModSeq,
    new: ModSeq,
    joined: bool,
}

impl SetStates {
    /// At the beginning of the first commit.
    pub(in crate::jmap) fn new(now: ModSeq) -> Self {
        Self { old: now, new: now, joined: true }
    }

    /// At the beginning of a further commit.
    pub(in crate::jmap) fn before(&mut self, now: ModSeq) {
        self.joined &= now == self.new;
    }

    /// At the end of a commit; `told` is whether the answer tells all that it changed.
    pub(in crate::jmap) fn after(&mut self, now: ModSeq, told: bool) {
        self.joined &= told;
        if self.joined {
            self.new = now;
        }
    }
}
