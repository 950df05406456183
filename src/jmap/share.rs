//! `ShareNotification` (RFC 9670 §3): what users are told of mailboxes that were opened to them, and closed.
//!
//! One is made in the account of each whom a change concerns, after the change is durable: what a stop comes between is not
//! told. Of the same mailbox there is one: a later change takes the place of the one before, and both together that come to
//! nothing leave none.

use serde_json::{Map, Value, json};

use super::context::{Account, Args, Context, date};
use super::failure::TxnResult;
use super::mailbox::rights;
use super::standard::value::{text, utc_date};
use super::standard::{SetArguments, Tree, objects, sort};
use crate::model::{AccountId, ChangedBy, DataType, ObjectId, ShareNotification, UtcMillis};
use crate::store::{Error, ShareChange, Snapshot, Txn};
use crate::wire::jmap::json::members;
use crate::wire::jmap::{MethodError, SetError};

const PROPERTIES: [&str; 9] =
    ["id", "created", "changedBy", "objectType", "objectAccountId", "objectId", "oldRights", "newRights", "name"];

/// Tells those whom changes of mailboxes of an account concern, but who made them.
pub(super) fn tell(context: &Context, account: AccountId, changes: Vec<ShareChange>) {
    let by = changed_by(context);
    for change in changes {
        if context.caller.account == Some(change.with) {
            continue;
        }
        let told = ShareNotification {
            created: context.store.clock().now(),
            by: by.clone(),
            account,
            mailbox: change.mailbox,
            name: change.name,
            old: change.old,
            new: change.new,
        };
        let done = context.store.commit(change.with, |txn| txn.tell_share(&told));
        if let Err(error) = done.and_then(|(_, ticket)| ticket.wait_blocking()) {
            tracing::warn!(account = %change.with, %error, "what was shared with it was not told");
        }
    }
}

fn changed_by(context: &Context) -> ChangedBy {
    let own = context.caller.account.and_then(|id| context.directory.find_account(&id.to_string()).ok().flatten());
    match own {
        Some((id, row)) => ChangedBy {
            name: row.display_name.unwrap_or(row.name),
            email: Some(row.primary.to_string()),
            account: Some(id),
        },
        None => ChangedBy { name: context.caller.user.clone().unwrap_or_default(), email: None, account: None },
    }
}

fn object(id: ObjectId, told: &ShareNotification) -> Map<String, Value> {
    let maybe = |bits| {
        if bits == 0 { Value::Null } else { rights(bits).into() }
    };
    members(json!({
        "id": id.to_string(), "created": date(Some(told.created)),
        "changedBy": {
            "name": told.by.name, "email": told.by.email, "principalId": told.by.account.map(|id| id.to_string()),
        },
        "objectType": "Mailbox", "objectAccountId": told.account.to_string(), "objectId": told.mailbox.to_string(),
        "oldRights": maybe(told.old), "newRights": maybe(told.new), "name": told.name,
    }))
}

pub(super) fn get(context: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    objects::get(context, &context.open(arguments)?, arguments, &PROPERTIES, object)
}

pub(super) fn changed(context: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    objects::changes::<ShareNotification>(context, &context.open(arguments)?, arguments)
}

/// They can be dismissed, and nothing else (RFC 9670 §3.5).
pub(super) fn set(context: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    let account = context.open(arguments)?;
    let set = SetArguments::read(arguments)?;
    let no = || SetError::Forbidden("the service makes them, and they do not change".into());
    let (answer, ()) = set.commit(context, &account, DataType::ShareNotification, |txn, done| {
        set.create.iter().for_each(|(name, _)| done.not_created(name, &no()));
        for (id, _) in &set.update {
            let found = known(&txn.view(), account.id, id)?;
            done.not_updated(id, &found.map_or(SetError::NotFound, |_| no()));
        }
        for id in &set.destroy {
            done.destroy(id, destroy(txn, id))?;
        }
        Ok(())
    })?;
    Ok(answer)
}

fn known(view: &Snapshot<'_>, account: AccountId, id: &str) -> Result<Option<ShareNotification>, Error> {
    match id.parse::<ObjectId>() {
        Ok(id) => view.object(account, id),
        Err(_) => Ok(None),
    }
}

fn destroy(txn: &mut Txn<'_>, id: &str) -> TxnResult<()> {
    let known = id.parse().map_err(|_| SetError::NotFound)?;
    txn.destroy_object::<ShareNotification>(known)?;
    Ok(())
}

/// A condition (RFC 9670 §3.6.1).
enum ShareNotificationCondition {
    After(UtcMillis),
    Before(UtcMillis),
    Type(String),
    Account(String),
}

pub(super) fn query(context: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    let account = context.open(arguments)?;
    objects::query::<ShareNotification>(context, &account, arguments, |view| results(view, &account, arguments))
}

pub(super) fn query_changes(context: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    let account = context.open(arguments)?;
    objects::queried::<ShareNotification>(context, &account, arguments, |view| results(view, &account, arguments))
}

fn results(view: &Snapshot<'_>, account: &Account, arguments: &Args<'_>) -> Result<Vec<String>, MethodError> {
    let filter = Tree::read(arguments, |name, value| {
        Ok(match name {
            // Without a date they hold of all.
            "after" if value.is_null() => ShareNotificationCondition::After(UtcMillis(i64::MIN)),
            "before" if value.is_null() => ShareNotificationCondition::Before(UtcMillis(i64::MAX)),
            "after" => ShareNotificationCondition::After(utc_date(name, value)?),
            "before" => ShareNotificationCondition::Before(utc_date(name, value)?),
            "objectType" => ShareNotificationCondition::Type(text(name, value)?.to_owned()),
            "objectAccountId" => ShareNotificationCondition::Account(text(name, value)?.to_owned()),
            _ => {
                return Err(MethodError::UnsupportedFilter("no such condition of share notifications".into()));
            }
        })
    })?;
    let order = sort(arguments, |name| (name == "created").then_some(()))?;
    let holds = |told: &ShareNotification, is: &ShareNotificationCondition| match is {
        ShareNotificationCondition::After(at) => told.created >= *at,
        ShareNotificationCondition::Before(at) => told.created < *at,
        ShareNotificationCondition::Type(kind) => kind == "Mailbox",
        ShareNotificationCondition::Account(id) => *id == told.account.to_string(),
    };
    let all = view.objects::<ShareNotification>(account.id)?;
    let mut found: Vec<&(ObjectId, ShareNotification)> =
        all.iter().filter(|(_, told)| filter.holds(&|is| holds(told, is))).collect();
    found.sort_by(|(one_id, one), (other_id, other)| {
        let by = order.iter().map(|order| order.compare(|(), _| one.created.cmp(&other.created)));
        by.into_iter().find(|order| order.is_ne()).unwrap_or_else(|| one_id.cmp(other_id))
    });
    Ok(found.iter().map(|(id, _)| id.to_string()).collect())
}
