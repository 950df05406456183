//! What the standard methods have in common (RFC 8620 §5): states, and the arguments and answers of
//! /get, /changes and /set. What a property is, and what a change of it does, is each type's own.

mod filter;
mod object_type;
pub(super) mod people;
mod query;
mod query_objects;
mod set;
mod set_objects;
mod state;
mod stored;
pub(super) mod value;
mod wrong;

pub(super) use filter::{condition, sort_by};
pub(super) use object_type::{
    ChangedObjects, ChangesMethod, GetMethod, GetObjects, ObjectChanges, ObjectType, client_state,
    get_from, object_of, requested_ids,
};
pub(super) use query::{PropertyComparator, Tree};
pub(super) use query_objects::{
    NoArguments, ObjectQuery, QueryChangesMethod, QueryMethod, QueryObjects,
};
pub(super) use set::{SetArguments, SetResponse, SetStates};
pub(super) use set_objects::{SetMethod, SetObjects, set_in};
pub(super) use state::{newest_state, state};
pub(super) use stored::StoredReader;
pub(super) use wrong::InvalidProperties;
