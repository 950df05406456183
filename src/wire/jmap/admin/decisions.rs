//! The arguments and answers of the vendor methods for the vacation responder: its log of
//! decisions, the senders who were told of the absence, a test with one message, and the report of
//! an absence.
//!
//! - A time is a `UTCDate` (RFC 8620 §1.4). A period contains `since` and does not contain `until`.
//! - A reason is the code of a `vacation::NoReplyReason`, or of a failure to send the reply.
//! - `jmap::admin` has the implementations.

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

/// Selects decisions. An argument that is left out excludes none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecisionListArguments {
    /// The most decisions that are returned; 50 if it is left out.
    pub limit: Option<u64>,
    pub since: Option<String>,
    pub until: Option<String>,
    /// `true`: only decisions to reply; `false`: only decisions not to reply.
    pub answered: Option<bool>,
    /// Only decisions not to reply, for this reason.
    pub reason: Option<String>,
    /// Only senders whose address contains this text, in any case.
    pub sender: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecisionListAnswer {
    /// The decisions, newest first.
    pub list: Vec<DecisionFacts>,
    /// When the current vacation began or will begin; if there is none, the last one. `None` if
    /// that is not known.
    pub began: Option<String>,
    /// When the same vacation ended or will end. `None` if that is not known.
    pub ended: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DecisionFacts {
    pub at: String,
    /// The email about which was decided.
    pub email_id: String,
    /// The envelope sender; `None` if it is `<>`.
    pub sender: Option<String>,
    /// The envelope recipient.
    pub recipient: String,
    /// Why no reply was sent; `None` if one was queued.
    pub reason: Option<String>,
    /// The evidence for the reason, for people.
    pub detail: Option<String>,
    /// The id of the queued reply; `None` if there is a reason.
    pub action: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToldListArguments {
    /// The most senders that are returned; all, up to a bound, if it is left out.
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
    /// When the sender was sent the reply.
    pub at: String,
    pub sender: String,
    /// Whether a Sieve script sent the reply, and not the vacation response.
    pub script: bool,
    /// When the sender may get a reply again; `None`: not before the response changes.
    pub until: Option<String>,
}

/// Selects the told senders to forget: `sender` alone, or all if `all` is set. Exactly one of the
/// two must be given. A sender who is forgotten gets a reply again. Only senders who were told by
/// the vacation response are forgotten, not those told by a Sieve script.
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
    /// The envelope sender, or "" for `<>`. If it is left out, the address in Return-Path, or else
    /// in From, is taken.
    pub sender: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum VacationTestAnswer {
    /// The message would get a reply.
    Reply {
        /// Always null, which tells this answer from `Silent`.
        reason: (),
        recipient: String,
        /// The message of the reply, as text.
        reply: String,
    },
    /// The message would get no reply.
    Silent { reason: String, detail: String },
}

/// The period of the report. If both times are left out, the report is about the current or last
/// absence. If only `since` is left out, the period begins with that absence; if only `until` is,
/// it has no end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VacationReportArguments {
    pub since: Option<String>,
    pub until: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VacationReportAnswer {
    #[serde(flatten)]
    pub facts: AbsenceFacts,
    /// The report as plain text for the owner.
    pub text: String,
    /// The same report as HTML.
    pub html: String,
}

/// The mail that arrived while the owner was away.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AbsenceFacts {
    pub began: Option<String>,
    pub ended: Option<String>,
    /// How many messages arrived.
    pub messages: u64,
    /// How many of them were answered.
    pub answered: u64,
    /// How many of them were not answered, by reason.
    pub silent: BTreeMap<String, u64>,
    /// Whether messages are missing from the report, because there were too many.
    pub cut: bool,
    pub correspondents: Vec<CorrespondentFacts>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CorrespondentFacts {
    pub name: Option<String>,
    pub email: String,
    /// Whether all messages of the correspondent were sent automatically.
    pub machine: bool,
    /// Whether the correspondent got a reply.
    pub answered: bool,
    /// The threads with messages of the correspondent, newest first.
    pub threads: Vec<TopicFacts>,
}

/// One thread of a correspondent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TopicFacts {
    /// `None` if all emails of the thread are destroyed.
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
