//! Runs the Sieve scripts of the site and of accounts (RFC 5228) over a message that arrives.
//!
//! - The engine is the package `restante-sieve`. This room compiles scripts, answers the engine's
//!   questions from a snapshot of the store, and makes of its plan what `deliver` writes.
//! - It writes nothing but scripts that users give, after it has checked them.
//! - First run the site's `before` scripts, then the active script of the account, then the site's
//!   `after` scripts. Each script after the first runs only if the one before it kept the message,
//!   by an implicit or an explicit keep.
//! - If a script fails, or cannot be loaded, no further one runs. Its own actions are dropped,
//!   those of the scripts before it stay, and the message is kept.
//! - `deliver` stores a kept message where it would go without scripts: the Inbox, or the mailbox
//!   that the recipient's address names.
//! - Two entry points run one script alone and write nothing: `ScriptCheck::run` tries it on a
//!   message (`trial`), and `run_alone` runs it over stored mail (`stored`).

mod action;
mod adapt;
mod cache;
mod check;
mod convert;
mod edits;
mod input;
pub(crate) mod mailto;
mod report;
mod request;
mod rules;
mod run;
mod settings;
mod steps;
mod stored;
mod trial;
mod usage;
pub(crate) mod view;
mod world;

pub use action::{
    EditedMessage, FilterAction, FilterResult, FiredRules, Importance, Keep, Notification,
    StoreTarget,
};
pub use cache::ScriptCache;
pub use check::{ScriptCheck, ValidScript, find_script, format_script};
pub use report::ScriptReport;
pub use request::FilterRequest;
pub use rules::ScriptRule;
pub use run::{AccountScripts, run_alone};
pub use settings::{Settings, SiteScript, SpamHeader};
pub use stored::StoredPlan;
pub use trial::{TraceEvent, TraceLine, TrialAccount, TrialRequest};
