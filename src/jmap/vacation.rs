//! VacationResponse/get and /set, exactly as RFC 8621 §8 has them; and under the vendor capability Vacation/get and /set, the
//! same object with all that an owner may say of his absence beyond that (`properties`).

mod properties;

use serde_json::{Map, Value, json};

use super::context::{Args, Context, fail};
use crate::model::{DataType, ModSeq, VacationResponse};
use crate::wire::jmap::{MethodError, SetError};
use properties::{ALL, STANDARD};

const ID: &str = "singleton";

fn state(context: &Context, modseq: ModSeq) -> String {
    format!("{:x}-{:x}", context.store.epoch(), modseq.0)
}

/// VacationResponse/get.
pub(super) fn get(context: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    get_of(context, arguments, &STANDARD)
}

/// VacationResponse/set.
pub(super) fn set(context: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    set_of(context, arguments, &STANDARD)
}

/// Vacation/get.
pub(super) fn get_whole(context: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    get_of(context, arguments, &ALL)
}

/// Vacation/set.
pub(super) fn set_whole(context: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    set_of(context, arguments, &ALL)
}

fn get_of(context: &Context, arguments: &Args<'_>, known: &[&str]) -> Result<Value, MethodError> {
    let (account, _) = context.account(arguments)?;
    let wanted = arguments.get("properties").map(|_| arguments.texts("properties")).transpose()?;
    if let Some(unknown) = wanted.iter().flatten().find(|name| !known.contains(&name.as_str())) {
        return Err(MethodError::InvalidArguments(format!("{unknown} is no property")));
    }
    let ids = arguments.get("ids").map(|_| arguments.texts("ids")).transpose()?;
    let view = context.store.view();
    let response = view.vacation(account).map_err(|error| fail(&error))?;
    let modseq = view.state(account, DataType::VacationResponse).map_err(|error| fail(&error))?;
    let mut object = properties::object(&response, ID);
    object.retain(|name, _| known.contains(&name.as_str()));
    if let Some(wanted) = wanted {
        object.retain(|name, _| name == "id" || wanted.contains(name));
    }
    let asked = ids.as_ref().is_none_or(|ids| ids.iter().any(|id| id == ID));
    let missing: Vec<String> = ids.into_iter().flatten().filter(|id| id != ID).collect();
    Ok(json!({
        "accountId": account.to_string(), "state": state(context, modseq),
        "list": if asked { vec![Value::Object(object)] } else { Vec::new() }, "notFound": missing,
    }))
}

fn set_of(context: &Context, arguments: &Args<'_>, known: &[&str]) -> Result<Value, MethodError> {
    let (account, _) = context.account(arguments)?;
    let wanted = arguments.maybe_text("ifInState")?;
    let objects = |key: &str| arguments.get(key).and_then(Value::as_object).cloned().unwrap_or_default();
    let refuse = |ids: Vec<String>| {
        let refused = ids.into_iter().map(|id| (id, SetError::Singleton.object()));
        refused.collect::<Map<String, Value>>()
    };
    let (mut updated, mut not_updated) = (Map::new(), Map::new());
    // What it was is read in the commit that changes it: of two who set at once neither loses what the other set.
    let done = context.store.commit(account, |txn| {
        let old = txn.state().state(DataType::VacationResponse);
        if wanted.as_ref().is_some_and(|wanted| *wanted != state(context, old)) {
            return Ok(None);
        }
        let mut response = txn.view().vacation(account)?;
        for (id, patch) in objects("update") {
            let patched = if id == ID { patched(&response, &patch, known) } else { Err(SetError::NotFound) };
            match patched {
                Ok(new) => {
                    response = new;
                    updated.insert(id, Value::Null);
                }
                Err(error) => drop(not_updated.insert(id, error.object())),
            }
        }
        txn.set_vacation(&response)?;
        Ok(Some((old, txn.state().state(DataType::VacationResponse))))
    });
    let (states, ticket) = done.map_err(|error| fail(&error))?;
    ticket.wait_blocking().map_err(|error| fail(&error))?;
    let (old, new) = states.ok_or(MethodError::StateMismatch)?;
    Ok(json!({
        "accountId": account.to_string(), "oldState": state(context, old), "newState": state(context, new),
        "updated": updated, "notUpdated": not_updated, "created": null, "destroyed": null,
        "notCreated": refuse(objects("create").keys().cloned().collect()),
        "notDestroyed": refuse(arguments.texts("destroy")?),
    }))
}

fn patched(old: &VacationResponse, patch: &Value, known: &[&str]) -> Result<VacationResponse, SetError> {
    let patch = patch.as_object().ok_or_else(|| SetError::InvalidPatch("a patch is an object".into()))?;
    let mut response = old.clone();
    for (property, value) in patch {
        let refused = |description: String| SetError::InvalidProperties(vec![property.clone()], description);
        if !known.contains(&property.as_str()) {
            return Err(refused(properties::UNKNOWN.into()));
        }
        properties::apply(&mut response, property, value, ID).map_err(refused)?;
    }
    if let (Some(from), Some(to)) = (response.from_date, response.to_date)
        && from >= to
    {
        let both = vec!["fromDate".into(), "toDate".into()];
        return Err(SetError::InvalidProperties(both, "it would end before it begins".into()));
    }
    Ok(response)
}
