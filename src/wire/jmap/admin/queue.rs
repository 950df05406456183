//! The vendor methods that list, show and change queued actions, and that accept a damaged or
//! restored queue.

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

/// Selects actions for which all these arguments are true. One that is left out is true for all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QueueSelection {
    /// The name of a `model::ActionKind`.
    pub kind: Option<String>,
    /// The name of a `model::ActionState`.
    pub state: Option<String>,
    /// The domain of one of the recipients.
    pub domain: Option<String>,
    /// Selects actions that were queued at this time or before.
    pub queued_before: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueListArguments {
    /// `None` is the limit of the server, `limits::MAX_LISTED_ROWS`, which is also the largest.
    pub limit: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueListAnswer {
    pub list: Vec<QueuedAction>,
    /// Whether there are more actions than `list` has.
    pub more: bool,
    /// Why the queue is held; `None` if it is not.
    pub held: Option<String>,
    /// `None` unless the relay failed.
    pub relay: Option<RelayOutage>,
}

/// The relay failed, so nothing is sent for now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RelayOutage {
    pub error: String,
    /// When the relay is tried again.
    pub until: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QueuedAction {
    pub id: String,
    pub account_id: String,
    /// The name of the account.
    pub account: String,
    pub kind: String,
    pub state: String,
    /// Whether it is sent before the others.
    pub urgent: bool,
    /// `None` is `<>`.
    pub sender: Option<String>,
    /// The first three recipients and the number of the others, as one line.
    pub recipient: String,
    pub recipients: Vec<QueuedRecipient>,
    pub created: String,
    /// `None` if the action is neither waiting nor being attempted.
    pub due: Option<String>,
    /// `None` once the action was sent or has failed.
    pub expires: Option<String>,
    /// How long an action that was sent stays listed; `None` for any other.
    pub kept_until: Option<String>,
    /// The attempts that count (`model::Action::attempts`).
    pub attempts: u32,
    /// `None` if there was no error.
    pub last_error: Option<String>,
    pub message_id: String,
    /// The email because of which the action was queued; `None` if there is none.
    pub email_id: Option<String>,
    /// The action that must be done before this one; `None` if there is none.
    pub after: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueuedRecipient {
    pub address: String,
    /// `waiting`, `sent` or `failed`.
    pub state: String,
    /// What the relay replied, or why there was no more attempt; `None` while it is waiting.
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
    /// In base64, if it was asked for and the action was not sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// One action by its id, without a selection; or with `all` every selected action, without an id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueTarget {
    pub id: Option<String>,
    #[serde(default)]
    pub all: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QueueChangeAnswer {
    /// How many actions were changed.
    pub changed: u64,
    /// How many could not be changed. With `id` this is an error instead.
    #[serde(rename = "left")]
    pub unchanged: u64,
    /// How many of both kinds are being sent, and may have been sent already.
    pub under_way: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueAcceptLossAnswer {
    /// Why the queue was held.
    pub accepted: String,
    /// How many actions were dropped: after a restore the replies, which may have been sent since
    /// the backup, and the actions that depend on them; otherwise none.
    pub dropped: u64,
    /// How many actions stay in the queue.
    pub kept: u64,
}
