//! Object types, and /get and /changes over them (RFC 8620 §5.1, §5.2).
//!
//! A type says once what it reads for a call (`Reader`) and what each property is; the methods here
//! read the arguments, hold the bounds, charge the answer, and put it together. A type implements
//! one trait for each method that it has.

use std::fmt::Display;
use std::marker::PhantomData;
use std::str::FromStr;

use serde_json::Value;

use super::state;
use crate::jmap::context::{Account, distinct};
use crate::jmap::method::{Call, Method};
use crate::model::limits;
use crate::store::{self, ClientState, Store};
use crate::wire::jmap::standard::{
    ChangesAnswer, ChangesArgs, GetAnswer, GetArgs, UpdatedProperties,
};
use crate::wire::jmap::{JsonObject, MethodError, Property};

/// A type of objects that an account has.
pub(in crate::jmap) trait ObjectType {
    type Id: FromStr + Display;
    type Property: Property;
    /// What a call reads from: a snapshot of the account, and what the caller may see in it.
    type Reader<'a>;

    /// Whether a guest may ask for what is shared with the guest; else only the account's owner
    /// may.
    const GUESTS: bool = false;

    fn reader<'a>(call: &Call<'a>, account: &'a Account) -> Result<Self::Reader<'a>, MethodError>;

    /// The state of the type in the reader's snapshot.
    fn state(reader: &Self::Reader<'_>) -> Result<String, MethodError>;
}

/// A type that has /get.
pub(in crate::jmap) trait GetObjects: ObjectType {
    /// The properties that a request may ask for, which are those that it is given where it names
    /// none.
    fn properties(call: &Call<'_>) -> Vec<Self::Property>;

    /// Reads ahead what the objects that are asked for need; `ids` are those that the client named.
    fn prepare(
        _: &mut Self::Reader<'_>,
        _ids: Option<&[String]>,
        _properties: &[Self::Property],
    ) -> Result<(), MethodError> {
        Ok(())
    }

    /// The ids of all objects. One more than /get may give is enough to have it refused.
    fn ids(reader: &Self::Reader<'_>) -> Result<Vec<Self::Id>, MethodError>;

    /// These properties of an object; `None` where it is not there for the caller.
    fn object(
        reader: &Self::Reader<'_>,
        id: &Self::Id,
        properties: &[Self::Property],
    ) -> Result<Option<JsonObject>, MethodError>;
}

/// An object of these properties, each with the value that `value` gives.
pub(in crate::jmap) fn object_of<P: Property>(
    properties: &[P],
    mut value: impl FnMut(&P) -> Value,
) -> JsonObject {
    properties.iter().map(|property| (property.name().to_owned(), value(property))).collect()
}

/// /get of a type.
pub(in crate::jmap) struct GetMethod<T>(PhantomData<T>);

impl<T: GetObjects> Method for GetMethod<T> {
    type Args = GetArgs<T::Property>;
    type Answer = GetAnswer;

    fn call(call: &Call<'_>, args: Self::Args) -> Result<GetAnswer, MethodError> {
        let account = call.open(&args.account_id, T::GUESTS)?;
        get_from::<T>(call, &account, args.ids, args.properties)
    }
}

/// The answer of /get in an account that is open.
///
/// # Errors
/// `invalidArguments` for a property that belongs to a capability that the request does not use,
/// `requestTooLarge`, and those of reading.
pub(in crate::jmap) fn get_from<T: GetObjects>(
    call: &Call<'_>,
    account: &Account,
    ids: Option<Vec<String>>,
    properties: Option<Vec<T::Property>>,
) -> Result<GetAnswer, MethodError> {
    let ids = requested_ids(call, ids)?;
    let properties = requested(T::properties(call), properties)?;
    let mut reader = T::reader(call, account)?;
    // Refused before anything is read ahead for it.
    let all = if ids.is_none() { T::ids(&reader)? } else { Vec::new() };
    if all.len() > limits::MAX_OBJECTS_IN_GET {
        return Err(MethodError::RequestTooLarge("maxObjectsInGet"));
    }
    T::prepare(&mut reader, ids.as_deref(), &properties)?;
    let state = T::state(&reader)?;
    let (mut list, mut not_found) = (Vec::new(), Vec::new());
    let mut add = |text: String, id: Option<T::Id>| {
        let found = id.map(|id| T::object(&reader, &id, &properties)).transpose()?;
        match found.flatten() {
            Some(object) => {
                let object = Value::Object(object);
                call.context.budget.add_to_answer(&object)?;
                list.push(object);
            }
            None => not_found.push(text),
        }
        Ok::<(), MethodError>(())
    };
    for text in ids.unwrap_or_default() {
        let id = text.parse().ok();
        add(text, id)?;
    }
    for id in all {
        add(id.to_string(), Some(id))?;
    }
    Ok(GetAnswer { account_id: account.id.to_string(), state, list, not_found })
}

/// The ids that a /get names, each once, creation ids resolved.
///
/// # Errors
/// `requestTooLarge` for more than one call may name.
pub(in crate::jmap) fn requested_ids(
    call: &Call<'_>,
    ids: Option<Vec<String>>,
) -> Result<Option<Vec<String>>, MethodError> {
    let ids = ids.map(|ids| distinct(ids.into_iter().map(|id| call.resolve_id(id))));
    match &ids {
        Some(ids) if ids.len() > limits::MAX_OBJECTS_IN_GET => {
            Err(MethodError::RequestTooLarge("maxObjectsInGet"))
        }
        _ => Ok(ids),
    }
}

/// The properties that are given, each once: those that were named and `id`, or all that the
/// request knows.
fn requested<P: Property>(known: Vec<P>, named: Option<Vec<P>>) -> Result<Vec<P>, MethodError> {
    let Some(named) = named else { return Ok(known) };
    let mut wanted = vec![P::id()];
    for property in named {
        if !known.contains(&property) {
            let unknown = format!("properties: {} is no property", property.name());
            return Err(MethodError::InvalidArguments(unknown));
        }
        if !wanted.contains(&property) {
            wanted.push(property);
        }
    }
    Ok(wanted)
}

/// A type that has /changes.
pub(in crate::jmap) trait ObjectChanges: ObjectType {
    /// What changed since a state, `most` ids at most; `None` where that cannot be told.
    fn changes(
        reader: &Self::Reader<'_>,
        since: &str,
        most: usize,
    ) -> Result<Option<ChangedObjects<Self::Id>>, MethodError>;
}

/// What changed of a type.
#[derive(Debug)]
pub(in crate::jmap) struct ChangedObjects<Id> {
    pub(in crate::jmap) created: Vec<Id>,
    pub(in crate::jmap) updated: Vec<Id>,
    pub(in crate::jmap) destroyed: Vec<Id>,
    /// The state that the client has then.
    pub(in crate::jmap) state: String,
    /// Whether there is more to be told from that state on.
    pub(in crate::jmap) more: bool,
    pub(in crate::jmap) updated_properties: UpdatedProperties,
}

impl<Id> ChangedObjects<Id> {
    /// What the store tells.
    pub(in crate::jmap) fn of(store: &Store, changes: store::Changes<Id>) -> Self {
        Self {
            created: changes.created,
            updated: changes.updated,
            destroyed: changes.destroyed,
            state: state::at(store, changes.state),
            more: changes.more,
            updated_properties: UpdatedProperties::Untold,
        }
    }
}

/// Where a client that wrote this state stands.
///
/// # Errors
/// `cannotCalculateChanges` for a state that this store never gave.
pub(in crate::jmap) fn client_state(
    store: &Store,
    since: &str,
) -> Result<ClientState, MethodError> {
    state::since(store, since).ok_or(MethodError::CannotCalculateChanges)
}

/// /changes of a type.
pub(in crate::jmap) struct ChangesMethod<T>(PhantomData<T>);

impl<T: ObjectChanges> Method for ChangesMethod<T> {
    type Args = ChangesArgs;
    type Answer = ChangesAnswer;

    fn call(call: &Call<'_>, args: ChangesArgs) -> Result<ChangesAnswer, MethodError> {
        let account = call.open(&args.account_id, T::GUESTS)?;
        let most = args.max_changes.and_then(|most| usize::try_from(most.get()).ok());
        let most = most.map_or(limits::MAX_CHANGES, |most| most.min(limits::MAX_CHANGES));
        let reader = T::reader(call, &account)?;
        let changes = T::changes(&reader, &args.since_state, most)?;
        let changes = changes.ok_or(MethodError::CannotCalculateChanges)?;
        let ids = |ids: Vec<T::Id>| ids.iter().map(ToString::to_string).collect();
        Ok(ChangesAnswer {
            account_id: account.id.to_string(),
            old_state: args.since_state,
            new_state: changes.state,
            has_more_changes: changes.more,
            created: ids(changes.created),
            updated: ids(changes.updated),
            destroyed: ids(changes.destroyed),
            updated_properties: changes.updated_properties,
        })
    }
}
