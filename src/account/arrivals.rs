//! Collects for the absence report what arrived in an account, from the log of decisions.

use crate::model::{AccountId, Decision, EmailAddress, EmailId, UtcMillis, Verdict, limits};
use crate::store::{Error, Snapshot};
use crate::vacation::{AbsenceReport, Arrival};

/// Makes the report of what arrived from `began` on and before `ended`; `None` is no bound. It has
/// at most `limits::MAX_LISTED_ROWS` messages, the newest ones. Messages that were not stored are
/// left out.
///
/// # Errors
/// If the store cannot be read.
pub fn report(
    snapshot: &Snapshot<'_>,
    account: AccountId,
    (began, ended): (Option<UtcMillis>, Option<UtcMillis>),
) -> Result<AbsenceReport, Error> {
    let mut decisions: Vec<Decision> = Vec::new();
    let mut has_more = false;
    // The decisions come newest first.
    snapshot.each_decision(account, &mut |decision| {
        if began.is_some_and(|began| decision.at < began) {
            return false;
        }
        // A decision without an email is that of a message that was not stored.
        if decision.email.is_some() && ended.is_none_or(|ended| decision.at < ended) {
            has_more = decisions.len() >= limits::MAX_LISTED_ROWS;
            if !has_more {
                decisions.push(decision);
            }
        }
        !has_more
    })?;
    let arrivals: Result<Vec<Arrival>, Error> = decisions
        .into_iter()
        .filter_map(|decision| Some((decision.email?, decision)))
        .map(|(email, decision)| arrival(snapshot, account, (email, decision)))
        .collect();
    Ok(AbsenceReport::of(&arrivals?, (began, ended), has_more))
}

/// Describes a message of the report, as far as the store still has its email.
fn arrival(
    snapshot: &Snapshot<'_>,
    account: AccountId,
    (id, decision): (EmailId, Decision),
) -> Result<Arrival, Error> {
    let email = snapshot.email(account, id)?;
    let content = snapshot.content(account, id)?.map(|(_, content)| content);
    let envelope_sender =
        || decision.sender.as_ref().map_or_else(|| "<>".to_owned(), ToString::to_string);
    let from = content.as_ref().and_then(|content| content.from.first().cloned());
    let from = from.filter(|from| !from.email.is_empty());
    Ok(Arrival {
        email: id,
        thread: email.as_ref().map(|email| email.thread),
        at: decision.at,
        from: from.unwrap_or_else(|| EmailAddress { name: None, email: envelope_sender() }),
        subject: content.and_then(|content| content.subject).unwrap_or_default(),
        unread: email.is_some_and(|email| email.is_unread()),
        no_reply_reason: match decision.verdict {
            Verdict::Answered(_) => None,
            Verdict::Silent { reason, .. } => Some(reason),
        },
    })
}
