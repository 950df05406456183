//! Maps results and errors of a delivery to replies, and decisions to what is stored and logged.

use super::Settings;
use crate::model::{ActionId, EmailId, ThreadId, Verdict};
use crate::store::Error;
use crate::vacation::{ReplyDecision, Silence};
use crate::wire::smtp::Reply;

pub(super) fn verdict(decision: &ReplyDecision<ActionId>) -> Verdict {
    match decision {
        ReplyDecision::Reply(action) => Verdict::Answered(*action),
        ReplyDecision::Silent(Silence { reason, detail }) => {
            Verdict::Silent { reason: reason.code().into(), detail: detail.clone() }
        }
    }
}

pub(super) fn log_text(decision: &ReplyDecision<ActionId>) -> String {
    match decision {
        ReplyDecision::Reply(action) => format!("answered {action}"),
        ReplyDecision::Silent(silence) => silence.reason.code().to_owned(),
    }
}

/// What the commit of an account did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FiledAccount {
    /// One for each recipient of the job, in order.
    pub(super) results: Vec<FilingResult>,
    /// The indices of the recipients that this commit served: those that were not served before.
    pub(super) served: Vec<usize>,
    pub(super) is_answered: bool,
    pub(super) is_notified: bool,
}

/// What became of the message for one recipient.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FilingResult {
    New {
        email: EmailId,
        thread: ThreadId,
        decision: ReplyDecision<ActionId>,
    },
    /// Scripts discarded the message, or only sent it on.
    NotStored(ReplyDecision<ActionId>),
    /// A script refused the message, with this text.
    Refused(String),
    /// The transaction was served before, for this recipient or for another one of the account. The
    /// value is the email that was filed then; `None` if the message was not stored.
    Again(Option<EmailId>),
}

/// Returns the reply for a recipient for whom the commit is durable, which may be a refusal by a
/// script.
pub(super) fn acceptance(filed: &FilingResult) -> Reply {
    let text = match filed {
        FilingResult::New { email, .. } => format!("filed as {email}"),
        FilingResult::Again(Some(email)) => format!("already filed as {email}"),
        FilingResult::Again(None) => "already delivered".into(),
        FilingResult::NotStored(_) => "delivered".into(),
        FilingResult::Refused(reason) => return Reply::new(550, [5, 7, 1], reason.clone()),
    };
    Reply::new(250, [2, 0, 0], text)
}

/// Returns the reply for a recipient whose account was not committed to, because of `error`.
pub(super) fn refusal(error: &Error, settings: &Settings) -> Reply {
    match error {
        Error::Quota => over_quota(settings),
        Error::Full => Reply::new(452, [4, 3, 1], "no disk space left: try again later"),
        Error::QueueFull(_) => Reply::new(
            452,
            [4, 3, 1],
            "the account has too much mail waiting to be sent: try again later",
        ),
        Error::NotFound("account") => Reply::new(550, [5, 1, 1], "no account has this address"),
        Error::NotFound(_)
        | Error::Conflict(_)
        | Error::Mailbox { .. }
        | Error::Script(_)
        | Error::Overtaken(_)
        | Error::Away(_)
        | Error::Rebuilding(_)
        | Error::Stopped
        | Error::Corrupt { .. }
        | Error::Poisoned(_)
        | Error::Open(_)
        | Error::Io(_) => trouble(),
    }
}

pub(super) fn trouble() -> Reply {
    Reply::new(451, [4, 3, 0], "error in the mail store: try again later")
}

pub(super) fn over_quota(settings: &Settings) -> Reply {
    if settings.quota_is_permanent {
        Reply::new(552, [5, 2, 2], "the mailbox is full")
    } else {
        Reply::new(452, [4, 2, 2], "the mailbox is full")
    }
}
