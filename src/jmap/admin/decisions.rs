//! The vacation's decisions: those that were made, and the one that a message would get.

use serde_json::{Value, json};

use super::mail::rows;
use crate::account::{AccountSnapshot, arrivals};
use crate::jmap::context::{Args, Context, address, date};
use crate::message::auto::AutoReplyFacts;
use crate::message::header;
use crate::model::{Address, Decision, UtcMillis, Verdict};
use crate::outbox::{NO_SMTPUTF8, NOT_SENT};
use crate::vacation::{Correspondent, Input, Notice, Reason, ReplyDecision, Silence, Topic, consider};
use crate::wire::jmap::{MethodError, of_octets};

/// Which decisions are wanted.
#[derive(Debug, Default)]
struct DecisionFilter {
    since: Option<UtcMillis>,
    until: Option<UtcMillis>,
    /// Answered ones, or silent ones.
    answered: Option<bool>,
    /// Of this reason.
    reason: Option<String>,
    /// Of senders whose address has this in it, lower case.
    sender: Option<String>,
}

impl DecisionFilter {
    fn of(arguments: &Args<'_>) -> Result<Self, MethodError> {
        let answered = arguments.get("answered").map(|_| arguments.flag("answered")).transpose()?;
        let reason = arguments.maybe_text("reason")?;
        let sender = arguments.maybe_text("sender")?.map(|text| text.to_lowercase());
        let (since, until) = (instant(arguments, "since")?, instant(arguments, "until")?);
        Ok(Self { since, until, answered, reason, sender })
    }

    fn has(&self, decision: &Decision) -> bool {
        let answered = matches!(decision.verdict, Verdict::Answered(_));
        let reason = match &decision.verdict {
            Verdict::Answered(_) => None,
            Verdict::Silent { reason, .. } => Some(reason),
        };
        let sender = || decision.sender.as_ref().map(|sender| sender.to_string().to_lowercase()).unwrap_or_default();
        self.until.is_none_or(|until| decision.at < until)
            && self.answered.is_none_or(|wanted| wanted == answered)
            && self.reason.as_ref().is_none_or(|wanted| Some(wanted) == reason)
            && self.sender.as_ref().is_none_or(|wanted| sender().contains(wanted))
    }
}

fn instant(arguments: &Args<'_>, key: &str) -> Result<Option<UtcMillis>, MethodError> {
    let Some(text) = arguments.maybe_text(key)? else { return Ok(None) };
    let at = UtcMillis::parse_rfc3339(&text);
    at.map(Some).ok_or_else(|| MethodError::InvalidArguments(format!("{key}: `{text}` is no UTCDate")))
}

/// Vacation/report: what came in the last absence, or in the time that is asked for.
pub(super) fn report(context: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    let (account, _) = context.account(arguments)?;
    let snapshot = context.store.snapshot();
    let response = snapshot.vacation(account)?;
    let zone = context.directory.identity(account)?.zone;
    let (began, ended) = response.span();
    // What lies ahead has not ended anything yet.
    let ended = ended.filter(|ended| *ended <= context.store.clock().now());
    let (since, until) = (instant(arguments, "since")?, instant(arguments, "until")?);
    let ended = if since.is_some() { until } else { until.or(ended) };
    let report = arrivals::report(&snapshot, account, (since.or(began), ended))?;
    let topic = |topic: &Topic| {
        let emails: Vec<String> = topic.emails.iter().map(ToString::to_string).collect();
        json!({
            "threadId": topic.thread.map(|thread| thread.to_string()), "subject": topic.subject, "emailIds": emails,
            "unread": topic.unread, "first": date(Some(topic.first)), "last": date(Some(topic.last)),
        })
    };
    let correspondent = |one: &Correspondent| {
        let threads: Vec<Value> = one.threads.iter().map(topic).collect();
        json!({
            "name": one.person.name, "email": one.person.email, "machine": one.machine, "answered": one.answered,
            "threads": threads,
        })
    };
    let correspondents: Vec<Value> = report.correspondents.iter().map(correspondent).collect();
    Ok(json!({
        "began": date(report.began), "ended": date(report.ended), "messages": report.messages,
        "answered": report.answered, "silent": report.silent, "cut": report.cut, "correspondents": correspondents,
        "text": report.text(zone.as_deref()), "html": report.html(zone.as_deref()),
    }))
}

/// Decision/list, newest first.
pub(super) fn list(context: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    let (account, _) = context.account(arguments)?;
    let limit = rows(arguments)?;
    let wanted = DecisionFilter::of(arguments)?;
    if let Some(reason) = wanted.reason.as_ref().filter(|reason| !is_reason(reason)) {
        return Err(MethodError::InvalidArguments(format!("reason: there is no {reason}")));
    }
    let snapshot = context.store.snapshot();
    let mut list = Vec::new();
    let mut told = Ok(());
    let mut each = |decision: Decision| {
        if wanted.since.is_some_and(|since| decision.at < since) {
            return false;
        }
        if list.len() < limit && wanted.has(&decision) {
            let row = describe(&decision);
            told = context.budget.tell(&row);
            list.push(row);
        }
        list.len() < limit && told.is_ok()
    };
    snapshot.each_decision(account, &mut each)?;
    told?;
    let (began, ended) = snapshot.vacation(account)?.span();
    Ok(json!({ "list": list, "began": date(began), "ended": date(ended) }))
}

/// A rule's code, or what takes the place of one when a reply does not go out.
fn is_reason(code: &str) -> bool {
    Reason::ALL.iter().any(|reason| reason.code() == code) || [NO_SMTPUTF8, NOT_SENT].contains(&code)
}

fn describe(decision: &Decision) -> Value {
    let (reason, detail, action) = match &decision.verdict {
        Verdict::Answered(action) => (None, None, Some(action.to_string())),
        Verdict::Silent { reason, detail } => (Some(reason), Some(detail), None),
    };
    json!({
        "at": date(Some(decision.at)), "emailId": decision.email.to_string(),
        "sender": decision.sender.as_ref().map(ToString::to_string), "recipient": decision.recipient.to_string(),
        "reason": reason, "detail": detail, "action": action,
    })
}

/// What would be answered to a message now, and why; nothing is stored or sent.
pub(super) fn test(context: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    let (account, row) = context.account(arguments)?;
    let raw = of_octets(&arguments.text("message")?)?;
    let facts = AutoReplyFacts::of(&raw);
    let sender = match arguments.get("sender") {
        Some(_) => {
            Some(arguments.text("sender")?).filter(|text| !text.is_empty()).map(|text| address(&text)).transpose()?
        }
        None => {
            let path = header::first(&raw, "Return-Path").map(|field| field.unfolded());
            let path = path.map(|path| path.trim_matches(['<', '>']).to_owned());
            let from = facts.from.first().map(|person| person.email.clone());
            path.or(from).and_then(|text| Address::parse(&text).ok())
        }
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
        known_as: None,
        identity: &identity,
        notice: &notice,
        facts: &facts,
        forged: None,
        junk: false,
        secret,
        settings: &context.vacation,
        nonce: 0,
    };
    let world = AccountSnapshot { snapshot: &snapshot, account, identity: &identity, own: &own, now, secret };
    Ok(match consider(&input, &world)? {
        ReplyDecision::Reply(due) => json!({
            "reason": null, "recipient": due.reply.recipient.to_string(),
            "reply": String::from_utf8_lossy(&due.reply.message),
        }),
        ReplyDecision::Silent(Silence { reason, detail }) => json!({"reason": reason.code(), "detail": detail}),
    })
}
