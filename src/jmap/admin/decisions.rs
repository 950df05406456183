//! The vendor methods for the decisions of the vacation responder. Decision/list returns the log of
//! decisions, Vacation/report the mail that arrived during an absence, and Vacation/test the
//! decision that a message would get.

use super::mail::row_count;
use super::{AdminMethod, charge_row};
use crate::account::{AccountSnapshot, arrivals};
use crate::jmap::context::parse_address;
use crate::jmap::method::Call;
use crate::message::auto::AutoReplyFacts;
use crate::model::{Decision, FilterStep, UtcMillis, Verdict};
use crate::outbox::{NO_SMTPUTF8, NOT_SENT};
use crate::vacation::{
    Correspondent, Input, NoReplyReason, Notice, ReplyDecision, Silence, Topic, consider,
};
use crate::wire::jmap::admin::OfAccount;
use crate::wire::jmap::admin::decisions::{
    AbsenceFacts, CorrespondentFacts, DecisionFacts, DecisionList, DecisionListAnswer,
    DecisionListArguments, FilterStepFacts, TopicFacts, VacationReport, VacationReportAnswer,
    VacationReportArguments, VacationTest, VacationTestAnswer, VacationTestArguments,
};
use crate::wire::jmap::{MethodError, With, from_base64};

/// A condition on decisions: every field that is set must hold.
#[derive(Debug, Default)]
struct DecisionFilter {
    /// If set, only decisions at this time or later.
    since: Option<UtcMillis>,
    /// If set, only decisions before this time.
    until: Option<UtcMillis>,
    /// If set, only decisions to reply (true), or only decisions not to reply (false).
    answered: Option<bool>,
    /// If set, only decisions against a reply for this reason, a code as in `is_reason`.
    reason: Option<String>,
    /// If set, only decisions whose sender's address contains this text, which is in lower case.
    sender: Option<String>,
}

impl DecisionFilter {
    /// Reads all arguments but `limit`.
    ///
    /// # Errors
    /// `InvalidArguments` for a time that cannot be parsed and for an unknown reason.
    fn read(args: DecisionListArguments) -> Result<Self, MethodError> {
        let DecisionListArguments { since, until, answered, reason, sender, .. } = args;
        let (since, until) = (parse_date("since", since)?, parse_date("until", until)?);
        if let Some(reason) = reason.as_ref().filter(|reason| !is_reason(reason)) {
            return Err(MethodError::InvalidArguments(format!(
                "reason: there is no reason {reason}"
            )));
        }
        Ok(Self { since, until, answered, reason, sender: sender.map(|text| text.to_lowercase()) })
    }

    /// Whether a decision meets the condition, except for `since`, which is not checked:
    /// Decision/list goes from the newest decision to the oldest, and stops at the first one before
    /// `since`.
    fn matches(&self, decision: &Decision) -> bool {
        let answered = matches!(decision.verdict, Verdict::Answered(_));
        let reason = match &decision.verdict {
            Verdict::Answered(_) => None,
            Verdict::Silent { reason, .. } => Some(reason),
        };
        let sender = || {
            decision
                .sender
                .as_ref()
                .map(|sender| sender.to_string().to_lowercase())
                .unwrap_or_default()
        };
        self.until.is_none_or(|until| decision.at < until)
            && self.answered.is_none_or(|expected| expected == answered)
            && self.reason.as_ref().is_none_or(|expected| Some(expected) == reason)
            && self.sender.as_ref().is_none_or(|expected| sender().contains(expected))
    }
}

fn parse_date(name: &str, text: Option<String>) -> Result<Option<UtcMillis>, MethodError> {
    let invalid =
        |text: &str| MethodError::InvalidArguments(format!("{name}: `{text}` is not a UTCDate"));
    text.map(|text| UtcMillis::parse_rfc3339(&text).ok_or_else(|| invalid(&text))).transpose()
}

fn date(at: Option<UtcMillis>) -> Option<String> {
    at.map(UtcMillis::rfc3339)
}

impl AdminMethod for VacationReport {
    /// Returns the report of the period from `since` until `until`. Without `since`, the period
    /// begins with the current, last or coming absence, if the beginning of this absence is known.
    /// Without both, the period also ends with this absence, if the absence has ended. With `since`
    /// alone the period has no end.
    fn call(
        &Call { context, .. }: &Call<'_>,
        With(account_ref, args): OfAccount<VacationReportArguments>,
    ) -> Result<VacationReportAnswer, MethodError> {
        let (account, _) = context.account_of(&account_ref)?;
        let snapshot = context.store.snapshot();
        let response = snapshot.vacation(account)?;
        let zone = context.directory.identity(account)?.zone;
        let (began, ended) = response.span();
        // An end in the future does not end the absence yet.
        let ended = ended.filter(|ended| *ended <= context.store.clock().now());
        let (since, until) = (parse_date("since", args.since)?, parse_date("until", args.until)?);
        let until = if since.is_some() { until } else { until.or(ended) };
        let report = arrivals::report(&snapshot, account, (since.or(began), until))?;
        let (text, html) = (report.text(zone.as_deref()), report.html(zone.as_deref()));
        let facts = AbsenceFacts {
            began: date(report.began),
            ended: date(report.ended),
            messages: report.messages as u64,
            answered: report.answered as u64,
            silent: report
                .unanswered
                .into_iter()
                .map(|(reason, count)| (reason, count as u64))
                .collect(),
            cut: report.cut,
            correspondents: report.correspondents.into_iter().map(correspondent_facts).collect(),
        };
        Ok(VacationReportAnswer { facts, text, html })
    }
}

fn correspondent_facts(one: Correspondent) -> CorrespondentFacts {
    CorrespondentFacts {
        name: one.person.name,
        email: one.person.email,
        machine: one.machine,
        answered: one.answered,
        threads: one.threads.into_iter().map(topic_facts).collect(),
    }
}

fn topic_facts(topic: Topic) -> TopicFacts {
    TopicFacts {
        thread_id: topic.thread.map(|thread| thread.to_string()),
        subject: topic.subject,
        email_ids: topic.emails.iter().map(ToString::to_string).collect(),
        unread: topic.unread as u64,
        first: topic.first.rfc3339(),
        last: topic.last.rfc3339(),
    }
}

impl AdminMethod for DecisionList {
    fn call(
        &Call { context, .. }: &Call<'_>,
        With(account_ref, args): OfAccount<DecisionListArguments>,
    ) -> Result<DecisionListAnswer, MethodError> {
        let (account, _) = context.account_of(&account_ref)?;
        let limit = row_count(args.limit)?;
        let filter = DecisionFilter::read(args)?;
        let snapshot = context.store.snapshot();
        let mut list = Vec::new();
        let mut charged = Ok(());
        // Gets the newest decision first. Returns whether the next older one is wanted.
        let mut add = |decision: Decision| {
            if filter.since.is_some_and(|since| decision.at < since) {
                return false;
            }
            if list.len() < limit && filter.matches(&decision) {
                match charge_row(context, decision_facts(decision)) {
                    Ok(row) => list.push(row),
                    Err(error) => charged = Err(error),
                }
            }
            list.len() < limit && charged.is_ok()
        };
        snapshot.each_decision(account, &mut add)?;
        charged?;
        let (began, ended) = snapshot.vacation(account)?.span();
        Ok(DecisionListAnswer { list, began: date(began), ended: date(ended) })
    }
}

/// Whether `code` is a reason for which a decision in the log has no reply: the vacation responder
/// decided against one (`NoReplyReason`), or the reply was not sent.
fn is_reason(code: &str) -> bool {
    NoReplyReason::ALL.iter().any(|reason| reason.code() == code)
        || [NO_SMTPUTF8, NOT_SENT].contains(&code)
}

fn decision_facts(decision: Decision) -> DecisionFacts {
    let (reason, detail, action) = match decision.verdict {
        Verdict::Answered(action) => (None, None, Some(action.to_string())),
        Verdict::Silent { reason, detail } => (Some(reason), Some(detail), None),
    };
    DecisionFacts {
        at: decision.at.rfc3339(),
        email_id: decision.email.map(|email| email.to_string()),
        sender: decision.sender.map(|sender| sender.to_string()),
        recipient: decision.recipient.to_string(),
        reason,
        detail,
        action,
        steps: decision.steps.into_iter().map(step_facts).collect(),
    }
}

fn step_facts(FilterStep { script, line, action }: FilterStep) -> FilterStepFacts {
    FilterStepFacts { script, line, action }
}

impl AdminMethod for VacationTest {
    /// Returns the reply that a message would get now, or the reason for none.
    ///
    /// - If the arguments have no sender, the sender is that of the message
    ///   (`AutoReplyFacts::probable_sender`). It counts as not forged.
    /// - The message counts as not filed in Junk.
    /// - The recipient is the first address of the message's header that belongs to the account, or
    ///   else the primary address.
    fn call(
        &Call { context, .. }: &Call<'_>,
        With(account_ref, args): OfAccount<VacationTestArguments>,
    ) -> Result<VacationTestAnswer, MethodError> {
        let (account, row) = context.account_of(&account_ref)?;
        let raw = from_base64(&args.message)?;
        let facts = AutoReplyFacts::of(&raw);
        let sender = match args.sender.as_deref() {
            Some("") => None,
            Some(text) => Some(parse_address(text)?),
            None => facts.probable_sender(&raw),
        };
        let snapshot = context.store.snapshot();
        let response = snapshot.vacation(account)?;
        let identity = context.directory.identity(account)?;
        let own = context.directory.own_addresses(account)?;
        let (now, secret) = (context.store.clock().now(), &context.store.secrets().told);
        let mut recipient = &row.primary;
        for address in &facts.destinations {
            if own.has(address)? {
                recipient = address;
                break;
            }
        }
        let notice = Notice::of_response(&response, &identity, sender.as_ref(), &facts, now);
        let input = Input {
            now,
            sender: sender.as_ref(),
            recipient,
            // There is no envelope that could name an original recipient.
            known_as: None,
            identity: &identity,
            notice: &notice,
            facts: &facts,
            forged: None,
            junk: false,
            secret,
            settings: &context.vacation,
            // Makes only the Message-ID, and the reply is not sent.
            nonce: 0,
        };
        let world = AccountSnapshot {
            snapshot: &snapshot,
            account,
            identity: &identity,
            own: &own,
            now,
            secret,
        };
        Ok(match consider(&input, &world)? {
            ReplyDecision::Reply(due) => VacationTestAnswer::Reply {
                reason: (),
                recipient: due.reply.recipient.to_string(),
                reply: String::from_utf8_lossy(&due.reply.message).into_owned(),
            },
            ReplyDecision::Silent(Silence { reason, detail }) => {
                VacationTestAnswer::Silent { reason: reason.code().to_owned(), detail }
            }
        })
    }
}
