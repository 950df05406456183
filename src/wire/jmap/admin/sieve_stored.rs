//! The vendor methods that run a Sieve script over stored mail. Each call handles some emails of a
//! mailbox.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::decisions::FilterStepFacts;
use super::mail::NamedAddress;
use super::{OfAccount, vendor_methods};

vendor_methods! {
    SieveDryRun = "Sieve/dryRun"(OfAccount<StoredFilterArguments>) -> StoredFilterAnswer;
    SieveApply = "Sieve/apply"(OfAccount<StoredFilterArguments>) -> StoredFilterAnswer;
}

/// Exactly one of `name` and `script` must be given.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredFilterArguments {
    /// A script of the account.
    pub name: Option<String>,
    /// The source of a script, in base64.
    pub script: Option<String>,
    /// The path, the role or the id of a mailbox. `None` is the Inbox.
    pub mailbox: Option<String>,
    /// The id of an email: the call begins with the next older one. With `None` it begins with the
    /// newest email.
    pub after: Option<String>,
    /// The most emails of the call: 0 counts as 1, and `None` is the bound of the service, which is
    /// also the largest.
    pub limit: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredFilterAnswer {
    /// How many emails the mailbox had before the call.
    pub total: u64,
    /// The `after` of the next call; `None` if no next call is needed.
    pub after: Option<String>,
    /// The emails of the call, newest first.
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
    /// The paths of the mailboxes to which the script files the email. Some may have to be created.
    /// Trash is not among them if the email only goes there as discarded.
    pub mailboxes: Vec<String>,
    /// The keywords that the email gets besides its own.
    pub keywords: BTreeSet<String>,
    /// The commands that are not done for stored mail, such as `redirect`.
    pub left_out: Vec<String>,
    /// What the script did, in its order.
    pub steps: Vec<FilterStepFacts>,
    /// Why the script failed for this email; `None` if it did not.
    pub error: Option<FilterFailure>,
    /// The sender of the envelope with which the script ran. `None` is `<>`, or a sender that is
    /// not known (`envelope`).
    pub sender: Option<String>,
    /// The recipient of the envelope with which the script ran.
    pub recipient: String,
    pub envelope: EnvelopeOrigin,
    /// Whether Sieve/apply changed the email. It is false if somebody else changed the email after
    /// the script ran, if no mailbox for it exists or can be created, or if it would only get too
    /// many keywords. `None` if nothing was to be changed, and in the answer to Sieve/dryRun.
    pub is_done: Option<bool>,
}

/// What becomes of an email with Sieve/apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum FilterOutcome {
    /// It stays as it is.
    None,
    /// It leaves the mailbox for others, and may get keywords.
    Move,
    /// It stays, goes to other mailboxes, too, and may get keywords.
    Copy,
    /// It only gets keywords.
    Flag,
    /// It leaves the mailbox, and goes to Trash if it is in no other mailbox. In Trash itself
    /// nothing is discarded: the outcome is `None`.
    Discard,
    /// The script failed for it, and it stays as it is.
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
    /// The sender from Return-Path, the recipient from Delivered-To, X-Original-To or the account.
    Header,
    /// The sender is not known. The recipient is as with `Header`.
    Unknown,
}
