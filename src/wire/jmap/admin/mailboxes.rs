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
    /// The names of the rights (RFC 8621 §2) of each guest, by the name of the guest's account.
    pub share_with: BTreeMap<String, Vec<String>>,
    #[serde(flatten)]
    pub totals: MailboxTotals,
}

/// The counts of a mailbox (RFC 8621 §2).
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
    /// The path. All mailboxes but the last must exist.
    pub path: String,
    pub role: Option<String>,
    pub sort_order: Option<u32>,
    #[serde(default)]
    pub attributes: BTreeMap<String, Option<String>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MailboxEnsureArguments {
    /// Whether `names` lead down from the Inbox instead of the top.
    #[serde(default)]
    pub inbox: bool,
    #[serde(default)]
    pub names: Vec<String>,
    /// The role of the last mailbox, if it is created.
    pub role: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MailboxEnsureAnswer {
    pub id: String,
}

/// The changes of a mailbox. An attribute that is left out stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MailboxChangeArguments {
    pub mailbox: String,
    /// The last part of the path.
    pub name: Option<String>,
    /// The parent mailbox; "" is the top.
    pub parent: Option<String>,
    /// The role; "" removes it.
    pub role: Option<String>,
    pub sort_order: Option<u32>,
    pub is_subscribed: Option<bool>,
    /// The attributes; null removes one.
    #[serde(default)]
    pub attributes: BTreeMap<String, Option<String>>,
    /// The rights of guests, separated by commas, by account name; null or "" removes them.
    #[serde(default)]
    pub share_with: BTreeMap<String, Option<String>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MailboxRemoveArguments {
    pub mailbox: String,
    /// Whether the emails in the mailbox are removed with it.
    #[serde(default)]
    pub emails: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MailboxRemoveAnswer {
    /// The number of emails that were removed from the mailbox.
    pub emails: u64,
}
