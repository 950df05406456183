//! The queued actions: listed, shown, and changed by hand.

use serde::{Deserialize, Serialize};

use super::{EmptyArguments, OfAccount, vendor_methods};
use crate::wire::jmap::With;

vendor_methods! {
    QueueList = "Queue/list"(OfAccount<With<QueueSelection, QueueListArguments>>) -> QueueListAnswer;
    QueueShow = "Queue/show"(OfAccount<QueueShowArguments>) -> QueueShowAnswer;
    QueueRetry = "Queue/retry"(QueueChangeArguments) -> QueueChangeAnswer;
    QueueHold = "Queue/hold"(QueueChangeArguments) -> QueueChangeAnswer;
    QueueRelease = "Queue/release"(QueueChangeArguments) -> QueueChangeAnswer;
    QueueRemove = "Queue/remove"(QueueChangeArguments) -> QueueChangeAnswer;
    QueueAcceptLoss = "Queue/acceptLoss"(EmptyArguments) -> QueueAcceptLossAnswer;
}

/// The arguments of the methods that change actions: of one, or of all that the selection takes.
pub type QueueChangeArguments = OfAccount<With<QueueSelection, QueueTarget>>;

/// Which actions are meant; what is not given takes all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QueueSelection {
    pub kind: Option<String>,
    pub state: Option<String>,
    /// The domain of a recipient.
    pub domain: Option<String>,
    /// Queued at this time or before.
    pub queued_before: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueListArguments {
    pub limit: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueListAnswer {
    pub list: Vec<QueuedAction>,
    /// Whether there are more than `limit`.
    pub more: bool,
    /// Why nothing is sent, if so.
    pub held: Option<String>,
    pub relay: Option<RelayOutage>,
}

/// What is the matter with the relay.
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
    pub urgent: bool,
    pub sender: Option<String>,
    /// All recipients, as one line.
    pub recipient: String,
    pub recipients: Vec<QueuedRecipient>,
    pub created: String,
    /// When it is tried next.
    pub due: Option<String>,
    pub expires: Option<String>,
    /// Until when one that was sent is listed.
    pub kept_until: Option<String>,
    pub attempts: u32,
    pub last_error: Option<String>,
    pub message_id: String,
    pub email_id: Option<String>,
    /// The action that must be done before.
    pub after: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueuedRecipient {
    pub address: String,
    pub state: String,
    /// What the relay said of the recipient.
    pub said: Option<String>,
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
    /// Octets, where they were asked for and are not sent yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// One action by its id, or all that a selection takes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueTarget {
    pub id: Option<String>,
    #[serde(default)]
    pub all: bool,
}

/// How many actions were changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QueueChangeAnswer {
    pub changed: u64,
    /// Could not be changed.
    pub left: u64,
    /// Were on their way out, and may have been sent already.
    pub under_way: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueAcceptLossAnswer {
    /// What was held.
    pub accepted: String,
    pub dropped: u64,
    pub kept: u64,
}
