//! The arguments and answers of the vendor methods for mailboxes. The arguments `mailbox` and
//! `parent` name a mailbox by its path (names separated by `/`), its role or its id.

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
    /// `None` at the top.
    pub parent_id: Option<String>,
    pub role: Option<String>,
    pub sort_order: u32,
    pub is_subscribed: bool,
    /// By name, such as `color`.
    pub attributes: BTreeMap<String, String>,
    /// Names of rights (RFC 8621 §2), by the name of the guest's account.
    pub share_with: BTreeMap<String, Vec<String>>,
    #[serde(flatten)]
    pub totals: MailboxTotals,
}

/// RFC 8621 §2.
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
    /// The parent must exist, and may be named by role or id.
    pub path: String,
    /// `None`: the mailbox has no role.
    pub role: Option<String>,
    /// `None` is 0.
    pub sort_order: Option<u32>,
    /// Null is as if the name were left out.
    #[serde(default)]
    pub attributes: BTreeMap<String, Option<String>>,
}

/// A path at which there shall be a mailbox. Missing mailboxes are created.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MailboxEnsureArguments {
    /// Whether the path begins at the Inbox, and not at the top.
    #[serde(default)]
    pub inbox: bool,
    /// The names of the path without the Inbox, outermost first. If no mailbox has exactly a name,
    /// one whose name differs only in case is used. Without names, the path is that of the Inbox;
    /// then `inbox` must be true.
    #[serde(default)]
    pub names: Vec<String>,
    /// If the last mailbox of the path is missing, the mailbox with this role is used in its place.
    /// If there is none, the last mailbox is created with this role. The role `inbox` is ignored.
    pub role: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MailboxEnsureAnswer {
    pub id: String,
}

/// What is left out stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MailboxChangeArguments {
    pub mailbox: String,
    /// The last part of the path.
    pub name: Option<String>,
    /// "" moves the mailbox to the top.
    pub parent: Option<String>,
    /// "" removes the role.
    pub role: Option<String>,
    pub sort_order: Option<u32>,
    pub is_subscribed: Option<bool>,
    /// Null removes an attribute.
    #[serde(default)]
    pub attributes: BTreeMap<String, Option<String>>,
    /// By the name of a guest's account, the names of rights, separated by commas. Null or "" ends
    /// the share.
    #[serde(default)]
    pub share_with: BTreeMap<String, Option<String>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MailboxRemoveArguments {
    pub mailbox: String,
    /// Whether the emails are first removed from the mailbox; those in no other mailbox are
    /// destroyed. If false, a mailbox with emails is not removed.
    #[serde(default)]
    pub emails: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MailboxRemoveAnswer {
    /// How many emails were in the mailbox; 0 if their removal was not requested.
    pub emails: u64,
}
