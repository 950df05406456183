//! Mailbox/query and Mailbox/queryChanges (RFC 8621 §2.3, §2.4).

use std::cmp::Ordering;
use std::collections::BTreeSet;

use serde::Deserialize;

use super::VisibleMailboxes;
use super::get::MailboxReader;
use crate::jmap::standard::{ObjectQuery, PropertyComparator, QueryObjects, client_state};
use crate::model::{Mailbox, MailboxUid, ModSeq, Role};
use crate::query::Collation;
use crate::store::ClientState;
use crate::wire::jmap::MethodError;

/// A condition (RFC 8621 §2.3).
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::jmap) enum MailboxCondition {
    ParentId(Option<String>),
    Name(String),
    Role(Option<String>),
    HasAnyRole(bool),
    IsSubscribed(bool),
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::jmap) enum MailboxSortProperty {
    SortOrder,
    Name,
    ParentId,
}

/// The arguments beside the standard's. RFC 8621 §2.4 does not name them of Mailbox/queryChanges;
/// without them it could not tell of what a query with them gave.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::jmap) struct MailboxTreeArgs {
    #[serde(default)]
    sort_as_tree: bool,
    #[serde(default)]
    filter_as_tree: bool,
}

impl QueryObjects for Mailbox {
    type Condition = MailboxCondition;
    type Sort = MailboxSortProperty;
    type ExtraArgs = MailboxTreeArgs;

    fn results(
        reader: &MailboxReader<'_>,
        query: &ObjectQuery<Self>,
    ) -> Result<Vec<String>, MethodError> {
        Ok(results(reader.seen()?, query))
    }

    /// A mailbox is where it was, among those that stayed, unless it changed or one above it did.
    fn changed_ids(
        reader: &MailboxReader<'_>,
        since: &str,
    ) -> Result<Option<BTreeSet<String>>, MethodError> {
        let since = client_state(&reader.context.store, since)?.mark;
        if !reader.seen()?.is_same_since(&reader.snapshot, reader.account, since)? {
            return Ok(None);
        }
        changed_ids(reader, since)
    }
}

fn changed_ids(
    reader: &MailboxReader<'_>,
    since: ModSeq,
) -> Result<Option<BTreeSet<String>>, MethodError> {
    let (account, seen) = (reader.account, reader.seen()?);
    let found = reader.snapshot.mailbox_changes(account.id, ClientState::at(since), usize::MAX)?;
    let Some(found) = found else { return Ok(None) };
    let mut gone = found.changes.destroyed;
    // Of what a guest saw nothing is gone: the same is open as then.
    gone.retain(|_| account.guest.is_none());
    let mut moved: BTreeSet<String> = gone.iter().map(ToString::to_string).collect();
    let changed = |mailbox: &Mailbox| mailbox.updated_not_counts > since;
    let all = seen
        .0
        .iter()
        .filter(|(_, one)| changed(one) || seen.above(one).any(|(_, above)| changed(above)));
    moved.extend(all.map(|(uid, _)| uid.to_string()));
    Ok(Some(moved))
}

/// All results, in order.
fn results(seen: &VisibleMailboxes, query: &ObjectQuery<Mailbox>) -> Vec<String> {
    let MailboxTreeArgs { sort_as_tree: as_tree, filter_as_tree: with_above } = query.extra_args;
    let (filter, order) = (&query.filter, &query.sort);
    let matches = |mailbox: &Mailbox| filter.holds(&|is| is.holds(mailbox));
    let mut found: Vec<(MailboxUid, &Mailbox)> =
        seen.0.iter().map(|(uid, mailbox)| (*uid, mailbox)).collect();
    found.retain(|(_, mailbox)| {
        matches(mailbox) && (!with_above || seen.above(mailbox).all(|(_, above)| matches(above)))
    });
    found.sort_by_cached_key(|(uid, mailbox)| {
        let own = SiblingPosition { uid: *uid, mailbox, order };
        // The way from the top: what is above comes first, and a whole branch before the next.
        let mut way = vec![own];
        if as_tree {
            way.extend(seen.above(mailbox).map(|(uid, mailbox)| SiblingPosition {
                uid,
                mailbox,
                order,
            }));
            way.reverse();
        }
        way
    });
    found.iter().map(|(uid, _)| uid.to_string()).collect()
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
                MailboxSortProperty::Name => {
                    collation.key(&one.name).cmp(&collation.key(&two.name))
                }
                MailboxSortProperty::ParentId => one.parent.cmp(&two.parent),
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

impl MailboxCondition {
    fn holds(&self, mailbox: &Mailbox) -> bool {
        let key = |text: &str| String::from(Collation::UnicodeCasemap.key(text));
        match self {
            Self::ParentId(id) => *id == mailbox.parent.map(|uid| uid.to_string()),
            Self::Name(part) => key(&mailbox.name).contains(&key(part)),
            Self::Role(role) => role.as_deref() == mailbox.role.map(Role::name),
            Self::HasAnyRole(any) => mailbox.role.is_some() == *any,
            Self::IsSubscribed(yes) => mailbox.subscribed == *yes,
        }
    }
}
