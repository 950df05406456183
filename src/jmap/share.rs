//! `ShareNotification` (RFC 9670 §3): tells users that a mailbox was shared with them, is no longer
//! shared, or is shared with other rights.
//!
//! - A notification is created in the account of each user whose rights changed, after the change
//!   is durable. The account that the caller logged in to gets none. If the service stops in
//!   between, the notification is lost.
//! - A user has at most one notification for each mailbox: a later change is merged into it. Beyond
//!   `limits::MAX_SHARE_NOTIFICATIONS` in all, the oldest are deleted.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::{Value, json};

use super::context::{Account, Context, date_or_null};
use super::failure::{SetFailure, TxnResult};
use super::method::Call;
use super::rights::rights_object;
use super::standard::value::UtcDate;
use super::standard::{
    ChangedObjects, GetObjects, NoArguments, ObjectChanges, ObjectQuery, ObjectType, QueryObjects,
    SetObjects, StoredReader, object_of,
};
use crate::model::{AccountId, ChangedBy, DataType, ObjectId, ShareNotification};
use crate::store::{ShareChange, Txn};
use crate::wire::jmap::{JsonObject, MethodError, SetError, properties};

properties! {
    pub(super) enum ShareNotificationProperty {
        Id = "id",
        Created = "created",
        ChangedBy = "changedBy",
        ObjectType = "objectType",
        ObjectAccountId = "objectAccountId",
        ObjectId = "objectId",
        OldRights = "oldRights",
        NewRights = "newRights",
        Name = "name",
    }
}

/// Creates the notifications for durable changes of shares in an account, except for the account
/// that the caller logged in to. Logs a notification that cannot be stored. Waits for the disk.
pub(super) fn notify(context: &Context, account: AccountId, changes: Vec<ShareChange>) {
    let by = changed_by(context);
    for change in changes {
        if context.caller.account == Some(change.with) {
            continue;
        }
        let notification = ShareNotification {
            created: context.store.clock().now(),
            by: by.clone(),
            account,
            mailbox: change.mailbox,
            name: change.name,
            old: change.old,
            new: change.new,
        };
        let committed =
            context.store.commit(change.with, |txn| txn.add_share_notification(&notification));
        if let Err(error) = committed.and_then(|(_, ticket)| ticket.wait_blocking()) {
            tracing::warn!(account = %change.with, %error, "a share notification was not stored");
        }
    }
}

fn changed_by(context: &Context) -> ChangedBy {
    let own = context
        .caller
        .account
        .and_then(|id| context.directory.find_account(&id.to_string()).ok().flatten());
    match own {
        Some((id, row)) => ChangedBy {
            name: row.display_name.unwrap_or(row.name),
            email: Some(row.primary.to_string()),
            account: Some(id),
        },
        None => ChangedBy {
            name: context.caller.user.clone().unwrap_or_default(),
            email: None,
            account: None,
        },
    }
}

fn object(
    id: ObjectId,
    notification: &ShareNotification,
    properties: &[ShareNotificationProperty],
) -> JsonObject {
    let some_rights = |bits| if bits == 0 { Value::Null } else { rights_object(bits).into() };
    object_of(properties, |property| match property {
        ShareNotificationProperty::Id => id.to_string().into(),
        ShareNotificationProperty::Created => date_or_null(Some(notification.created)),
        ShareNotificationProperty::ChangedBy => {
            let principal = notification.by.account.map(|id| id.to_string());
            json!({
                "name": notification.by.name,
                "email": notification.by.email,
                "principalId": principal,
            })
        }
        ShareNotificationProperty::ObjectType => "Mailbox".into(),
        ShareNotificationProperty::ObjectAccountId => notification.account.to_string().into(),
        ShareNotificationProperty::ObjectId => notification.mailbox.to_string().into(),
        ShareNotificationProperty::OldRights => some_rights(notification.old),
        ShareNotificationProperty::NewRights => some_rights(notification.new),
        ShareNotificationProperty::Name => notification.name.clone().into(),
    })
}

impl ObjectType for ShareNotification {
    type Id = ObjectId;
    type Property = ShareNotificationProperty;
    type Reader<'a> = StoredReader<'a>;

    fn reader<'a>(call: &Call<'a>, account: &'a Account) -> Result<StoredReader<'a>, MethodError> {
        Ok(StoredReader::new(call, account))
    }

    fn state(reader: &StoredReader<'_>) -> Result<String, MethodError> {
        reader.state(DataType::ShareNotification)
    }
}

impl GetObjects for ShareNotification {
    fn properties(_: &Call<'_>) -> Vec<ShareNotificationProperty> {
        ShareNotificationProperty::ALL.to_vec()
    }

    fn ids(reader: &StoredReader<'_>) -> Result<Vec<ObjectId>, MethodError> {
        reader.ids::<ShareNotification>()
    }

    fn object(
        reader: &StoredReader<'_>,
        id: &ObjectId,
        properties: &[ShareNotificationProperty],
    ) -> Result<Option<JsonObject>, MethodError> {
        let found = reader.find::<ShareNotification>(*id)?;
        Ok(found.map(|found| object(*id, &found, properties)))
    }
}

impl ObjectChanges for ShareNotification {
    fn changes(
        reader: &StoredReader<'_>,
        since: &str,
        max_changes: usize,
    ) -> Result<Option<ChangedObjects<ObjectId>>, MethodError> {
        reader.changes::<ShareNotification>(since, max_changes)
    }
}

/// Notifications can only be destroyed (RFC 9670 §3.5).
impl SetObjects for ShareNotification {
    const DATA: DataType = DataType::ShareNotification;
    type Prepared = ();

    fn prepare(_: &Call<'_>, _: &Account) -> Result<(), MethodError> {
        Ok(())
    }

    fn create(_: &mut Txn<'_>, (): &(), _: &JsonObject) -> TxnResult<JsonObject> {
        Err(unchangeable().into())
    }

    fn update(txn: &mut Txn<'_>, (): &(), id: ObjectId, _: &Value) -> TxnResult<JsonObject> {
        let found = txn
            .snapshot()
            .object::<ShareNotification>(txn.account(), id)
            .map_err(SetFailure::Call)?;
        Err(found.map_or(SetError::NotFound, |_| unchangeable()).into())
    }

    fn destroy(txn: &mut Txn<'_>, (): &(), id: ObjectId) -> TxnResult<()> {
        txn.destroy_object::<ShareNotification>(id)?;
        Ok(())
    }
}

fn unchangeable() -> SetError {
    SetError::Forbidden("share notifications can only be destroyed".into())
}

/// A condition of ShareNotification/query (RFC 9670 §3.6.1). A date that is null matches all
/// notifications.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum ShareNotificationCondition {
    After(Option<UtcDate>),
    Before(Option<UtcDate>),
    ObjectType(String),
    ObjectAccountId(String),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum ShareNotificationSort {
    Created,
}

impl ShareNotificationCondition {
    fn matches(&self, notification: &ShareNotification) -> bool {
        match self {
            Self::After(at) => at.is_none_or(|UtcDate(at)| notification.created >= at),
            Self::Before(at) => at.is_none_or(|UtcDate(at)| notification.created < at),
            Self::ObjectType(kind) => kind == "Mailbox",
            Self::ObjectAccountId(id) => *id == notification.account.to_string(),
        }
    }
}

impl QueryObjects for ShareNotification {
    type Condition = ShareNotificationCondition;
    type Sort = ShareNotificationSort;
    type ExtraArgs = NoArguments;

    fn results(
        reader: &StoredReader<'_>,
        query: &ObjectQuery<Self>,
    ) -> Result<Vec<String>, MethodError> {
        let all = reader.all::<ShareNotification>()?;
        let mut found: Vec<&(ObjectId, ShareNotification)> = all
            .iter()
            .filter(|(_, notification)| {
                query.filter.holds(&|condition| condition.matches(notification))
            })
            .collect();
        found.sort_by(|(one_id, one), (other_id, other)| {
            let order =
                query.compare(|ShareNotificationSort::Created, _| one.created.cmp(&other.created));
            order.then_with(|| one_id.cmp(other_id))
        });
        Ok(found.iter().map(|(id, _)| id.to_string()).collect())
    }

    fn changed_ids(
        reader: &StoredReader<'_>,
        since: &str,
    ) -> Result<Option<BTreeSet<String>>, MethodError> {
        reader.changed_ids::<ShareNotification>(since)
    }
}
