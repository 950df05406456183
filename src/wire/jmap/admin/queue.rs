//! The vendor methods that list, show and change queued actions, and that release a queue which is
//! held after a restore.

use serde::{Deserialize, Serialize};

use super::{EmptyArguments, OfAccount, vendor_methods};
use crate::wire::jmap::With;

vendor_methods! {
    QueueList = "Queue/list"(OfAccount<With<QueueSelection, QueueListArguments>>)
        -> QueueListAnswer;
    QueueShow = "Queue/show"(OfAccount<QueueShowArguments>) -> QueueShowAnswer;
    QueueRetry = "Queue/retry"(QueueChangeArguments) -> QueueChangeAnswer;
    QueueHold = "Queue/hold"(QueueChangeArguments) -> QueueChangeAnswer;
    QueueRelease = "Queue/release"(QueueChangeArguments) -> QueueChangeAnswer;
    QueueRemove = "Queue/remove"(QueueChangeArguments) -> QueueChangeAnswer;
    QueueAcceptLoss = "Queue/acceptLoss"(EmptyArguments) -> QueueAcceptLossAnswer;
}

pub type QueueChangeArguments = OfAccount<With<QueueSelection, QueueTarget>>;

/// An argument that is left out selects all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QueueSelection {
    pub kind: Option<String>,
    pub state: Option<String>,
    /// A recipient's domain.
    pub domain: Option<String>,
    /// Selects actions that were queued at this time or before.
    pub queued_before: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueListArguments {
    /// `None` is the limit of the server.
    pub limit: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueListAnswer {
    pub list: Vec<QueuedAction>,
    /// Whether there are more than `limit`.
    pub more: bool,
    /// Why the queue is held.
    pub held: Option<String>,
    pub relay: Option<RelayOutage>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RelayOutage {
    pub error: String,
    pub until: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QueuedAction {
    pub id: String,
    pub account_id: String,
    pub account: String,
    pub kind: String,
    pub state: String,
    pub urgent: bool,
    pub sender: Option<String>,
    /// The first three recipients and the number of the others, as one line.
    pub recipient: String,
    pub recipients: Vec<QueuedRecipient>,
    pub created: String,
    /// `None` if the action is neither waiting nor being attempted.
    pub due: Option<String>,
    /// `None` once the action was sent or has failed.
    pub expires: Option<String>,
    /// Only of an action that was sent.
    pub kept_until: Option<String>,
    pub attempts: u32,
    pub last_error: Option<String>,
    pub message_id: String,
    pub email_id: Option<String>,
    /// The action that must be done before this one.
    pub after: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueuedRecipient {
    pub address: String,
    pub state: String,
    #[serde(rename = "said")]
    pub reply: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QueueShowArguments {
    pub id: String,
    #[serde(default)]
    pub with_message: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueShowAnswer {
    #[serde(flatten)]
    pub action: QueuedAction,
    /// In base64, if it was asked for and has not been sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// One action by its id, or with `all` every selected action; `id` is then ignored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueTarget {
    pub id: Option<String>,
    #[serde(default)]
    pub all: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QueueChangeAnswer {
    pub changed: u64,
    /// Those that could not be changed.
    #[serde(rename = "left")]
    pub unchanged: u64,
    /// Those of `changed` and `unchanged` that are being sent, and may have been sent already.
    pub under_way: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueAcceptLossAnswer {
    /// Why the queue was held.
    pub accepted: String,
    /// Replies, which may have been sent since the backup, and the actions that depend on them.
    pub dropped: u64,
    /// Actions that stay in the queue.
    pub kept: u64,
}
