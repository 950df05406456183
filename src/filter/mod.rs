//! Runs the Sieve scripts of the site and of accounts (RFC 5228) over a message that arrives.
//!
//! - The engine is the package `restante-sieve`. This room compiles scripts, answers the engine's
//!   questions from a snapshot of the store, and makes of its plan what `deliver` writes.
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
mod rules;
mod run;
mod settings;
mod steps;
mod stored;
pub(crate) mod view;
mod world;

pub use action::{
    EditedMessage, FilterAction, FilterResult, FiredRules, Importance, Notification, StoreTarget,
};
pub use cache::ScriptCache;
pub use report::ScriptReport;
pub use request::FilterRequest;
pub use rules::ScriptRule;
pub use run::{run, run_alone, uses_answers};
pub use settings::{Settings, SiteScript, SpamHeader};
pub use stored::StoredPlan;

#[cfg(test)]
mod tests;
