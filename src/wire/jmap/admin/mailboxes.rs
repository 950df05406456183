//! The arguments and answers of the vendor methods that list, create, change and destroy the
//! mailboxes of an account. An argument names a mailbox by its path (names separated by `/`), its
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
    /// Texts that the owner keeps with the mailbox, by name, such as `color`.
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
    /// The path of the new mailbox. Its parent must exist, and may be named by role or id.
    pub path: String,
    pub role: Option<String>,
    pub sort_order: Option<u32>,
    /// The attributes; null sets none, as if the name were left out.
    #[serde(default)]
    pub attributes: BTreeMap<String, Option<String>>,
}

/// A path at which there shall be a mailbox. Missing mailboxes are created.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MailboxEnsureArguments {
    /// Whether the path begins in the Inbox, and not at the top.
    #[serde(default)]
    pub inbox: bool,
    /// The names of the path, outermost first. Without names, the path is that of the Inbox; then
    /// `inbox` must be true.
    #[serde(default)]
    pub names: Vec<String>,
    /// If the last mailbox of the path is missing, the mailbox with this role is used in its place.
    /// If there is none, the last mailbox is created with this role. The role `inbox` is ignored.
    pub role: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MailboxEnsureAnswer {
    /// The id of the mailbox at the end of the path.
    pub id: String,
}

/// The changes of a mailbox. What is left out stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MailboxChangeArguments {
    pub mailbox: String,
    /// The new name: the last part of the path.
    pub name: Option<String>,
    /// The new parent mailbox; "" moves the mailbox to the top.
    pub parent: Option<String>,
    /// The role; "" removes it.
    pub role: Option<String>,
    pub sort_order: Option<u32>,
    pub is_subscribed: Option<bool>,
    /// The attributes to set, by name; null removes an attribute.
    #[serde(default)]
    pub attributes: BTreeMap<String, Option<String>>,
    /// By the name of a guest's account: the names of the guest's rights, separated by commas. Null
    /// or "" ends the share.
    #[serde(default)]
    pub share_with: BTreeMap<String, Option<String>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MailboxRemoveArguments {
    pub mailbox: String,
    /// Whether the emails are first removed from the mailbox; those in no other mailbox are
    /// destroyed. If false, a mailbox with emails is refused.
    #[serde(default)]
    pub emails: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MailboxRemoveAnswer {
    /// The number of emails that were in the mailbox; 0 if their removal was not requested.
    pub emails: u64,
}
