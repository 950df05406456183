//! Runs the Sieve scripts of the site and of accounts (RFC 5228) over a message that arrives.
//!
//! - The engine is the package `restante-sieve`. This room compiles scripts, answers the engine's
//!   questions from a snapshot of the store, and makes of its plan what `deliver` writes.
//! - It writes nothing but scripts that users give, after it has checked them.
//! - Site scripts before, then the active script of the account, then site scripts after. A script
//!   that does not leave the message in the Inbox ends the sequence.
//! - A run that fails keeps the message in the Inbox.

mod action;
mod cache;
mod check;
mod edits;
pub(crate) mod mailto;
mod report;
mod request;
mod run;
mod settings;
mod steps;
mod trial;
pub(crate) mod view;
mod world;

pub use action::{
    EditedMessage, FilterAction, FilterResult, Importance, Notification, StoreTarget,
};
pub use cache::ScriptCache;
pub use check::{ScriptCheck, find_script, format_script};
pub use report::ScriptReport;
pub use request::FilterRequest;
pub use run::{run, uses_answers};
pub use settings::{Settings, SiteScript, SpamHeader};
pub use trial::{TraceEvent, TraceLine, TrialAccount, TrialRequest};

#[cfg(test)]
mod tests;
