//! The vendor methods that list, create, change and destroy mailboxes. A mailbox is named by its
//! path (names separated by `/`), its role or its id.

use std::collections::BTreeMap;

use super::{AdminMethod, charge_row};
use crate::jmap::context::Context;
use crate::jmap::method::Call;
use crate::jmap::{principal, share};
use crate::model::mailbox::Right;
use crate::model::{AccountId, Mailbox, MailboxCounts, MailboxUid, Role};
use crate::store::{Error, NewMailbox, Txn};
use crate::wire::jmap::admin::mailboxes::{
    MailboxAdd, MailboxAddArguments, MailboxChange, MailboxChangeArguments, MailboxEnsure,
    MailboxEnsureAnswer, MailboxEnsureArguments, MailboxFacts, MailboxList, MailboxListAnswer,
    MailboxRemove, MailboxRemoveAnswer, MailboxRemoveArguments, MailboxTotals,
};
use crate::wire::jmap::admin::{AccountRef, OfAccount};
use crate::wire::jmap::{MethodError, With};

/// The most emails that one commit removes from a mailbox that is to be destroyed.
const EMAILS_PER_COMMIT: usize = 64;

/// Finds a mailbox by its path or role, as `Snapshot::find_mailbox` does; if there is none, by its
/// id.
///
/// # Errors
/// `NotFound`, and those of reading.
pub(super) fn find(
    context: &Context,
    account: AccountId,
    name: &str,
) -> Result<(MailboxUid, Mailbox), MethodError> {
    let snapshot = context.store.snapshot();
    if let Some(found) = snapshot.find_mailbox(account, name)? {
        return Ok(found);
    }
    let missing = || MethodError::NotFound(format!("there is no mailbox {name}"));
    let uid = name.parse::<MailboxUid>().map_err(|_| missing())?;
    Ok((uid, snapshot.mailbox(account, uid)?.ok_or_else(missing)?))
}

fn mailbox_by_uid(
    context: &Context,
    account: AccountId,
    uid: MailboxUid,
) -> Result<(MailboxUid, Mailbox), MethodError> {
    let found = context.store.snapshot().mailbox(account, uid)?;
    found
        .map(|row| (uid, row))
        .ok_or_else(|| MethodError::NotFound("there is no such mailbox".into()))
}

impl AdminMethod for MailboxList {
    fn call(
        &Call { context, .. }: &Call<'_>,
        account_ref: AccountRef,
    ) -> Result<MailboxListAnswer, MethodError> {
        let (account, _) = context.account_of(&account_ref)?;
        let all = context.store.snapshot().mailboxes(account)?;
        let mut list = Vec::with_capacity(all.len());
        for (uid, mailbox) in &all {
            list.push(charge_row(context, describe(context, &all, *uid, mailbox)?)?);
        }
        list.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(MailboxListAnswer { list })
    }
}

/// Returns the path of a mailbox. `all` has all mailboxes of the account.
pub(super) fn path(all: &[(MailboxUid, Mailbox)], mailbox: &Mailbox) -> String {
    let (mut path, mut parent) = (mailbox.name.clone(), mailbox.parent);
    // Ends even if damaged rows form a cycle.
    for _ in 0..all.len() {
        let Some((_, ancestor)) =
            parent.and_then(|uid| all.iter().find(|(other, _)| *other == uid))
        else {
            break;
        };
        path = format!("{}/{path}", ancestor.name);
        parent = ancestor.parent;
    }
    path
}

fn describe(
    context: &Context,
    all: &[(MailboxUid, Mailbox)],
    uid: MailboxUid,
    mailbox: &Mailbox,
) -> Result<MailboxFacts, MethodError> {
    let mut share_with = BTreeMap::new();
    for (with, bits) in &mailbox.shares {
        let found = context.directory.find_account(&with.to_string())?;
        let name = found.map_or_else(|| with.to_string(), |(_, row)| row.name);
        let rights = Right::all()
            .filter(|right| bits & right.bit() != 0)
            .map(|right| right.name().to_owned());
        share_with.insert(name, rights.collect());
    }
    Ok(MailboxFacts {
        id: uid.to_string(),
        path: path(all, mailbox),
        name: mailbox.name.clone(),
        parent_id: mailbox.parent.map(|uid| uid.to_string()),
        role: mailbox.role.map(|role| role.name().to_owned()),
        sort_order: mailbox.sort_order,
        is_subscribed: mailbox.subscribed,
        attributes: mailbox.attributes.clone(),
        share_with,
        totals: totals(mailbox.counts),
    })
}

pub(super) fn totals(counts: MailboxCounts) -> MailboxTotals {
    let MailboxCounts { total_emails, unread_emails, total_threads, unread_threads } = counts;
    MailboxTotals { total_emails, unread_emails, total_threads, unread_threads }
}

/// Runs `change` in one commit, and runs it again if it is overtaken. Then notifies the users whose
/// rights changed. `change` returns the mailbox that it created or changed.
fn commit_change(
    context: &Context,
    account: AccountId,
    mut change: impl FnMut(&mut Txn<'_>) -> Result<MailboxUid, Error>,
) -> Result<MailboxFacts, MethodError> {
    let committed =
        context.store.commit(account, |txn| change(txn).map(|uid| (uid, txn.take_share_changes())));
    let ((uid, shared), ticket) = committed?;
    ticket.wait_blocking()?;
    share::notify(context, account, shared);
    let all = context.store.snapshot().mailboxes(account)?;
    let (_, mailbox) = mailbox_by_uid(context, account, uid)?;
    describe(context, &all, uid, &mailbox)
}

/// Reads the name of a role, in any letter case. Returns `None` if no name is given, which leaves
/// the role of a mailbox as it is, and `Some(None)` for "", which removes it.
fn role(name: Option<&str>) -> Result<Option<Option<Role>>, MethodError> {
    let Some(name) = name else { return Ok(None) };
    if name.is_empty() {
        return Ok(Some(None));
    }
    let unknown =
        || MethodError::InvalidArguments(format!("role: `{name}` is not a role (RFC 8621 §2)"));
    Role::from_name(&name.to_lowercase()).map(|role| Some(Some(role))).ok_or_else(unknown)
}

/// Returns a sort order unchanged. Refuses one that is not less than 2^31 (RFC 8621 §2).
fn sort_order(order: Option<u32>) -> Result<Option<u32>, MethodError> {
    match order {
        Some(order) if order >= 1 << 31 => {
            Err(MethodError::InvalidArguments("sortOrder: less than 2^31 is expected".into()))
        }
        order => Ok(order),
    }
}

impl AdminMethod for MailboxAdd {
    fn call(
        &Call { context, .. }: &Call<'_>,
        With(account_ref, args): OfAccount<MailboxAddArguments>,
    ) -> Result<MailboxFacts, MethodError> {
        let (account, _) = context.account_of(&account_ref)?;
        let (parent, name) = match args.path.rsplit_once('/') {
            Some((parent_path, name)) => (Some(find(context, account, parent_path)?.0), name),
            None => (None, args.path.as_str()),
        };
        let role = role(args.role.as_deref())?.flatten();
        let new = NewMailbox {
            name: name.to_owned(),
            parent,
            role,
            sort_order: sort_order(args.sort_order)?.unwrap_or(0),
        };
        commit_change(context, account, |txn| {
            let uid = txn.create_mailbox(&new)?;
            txn.update_mailbox(uid, |row| set_attributes(row, &args.attributes))?;
            Ok(uid)
        })
    }
}

impl AdminMethod for MailboxChange {
    fn call(
        &Call { context, .. }: &Call<'_>,
        With(account_ref, args): OfAccount<MailboxChangeArguments>,
    ) -> Result<MailboxFacts, MethodError> {
        let (account, _) = context.account_of(&account_ref)?;
        let (uid, old) = find(context, account, &args.mailbox)?;
        let shares = shares(context, account, &old, &args.share_with)?;
        if args.name.as_ref().is_some_and(|name| name.contains('/')) {
            return Err(MethodError::InvalidArguments(
                "name: only the last part of a path is expected; parent moves the mailbox".into(),
            ));
        }
        let parent = match args.parent.as_deref() {
            None => None,
            Some("") => Some(None),
            Some(parent_path) => Some(Some(find(context, account, parent_path)?.0)),
        };
        // In each of these and in `parent`, `None` keeps the old value.
        let (role, order) = (role(args.role.as_deref())?, sort_order(args.sort_order)?);
        commit_change(context, account, |txn| {
            txn.update_mailbox(uid, |row| {
                set_attributes(row, &args.attributes);
                for (&with, &rights) in &shares {
                    if rights == 0 {
                        row.shares.remove(&with);
                    } else {
                        row.shares.insert(with, rights);
                    }
                }
                if let Some(name) = &args.name {
                    row.name.clone_from(name);
                }
                row.parent = parent.unwrap_or(row.parent);
                row.role = role.unwrap_or(row.role);
                row.sort_order = order.unwrap_or(row.sort_order);
                row.subscribed = args.is_subscribed.unwrap_or(row.subscribed);
            })?;
            Ok(uid)
        })
    }
}

/// Reads `shareWith`. A key is the id, the name or an address of an account. A value has the names
/// of rights, separated by commas, or is null. Returns the rights as bits (`Right::bit`); 0, for
/// null and for a value without names, ends the share.
///
/// # Errors
/// `InvalidArguments` for an unknown right, and for an account that does not exist, that is
/// `account` itself, or with which the caller may not share. An account that has a share of the
/// mailbox already may always be named. Those of reading.
fn shares(
    context: &Context,
    account: AccountId,
    mailbox: &Mailbox,
    requested: &BTreeMap<String, Option<String>>,
) -> Result<BTreeMap<AccountId, u16>, MethodError> {
    let invalid = |what: String| MethodError::InvalidArguments(format!("shareWith: {what}"));
    let mut shares = BTreeMap::new();
    for (name, rights) in requested {
        let found = context.directory.find_account(name)?;
        // The answer does not tell a caller whether there is an account that the caller may not
        // see.
        let no_account = || invalid(format!("there is no account {name} to share with"));
        let (with, _) = found.filter(|(id, _)| *id != account).ok_or_else(no_account)?;
        let may_share = mailbox.shares.contains_key(&with)
            || principal::may_share_with(context, account, with)?;
        if !may_share {
            return Err(no_account());
        }
        let mut bits = 0;
        for name in
            rights.iter().flat_map(|rights| rights.split(',')).filter(|name| !name.is_empty())
        {
            bits |= Right::from_name(name)
                .ok_or_else(|| invalid(format!("there is no right {name}")))?
                .bit();
        }
        shares.insert(with, bits);
    }
    Ok(shares)
}

/// Sets the attributes, such as `color`, by their names. Null removes one.
fn set_attributes(row: &mut Mailbox, attributes: &BTreeMap<String, Option<String>>) {
    for (name, value) in attributes {
        match value {
            Some(value) => drop(row.attributes.insert(name.clone(), value.clone())),
            None => drop(row.attributes.remove(name)),
        }
    }
}

impl AdminMethod for MailboxRemove {
    /// Destroys a mailbox. Refuses the Inbox and a mailbox with mailboxes under it. If `emails` is
    /// false, refuses a mailbox that has emails. If `emails` is true, the emails are first removed
    /// in several commits, and those in no other mailbox are destroyed.
    fn call(
        &Call { context, .. }: &Call<'_>,
        With(account_ref, args): OfAccount<MailboxRemoveArguments>,
    ) -> Result<MailboxRemoveAnswer, MethodError> {
        let (account, _) = context.account_of(&account_ref)?;
        let (uid, mailbox) = find(context, account, &args.mailbox)?;
        let shared = loop {
            let step = context.store.commit(account, |txn| {
                let has_more = remove_step(txn, uid, args.emails)?;
                Ok((has_more, txn.take_share_changes()))
            });
            let ((has_more, shared), ticket) = step?;
            ticket.wait_blocking()?;
            if !has_more {
                break shared;
            }
        };
        let emails = if args.emails { mailbox.counts.total_emails } else { 0 };
        share::notify(context, account, shared);
        Ok(MailboxRemoveAnswer { emails })
    }
}

/// Destroys a mailbox. With `emails`, first removes some of its emails, and destroys the mailbox
/// only if none are left. Returns whether any may be left.
fn remove_step(txn: &mut Txn<'_>, uid: MailboxUid, emails: bool) -> Result<bool, Error> {
    // A mailbox that cannot be destroyed must not lose its emails.
    txn.destroyable_mailbox(uid)?;
    let has_more = emails && txn.empty_mailbox(uid, EMAILS_PER_COMMIT)?;
    if !has_more {
        txn.destroy_mailbox(uid)?;
    }
    Ok(has_more)
}

impl AdminMethod for MailboxEnsure {
    /// Returns the mailbox at the end of a path, and creates the missing mailboxes of the path.
    ///
    /// - `names` is the path from the top, or from the Inbox if `inbox` is true. Without names, the
    ///   path ends at the Inbox.
    /// - Where no name is equal, a mailbox whose name differs only in case is used.
    /// - If the last mailbox is missing, the mailbox with the role is used in its place, wherever
    ///   it is. If there is none, the new mailbox gets the role. The role `inbox` is ignored.
    fn call(
        &Call { context, .. }: &Call<'_>,
        With(account_ref, MailboxEnsureArguments { inbox, names, role }): OfAccount<
            MailboxEnsureArguments,
        >,
    ) -> Result<MailboxEnsureAnswer, MethodError> {
        let (account, _) = context.account_of(&account_ref)?;
        let unknown =
            |name: String| MethodError::InvalidArguments(format!("role: there is no role {name}"));
        let role =
            role.map(|name| Role::from_name(&name).ok_or_else(|| unknown(name))).transpose()?;
        let role = role.filter(|role| *role != Role::Inbox);
        if names.is_empty() && !inbox {
            return Err(MethodError::InvalidArguments("names: a path is expected".into()));
        }
        let made = context.store.commit(account, |txn| ensure(txn, inbox, &names, role));
        let (uid, ticket) = made?;
        ticket.wait_blocking()?;
        Ok(MailboxEnsureAnswer { id: uid.to_string() })
    }
}

/// Does what `MailboxEnsure` says. Without `inbox`, there must be names.
fn ensure(
    txn: &mut Txn<'_>,
    inbox: bool,
    names: &[String],
    role: Option<Role>,
) -> Result<MailboxUid, Error> {
    let all = txn.snapshot().mailboxes(txn.account())?;
    let mut at = None;
    if inbox {
        let found = all.iter().find(|(_, mailbox)| mailbox.role == Some(Role::Inbox));
        at = Some(found.ok_or(Error::NotFound("mailbox"))?.0);
    }
    for (depth, name) in names.iter().enumerate() {
        let role = role.filter(|_| depth + 1 == names.len());
        let siblings = || all.iter().filter(|(_, mailbox)| mailbox.parent == at);
        let exact = siblings().find(|(_, mailbox)| mailbox.name == *name);
        let ignoring_case =
            || siblings().find(|(_, mailbox)| mailbox.name.to_lowercase() == name.to_lowercase());
        let by_role = || all.iter().find(|(_, mailbox)| role.is_some() && mailbox.role == role);
        let found = exact.or_else(ignoring_case).or_else(by_role).map(|(uid, _)| *uid);
        at = Some(match found {
            Some(uid) => uid,
            None => txn.create_mailbox(&NewMailbox {
                name: name.clone(),
                parent: at,
                role,
                sort_order: 0,
            })?,
        });
    }
    at.ok_or(Error::NotFound("mailbox"))
}
