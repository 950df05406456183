//! Mailbox/get and Mailbox/changes (RFC 8621 §2.1, §2.2).

use std::cell::OnceCell;

use super::{MailboxProperty, VisibleMailboxes, object};
use crate::jmap::context::{Account, Context};
use crate::jmap::guest::{self, newest_state};
use crate::jmap::method::Call;
use crate::jmap::standard::{ChangedObjects, GetObjects, ObjectChanges, ObjectType, client_state};
use crate::model::{DataType, Mailbox, MailboxUid};
use crate::store::Snapshot;
use crate::wire::jmap::standard::UpdatedProperties;
use crate::wire::jmap::{JsonObject, MethodError, Property as _};

/// The mailboxes of an account at one moment.
pub(in crate::jmap) struct MailboxReader<'a> {
    pub(super) context: &'a Context,
    pub(super) account: &'a Account,
    pub(super) snapshot: Snapshot<'a>,
    /// Read when they are first asked for: to tell its owner what changed, they are not.
    seen: OnceCell<VisibleMailboxes>,
}

impl MailboxReader<'_> {
    pub(super) fn seen(&self) -> Result<&VisibleMailboxes, MethodError> {
        if let Some(seen) = self.seen.get() {
            return Ok(seen);
        }
        let read = VisibleMailboxes::of(&self.snapshot, self.account)?;
        Ok(self.seen.get_or_init(|| read))
    }
}

impl ObjectType for Mailbox {
    type Id = MailboxUid;
    type Property = MailboxProperty;
    type Reader<'a> = MailboxReader<'a>;

    const GUESTS: bool = true;

    fn reader<'a>(call: &Call<'a>, account: &'a Account) -> Result<MailboxReader<'a>, MethodError> {
        let snapshot = call.context.store.snapshot();
        Ok(MailboxReader { context: call.context, account, snapshot, seen: OnceCell::new() })
    }

    fn state(reader: &MailboxReader<'_>) -> Result<String, MethodError> {
        newest_state(reader.context, &reader.snapshot, reader.account, DataType::Mailbox)
    }
}

impl GetObjects for Mailbox {
    fn properties(call: &Call<'_>) -> Vec<MailboxProperty> {
        MailboxProperty::known(call)
    }

    /// Counts the unread threads in a guest's sight, where the answer tells them.
    fn prepare(
        reader: &mut MailboxReader<'_>,
        ids: Option<&[String]>,
        properties: &[MailboxProperty],
    ) -> Result<(), MethodError> {
        let seen = reader.seen()?;
        let is_any = ids.is_none_or(|ids| ids.iter().any(|id| seen.get(id).is_some()));
        if !is_any || !properties.contains(&MailboxProperty::UnreadThreads) {
            return Ok(());
        }
        if let Some(seen) = reader.seen.get_mut() {
            let unread =
                seen.count_unread(&reader.snapshot, reader.account, &reader.context.budget)?;
            reader.context.request_listings(reader.account.id, |now| unread.listing_requests(now));
        }
        Ok(())
    }

    fn ids(reader: &MailboxReader<'_>) -> Result<Vec<MailboxUid>, MethodError> {
        Ok(reader.seen()?.0.keys().copied().collect())
    }

    fn object(
        reader: &MailboxReader<'_>,
        id: &MailboxUid,
        properties: &[MailboxProperty],
    ) -> Result<Option<JsonObject>, MethodError> {
        Ok(reader.seen()?.0.get(id).map(|mailbox| object(*id, mailbox, properties)))
    }
}

impl ObjectChanges for Mailbox {
    fn changes(
        reader: &MailboxReader<'_>,
        since: &str,
        most: usize,
    ) -> Result<Option<ChangedObjects<MailboxUid>>, MethodError> {
        let MailboxReader { context, account, snapshot, .. } = reader;
        let since = client_state(&context.store, since)?;
        let (found, only_counts) = match account.guest {
            None => match snapshot.mailbox_changes(account.id, since, most)? {
                Some(found) => (found.changes, found.only_counts),
                None => return Ok(None),
            },
            Some(_) => {
                if !reader.seen()?.is_same_since(snapshot, account, since.base)? {
                    return Ok(None);
                }
                let Some(found) = guest::mailbox_changes(snapshot, account, since, most)? else {
                    return Ok(None);
                };
                let is_any = !found.updated.is_empty();
                (found, is_any)
            }
        };
        let counts = MailboxProperty::COUNTS.iter().map(|property| property.name().to_owned());
        let updated_properties = if only_counts {
            UpdatedProperties::Only(counts.collect())
        } else {
            UpdatedProperties::Any(())
        };
        Ok(Some(ChangedObjects { updated_properties, ..ChangedObjects::of(&context.store, found) }))
    }
}
