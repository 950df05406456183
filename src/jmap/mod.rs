//! JMAP methods over the store (RFC 8620, RFC 8621), and the vendor methods that the command line
//! uses.
//!
//! - `dispatch` runs the calls of a request.
//! - `context` has the caller, the accounts that the caller may use, and the services of the site.
//! - `standard` has what the object types share: /get, /changes, /query, /queryChanges and /set.

pub mod admin;
mod blob;
mod budget;
mod context;
mod creation_ids;
mod dispatch;
pub mod email;
mod failure;
mod guest;
mod identity;
mod jobs;
mod mailbox;
mod mdn;
mod method;
mod principal;
mod push;
mod quota;
mod registry;
mod rights;
mod session;
mod share;
mod sieve;
mod standard;
mod submission;
mod subscription;
mod subscription_times;
mod thread;
mod uploads;
mod vacation;

pub use blob::{Blob, BlobReader};
pub use budget::Budget;
pub use context::{Account, Caller, Context, DeliverFn};
pub use dispatch::run;
pub use jobs::Jobs;
pub use push::{ObservedAccount, PushState};
pub use session::{CAPABILITIES, session};
pub use subscription_times::SubscriptionTimes;
pub use uploads::{UploadRates, UploadSettings};

#[cfg(test)]
mod tests;
