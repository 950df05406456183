//! The arguments and answers of the vendor methods for the vacation responder.
//!
//! - A time in an answer is a `UTCDate` (RFC 8620 §1.4). An argument may have any time zone.
//! - A period contains `since` and does not contain `until`. Without one of them it has no such
//!   bound; Vacation/report has a rule of its own (`VacationReportArguments`).
//! - A reason is the code of a `vacation::NoReplyReason`, or of a failure to send the reply.

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

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecisionListArguments {
    /// `None` is 50. More than `limits::MAX_LISTED_ROWS` is refused.
    pub limit: Option<u64>,
    pub since: Option<String>,
    pub until: Option<String>,
    /// Only decisions to reply (true), or only decisions not to reply (false); `None` is both.
    pub answered: Option<bool>,
    /// Only decisions with this reason.
    pub reason: Option<String>,
    /// Only decisions on senders with this text in their address, in any letter case.
    pub sender: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecisionListAnswer {
    /// The newest first.
    pub list: Vec<DecisionFacts>,
    /// When the account's vacation began or will begin. If it has ended, this is still when it
    /// began. `None` if not known.
    pub began: Option<String>,
    /// When that vacation ended or will end; `None` if not known.
    pub ended: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DecisionFacts {
    pub at: String,
    /// `None` if the message was not stored.
    pub email_id: Option<String>,
    /// `None` is `<>`.
    pub sender: Option<String>,
    pub recipient: String,
    /// `None` if a reply was queued and has not failed.
    pub reason: Option<String>,
    /// The evidence for the reason, for people. `None` if `reason` is.
    pub detail: Option<String>,
    /// The id of the reply that was queued. `None` if there is none, or if it failed.
    pub action: Option<String>,
    /// What Sieve scripts did, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<FilterStepFacts>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilterStepFacts {
    /// The name of a script of the account, or `site:` and the path of a script of the site; empty
    /// if no script did it.
    pub script: String,
    /// The line of the command, from 1; 0 if the action has no command, as the implicit keep.
    pub line: u32,
    /// The action and its target, such as `fileinto Lists/rust`.
    pub action: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToldListArguments {
    /// `None` is `limits::MAX_TOLD_SENDERS`, which is also the largest.
    pub limit: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToldListAnswer {
    /// The newest first.
    pub list: Vec<ToldSender>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToldSender {
    pub at: String,
    pub sender: String,
    /// Whether a Sieve script sent the reply.
    pub script: bool,
    /// When the sender may get a reply again; `None`: not before the response changes, or its next
    /// absence on recurring days begins.
    pub until: Option<String>,
}

/// Either `sender`, or `all` for all senders; both together are refused. Only replies of the
/// response are forgotten, not those of Sieve scripts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToldForgetArguments {
    pub sender: Option<String>,
    #[serde(default)]
    pub all: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToldForgetAnswer {
    /// How many senders were forgotten.
    pub forgotten: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VacationTestArguments {
    /// The message in base64.
    pub message: String,
    /// "" is `<>`; `None` is the address in Return-Path, or if that field is missing, in From.
    pub sender: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum VacationTestAnswer {
    Reply {
        /// Always null, which tells this answer from `Silent`.
        reason: (),
        /// The address to which the reply would be sent.
        recipient: String,
        /// The whole message of the reply, as text.
        reply: String,
    },
    Silent {
        reason: String,
        detail: String,
    },
}

/// Without `since`, the period begins with the current, last or coming absence, or has no beginning
/// if that is not known. If `until` is missing too, the period ends with this absence, or has no
/// end if the absence has not ended. With `since` alone the period has no end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VacationReportArguments {
    pub since: Option<String>,
    pub until: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VacationReportAnswer {
    #[serde(flatten)]
    pub facts: AbsenceFacts,
    /// As plain text.
    pub text: String,
    pub html: String,
}

/// The stored mail that arrived in the period.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AbsenceFacts {
    /// The beginning of the period; `None` if it has none.
    pub began: Option<String>,
    /// The end of the period; `None` if it has none.
    pub ended: Option<String>,
    /// How many messages the report has.
    pub messages: u64,
    /// How many of them were answered.
    pub answered: u64,
    /// How many messages were not answered, by reason.
    pub silent: BTreeMap<String, u64>,
    /// Whether messages are missing, because there were too many.
    pub cut: bool,
    pub correspondents: Vec<CorrespondentFacts>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CorrespondentFacts {
    pub name: Option<String>,
    pub email: String,
    /// Whether all messages were sent automatically.
    pub machine: bool,
    pub answered: bool,
    /// The newest first.
    pub threads: Vec<TopicFacts>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TopicFacts {
    /// `None` for the destroyed emails of the correspondent, whose threads are not known.
    pub thread_id: Option<String>,
    pub subject: String,
    pub email_ids: Vec<String>,
    pub unread: u64,
    /// When the first email arrived.
    pub first: String,
    /// When the last email arrived.
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
