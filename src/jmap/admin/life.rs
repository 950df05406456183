//! The vendor methods that move, flag, destroy, restore and purge emails.
//!
//! Each of these methods answers with an outcome for each email that the client named. Mail/purge
//! with `all` answers only with the number of emails. Mail/destroyed lists the destroyed emails
//! that can still be restored.

use std::collections::{BTreeMap, BTreeSet};

use super::mail::{facts, row_count};
use super::{AdminMethod, charge_row, mailboxes};
use crate::jmap::context::Context;
use crate::jmap::method::Call;
use crate::message::rows_of_any;
use crate::model::{AccountId, EmailId, keyword, limits};
use crate::store::{EncodedMessage, Error, Txn};
use crate::wire::jmap::admin::mail::{
    EmailIds, MailDestroy, MailDestroyAnswer, MailDestroyed, MailDestroyedAnswer,
    MailDestroyedArguments, MailFlag, MailFlagAnswer, MailFlagArguments, MailMove, MailMoveAnswer,
    MailMoveArguments, MailPurge, MailPurgeAnswer, MailPurgeArguments, MailRestore,
    MailRestoreAnswer, RestorableEmail,
};
use crate::wire::jmap::admin::{ObjectError, OfAccount};
use crate::wire::jmap::{MethodError, With};

const EMAILS_PER_COMMIT: usize = 64;

/// The outcomes of a call, by the ids that the client sent.
struct Outcomes<T> {
    done: BTreeMap<String, T>,
    refused: BTreeMap<String, ObjectError>,
}

impl<T> Default for Outcomes<T> {
    fn default() -> Self {
        Self { done: BTreeMap::new(), refused: BTreeMap::new() }
    }
}

impl<T> Outcomes<T> {
    fn add(&mut self, id: String, outcome: Result<T, ObjectError>) {
        match outcome {
            Ok(value) => drop(self.done.insert(id, value)),
            Err(error) => drop(self.refused.insert(id, error)),
        }
    }
}

fn refusal(error: Error) -> ObjectError {
    MethodError::from(error).into()
}

/// Returns each text once, with its id, or with `None` if it is no id.
///
/// # Errors
/// `InvalidArguments` if there are no texts, or more than `limits::MAX_LISTED_ROWS` different ones.
fn parse_ids(ids: Vec<String>) -> Result<Vec<(String, Option<EmailId>)>, MethodError> {
    let texts: BTreeSet<String> = ids.into_iter().collect();
    if texts.is_empty() || texts.len() > limits::MAX_LISTED_ROWS {
        return Err(MethodError::InvalidArguments(format!(
            "ids: 1 to {} email ids are expected",
            limits::MAX_LISTED_ROWS
        )));
    }
    Ok(texts.into_iter().map(|text| (text.clone(), text.parse().ok())).collect())
}

/// Changes each email, several in one commit, and waits until the commit is durable. If a commit
/// fails, all its emails are refused with its error, and the other commits are made all the same.
///
/// `change` must return `NotFound`, `Conflict` and `Quota` only before it writes: these refuse one
/// email, and the commit goes on.
///
/// # Errors
/// Those of `parse_ids`.
fn change_each<T>(
    context: &Context,
    account: AccountId,
    ids: Vec<String>,
    mut change: impl FnMut(&mut Txn<'_>, EmailId) -> Result<T, Error>,
) -> Result<Outcomes<T>, MethodError> {
    let mut outcomes = Outcomes::default();
    for chunk in parse_ids(ids)?.chunks(EMAILS_PER_COMMIT) {
        let done = context.store.commit(account, |txn| {
            let change_one = |(_, id): &(String, Option<EmailId>)| match id
                .map_or(Err(Error::NotFound("email")), |id| change(txn, id))
            {
                Err(error @ (Error::NotFound(_) | Error::Conflict(_) | Error::Quota)) => {
                    Ok(Err(error))
                }
                other => other.map(Ok),
            };
            chunk.iter().map(change_one).collect::<Result<Vec<Result<T, Error>>, Error>>()
        });
        let texts = chunk.iter().map(|(text, _)| text.clone());
        match done.and_then(|(made, ticket)| ticket.wait_blocking().map(|()| made)) {
            Ok(made) => texts
                .zip(made)
                .for_each(|(text, outcome)| outcomes.add(text, outcome.map_err(refusal))),
            Err(error) => texts.for_each(|text| outcomes.add(text, Err(refusal(error.clone())))),
        }
    }
    Ok(outcomes)
}

impl AdminMethod for MailDestroy {
    fn call(
        &Call { context, .. }: &Call<'_>,
        With(account_ref, args): OfAccount<EmailIds>,
    ) -> Result<MailDestroyAnswer, MethodError> {
        let (account, _) = context.account_of(&account_ref)?;
        #[expect(
            clippy::redundant_closure_for_method_calls,
            reason = "the method has the lifetime of one transaction"
        )]
        let outcomes = change_each(context, account, args.ids, |txn, id| txn.destroy_email(id))?;
        Ok(MailDestroyAnswer { destroyed: outcomes.done, not_destroyed: outcomes.refused })
    }
}

impl AdminMethod for MailDestroyed {
    fn call(
        &Call { context, .. }: &Call<'_>,
        With(account_ref, args): OfAccount<MailDestroyedArguments>,
    ) -> Result<MailDestroyedAnswer, MethodError> {
        let (account, _) = context.account_of(&account_ref)?;
        let snapshot = context.store.snapshot();
        let since = context.store.clock().now().before(context.restore_period);
        let all = snapshot.destroyed_emails(account, since, row_count(args.limit)?)?;
        let mut list = Vec::with_capacity(all.len());
        for one in all {
            let content = snapshot.content(account, one.id)?;
            let (_, content) = content.unwrap_or_default();
            let row = RestorableEmail {
                email: facts(one.id, one.email.thread, one.email, content),
                destroyed_at: one.at.rfc3339(),
                restorable_until: one.at.after(context.restore_period).rfc3339(),
            };
            list.push(charge_row(context, row)?);
        }
        Ok(MailDestroyedAnswer { list })
    }
}

impl AdminMethod for MailRestore {
    /// Restores each email in a commit of its own. The message is parsed before the account is
    /// locked.
    fn call(
        &Call { context, .. }: &Call<'_>,
        With(account_ref, args): OfAccount<EmailIds>,
    ) -> Result<MailRestoreAnswer, MethodError> {
        let (account, _) = context.account_of(&account_ref)?;
        let mut outcomes = Outcomes::default();
        for (text, id) in parse_ids(args.ids)? {
            let id = id.ok_or_else(|| refusal(Error::NotFound("destroyed email")));
            let made = id.and_then(|id| restore_one(context, account, id));
            outcomes.add(text, made.map(|id| id.to_string()));
        }
        Ok(MailRestoreAnswer { restored: outcomes.done, not_restored: outcomes.refused })
    }
}

/// Restores a destroyed email. Returns the id of the new email.
fn restore_one(context: &Context, account: AccountId, id: EmailId) -> Result<EmailId, ObjectError> {
    let missing = || refusal(Error::NotFound("destroyed email"));
    let message = {
        let snapshot = context.store.snapshot();
        let old = snapshot.email_or_tombstone(account, id).map_err(refusal)?.ok_or_else(missing)?;
        context.budget.charge_read(old.size)?;
        context.budget.charge_stored(old.size)?;
        let raw = snapshot.raw_message(&old.blob).map_err(refusal)?.ok_or_else(missing)?;
        EncodedMessage::new(&rows_of_any(&raw, context.store.secrets()))
    };
    let made = context
        .store
        .commit(account, |txn| txn.restore_email(id, &message, context.restore_period));
    let ((id, _), ticket) = made.map_err(refusal)?;
    ticket.wait_blocking().map_err(refusal)?;
    Ok(id)
}

impl AdminMethod for MailPurge {
    /// Purges destroyed emails before their time: the named ones, or with `all` every one that is
    /// destroyed by now.
    fn call(
        &Call { context, .. }: &Call<'_>,
        With(account_ref, args): OfAccount<MailPurgeArguments>,
    ) -> Result<MailPurgeAnswer, MethodError> {
        let (account, _) = context.account_of(&account_ref)?;
        match (args.all, args.ids) {
            (true, None) => {
                let mut count = 0;
                loop {
                    let done = context
                        .store
                        .commit(account, |txn| txn.purge_emails(txn.now(), EMAILS_PER_COMMIT));
                    let (purged, ticket) = done?;
                    ticket.wait_blocking()?;
                    count += purged.emails as u64;
                    if !purged.has_more {
                        return Ok(MailPurgeAnswer::All { count });
                    }
                }
            }
            (false, Some(ids)) => {
                #[expect(
                    clippy::redundant_closure_for_method_calls,
                    reason = "the method has the lifetime of one transaction"
                )]
                let outcomes = change_each(context, account, ids, |txn, id| txn.purge_email(id))?;
                Ok(MailPurgeAnswer::Named { purged: outcomes.done, not_purged: outcomes.refused })
            }
            _ => Err(MethodError::InvalidArguments("either ids or all is expected".into())),
        }
    }
}

impl AdminMethod for MailMove {
    /// Moves emails to a mailbox. With `also`, they stay in their other mailboxes, too.
    fn call(
        &Call { context, .. }: &Call<'_>,
        With(account_ref, args): OfAccount<MailMoveArguments>,
    ) -> Result<MailMoveAnswer, MethodError> {
        let (account, _) = context.account_of(&account_ref)?;
        let (uid, _) = mailboxes::find(context, account, &args.mailbox)?;
        let outcomes = change_each(context, account, args.ids, |txn, id| {
            let email = txn.snapshot().email(account, id)?.ok_or(Error::NotFound("email"))?;
            let mut mailboxes = if args.also { email.mailboxes } else { BTreeSet::new() };
            mailboxes.insert(uid);
            txn.update_email(id, mailboxes, email.keywords).map(drop)
        })?;
        Ok(MailMoveAnswer { moved: outcomes.done, not_moved: outcomes.refused })
    }
}

impl AdminMethod for MailFlag {
    fn call(
        &Call { context, .. }: &Call<'_>,
        With(account_ref, args): OfAccount<MailFlagArguments>,
    ) -> Result<MailFlagAnswer, MethodError> {
        let (account, _) = context.account_of(&account_ref)?;
        let read = |name: &str, given: &[String]| -> Result<BTreeSet<String>, MethodError> {
            let invalid = |text: &str| {
                MethodError::InvalidArguments(format!(
                    "{name}: \"{text}\" is not a keyword (RFC 8621 §4.1.1)"
                ))
            };
            given.iter().map(|text| keyword::normalize(text).ok_or_else(|| invalid(text))).collect()
        };
        let (add, remove) = (read("add", &args.add)?, read("remove", &args.remove)?);
        if add.is_empty() && remove.is_empty() {
            return Err(MethodError::InvalidArguments(
                "add or remove: keywords are expected".into(),
            ));
        }
        let outcomes = change_each(context, account, args.ids, |txn, id| {
            let email = txn.snapshot().email(account, id)?.ok_or(Error::NotFound("email"))?;
            let keywords: BTreeSet<String> =
                email.keywords.difference(&remove).chain(&add).cloned().collect();
            if keywords.len() > limits::MAX_KEYWORDS {
                return Err(Error::Conflict(format!(
                    "an email may have {} keywords at most",
                    limits::MAX_KEYWORDS
                )));
            }
            txn.update_email(id, email.mailboxes, keywords.clone())?;
            Ok(keywords)
        })?;
        Ok(MailFlagAnswer { flagged: outcomes.done, not_flagged: outcomes.refused })
    }
}
