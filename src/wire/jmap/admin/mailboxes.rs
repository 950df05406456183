//! The mailboxes of an account. A mailbox is named by its path (names with `/` between them), its
//! role or its id.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{AccountRef, OfAccount, vendor_methods};

vendor_methods! {
    MailboxList = "Mailbox/list"(AccountRef) -> MailboxListAnswer;
    MailboxAdd = "Mailbox/add"(OfAccount<MailboxAddArguments>) -> MailboxFacts;
    MailboxEnsure = "Mailbox/ensure"(OfAccount<MailboxEnsureArguments>) -> MailboxEnsureAnswer;
    MailboxChange = "Mailbox/change"(OfAccount<MailboxChangeArguments>) -> MailboxFacts;
    MailboxRemove = "Mailbox/remove"(OfAccount<MailboxRemoveArguments>) -> MailboxRemoveAnswer;
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MailboxListAnswer {
    pub list: Vec<MailboxFacts>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MailboxFacts {
    pub id: String,
    pub path: String,
    /// The last part of the path.
    pub name: String,
    pub parent_id: Option<String>,
    pub role: Option<String>,
    pub sort_order: u32,
    pub is_subscribed: bool,
    pub attributes: BTreeMap<String, String>,
    /// By the name of each account that it is shared with the names of the rights (RFC 8621 §2).
    pub share_with: BTreeMap<String, Vec<String>>,
    #[serde(flatten)]
    pub totals: MailboxTotals,
}

/// How much is in a mailbox (RFC 8621 §2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MailboxTotals {
    pub total_emails: u64,
    pub unread_emails: u64,
    pub total_threads: u64,
    pub unread_threads: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MailboxAddArguments {
    /// All but its last part must be there.
    pub path: String,
    pub role: Option<String>,
    pub sort_order: Option<u32>,
    #[serde(default)]
    pub attributes: BTreeMap<String, Option<String>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MailboxEnsureArguments {
    /// Whether the names lead on from the Inbox, instead of from the top.
    #[serde(default)]
    pub inbox: bool,
    #[serde(default)]
    pub names: Vec<String>,
    /// Of the last of them, where it is made.
    pub role: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MailboxEnsureAnswer {
    pub id: String,
}

/// What is to be changed; what is not given stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MailboxChangeArguments {
    pub mailbox: String,
    /// The last part of the path alone.
    pub name: Option<String>,
    /// "" is the top.
    pub parent: Option<String>,
    /// "" is none.
    pub role: Option<String>,
    pub sort_order: Option<u32>,
    pub is_subscribed: Option<bool>,
    /// Null takes an attribute away.
    #[serde(default)]
    pub attributes: BTreeMap<String, Option<String>>,
    /// By the name of an account its rights, between commas; null or "" takes them away.
    #[serde(default)]
    pub share_with: BTreeMap<String, Option<String>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MailboxRemoveArguments {
    pub mailbox: String,
    /// Whether it goes with the emails that are in it.
    #[serde(default)]
    pub emails: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MailboxRemoveAnswer {
    /// How many emails were taken out of it.
    pub emails: u64,
}
