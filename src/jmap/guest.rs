//! What changed for a guest (RFC 8620 §5.2): which emails and threads came into his sight since a state, changed within it, and
//! left it.
//!
//! The account knows what changed of its emails, and each mailbox what came to it and what left it. An email was in his sight
//! if it was in a mailbox that he could read; as long as the same is open to him, that is one that he can read now. All is
//! told at once: what is more than was asked for cannot be calculated.

use std::collections::{BTreeMap, BTreeSet};

use super::context::Account;
use super::rights::{Rights, unchanged_since};
use super::standard::Asked;
use crate::model::{DataType, EmailId, Listing, MailboxUid, Shape, ThreadId, View as Filter, limits};
use crate::store::{Changes, Error, Since, View};

/// Whose state is that of threads: to a guest a thread changes as its emails come into his sight and leave it, which to the
/// account is a change of the emails alone.
pub(super) fn threads_follow(guest: bool) -> DataType {
    if guest { DataType::Email } else { DataType::Thread }
}

/// Email/changes; `None` where they cannot be told.
///
/// # Errors
/// Those of reading.
pub(super) fn email_changes(
    view: &View<'_>,
    account: &Account,
    asked: &Asked,
) -> Result<Option<Changes<EmailId>>, Error> {
    let Some(sight) = Sight::since(view, account, asked.since)? else { return Ok(None) };
    let mut changes = none(view, account, asked.since)?;
    for (id, (_, was, is)) in sight.emails {
        note(&mut changes, id, was, is);
    }
    Ok(Some(changes).filter(|all| count(all) <= asked.most))
}

/// Thread/changes; `None` where they cannot be told.
///
/// # Errors
/// Those of reading.
pub(super) fn thread_changes(
    view: &View<'_>,
    account: &Account,
    asked: &Asked,
) -> Result<Option<Changes<ThreadId>>, Error> {
    let Some(sight) = Sight::since(view, account, asked.since)? else { return Ok(None) };
    let mut changes = none(view, account, asked.since)?;
    let moved = sight.emails.iter().filter(|(_, (_, was, is))| was != is);
    let threads: BTreeSet<ThreadId> = moved.map(|(_, (thread, ..))| *thread).collect();
    for thread in threads {
        let (mut was, mut is) = (false, false);
        for id in view.thread_emails(account.id, thread)? {
            let seen = || Ok::<_, Error>(view.email(account.id, id)?.is_some_and(|email| sight.rights.sees(&email)));
            let (before, now) = match sight.emails.get(&id) {
                Some((_, was, is)) => (*was, *is),
                None => seen().map(|seen| (seen, seen))?,
            };
            (was, is) = (was || before, is || now);
        }
        was |= sight.emails.values().any(|(of, before, _)| *of == thread && *before);
        note(&mut changes, thread, was, is);
    }
    Ok(Some(changes).filter(|all| count(all) <= asked.most))
}

fn none<Id>(view: &View<'_>, account: &Account, since: Since) -> Result<Changes<Id>, Error> {
    let state = Since::at(view.state(account.id, DataType::Email)?.max(since.mark));
    Ok(Changes { created: Vec::new(), updated: Vec::new(), destroyed: Vec::new(), state, more: false })
}

/// What became of one that was in sight, or is.
fn note<Id>(changes: &mut Changes<Id>, id: Id, was: bool, is: bool) {
    match (was, is) {
        (false, true) => changes.created.push(id),
        (true, true) => changes.updated.push(id),
        (true, false) => changes.destroyed.push(id),
        (false, false) => {}
    }
}

fn count<Id>(changes: &Changes<Id>) -> usize {
    changes.created.len() + changes.updated.len() + changes.destroyed.len()
}

/// What a guest sees, and what changed of it.
struct Sight {
    rights: Rights,
    /// The emails that changed, each with its thread, whether it was in sight, and whether it is.
    emails: BTreeMap<EmailId, (ThreadId, bool, bool)>,
}

impl Sight {
    fn since(view: &View<'_>, account: &Account, since: Since) -> Result<Option<Self>, Error> {
        let (state, mark) = (view.account_state(account.id)?, since.mark);
        let is_known = mark <= state.modseq && mark >= state.purged(DataType::Email) && since.base == mark;
        if !is_known || !unchanged_since(view, account, mark)? {
            return Ok(None);
        }
        let rights = Rights::of(view, account)?;
        let mut came: BTreeSet<(EmailId, MailboxUid)> = BTreeSet::new();
        let mut gone: BTreeSet<EmailId> = BTreeSet::new();
        for uid in rights.readable() {
            let listing = Listing { uid, view: Filter::Every, shape: Shape::Emails };
            let kept = view.kept(account.id, uid, Filter::Every)?;
            let is_known = kept.is_some_and(|kept| kept.tally(Shape::Emails).low <= mark);
            let moves = if is_known { view.moves(account.id, listing, mark, limits::CHANGES)? } else { None };
            let Some(moves) = moves else { return Ok(None) };
            came.extend(moves.came.into_iter().map(|(id, _)| (id, uid)));
            gone.extend(moves.gone.into_iter().map(|(id, _)| id));
        }
        let Some(changed) = view.emails_since(account.id, mark, limits::CHANGES)? else { return Ok(None) };
        let mut emails = BTreeMap::new();
        for (_, id) in changed {
            let Some(email) = view.email_or_tombstone(account.id, id)? else { continue };
            let is_live = email.deleted.is_none();
            let stayed = |uid: &MailboxUid| rights.reads(*uid) && !came.contains(&(id, *uid));
            let was = gone.contains(&id) || is_live && email.mailboxes.iter().any(stayed);
            emails.insert(id, (email.thread, was, is_live && rights.sees(&email)));
        }
        Ok(Some(Self { rights, emails }))
    }
}
