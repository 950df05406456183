//! Restante: a mail delivery agent with a vacation responder.
//!
//! # The rooms
//! A room names only rooms on lower storeys; `tests/layering.rs` holds this table as a test.
//!
//! ```text
//! L7 cli -> L6 config -> L5 net -> L4 deliver | queue | jmap | transfer -> L3 account | query | upkeep
//!        -> L2 store | vacation | outbox | proof -> L1 wire | message -> L0 model, trace
//! ```
//!
//! Above them all stands `fuzzing`, the bodies of the fuzz targets, which nobody names.

pub mod model;
pub mod trace;

pub mod message;
pub mod wire;

pub mod outbox;
pub mod proof;
pub mod store;
pub mod vacation;

pub mod account;
pub mod query;
pub mod upkeep;

pub mod deliver;
pub mod jmap;
pub mod queue;
pub mod transfer;

pub mod net;

pub mod config;

pub mod cli;

#[doc(hidden)]
pub mod fuzzing;

#[cfg(test)]
#[path = "../tests/it/needs.rs"]
mod needs;
