//! Restante: a mail delivery agent with a vacation responder.
//!
//! This library serves one program and is no API: [`cli::main`] is all that the program calls.
//!
//! # The rooms
//! A room names only rooms on lower storeys; `tests/layering.rs` holds this table as a test.
//!
//! ```text
//! L7 cli -> L6 config -> L5 net -> L4 deliver | queue | jmap | transfer -> L3 account | query | upkeep
//!        -> L2 store | vacation | outbox | proof -> L1 wire | message -> L0 model, trace
//! ```
//!
//! `fuzzing`, the bodies of the fuzz targets, stands above them all.
//!
//! # What others reach
//! Every room is `pub(crate)`, so that rustc finds what nobody uses. The benches, the fuzz targets
//! and `tests/it` are crates of their own; what they need is re-exported by [`internals`] and
//! [`fuzzing`], and by nothing else. Both are left out without the feature `internals`, which is
//! how dead code is looked for.

pub(crate) mod model;
pub(crate) mod trace;

pub(crate) mod message;
pub(crate) mod wire;

pub(crate) mod outbox;
pub(crate) mod proof;
pub(crate) mod store;
pub(crate) mod vacation;

pub(crate) mod account;
pub(crate) mod query;
pub(crate) mod upkeep;

pub(crate) mod deliver;
pub(crate) mod jmap;
pub(crate) mod queue;
pub(crate) mod transfer;

pub(crate) mod net;

pub(crate) mod config;

pub(crate) mod cli;

#[cfg(any(test, feature = "internals"))]
#[doc(hidden)]
pub mod fuzzing;

pub use cli::main;

/// What the benches and `tests/it` use of the rooms.
///
/// Only what signs is there without the feature: `tests/it` is built without it, too.
#[doc(hidden)]
pub mod internals {
    /// Makes accounts with passwords (`benches/jmap`).
    #[cfg(feature = "internals")]
    pub mod account {
        pub use crate::account::{Directory, NewAccount, Settings, hash_password};
    }
    /// Turns a message into the rows that the store takes (both benches that fill a store).
    #[cfg(feature = "internals")]
    pub mod message {
        pub use crate::message::rows;
    }
    /// The plain values in the signatures of the other rooms.
    #[cfg(feature = "internals")]
    pub mod model {
        pub use crate::model::clock;
        pub use crate::model::{
            AccountId, AccountRow, Address, EmailId, ListingFilter, ListingStage, LiveValue,
            MailboxUid, ModSeq, Role, UtcMillis,
        };
    }
    /// Signs messages (`tests/it/proof.rs`).
    pub mod proof {
        pub use crate::proof::{Algorithm, Signer, SigningKey, generate};
    }
    /// Asks of the store what a client asks (`benches/mailbox`).
    #[cfg(feature = "internals")]
    pub mod query {
        pub use crate::query::{
            Condition, Filter, Query, QueryChanges, QuerySpec, Start, Window, changes, query,
        };
    }
    /// Fills and changes a store, and reads what it weighs (`benches/mailbox`, `benches/jmap`).
    #[cfg(feature = "internals")]
    pub mod store {
        pub use crate::store::{
            ClientState, EncodedMessage, NewEmail, NewMailbox, Options, Store, Ticket,
        };
    }
    /// The background work beside the client's (`benches/mailbox`).
    #[cfg(feature = "internals")]
    pub mod upkeep {
        pub use crate::upkeep::{Settings, Upkeep, fold_index};
    }
}

#[cfg(test)]
#[path = "../tests/it/needs.rs"]
mod needs;
