//! The vendor methods for decisions of the vacation responder, told senders, tests and reports.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{OfAccount, vendor_methods};

vendor_methods! {
    DecisionList = "Decision/list"(OfAccount<DecisionListArguments>) -> DecisionListAnswer;
    ToldList = "Told/list"(OfAccount<ToldListArguments>) -> ToldListAnswer;
    ToldForget = "Told/forget"(OfAccount<ToldForgetArguments>) -> ToldForgetAnswer;
    VacationTest = "Vacation/test"(OfAccount<VacationTestArguments>) -> VacationTestAnswer;
    VacationReport = "Vacation/report"(OfAccount<VacationReportArguments>) -> VacationReportAnswer;
}

/// Selects decisions. An argument that is left out selects all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecisionListArguments {
    pub limit: Option<u64>,
    pub since: Option<String>,
    /// Before this time.
    pub until: Option<String>,
    /// `true`: decisions to reply; `false`: decisions not to reply.
    pub answered: Option<bool>,
    pub reason: Option<String>,
    /// A part of the sender's address.
    pub sender: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecisionListAnswer {
    /// The decisions, newest first.
    pub list: Vec<DecisionFacts>,
    /// When the vacation began or begins.
    pub began: Option<String>,
    /// When the vacation ended or ends.
    pub ended: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DecisionFacts {
    pub at: String,
    pub email_id: String,
    /// The sender of the envelope.
    pub sender: Option<String>,
    /// The address to which the message was sent.
    pub recipient: String,
    /// Why no reply was sent.
    pub reason: Option<String>,
    /// Details of the reason.
    pub detail: Option<String>,
    /// The id of the reply in the queue.
    pub action: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToldListArguments {
    pub limit: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToldListAnswer {
    /// The told senders, newest first.
    pub list: Vec<ToldSender>,
}

/// A sender who was told of the absence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToldSender {
    pub at: String,
    pub sender: String,
    /// Whether the reply came from a script instead of the vacation responder.
    pub script: bool,
    /// When the sender may get a reply again.
    pub until: Option<String>,
}

/// One sender, or all.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToldForgetArguments {
    pub sender: Option<String>,
    #[serde(default)]
    pub all: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToldForgetAnswer {
    /// The number of senders that were removed.
    pub forgotten: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VacationTestArguments {
    /// The message in base64.
    pub message: String,
    /// The sender of the envelope, "" for none. `None`: the sender that the message names.
    pub sender: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum VacationTestAnswer {
    /// A reply would be sent; `reason` is null.
    Reply {
        reason: (),
        recipient: String,
        reply: String,
    },
    Silent {
        reason: String,
        detail: String,
    },
}

/// The period of the report; the last absence if it is left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VacationReportArguments {
    pub since: Option<String>,
    pub until: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VacationReportAnswer {
    #[serde(flatten)]
    pub facts: AbsenceFacts,
    /// The report as text.
    pub text: String,
    pub html: String,
}

/// The mail that arrived while the owner was away.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AbsenceFacts {
    pub began: Option<String>,
    pub ended: Option<String>,
    pub messages: u64,
    pub answered: u64,
    /// How many messages were not answered, by reason.
    pub silent: BTreeMap<String, u64>,
    /// Whether there were more messages than the report covers.
    pub cut: bool,
    pub correspondents: Vec<CorrespondentFacts>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CorrespondentFacts {
    pub name: Option<String>,
    pub email: String,
    /// Whether all messages of the correspondent were sent automatically.
    pub machine: bool,
    pub answered: bool,
    /// The threads of the correspondent, newest first.
    pub threads: Vec<TopicFacts>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TopicFacts {
    /// `None` if all emails of the thread are destroyed.
    pub thread_id: Option<String>,
    pub subject: String,
    pub email_ids: Vec<String>,
    pub unread: u64,
    /// When the first email came.
    pub first: String,
    /// When the last email came.
    pub last: String,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::VacationTestAnswer;

    #[test]
    fn vacation_test_answers_are_read_as_they_are_written() {
        let (recipient, reply) = ("bob@example.org".to_owned(), "Subject: x\r\n".to_owned());
        for (answer, written) in [
            (
                VacationTestAnswer::Reply { reason: (), recipient, reply },
                json!({"reason": null, "recipient": "bob@example.org", "reply": "Subject: x\r\n"}),
            ),
            (
                VacationTestAnswer::Silent { reason: "list".into(), detail: "List-Id".into() },
                json!({"reason": "list", "detail": "List-Id"}),
            ),
        ] {
            assert_eq!(serde_json::to_value(&answer).unwrap(), written);
            assert_eq!(serde_json::from_value::<VacationTestAnswer>(written).unwrap(), answer);
        }
    }
}
