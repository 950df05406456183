//! Mailbox/query and Mailbox/queryChanges (RFC 8621 §2.3, §2.4).

use std::cmp::Ordering;
use std::collections::BTreeSet;

use serde::Deserialize;

use super::VisibleMailboxes;
use super::get::MailboxReader;
use crate::jmap::standard::{ObjectQuery, PropertyComparator, QueryObjects, parse_state};
use crate::model::{Mailbox, MailboxUid, ModSeq, Role};
use crate::query::Collation;
use crate::store::ClientState;
use crate::wire::jmap::MethodError;

/// A condition of Mailbox/query (RFC 8621 §2.3).
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

/// The further arguments of Mailbox/query. RFC 8621 §2.4 does not list them for
/// Mailbox/queryChanges, but they are needed there, too.
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
        Ok(results(reader.visible()?, query))
    }

    /// Returns destroyed mailboxes, and those of which anything but the counts changed, with all
    /// their descendants. All other mailboxes match or do not match as before, and keep their
    /// order. Returns `None` if this is not known. For a guest it is known only if nothing but
    /// counts changed.
    fn changed_ids(
        reader: &MailboxReader<'_>,
        since: &str,
    ) -> Result<Option<BTreeSet<String>>, MethodError> {
        let since = parse_state(&reader.context.store, since)?.mark;
        if !reader.visible()?.is_tree_unchanged_since(&reader.snapshot, reader.account, since)? {
            return Ok(None);
        }
        affected_ids(reader, since)
    }
}

/// Does what `changed_ids` says, if the tree of a guest is unchanged.
fn affected_ids(
    reader: &MailboxReader<'_>,
    since: ModSeq,
) -> Result<Option<BTreeSet<String>>, MethodError> {
    let (account, visible) = (reader.account, reader.visible()?);
    let changes =
        reader.snapshot.mailbox_changes(account.id, ClientState::at(since), usize::MAX)?;
    let Some(changes) = changes else { return Ok(None) };
    let mut destroyed = changes.changes.destroyed;
    // No share changed since, so a guest saw none of the destroyed mailboxes.
    destroyed.retain(|_| account.guest.is_none());
    let mut ids: BTreeSet<String> = destroyed.iter().map(ToString::to_string).collect();
    let changed = |mailbox: &Mailbox| mailbox.updated_not_counts > since;
    let affected = visible.0.iter().filter(|(_, mailbox)| {
        changed(mailbox) || visible.ancestors(mailbox).any(|(_, ancestor)| changed(ancestor))
    });
    ids.extend(affected.map(|(uid, _)| uid.to_string()));
    Ok(Some(ids))
}

/// Returns the ids of the mailboxes that match, sorted as the query asks.
fn results(visible: &VisibleMailboxes, query: &ObjectQuery<Mailbox>) -> Vec<String> {
    let MailboxTreeArgs { sort_as_tree, filter_as_tree } = query.extra_args;
    let (filter, order) = (&query.filter, &query.sort);
    let matches = |mailbox: &Mailbox| filter.holds(&|condition| condition.holds(mailbox));
    let mut found: Vec<(MailboxUid, &Mailbox)> =
        visible.0.iter().map(|(uid, mailbox)| (*uid, mailbox)).collect();
    found.retain(|(_, mailbox)| {
        matches(mailbox)
            && (!filter_as_tree
                || visible.ancestors(mailbox).all(|(_, ancestor)| matches(ancestor)))
    });
    found.sort_by_cached_key(|(uid, mailbox)| {
        let own = SiblingPosition { uid: *uid, mailbox, order };
        // With `sortAsTree` the key is the path from the top.
        let mut path = vec![own];
        if sort_as_tree {
            path.extend(visible.ancestors(mailbox).map(|(uid, mailbox)| SiblingPosition {
                uid,
                mailbox,
                order,
            }));
            path.reverse();
        }
        path
    });
    found.iter().map(|(uid, _)| uid.to_string()).collect()
}

/// Orders a mailbox among its siblings, or without `sortAsTree` among all mailboxes: by the
/// comparators of the query, then by its number.
struct SiblingPosition<'p> {
    uid: MailboxUid,
    mailbox: &'p Mailbox,
    order: &'p [PropertyComparator<MailboxSortProperty>],
}

impl Ord for SiblingPosition<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        let (one, two) = (self.mailbox, other.mailbox);
        let compare = |comparator: &PropertyComparator<MailboxSortProperty>| {
            comparator.compare(|property, collation: Collation| match property {
                MailboxSortProperty::SortOrder => one.sort_order.cmp(&two.sort_order),
                MailboxSortProperty::Name => {
                    collation.key(&one.name).cmp(&collation.key(&two.name))
                }
                MailboxSortProperty::ParentId => one.parent.cmp(&two.parent),
            })
        };
        let first_difference = self.order.iter().map(compare).find(|order| order.is_ne());
        first_difference.unwrap_or_else(|| self.uid.cmp(&other.uid))
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
            Self::HasAnyRole(has_role) => mailbox.role.is_some() == *has_role,
            Self::IsSubscribed(is_subscribed) => mailbox.subscribed == *is_subscribed,
        }
    }
}
