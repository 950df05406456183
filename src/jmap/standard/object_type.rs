//! Object types, and /get and /changes over them (RFC 8620 §5.1, §5.2).
//!
//! - A type defines what a call reads (`Reader`) and the value of each property, in traits for the
//!   methods that it has.
//! - The methods here read the arguments, check the bounds, charge the budget, and make the answer.

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

/// A type of JMAP objects in an account.
pub(in crate::jmap) trait ObjectType {
    type Id: FromStr + Display;
    type Property: Property;
    /// Reads the objects for one call, from one snapshot and with the rights of the caller.
    type Reader<'a>;

    /// Whether guests may call the methods of this type.
    const GUESTS: bool = false;

    /// Returns the account of a call's `accountId`.
    ///
    /// # Errors
    /// `AccountNotFound`; `AccountNotSupportedByMethod` if the caller is a guest and guests may not
    /// call the method; those of reading.
    fn account(call: &Call<'_>, id: &str) -> Result<Account, MethodError> {
        if Self::GUESTS { call.account(id) } else { call.managed_account(id) }
    }

    fn reader<'a>(call: &Call<'a>, account: &'a Account) -> Result<Self::Reader<'a>, MethodError>;

    /// Returns the state string of the type that belongs to what the reader reads.
    fn state(reader: &Self::Reader<'_>) -> Result<String, MethodError>;
}

/// A type that has the standard /get.
pub(in crate::jmap) trait GetObjects: ObjectType {
    /// The properties that a request may ask for. They are the default, too.
    fn properties(call: &Call<'_>) -> Vec<Self::Property>;

    /// Reads ahead what the objects need. `ids` are those that the client named; `None` if it asks
    /// for all objects.
    fn prepare(
        _: &mut Self::Reader<'_>,
        _ids: Option<&[String]>,
        _properties: &[Self::Property],
    ) -> Result<(), MethodError> {
        Ok(())
    }

    /// Returns the ids of all objects. If there are more than /get may return, one more is enough.
    fn ids(reader: &Self::Reader<'_>) -> Result<Vec<Self::Id>, MethodError>;

    /// Returns `None` if the caller sees no such object.
    fn object(
        reader: &Self::Reader<'_>,
        id: &Self::Id,
        properties: &[Self::Property],
    ) -> Result<Option<JsonObject>, MethodError>;
}

/// Makes a JSON object of properties, with the value that `value` returns for each.
pub(in crate::jmap) fn object_of<P: Property>(
    properties: &[P],
    mut value: impl FnMut(&P) -> Value,
) -> JsonObject {
    properties.iter().map(|property| (property.name().to_owned(), value(property))).collect()
}

/// The method /get of the type `T`.
pub(in crate::jmap) struct GetMethod<T>(PhantomData<T>);

impl<T: GetObjects> Method for GetMethod<T> {
    type Args = GetArgs<T::Property>;
    type Answer = GetAnswer;

    fn call(call: &Call<'_>, args: Self::Args) -> Result<GetAnswer, MethodError> {
        let account = T::account(call, &args.account_id)?;
        get_from::<T>(call, &account, args.ids, args.properties)
    }
}

/// Answers /get for an account that the caller may use, which is not checked again.
///
/// # Errors
/// `InvalidArguments` for a property of a capability that the request does not use;
/// `RequestTooLarge` for too many objects, or too large an answer; those of reading.
pub(in crate::jmap) fn get_from<T: GetObjects>(
    call: &Call<'_>,
    account: &Account,
    ids: Option<Vec<String>>,
    properties: Option<Vec<T::Property>>,
) -> Result<GetAnswer, MethodError> {
    let ids = requested_ids(call, ids)?;
    let properties = requested_properties(T::properties(call), properties)?;
    let mut reader = T::reader(call, account)?;
    // Too many objects are refused before anything is read ahead.
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

/// Returns the ids that a /get names, each once, with creation ids resolved; `None` if it asks for
/// all objects.
///
/// # Errors
/// `RequestTooLarge` for more ids than one call may name.
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

/// Returns each property once: `id` and the named ones, or all that are `available` if `named` is
/// `None`.
///
/// # Errors
/// `InvalidArguments` for a named property that is not available.
fn requested_properties<P: Property>(
    available: Vec<P>,
    named: Option<Vec<P>>,
) -> Result<Vec<P>, MethodError> {
    let Some(named) = named else { return Ok(available) };
    let mut properties = vec![P::id()];
    for property in named {
        if !available.contains(&property) {
            let unknown = format!("properties: there is no property {}", property.name());
            return Err(MethodError::InvalidArguments(unknown));
        }
        if !properties.contains(&property) {
            properties.push(property);
        }
    }
    Ok(properties)
}

/// A type that has the standard /changes.
pub(in crate::jmap) trait ObjectChanges: ObjectType {
    /// Returns up to `max_changes` ids that changed since a state; `None` if that cannot be
    /// calculated.
    fn changes(
        reader: &Self::Reader<'_>,
        since: &str,
        max_changes: usize,
    ) -> Result<Option<ChangedObjects<Self::Id>>, MethodError>;
}

#[derive(Debug)]
pub(in crate::jmap) struct ChangedObjects<Id> {
    pub(in crate::jmap) created: Vec<Id>,
    pub(in crate::jmap) updated: Vec<Id>,
    pub(in crate::jmap) destroyed: Vec<Id>,
    /// The state of the client once it has these changes.
    pub(in crate::jmap) state: String,
    /// Whether there are changes after that state.
    pub(in crate::jmap) more: bool,
    pub(in crate::jmap) updated_properties: UpdatedProperties,
}

impl<Id> ChangedObjects<Id> {
    pub(in crate::jmap) fn from_store(store: &Store, changes: store::Changes<Id>) -> Self {
        Self {
            created: changes.created,
            updated: changes.updated,
            destroyed: changes.destroyed,
            state: state::catching_up_state(store, changes.state),
            more: changes.has_more,
            updated_properties: UpdatedProperties::NotReported,
        }
    }
}

/// Parses the `sinceState` of a client.
///
/// # Errors
/// `CannotCalculateChanges` for a state that is malformed or of another epoch.
pub(in crate::jmap) fn parse_state(store: &Store, since: &str) -> Result<ClientState, MethodError> {
    state::parse(store, since).ok_or(MethodError::CannotCalculateChanges)
}

/// The method /changes of the type `T`.
pub(in crate::jmap) struct ChangesMethod<T>(PhantomData<T>);

impl<T: ObjectChanges> Method for ChangesMethod<T> {
    type Args = ChangesArgs;
    type Answer = ChangesAnswer;

    fn call(call: &Call<'_>, args: ChangesArgs) -> Result<ChangesAnswer, MethodError> {
        let account = T::account(call, &args.account_id)?;
        let max_changes = args.max_changes.and_then(|max| usize::try_from(max.get()).ok());
        let max_changes =
            max_changes.map_or(limits::MAX_CHANGES, |max| max.min(limits::MAX_CHANGES));
        let reader = T::reader(call, &account)?;
        let changes = T::changes(&reader, &args.since_state, max_changes)?;
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
