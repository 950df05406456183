//! Mailbox/get and Mailbox/changes (RFC 8621 §2.1, §2.2).

use std::cell::OnceCell;

use super::{MailboxProperty, VisibleMailboxes, object};
use crate::jmap::context::{Account, Context};
use crate::jmap::guest::{self, newest_visible_state};
use crate::jmap::method::Call;
use crate::jmap::standard::{ChangedObjects, GetObjects, ObjectChanges, ObjectType, parse_state};
use crate::model::{DataType, Mailbox, MailboxUid};
use crate::store::Snapshot;
use crate::wire::jmap::standard::UpdatedProperties;
use crate::wire::jmap::{JsonObject, MethodError, Property as _};

pub(in crate::jmap) struct MailboxReader<'a> {
    pub(super) context: &'a Context,
    pub(super) account: &'a Account,
    pub(super) snapshot: Snapshot<'a>,
    /// Read on first use: Mailbox/changes of the owner does not need them.
    visible: OnceCell<VisibleMailboxes>,
}

impl MailboxReader<'_> {
    pub(super) fn visible(&self) -> Result<&VisibleMailboxes, MethodError> {
        if let Some(visible) = self.visible.get() {
            return Ok(visible);
        }
        let visible = VisibleMailboxes::read(&self.snapshot, self.account)?;
        Ok(self.visible.get_or_init(|| visible))
    }
}

impl ObjectType for Mailbox {
    type Id = MailboxUid;
    type Property = MailboxProperty;
    type Reader<'a> = MailboxReader<'a>;

    const GUESTS: bool = true;

    fn reader<'a>(call: &Call<'a>, account: &'a Account) -> Result<MailboxReader<'a>, MethodError> {
        let snapshot = call.context.store.snapshot();
        Ok(MailboxReader { context: call.context, account, snapshot, visible: OnceCell::new() })
    }

    fn state(reader: &MailboxReader<'_>) -> Result<String, MethodError> {
        newest_visible_state(reader.context, &reader.snapshot, reader.account, DataType::Mailbox)
    }
}

impl GetObjects for Mailbox {
    fn properties(call: &Call<'_>) -> Vec<MailboxProperty> {
        MailboxProperty::available(call)
    }

    /// Counts the unread threads that a guest sees, if the answer contains them.
    fn prepare(
        reader: &mut MailboxReader<'_>,
        ids: Option<&[String]>,
        properties: &[MailboxProperty],
    ) -> Result<(), MethodError> {
        let visible = reader.visible()?;
        let is_any = ids.is_none_or(|ids| ids.iter().any(|id| visible.get(id).is_some()));
        if !is_any || !properties.contains(&MailboxProperty::UnreadThreads) {
            return Ok(());
        }
        if let Some(visible) = reader.visible.get_mut() {
            let unread = visible.count_unread_threads(
                &reader.snapshot,
                reader.account,
                &reader.context.budget,
            )?;
            reader.context.request_listings(reader.account.id, |now| unread.listing_requests(now));
        }
        Ok(())
    }

    fn ids(reader: &MailboxReader<'_>) -> Result<Vec<MailboxUid>, MethodError> {
        Ok(reader.visible()?.0.keys().copied().collect())
    }

    fn object(
        reader: &MailboxReader<'_>,
        id: &MailboxUid,
        properties: &[MailboxProperty],
    ) -> Result<Option<JsonObject>, MethodError> {
        Ok(reader.visible()?.0.get(id).map(|mailbox| object(*id, mailbox, properties)))
    }
}

impl ObjectChanges for Mailbox {
    fn changes(
        reader: &MailboxReader<'_>,
        since: &str,
        max_changes: usize,
    ) -> Result<Option<ChangedObjects<MailboxUid>>, MethodError> {
        let MailboxReader { context, account, snapshot, .. } = reader;
        let since = parse_state(&context.store, since)?;
        let (changes, only_counts) = match account.guest {
            None => match snapshot.mailbox_changes(account.id, since, max_changes)? {
                Some(changes) => (changes.changes, changes.only_counts),
                None => return Ok(None),
            },
            Some(_) => {
                if !reader.visible()?.is_tree_unchanged_since(snapshot, account, since.base)? {
                    return Ok(None);
                }
                let Some(changes) = guest::mailbox_changes(snapshot, account, since, max_changes)?
                else {
                    return Ok(None);
                };
                // The tree is unchanged, so only counts may differ.
                let only_counts = !changes.updated.is_empty();
                (changes, only_counts)
            }
        };
        let counts = MailboxProperty::COUNTS.iter().map(|property| property.name().to_owned());
        let updated_properties = if only_counts {
            UpdatedProperties::Only(counts.collect())
        } else {
            UpdatedProperties::Any(())
        };
        Ok(Some(ChangedObjects {
            updated_properties,
            ..ChangedObjects::from_store(&context.store, changes)
        }))
    }
}
