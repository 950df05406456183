//! Mailbox/set (RFC 8621 §2.5).
//!
//! Objects of one call may need one another: a mailbox is made under one that the same call makes,
//! takes the name or the role that another gives up, or can go only after what is under it. So what
//! cannot be done yet is tried again after the rest, as long as anything was done; then what may be
//! so only together, as two that exchange their names, is done together. All is one commit, but for
//! mailboxes that go with their emails: those go in steps, after it, and what they meet is said of
//! them alone.
//!
//! A guest may do what the shared rights in each mailbox allow, and choose the guest's own
//! subscriptions. A mailbox that a guest makes is shared with the same people as its parent.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};
use unicode_normalization::UnicodeNormalization as _;

use super::{MailboxProperty, VisibleMailboxes, object};
use crate::jmap::context::{Account, Context};
use crate::jmap::failure::SetFailure;
use crate::jmap::guest::newest_change;
use crate::jmap::method::{Call, Method};
use crate::jmap::rights::Rights;
use crate::jmap::share;
use crate::jmap::standard::value::{flag, text, unsigned};
use crate::jmap::standard::{
    InvalidProperties, ObjectType as _, SetArguments, SetResponse, SetStates,
};
use crate::model::mailbox::{Right, check_attributes};
use crate::model::{AccountId, DataType, Mailbox, MailboxUid, ModSeq, Role};
use crate::store::{Error, MailboxFault, NewMailbox, ShareChange, Txn};
use crate::wire::jmap::standard::{SetAnswer, SetArgs};
use crate::wire::jmap::{ADMIN, MethodError, PRINCIPALS, Patch, Property as _, SetError, With};

/// Emails that are taken out of a mailbox in one commit.
const EMAILS_PER_COMMIT: usize = 64;

pub(in crate::jmap) struct MailboxSet;

/// The argument beside the standard's.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::jmap) struct MailboxSetArgs {
    #[serde(default)]
    on_destroy_remove_emails: bool,
}

impl Method for MailboxSet {
    type Args = With<SetArgs, MailboxSetArgs>;
    type Answer = SetAnswer;

    fn call(call: &Call<'_>, With(args, beside): Self::Args) -> Result<SetAnswer, MethodError> {
        set(call, args, beside.on_destroy_remove_emails)
    }
}

fn set(call: &Call<'_>, args: SetArgs, with_emails: bool) -> Result<SetAnswer, MethodError> {
    let context = call.context;
    let account = call.open(&args.account_id, Mailbox::GUESTS)?;
    let set = SetArguments::of(call.created, args)?;
    let unread = said_again(context, &account, &set)?;
    let known = call.created.checkpoint();
    let committed = context.store.commit(account.id, |txn| {
        call.created.restore(&known);
        let before = newest_change(txn.state(), account.guest.is_some(), DataType::Mailbox);
        if !set.is_in_state(context, before) {
            return Ok(None);
        }
        let (done, named, unread) = (set.done.clone(), Vec::new(), unread.clone());
        let mut work = MailboxSetCall { call, account: &account, done, named, unread };
        let mut stand = SetStates::new(before);
        let left = work.all(txn, &set, with_emails)?;
        let told = work.tells_all(txn, before)?;
        stand.after(newest_change(txn.state(), account.guest.is_some(), DataType::Mailbox), told);
        Ok(Some((work, stand, left, txn.take_share_changes())))
    });
    let (result, ticket) = committed?;
    ticket.wait_blocking()?;
    let (mut work, mut stand, left, mut shared) = result.ok_or(MethodError::StateMismatch)?;
    shared.extend(remove_with_emails(context, &account, left, &mut work, &mut stand));
    share::notify(context, account.id, shared);
    Ok(work.done.into_answer(context, &account, stand))
}

/// The unread threads in a guest's sight, where an update says them: what the server says may be
/// said again (RFC 8620 §5.3). They are counted before the account is locked: deliveries do not
/// wait for it.
fn said_again(
    context: &Context,
    account: &Account,
    set: &SetArguments,
) -> Result<BTreeMap<MailboxUid, u64>, MethodError> {
    let says =
        |(_, patch): &&(String, Value)| patch.get(MailboxProperty::UnreadThreads.name()).is_some();
    let mut said = set.update.iter().filter(says).peekable();
    if account.guest.is_none() || said.peek().is_none() {
        return Ok(BTreeMap::new());
    }
    let snapshot = context.store.snapshot();
    let mut seen = VisibleMailboxes::of(&snapshot, account)?;
    if said.any(|(id, _)| seen.get(id).is_some()) {
        return Ok(seen.count_unread(&snapshot, account, &context.budget)?.counts);
    }
    Ok(BTreeMap::new())
}

/// One thing that is asked for.
#[derive(Clone, Copy)]
enum MailboxOperation<'s> {
    Create(&'s str, &'s Map<String, Value>),
    Update(&'s str, &'s Value),
    Destroy(&'s str),
}

pub(super) struct MailboxSetCall<'a> {
    pub(super) call: &'a Call<'a>,
    pub(super) account: &'a Account,
    done: SetResponse,
    /// What was made or changed.
    named: Vec<MailboxUid>,
    /// The unread threads that a guest was told of, where the call says them again.
    unread: BTreeMap<MailboxUid, u64>,
}

/// What a mailbox is to be.
struct MailboxUpdate {
    uid: MailboxUid,
    row: Mailbox,
    /// A guest's own subscription.
    subscribed: Option<(AccountId, bool)>,
    /// What changes otherwise than was asked.
    also: Map<String, Value>,
}

impl MailboxSetCall<'_> {
    /// Does all that can be done; gives what is to go with its emails.
    fn all(
        &mut self,
        txn: &mut Txn<'_>,
        set: &SetArguments,
        with_emails: bool,
    ) -> Result<Vec<MailboxUid>, Error> {
        let creates =
            set.create.iter().map(|(name, object)| MailboxOperation::Create(name, object));
        let updates = set.update.iter().map(|(id, patch)| MailboxOperation::Update(id, patch));
        let mut wishes: Vec<MailboxOperation<'_>> = creates.chain(updates).collect();
        wishes.extend(set.destroy.iter().map(|id| MailboxOperation::Destroy(id)));
        let mut later = Vec::new();
        loop {
            let mut left: Vec<(MailboxOperation<'_>, SetError)> = Vec::new();
            let before = wishes.len();
            for wish in wishes {
                match self.one(txn, wish) {
                    Ok(()) => {}
                    Err(MailboxSetError::Whole(error)) => return Err(error),
                    Err(MailboxSetError::Full(uid)) if with_emails => later.push(uid),
                    Err(MailboxSetError::Full(_)) => left.push((wish, full())),
                    Err(MailboxSetError::One(error)) => left.push((wish, error)),
                }
            }
            if left.len() == before {
                left = self.together(txn, left)?;
            }
            if left.is_empty() || left.len() == before {
                if with_emails {
                    after_their_children(
                        &txn.snapshot().mailboxes(txn.account())?,
                        &mut left,
                        &mut later,
                    );
                }
                for (wish, error) in left {
                    match wish {
                        MailboxOperation::Create(name, _) => self.done.not_created(name, &error),
                        MailboxOperation::Update(id, _) => self.done.not_updated(id, &error),
                        MailboxOperation::Destroy(id) => self.done.not_destroyed(id, &error),
                    }
                }
                return Ok(later);
            }
            wishes = left.into_iter().map(|(wish, _)| wish).collect();
        }
    }

    /// Does those changes together that may be only so; gives what is left.
    fn together<'s>(
        &mut self,
        txn: &mut Txn<'_>,
        mut left: Vec<(MailboxOperation<'s>, SetError)>,
    ) -> Result<Vec<(MailboxOperation<'s>, SetError)>, Error> {
        let mut changes = Vec::new();
        for (wish, _) in &left {
            let MailboxOperation::Update(id, patch) = wish else { continue };
            match self.wanted(txn, id, patch) {
                Ok(wanted) => changes.push((*id, wanted)),
                Err(MailboxSetError::Whole(error)) => return Err(error),
                Err(_) => {}
            }
        }
        while changes.len() > 1 {
            let rows: Vec<_> =
                changes.iter().map(|(_, wanted)| (wanted.uid, wanted.row.clone())).collect();
            match txn.update_mailboxes(&rows) {
                Ok(()) => {
                    left.retain(|(wish, _)| {
                        !changes.iter().any(|(id, ..)| matches!(wish, MailboxOperation::Update(own, _) if own == id))
                    });
                    for (id, wanted) in changes {
                        self.changed(txn, id, wanted)?;
                    }
                    return Ok(left);
                }
                Err((uid, error)) => match fault(error, uid, |_| true) {
                    MailboxSetError::Whole(error) => return Err(error),
                    _ => changes.retain(|(_, wanted)| wanted.uid != uid),
                },
            }
        }
        Ok(left)
    }

    fn one(
        &mut self,
        txn: &mut Txn<'_>,
        wish: MailboxOperation<'_>,
    ) -> Result<(), MailboxSetError> {
        match wish {
            MailboxOperation::Create(name, properties) => self.create(txn, name, properties),
            MailboxOperation::Update(id, patch) => self.update(txn, id, patch),
            MailboxOperation::Destroy(id) => {
                let uid = self.known(id)?;
                if self.account.guest.is_some() {
                    self.prove_destroy(txn, uid)?;
                }
                txn.destroy_mailbox(uid).map_err(|error| fault(error, uid, |_| true))?;
                self.done.destroyed(id);
                Ok(())
            }
        }
    }

    fn create(
        &mut self,
        txn: &mut Txn<'_>,
        name: &str,
        properties: &Map<String, Value>,
    ) -> Result<(), MailboxSetError> {
        // Who makes one wants to see it (RFC 8621 §2 isSubscribed).
        let mut row =
            Mailbox { subscribed: true, rights: Right::Rename.bit(), ..Mailbox::default() };
        let mut wrong = InvalidProperties::default();
        for (property, value) in properties {
            self.prove_property(&row, property)?;
            wrong.note(self.apply(&mut row, property, value))?;
        }
        if !properties.contains_key("name") {
            wrong.add("name", "a mailbox has a name");
        }
        wrong.finish()?;
        if self.account.guest.is_some() {
            row.shares = self.prove_parent(txn, row.parent)?.shares;
        }
        let Mailbox {
            name: label, parent, role, sort_order, subscribed, shares, attributes, ..
        } = row;
        let new = NewMailbox { name: label.clone(), parent, role, sort_order };
        let rights = Rights::of(&txn.snapshot(), self.account).map_err(MailboxSetError::Whole)?;
        let made = txn.create_mailbox(&new);
        let uid = made
            .map_err(|error| fault(error, MailboxUid::ALL, |other| rights.has_any_right(other)))?;
        let user = self.account.guest.unwrap_or(self.account.id);
        // It is made: what fails now fails the whole.
        txn.update_mailbox(uid, |row| (row.shares, row.attributes) = (shares, attributes))
            .map_err(MailboxSetError::Whole)?;
        txn.subscribe(uid, user, subscribed).map_err(MailboxSetError::Whole)?;
        let made = VisibleMailboxes::one(&txn.snapshot(), self.account, uid)
            .map_err(MailboxSetError::Whole)?;
        // All that the client does not know: what it did not say, and the name where its form
        // changed.
        let known = MailboxProperty::known(self.call);
        let mut told = made.map(|row| object(uid, &row, &known)).unwrap_or_default();
        told.retain(|property, value| properties.get(property) != Some(value));
        self.named.push(uid);
        self.done.created(self.call.created, name, told);
        Ok(())
    }

    fn update(
        &mut self,
        txn: &mut Txn<'_>,
        id: &str,
        patch: &Value,
    ) -> Result<(), MailboxSetError> {
        let wanted = self.wanted(txn, id, patch)?;
        let (uid, row) = (wanted.uid, wanted.row.clone());
        let rights = Rights::of(&txn.snapshot(), self.account).map_err(MailboxSetError::Whole)?;
        let done = txn.update_mailbox(uid, |now| *now = row);
        done.map_err(|error| fault(error, uid, |other| rights.has_any_right(other)))?;
        self.changed(txn, id, wanted).map_err(MailboxSetError::Whole)
    }

    /// Notes what was done.
    fn changed(&mut self, txn: &mut Txn<'_>, id: &str, wanted: MailboxUpdate) -> Result<(), Error> {
        if let Some((guest, on)) = wanted.subscribed {
            txn.subscribe(wanted.uid, guest, on)?;
        }
        self.named.push(wanted.uid);
        self.done.updated(id, wanted.also);
        Ok(())
    }

    fn wanted(
        &self,
        txn: &Txn<'_>,
        id: &str,
        patch: &Value,
    ) -> Result<MailboxUpdate, MailboxSetError> {
        let uid = self.known(id)?;
        let mut old = VisibleMailboxes::one(&txn.snapshot(), self.account, uid)
            .map_err(MailboxSetError::Whole)?
            .ok_or(SetError::NotFound)?;
        if let Some(unread) = self.unread.get(&uid) {
            old.counts.unread_threads = *unread;
        }
        let before = object(uid, &old, MailboxProperty::ALL);
        let (mut row, mut also, mut wrong) =
            (old.clone(), Map::new(), InvalidProperties::default());
        for (property, value) in Patch::wishes(patch, &before)? {
            // What the server says may be said again (RFC 8620 §5.3).
            if before.get(&property) != Some(&value) {
                self.prove_property(&old, &property)?;
                wrong.note(self.apply(&mut row, &property, &value))?;
            }
            if property == "name" && value.as_str().is_some_and(|name| name != row.name) {
                also.insert("name".into(), row.name.clone().into());
            }
            if property == MailboxProperty::ShareWith.name() {
                let shared = super::value(uid, &row, MailboxProperty::ShareWith);
                if value != shared {
                    also.insert(property, shared);
                }
            }
        }
        if old.role == Some(Role::Inbox) && row.role != old.role {
            wrong.add("role", "the inbox stays it: mail arrives there");
        }
        wrong.finish()?;
        let Some(guest) = self.account.guest else {
            return Ok(MailboxUpdate { uid, row, subscribed: None, also });
        };
        if row.parent != old.parent {
            self.prove_parent(txn, row.parent)?;
        }
        let subscribed = Some((guest, row.subscribed));
        let whole = txn
            .snapshot()
            .mailbox(self.account.id, uid)
            .map_err(MailboxSetError::Whole)?
            .ok_or(SetError::NotFound)?;
        let row = Mailbox { name: row.name, parent: row.parent, ..whole };
        Ok(MailboxUpdate { uid, row, subscribed, also })
    }

    /// The mailbox that an id or a creation id, of this call too, stands for.
    fn known(&self, id: &str) -> Result<MailboxUid, SetError> {
        self.call.created.resolve(id).and_then(|id| id.parse().ok()).ok_or(SetError::NotFound)
    }

    fn apply(&self, row: &mut Mailbox, property: &str, value: &Value) -> Result<(), SetError> {
        let bad = |error: MethodError| SetError::property(property, description(error));
        match MailboxProperty::from_name(property) {
            // Net-Unicode is in NFC (RFC 5198 §3).
            Some(MailboxProperty::Name) => {
                row.name = text("name", value).map_err(bad)?.nfc().collect()
            }
            Some(MailboxProperty::ParentId) if value.is_null() => row.parent = None,
            Some(MailboxProperty::ParentId) => {
                let id = text("parentId", value).map_err(bad)?;
                let real = self.call.created.resolve(id).and_then(|id| id.parse().ok());
                row.parent =
                    Some(real.ok_or_else(|| {
                        SetError::property("parentId", "there is no such mailbox")
                    })?);
            }
            Some(MailboxProperty::Role) if value.is_null() => row.role = None,
            Some(MailboxProperty::Role) => {
                let role = Role::from_name(text("role", value).map_err(bad)?);
                row.role =
                    Some(role.ok_or_else(|| SetError::property("role", "there is no such role"))?);
            }
            // Its default (RFC 8620 §5.3).
            Some(MailboxProperty::SortOrder) if value.is_null() => row.sort_order = 0,
            Some(MailboxProperty::SortOrder) => {
                let order = unsigned("sortOrder", value).map_err(bad)?;
                // RFC 8621 §2: in the range 0 <= sortOrder < 2^31.
                let order = u32::try_from(order).ok().filter(|order| *order < 1 << 31);
                row.sort_order = order
                    .ok_or_else(|| SetError::property("sortOrder", "less than 2^31 is wanted"))?;
            }
            Some(MailboxProperty::IsSubscribed) => {
                row.subscribed = flag("isSubscribed", value).map_err(bad)?
            }
            Some(MailboxProperty::Attributes) if self.call.uses(ADMIN) => {
                row.attributes = attributes(value)?
            }
            Some(MailboxProperty::ShareWith) if self.call.uses(PRINCIPALS) => {
                row.shares = self.shares(row, value)?
            }
            _ => return Err(SetError::property(property, "it cannot be set")),
        }
        Ok(())
    }

    /// Whether every mailbox that changed is one that the answer names.
    fn tells_all(&self, txn: &Txn<'_>, since: ModSeq) -> Result<bool, Error> {
        let all = txn.snapshot().mailboxes(txn.account())?;
        Ok(all.iter().all(|(uid, row)| row.updated <= since || self.named.contains(uid)))
    }
}

/// What hinders.
pub(super) enum MailboxSetError {
    /// One object.
    One(SetError),
    /// A mailbox is to go that has emails in it.
    Full(MailboxUid),
    /// The whole call.
    Whole(Error),
}

impl From<SetError> for MailboxSetError {
    fn from(error: SetError) -> Self {
        Self::One(error)
    }
}

fn full() -> SetError {
    SetError::of("mailboxHasEmail", "it has emails in it")
}

/// Moves what stays for what is under it, where all of that goes, behind what goes with its emails.
fn after_their_children(
    all: &[(MailboxUid, Mailbox)],
    left: &mut Vec<(MailboxOperation<'_>, SetError)>,
    later: &mut Vec<MailboxUid>,
) {
    let goes = |wish: &MailboxOperation<'_>, later: &[MailboxUid]| match wish {
        MailboxOperation::Destroy(id) => id.parse::<MailboxUid>().ok().filter(|uid| {
            let mut under = all.iter().filter(|(_, one)| one.parent == Some(*uid)).peekable();
            under.peek().is_some() && under.all(|(uid, _)| later.contains(uid))
        }),
        _ => None,
    };
    while let Some((at, uid)) =
        left.iter().enumerate().find_map(|(at, (wish, _))| Some((at, goes(wish, later)?)))
    {
        left.remove(at);
        later.push(uid);
    }
}

/// Attributes of a mailbox: texts by name; null stands for none.
fn attributes(value: &Value) -> Result<BTreeMap<String, String>, SetError> {
    let wanted =
        || SetError::property(MailboxProperty::Attributes.name(), "an object of texts is wanted");
    if value.is_null() {
        return Ok(BTreeMap::new());
    }
    let one = |(name, value): (&String, &Value)| Some((name.clone(), value.as_str()?.to_owned()));
    let found: BTreeMap<String, String> =
        value.as_object().and_then(|all| all.iter().map(one).collect()).ok_or_else(wanted)?;
    check_attributes(&found)
        .map_err(|what| SetError::property(MailboxProperty::Attributes.name(), what))?;
    Ok(found)
}

fn description(error: MethodError) -> String {
    match error {
        MethodError::InvalidArguments(what) => what,
        _ => String::new(),
    }
}

/// An error of the store about a mailbox; `knows` says of which others the caller may learn the id.
fn fault(error: Error, uid: MailboxUid, knows: impl Fn(MailboxUid) -> bool) -> MailboxSetError {
    let Error::Mailbox { fault, .. } = error else {
        return match SetFailure::from(error) {
            SetFailure::Object(error) => MailboxSetError::One(error),
            SetFailure::Call(error) => MailboxSetError::Whole(error),
        };
    };
    let property = |name| SetError::property(name, fault.to_string());
    MailboxSetError::One(match fault {
        MailboxFault::NameTaken(other) if knows(other) => {
            SetError::AlreadyExists(other.to_string())
        }
        MailboxFault::Name | MailboxFault::NameTaken(_) => property("name"),
        MailboxFault::RoleTaken(_) => property("role"),
        MailboxFault::NoParent | MailboxFault::UnderItself | MailboxFault::TooDeep => {
            property("parentId")
        }
        MailboxFault::Attribute(_) => property("attributes"),
        MailboxFault::Share(_) => property("shareWith"),
        MailboxFault::TooMany => SetError::OverQuota(fault.to_string()),
        MailboxFault::Inbox => SetError::Forbidden(fault.to_string()),
        MailboxFault::HasChildren => SetError::of("mailboxHasChild", "it has mailboxes under it"),
        MailboxFault::HasEmails => return MailboxSetError::Full(uid),
    })
}

/// What `onDestroyRemoveEmails` asks for: emails that are in no other mailbox are destroyed. A stop
/// in between leaves a mailbox that holds fewer. Gives what is no longer shared.
fn remove_with_emails(
    context: &Context,
    account: &Account,
    uids: Vec<MailboxUid>,
    work: &mut MailboxSetCall<'_>,
    stand: &mut SetStates,
) -> Vec<ShareChange> {
    let mut shared = Vec::new();
    for uid in uids {
        let gone = loop {
            let step = context.store.commit(account.id, |txn| {
                stand.before(newest_change(
                    txn.state(),
                    account.guest.is_some(),
                    DataType::Mailbox,
                ));
                // What is not to go loses no email either.
                let all = txn.snapshot().mailboxes(account.id)?;
                if let Some((_, above)) = all.iter().find(|(_, one)| one.parent == Some(uid)) {
                    return Err(Error::Mailbox {
                        name: above.name.clone(),
                        fault: MailboxFault::HasChildren,
                    });
                }
                let left = txn.empty_mailbox(uid, EMAILS_PER_COMMIT)?;
                if !left {
                    txn.destroy_mailbox(uid)?;
                }
                // Threads of these emails may count elsewhere otherwise now: that is for /changes
                // to say.
                stand.after(
                    newest_change(txn.state(), account.guest.is_some(), DataType::Mailbox),
                    false,
                );
                Ok((left, txn.take_share_changes()))
            });
            match step.and_then(|(left, ticket)| ticket.wait_blocking().map(|()| left)) {
                Ok((true, _)) => {}
                Ok((false, closed)) => {
                    shared.extend(closed);
                    break Ok(());
                }
                Err(error) => {
                    break Err(match fault(error, uid, |_| true) {
                        MailboxSetError::One(error) => error,
                        MailboxSetError::Full(_) => full(),
                        MailboxSetError::Whole(error) => SetError::ServerFail(error.to_string()),
                    });
                }
            }
        };
        match gone {
            Ok(()) => work.done.destroyed(&uid.to_string()),
            Err(error) => work.done.not_destroyed(&uid.to_string(), &error),
        }
    }
    shared
}
