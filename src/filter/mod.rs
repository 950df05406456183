//! Runs the Sieve scripts of the site and of accounts (RFC 5228) over a message that arrives.
//!
//! - The engine is the package `restante-sieve`. This room compiles scripts, answers the engine's
//!   questions from a snapshot of the store, and turns its plans into actions for `deliver`.
//! - It writes nothing.
//! - Site scripts before, then the active script of the account, then site scripts after. A script
//!   that does not leave the message in the Inbox ends the sequence.
//! - A run that fails keeps the message in the Inbox.

mod action;
mod cache;
mod edits;
pub(crate) mod mailto;
mod report;
mod request;
mod run;
mod settings;
mod steps;
mod usage;
pub(crate) mod view;
mod world;

pub use action::{
    EditedMessage, FilterAction, FilterResult, Importance, Keep, Notification, StoreTarget,
};
pub use cache::ScriptCache;
pub use report::ScriptReport;
pub use request::FilterRequest;
pub use run::AccountScripts;
pub use settings::{Settings, SiteScript, SpamHeader};
