//! What the standard methods have in common (RFC 8620 §5): states, creation ids, and the arguments and answers of /get,
//! /changes and /set. What a property is, and what a change of it does, is each type's own.

mod changes;
mod created;
mod get;
pub(super) mod objects;
pub(super) mod people;
mod query;
mod set;
mod state;
pub(super) mod value;
mod wrong;

pub(super) use changes::{Asked, changes};
pub(super) use created::Created;
pub(super) use get::Get;
pub(super) use query::{Order, Tree, query_changes, section, sort};
pub(super) use set::{Done, Fault, Outcome, Set, Stand, refused};
pub(super) use state::{newest, since, state};
pub(super) use wrong::Wrong;
