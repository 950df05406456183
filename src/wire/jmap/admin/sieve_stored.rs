//! The vendor methods that run a Sieve script over stored mail, in steps.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::decisions::FilterStepFacts;
use super::mail::NamedAddress;
use super::{OfAccount, vendor_methods};

vendor_methods! {
    SieveDryRun = "Sieve/dryRun"(OfAccount<StoredFilterArguments>) -> StoredFilterAnswer;
    SieveApply = "Sieve/apply"(OfAccount<StoredFilterArguments>) -> StoredFilterAnswer;
}

/// Either `name` or `script` is given.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredFilterArguments {
    /// A script of the account.
    pub name: Option<String>,
    /// The source of a script, in base64.
    pub script: Option<String>,
    /// `None` is the Inbox.
    pub mailbox: Option<String>,
    /// The id of an email: the step begins with the next older one.
    pub after: Option<String>,
    /// The most emails of the step. The service may take fewer.
    pub limit: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredFilterAnswer {
    /// The emails of the mailbox, before the step.
    pub total: u64,
    /// Where the next step begins; `None` if there are no older emails.
    pub after: Option<String>,
    /// The emails of the step, newest first.
    pub list: Vec<FilteredEmail>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FilteredEmail {
    pub id: String,
    pub received_at: String,
    pub from: Vec<NamedAddress>,
    pub subject: Option<String>,
    pub outcome: FilterOutcome,
    /// The paths of the mailboxes to which the email goes. Some may have to be created.
    pub mailboxes: Vec<String>,
    /// The keywords that the email gets besides its own.
    pub keywords: BTreeSet<String>,
    /// The commands that are not done for stored mail, such as `redirect`.
    pub left_out: Vec<String>,
    /// What the script did, in its order.
    pub steps: Vec<FilterStepFacts>,
    /// Why the script failed for this email.
    pub error: Option<FilterFailure>,
    /// The sender of the envelope, as far as it is known; `None` is also `<>`.
    pub sender: Option<String>,
    pub recipient: String,
    pub envelope: EnvelopeOrigin,
    /// Of Sieve/apply: whether the email was changed. Without that, somebody else has changed it
    /// meanwhile.
    pub is_done: Option<bool>,
}

/// What becomes of an email.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum FilterOutcome {
    /// It stays as it is.
    None,
    /// It leaves the mailbox for others.
    Move,
    /// It stays, and goes to others, too.
    Copy,
    /// It only gets keywords.
    Flag,
    /// It leaves the mailbox, and goes to Trash if it is in no other one.
    Discard,
    /// The script failed for it, and it stays.
    Failed,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilterFailure {
    /// From 1; 0 if the failure has no place in the script.
    pub line: u32,
    pub message: String,
}

/// From where the envelope of a stored message is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum EnvelopeOrigin {
    /// From the record of its delivery.
    Delivery,
    /// From Return-Path and Delivered-To.
    Header,
    /// The sender is not known.
    Unknown,
}
