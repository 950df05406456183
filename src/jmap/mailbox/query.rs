//! Mailbox/query and Mailbox/queryChanges (RFC 8621 §2.3, §2.4).

use std::cmp::Ordering;
use std::collections::BTreeSet;

use serde_json::Value;

use super::VisibleMailboxes;
use crate::jmap::context::{Account, Args, Context};
use crate::jmap::guest::newest;
use crate::jmap::standard::value::{flag, text};
use crate::jmap::standard::{self, PropertyComparator, Tree, section, since, sort};
use crate::model::{DataType, Mailbox, MailboxUid, ModSeq, Role};
use crate::query::Collation;
use crate::store::{ClientState, Snapshot};
use crate::wire::jmap::MethodError;

/// A condition (RFC 8621 §2.3).
enum MailboxCondition {
    Parent(Option<String>),
    Named(String),
    Role(Option<String>),
    AnyRole(bool),
    Subscribed(bool),
}

#[derive(Clone, Copy)]
enum MailboxSortProperty {
    SortOrder,
    Name,
    Parent,
}

pub(in crate::jmap) fn query(context: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    let account = context.open_shared(arguments)?;
    let view = context.store.view();
    let state = newest(context, &view, &account, DataType::Mailbox)?;
    let results = results(&VisibleMailboxes::of(&view, &account)?, arguments)?;
    section(arguments, account.id, &state, &results)
}

/// A mailbox is where it was, among those that stayed, unless it changed or one above it did.
pub(in crate::jmap) fn query_changes(context: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    let account = context.open_shared(arguments)?;
    let from = since(&context.store, &arguments.text("sinceQueryState")?).ok_or(MethodError::CannotCalculateChanges)?;
    let view = context.store.view();
    let state = newest(context, &view, &account, DataType::Mailbox)?;
    let seen = VisibleMailboxes::of(&view, &account)?;
    if !seen.is_same_since(&view, &account, from.mark)? {
        return Err(MethodError::CannotCalculateChanges);
    }
    let results = results(&seen, arguments)?;
    let moved = moved(&view, &account, &seen, from.mark)?;
    standard::query_changes(arguments, account.id, &state, &results, &moved)
}

fn moved(
    view: &Snapshot<'_>,
    account: &Account,
    seen: &VisibleMailboxes,
    since: ModSeq,
) -> Result<BTreeSet<String>, MethodError> {
    let found = view.mailbox_changes(account.id, ClientState::at(since), usize::MAX)?;
    let mut gone = found.ok_or(MethodError::CannotCalculateChanges)?.changes.destroyed;
    // Of what a guest saw nothing is gone: the same is open as then.
    gone.retain(|_| account.guest.is_none());
    let mut moved: BTreeSet<String> = gone.iter().map(ToString::to_string).collect();
    let changed = |mailbox: &Mailbox| mailbox.updated_not_counts > since;
    let all = seen.0.iter().filter(|(_, one)| changed(one) || seen.above(one).any(|(_, above)| changed(above)));
    moved.extend(all.map(|(uid, _)| uid.to_string()));
    Ok(moved)
}

/// All results, in order.
fn results(seen: &VisibleMailboxes, arguments: &Args<'_>) -> Result<Vec<String>, MethodError> {
    let filter = Tree::read(arguments, condition)?;
    let order = sort(arguments, |name| match name {
        "sortOrder" => Some(MailboxSortProperty::SortOrder),
        "name" => Some(MailboxSortProperty::Name),
        "parentId" => Some(MailboxSortProperty::Parent),
        _ => None,
    })?;
    let (as_tree, with_above) = (arguments.flag("sortAsTree")?, arguments.flag("filterAsTree")?);
    let matches = |mailbox: &Mailbox| filter.holds(&|is| holds(is, mailbox));
    let mut found: Vec<(MailboxUid, &Mailbox)> = seen.0.iter().map(|(uid, mailbox)| (*uid, mailbox)).collect();
    found.retain(|(_, mailbox)| {
        matches(mailbox) && (!with_above || seen.above(mailbox).all(|(_, above)| matches(above)))
    });
    found.sort_by_cached_key(|(uid, mailbox)| {
        let own = SiblingPosition { uid: *uid, mailbox, order: &order };
        // The way from the top: what is above comes first, and a whole branch before the next.
        let mut way = vec![own];
        if as_tree {
            way.extend(seen.above(mailbox).map(|(uid, mailbox)| SiblingPosition { uid, mailbox, order: &order }));
            way.reverse();
        }
        way
    });
    Ok(found.iter().map(|(uid, _)| uid.to_string()).collect())
}

/// Where a mailbox stands among its like.
struct SiblingPosition<'p> {
    uid: MailboxUid,
    mailbox: &'p Mailbox,
    order: &'p [PropertyComparator<MailboxSortProperty>],
}

impl Ord for SiblingPosition<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        let (one, two) = (self.mailbox, other.mailbox);
        let by = |order: &PropertyComparator<MailboxSortProperty>| {
            order.compare(|property, collation: Collation| match property {
                MailboxSortProperty::SortOrder => one.sort_order.cmp(&two.sort_order),
                MailboxSortProperty::Name => collation.key(&one.name).cmp(&collation.key(&two.name)),
                MailboxSortProperty::Parent => one.parent.cmp(&two.parent),
            })
        };
        let found = self.order.iter().map(by).find(|order| order.is_ne());
        found.unwrap_or_else(|| self.uid.cmp(&other.uid))
    }
}

impl PartialOrd for SiblingPosition<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for SiblingPosition<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for SiblingPosition<'_> {}

fn condition(name: &str, value: &Value) -> Result<MailboxCondition, MethodError> {
    let maybe = || if value.is_null() { Ok(None) } else { text(name, value).map(|text| Some(text.to_owned())) };
    Ok(match name {
        "parentId" => MailboxCondition::Parent(maybe()?),
        "name" => MailboxCondition::Named(Collation::UnicodeCasemap.key(text(name, value)?).into()),
        "role" => MailboxCondition::Role(maybe()?),
        "hasAnyRole" => MailboxCondition::AnyRole(flag(name, value)?),
        "isSubscribed" => MailboxCondition::Subscribed(flag(name, value)?),
        _ => return Err(MethodError::UnsupportedFilter("no such condition of mailboxes".into())),
    })
}

fn holds(is: &MailboxCondition, mailbox: &Mailbox) -> bool {
    match is {
        MailboxCondition::Parent(id) => *id == mailbox.parent.map(|uid| uid.to_string()),
        MailboxCondition::Named(part) => Collation::UnicodeCasemap.key(&mailbox.name).contains(part.as_str()),
        MailboxCondition::Role(role) => role.as_deref() == mailbox.role.map(Role::name),
        MailboxCondition::AnyRole(any) => mailbox.role.is_some() == *any,
        MailboxCondition::Subscribed(yes) => mailbox.subscribed == *yes,
    }
}
