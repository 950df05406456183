//! The vendor methods for the mail of an account, and for the delivery of messages.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::mailboxes::MailboxTotals;
use super::{ObjectError, OfAccount, even_null, vendor_methods};
use crate::wire::jmap::With;
use crate::wire::jmap::arguments::Nullable;
use crate::wire::jmap::standard::SortComparator;

vendor_methods! {
    MailList = "Mail/list"(OfAccount<MailListArguments>) -> MailListAnswer;
    MailQuery = "Mail/query"(OfAccount<With<MailQueryArguments, Nullable<MailQueryLimit>>>)
        -> MailQueryAnswer;
    MailShow = "Mail/show"(OfAccount<MailShowArguments>) -> MailShowAnswer;
    MailDestroy = "Mail/destroy"(OfAccount<EmailIds>) -> MailDestroyAnswer;
    MailDestroyed = "Mail/destroyed"(OfAccount<MailDestroyedArguments>) -> MailDestroyedAnswer;
    MailRestore = "Mail/restore"(OfAccount<EmailIds>) -> MailRestoreAnswer;
    MailPurge = "Mail/purge"(OfAccount<MailPurgeArguments>) -> MailPurgeAnswer;
    MailMove = "Mail/move"(OfAccount<MailMoveArguments>) -> MailMoveAnswer;
    MailFlag = "Mail/flag"(OfAccount<MailFlagArguments>) -> MailFlagAnswer;
    MailDeliver = "Mail/deliver"(MailDeliverArguments) -> MailDeliverAnswer;
    MailIndex = "Mail/index"(OfAccount<MailIndexArguments>) -> MailIndexAnswer;
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MailListArguments {
    /// `None` is the Inbox.
    pub mailbox: Option<String>,
    #[serde(default)]
    pub collapse_threads: bool,
    /// `None` is 50. More than `limits::MAX_LISTED_ROWS` is refused.
    pub limit: Option<u64>,
    /// The id of an email: the list begins with the next older one. With `None` it begins with the
    /// newest.
    pub after: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MailListAnswer {
    pub mailbox: ListedMailbox,
    /// The newest first.
    pub list: Vec<EmailRow>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedMailbox {
    pub id: String,
    pub name: String,
    pub role: Option<String>,
    #[serde(flatten)]
    pub totals: MailboxTotals,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmailRow {
    #[serde(flatten)]
    pub email: EmailFacts,
    /// Only with `collapseThreads`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<ThreadFacts>,
    /// Only if the query asks for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snippet: Option<EmailSnippet>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EmailFacts {
    pub id: String,
    pub thread_id: String,
    pub received_at: String,
    pub from: Vec<NamedAddress>,
    pub to: Vec<NamedAddress>,
    pub subject: Option<String>,
    pub keywords: BTreeSet<String>,
    pub preview: String,
    pub has_attachment: bool,
    /// The bytes of the message.
    pub size: u64,
    pub message_id: Vec<String>,
}

/// RFC 8621 §4.1.2.3.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedAddress {
    pub name: Option<String>,
    pub email: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadFacts {
    /// How many emails the thread has.
    pub emails: u64,
    #[serde(flatten)]
    pub summary: ThreadSummary,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ThreadSummary {
    pub unread_emails: u64,
    /// The newest email; `None` if it cannot be found.
    pub latest_email_id: Option<String>,
    /// When the newest email was received; `None` if it cannot be found.
    pub latest_received_at: Option<String>,
}

/// RFC 8621 §5. A member is `None` if nothing in it matches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmailSnippet {
    pub subject: Option<String>,
    pub preview: Option<String>,
}

/// Most are those of Email/query (RFC 8621 §4.4).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MailQueryArguments {
    /// `None` is all mail.
    pub mailbox: Option<String>,
    /// RFC 8621 §4.4.1; the method itself parses it.
    pub filter: Option<Value>,
    pub sort: Option<Vec<SortComparator>>,
    #[serde(default)]
    pub collapse_threads: bool,
    #[serde(default)]
    pub position: i64,
    pub anchor: Option<String>,
    #[serde(default)]
    pub anchor_offset: i64,
    #[serde(default)]
    pub calculate_total: bool,
    /// Whether the rows have snippets.
    #[serde(default)]
    pub snippets: bool,
    /// Whether to return only the query plan.
    #[serde(default)]
    pub explain: bool,
}

/// Null is the limit of the server, which is also the largest; an argument that is left out is 50.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MailQueryLimit {
    #[serde(deserialize_with = "even_null", skip_serializing_if = "Option::is_none")]
    pub limit: Option<Option<u64>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum MailQueryAnswer {
    Found(FoundMail),
    Explained { plan: PlanFacts },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FoundMail {
    pub query_state: String,
    pub can_calculate_changes: bool,
    pub position: u64,
    /// `None` unless the query asks for it.
    pub total: Option<u64>,
    pub ids: Vec<String>,
    /// The emails of `ids`, in the same order.
    pub list: Vec<EmailRow>,
    pub plan: PlanFacts,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanFacts {
    /// The name of the access path.
    pub strategy: String,
    /// The listing that is read. With a pin two are read, of which this is the one of every email.
    /// `None` if none is read, or those of several mailboxes.
    pub listing: Option<PlannedListing>,
    /// The number of emails in the listing that is read, or else in the account; of merged listings
    /// the sum. If a listing is the answer to a query with `collapseThreads`, the number of its
    /// threads (`query::QueryPlan::length`).
    pub length: u64,
    /// Whether the ranks of the listing count positions in the results.
    pub ranked: bool,
    /// A listing that would answer the query, is not maintained or not complete, and is worth
    /// maintaining; `None` if there is none.
    #[serde(rename = "wanted")]
    pub missing: Option<MissingListing>,
    /// The other access paths, with the reasons against them.
    pub others: Vec<OtherStrategy>,
    /// The whole plan for people.
    pub text: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlannedListing {
    pub mailbox_id: String,
    /// The name of the listing filter.
    pub view: String,
    /// Whether it has only one email of each thread.
    pub collapsed: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MissingListing {
    pub mailbox_id: String,
    /// The name of the listing filter.
    pub view: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OtherStrategy {
    pub strategy: String,
    pub reason: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MailShowArguments {
    pub id: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MailShowAnswer {
    #[serde(flatten)]
    pub email: EmailFacts,
    /// The message in base64.
    pub message: String,
    pub attachments: Vec<AttachmentFacts>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttachmentFacts {
    pub name: Option<String>,
    #[serde(rename = "type")]
    pub media_type: String,
    /// The decoded size, in bytes.
    pub size: u64,
}

/// The ids of 1 to `limits::MAX_LISTED_ROWS` emails.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmailIds {
    #[serde(default)]
    pub ids: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MailDestroyAnswer {
    pub destroyed: BTreeMap<String, ()>,
    pub not_destroyed: BTreeMap<String, ObjectError>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MailDestroyedArguments {
    /// `None` is 50. More than `limits::MAX_LISTED_ROWS` is refused.
    pub limit: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MailDestroyedAnswer {
    /// The most recently destroyed first.
    pub list: Vec<RestorableEmail>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RestorableEmail {
    #[serde(flatten)]
    pub email: EmailFacts,
    pub destroyed_at: String,
    pub restorable_until: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MailRestoreAnswer {
    /// New ids by old id.
    pub restored: BTreeMap<String, String>,
    pub not_restored: BTreeMap<String, ObjectError>,
}

/// Either `ids`, as in `EmailIds`, or `all` for all destroyed emails.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MailPurgeArguments {
    pub ids: Option<Vec<String>>,
    #[serde(default)]
    pub all: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum MailPurgeAnswer {
    All {
        /// How many emails were purged.
        count: u64,
    },
    #[serde(rename_all = "camelCase")]
    Named { purged: BTreeMap<String, ()>, not_purged: BTreeMap<String, ObjectError> },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MailMoveArguments {
    pub mailbox: String,
    /// Whether the emails also stay in the mailboxes in which they are.
    #[serde(default)]
    pub also: bool,
    /// As in `EmailIds`.
    #[serde(default)]
    pub ids: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MailMoveAnswer {
    pub moved: BTreeMap<String, ()>,
    pub not_moved: BTreeMap<String, ObjectError>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MailFlagArguments {
    /// The keywords that each email gets.
    #[serde(default)]
    pub add: Vec<String>,
    /// The keywords that each email loses.
    #[serde(default)]
    pub remove: Vec<String>,
    /// As in `EmailIds`.
    #[serde(default)]
    pub ids: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MailFlagAnswer {
    /// All keywords after the change, by email id.
    pub flagged: BTreeMap<String, BTreeSet<String>>,
    pub not_flagged: BTreeMap<String, ObjectError>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MailDeliverArguments {
    /// `None` is `<>`.
    pub sender: Option<String>,
    #[serde(default)]
    pub recipients: Vec<String>,
    /// The message in base64.
    pub message: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MailDeliverAnswer {
    pub outcomes: Vec<RecipientReply>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecipientReply {
    pub recipient: String,
    /// The LMTP reply.
    pub reply: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MailIndexArguments {
    /// As in `MailListArguments`.
    pub after: Option<String>,
    /// `None` is 50. More than `limits::MAX_LISTED_ROWS` is refused.
    pub limit: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MailIndexAnswer {
    pub mailboxes: Vec<IndexedMailbox>,
    /// The newest first.
    pub list: Vec<IndexedEmail>,
}

/// A mailbox with its path from the top or from the Inbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexedMailbox {
    pub id: String,
    /// Whether the path begins at the Inbox.
    pub inbox: bool,
    /// The names of the path without the Inbox, outermost first; none for the Inbox itself.
    pub names: Vec<String>,
    pub role: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IndexedEmail {
    pub id: String,
    pub mailbox_ids: Vec<String>,
    pub keywords: BTreeSet<String>,
    /// The bytes of the message.
    pub size: u64,
}

#[cfg(test)]
mod tests {
    use serde::Serialize;
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    use super::{MailPurgeAnswer, MailQueryAnswer};

    fn read<T: Serialize + DeserializeOwned>(written: &Value) -> T {
        let answer: T = serde_json::from_value(written.clone()).unwrap();
        assert_eq!(serde_json::to_value(&answer).unwrap(), *written);
        answer
    }

    #[test]
    fn query_answers_are_read_as_they_are_written() {
        let plan = json!({
            "strategy": "listing",
            "listing": {"mailboxId": "m1", "view": "every", "collapsed": true},
            "length": 3,
            "ranked": false, "wanted": {"mailboxId": "m1", "view": "unseen"},
            "others": [{"strategy": "generic", "reason": "slow"}], "text": "listing",
        });
        let row = json!({
            "id": "e1", "threadId": "t1", "receivedAt": "2026-11-21T09:00:00Z",
            "from": [{"name": null, "email": "bob@example.org"}], "to": [], "subject": null,
            "keywords": ["$seen"],
            "preview": "", "hasAttachment": false, "size": 7, "messageId": ["1@x"],
            "snippet": {"subject": null, "preview": "<mark>x</mark>"},
            "thread": {
                "emails": 1, "unreadEmails": 0, "latestEmailId": "e1", "latestReceivedAt": null,
            },
        });
        let found = json!({
            "queryState": "1-2", "canCalculateChanges": true, "position": 0, "total": null,
            "ids": ["e1"],
            "list": [row], "plan": plan,
        });
        assert!(matches!(read(&found), MailQueryAnswer::Found(found) if found.list.len() == 1));
        assert!(matches!(read(&json!({"plan": plan})), MailQueryAnswer::Explained { .. }));
    }

    #[test]
    fn purge_answers_are_read_as_they_are_written() {
        let named = json!({
            "purged": {"e1": null},
            "notPurged": {"e2": {"type": "notFound", "description": "email"}},
        });
        assert!(matches!(read(&named), MailPurgeAnswer::Named { .. }));
        assert!(matches!(read(&json!({"count": 2})), MailPurgeAnswer::All { count: 2 }));
    }
}
