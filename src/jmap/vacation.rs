//! VacationResponse/get and /set (RFC 8621 §8): the account's one response. Under the vendor capability it has four more
//! properties: `from`, `replyTo` ({name, email}), `addresses` and `except` (texts: an address or a domain).

use serde_json::{Map, Value, json};

use super::context::{Args, Context, date, fail};
use crate::model::{Address, AddressError, DataType, EmailAddress, Except, ModSeq, UtcMillis, VacationResponse};
use crate::wire::jmap::{MethodError, SetError};

const ID: &str = "singleton";
const PROPERTIES: [&str; 11] = [
    "id",
    "isEnabled",
    "fromDate",
    "toDate",
    "subject",
    "textBody",
    "htmlBody",
    "from",
    "replyTo",
    "addresses",
    "except",
];
/// Addresses, or exceptions, of one response.
const MOST: usize = 1000;
/// Octets of a text that is stored.
const TEXT: usize = 256 * 1024;

fn state(context: &Context, modseq: ModSeq) -> String {
    format!("{:x}-{:x}", context.store.epoch(), modseq.0)
}

pub(super) fn get(context: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    let (account, _) = context.account(arguments)?;
    let wanted = arguments.get("properties").map(|_| arguments.texts("properties")).transpose()?;
    if let Some(unknown) = wanted.iter().flatten().find(|name| !PROPERTIES.contains(&name.as_str())) {
        return Err(MethodError::InvalidArguments(format!("{unknown} is no property")));
    }
    let ids = arguments.get("ids").map(|_| arguments.texts("ids")).transpose()?;
    let view = context.store.view();
    let response = view.vacation(account).map_err(|error| fail(&error))?;
    let modseq = view.state(account, DataType::VacationResponse).map_err(|error| fail(&error))?;
    let mut object = object(&response);
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

fn object(response: &VacationResponse) -> Map<String, Value> {
    let person = |person: &Option<EmailAddress>| {
        person.as_ref().map_or(Value::Null, |person| json!({"name": person.name, "email": person.email}))
    };
    let addresses: Vec<String> = response.addresses.iter().map(ToString::to_string).collect();
    let except: Vec<String> = response.except.iter().map(ToString::to_string).collect();
    let object = json!({
        "id": ID, "isEnabled": response.enabled, "fromDate": date(response.from_date), "toDate": date(response.to_date),
        "subject": response.subject, "textBody": response.text_body, "htmlBody": response.html_body,
        "from": person(&response.from), "replyTo": person(&response.reply_to), "addresses": addresses, "except": except,
    });
    match object {
        Value::Object(object) => object,
        _ => Map::new(),
    }
}

pub(super) fn set(context: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
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
            let patched = if id == ID { patched(&response, &patch) } else { Err(SetError::NotFound) };
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

fn patched(old: &VacationResponse, patch: &Value) -> Result<VacationResponse, SetError> {
    let patch = patch.as_object().ok_or_else(|| SetError::InvalidPatch("a patch is an object".into()))?;
    let mut response = old.clone();
    for (property, value) in patch {
        apply(&mut response, property, value)
            .map_err(|description| SetError::InvalidProperties(vec![property.clone()], description))?;
    }
    if let (Some(from), Some(to)) = (response.from_date, response.to_date)
        && from >= to
    {
        let both = vec!["fromDate".into(), "toDate".into()];
        return Err(SetError::InvalidProperties(both, "it would end before it begins".into()));
    }
    Ok(response)
}

fn apply(response: &mut VacationResponse, property: &str, value: &Value) -> Result<(), String> {
    match property {
        "id" if value == ID => {}
        "isEnabled" => response.enabled = value.as_bool().ok_or("true or false is wanted")?,
        "fromDate" => response.from_date = instant(value)?,
        "toDate" => response.to_date = instant(value)?,
        "subject" => response.subject = text(value)?,
        "textBody" => response.text_body = text(value)?,
        "htmlBody" => response.html_body = text(value)?,
        "from" => response.from = person(value)?,
        "replyTo" => response.reply_to = person(value)?,
        "addresses" => response.addresses = all(value, Address::parse)?,
        "except" => response.except = all(value, str::parse::<Except>)?,
        _ => return Err("there is no such property, or it cannot be set".into()),
    }
    Ok(())
}

/// Every text of an array, read.
fn all<T>(value: &Value, read: impl Fn(&str) -> Result<T, AddressError>) -> Result<Vec<T>, String> {
    let all = value.as_array().ok_or("an array of texts is wanted")?;
    if all.len() > MOST {
        return Err(format!("more than {MOST}"));
    }
    let one = |one: &Value| {
        let text = one.as_str().ok_or("an array of texts is wanted")?;
        read(text).map_err(|error| format!("`{text}`: {error}"))
    };
    all.iter().map(one).collect()
}

fn instant(value: &Value) -> Result<Option<UtcMillis>, String> {
    match value {
        Value::Null => Ok(None),
        Value::String(text) if text.ends_with('Z') => {
            UtcMillis::parse_rfc3339(text).map(Some).ok_or_else(|| "a UTCDate is wanted".into())
        }
        _ => Err("a UTCDate such as 2026-12-24T09:00:00Z is wanted".into()),
    }
}

fn text(value: &Value) -> Result<Option<String>, String> {
    match value {
        Value::Null => Ok(None),
        Value::String(text) if text.len() <= TEXT => Ok(Some(text.clone())),
        Value::String(_) => Err("the text is too long".into()),
        _ => Err("a text is wanted".into()),
    }
}

fn person(value: &Value) -> Result<Option<EmailAddress>, String> {
    if value.is_null() {
        return Ok(None);
    }
    let email = value.get("email").and_then(Value::as_str).ok_or("an object with email is wanted")?;
    let address = Address::parse(email).map_err(|error| error.to_string())?;
    let name = value.get("name").and_then(Value::as_str).map(str::to_owned);
    Ok(Some(EmailAddress { name, email: address.to_string() }))
}
