//! The standard methods over any object type (RFC 8620 §5): /get, /changes, /set, /query and
//! /queryChanges. Each object type defines its properties, and how objects are read and changed.

pub(super) mod email_addresses;
mod filter;
mod invalid_properties;
mod object_type;
mod query;
mod query_objects;
mod set;
mod set_objects;
mod state;
mod stored;
pub(super) mod value;

pub(super) use filter::{condition, sort_by};
pub(super) use invalid_properties::InvalidProperties;
pub(super) use object_type::{
    ChangedObjects, ChangesMethod, GetMethod, GetObjects, ObjectChanges, ObjectType, get_from,
    object_of, parse_state, requested_ids,
};
pub(super) use query::{FilterTree, PropertyComparator};
pub(super) use query_objects::{
    NoArguments, ObjectQuery, QueryChangesMethod, QueryMethod, QueryObjects,
};
pub(super) use set::{SetArguments, SetResponse, SetStates};
pub(super) use set_objects::{SetMethod, SetObjects, set_in};
pub(super) use state::{newest_state, state};
pub(super) use stored::StoredReader;
