//! VacationResponse/get and /set, exactly as RFC 8621 §8 has them; and under the vendor capability Vacation/get and /set, the
//! same object with all that an owner may say of his absence beyond that (`properties`).

mod properties;

use serde_json::{Map, Value};

use super::context::{Account, Args, Context};
use super::failure::SetFailure;
use super::standard::{GetArguments, InvalidProperties, SetArguments, newest};
use crate::account::OwnAddresses;
use crate::model::{DataType, VacationResponse};
use crate::wire::jmap::{MethodError, Patch, SetError};
use properties::{ALL, STANDARD};

const ID: &str = "singleton";

/// VacationResponse/get.
pub(super) fn get(context: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    get_of(context, &context.open(arguments)?, arguments, &STANDARD)
}

/// VacationResponse/set.
pub(super) fn set(context: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    set_of(context, &context.open(arguments)?, arguments, &STANDARD)
}

/// Vacation/get.
pub(super) fn get_whole(context: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    get_of(context, &named(context, arguments)?, arguments, &ALL)
}

/// Vacation/set.
pub(super) fn set_whole(context: &Context, arguments: &Args<'_>) -> Result<Value, MethodError> {
    set_of(context, &named(context, arguments)?, arguments, &ALL)
}

/// The account, by whatever names one to the command line.
fn named(context: &Context, arguments: &Args<'_>) -> Result<Account, MethodError> {
    let (id, row) = context.account(arguments)?;
    Ok(Account { id, row, guest: None })
}

fn get_of(context: &Context, account: &Account, arguments: &Args<'_>, known: &[&str]) -> Result<Value, MethodError> {
    let get = GetArguments::of(arguments, known)?;
    let view = context.store.view();
    let state = newest(&context.store, &view, account.id, DataType::VacationResponse)?;
    let response = view.vacation(account.id)?;
    let mut object = properties::object(&response, ID);
    object.retain(|name, _| known.contains(&name.as_str()));
    get.answer(context, account.id, &state, || vec![ID.to_owned()], |id| Ok((id == ID).then(|| object.clone())))
}

fn set_of(context: &Context, account: &Account, arguments: &Args<'_>, known: &[&str]) -> Result<Value, MethodError> {
    let set = SetArguments::read(arguments)?;
    let own = context.directory.own_addresses(account.id)?;
    // What it was is read in the commit that changes it: of two who set at once neither loses what the other set.
    let (answer, ()) = set.commit(context, account, DataType::VacationResponse, |txn, done| {
        for (name, _) in &set.create {
            done.not_created(name, &SetError::Singleton);
        }
        for id in &set.destroy {
            done.not_destroyed(id, &if id == ID { SetError::Singleton } else { SetError::NotFound });
        }
        let mut response = txn.view().vacation(account.id)?;
        for (id, patch) in &set.update {
            let patched = if id == ID { patched(&response, patch, (known, &own)) } else { Err(SetError::NotFound) };
            let changed = patched.map(|new| {
                response = new;
                Map::new()
            });
            done.update(id, changed.map_err(SetFailure::Object))?;
        }
        txn.set_vacation(&response).map(drop)
    })?;
    Ok(answer)
}

fn patched(
    old: &VacationResponse,
    patch: &Value,
    (known, own): (&[&str], &OwnAddresses),
) -> Result<VacationResponse, SetError> {
    let before = properties::object(old, ID);
    let (mut response, mut wrong) = (old.clone(), InvalidProperties::default());
    for (property, value) in Patch::wishes(patch, &before)? {
        if !known.contains(&property.as_str()) {
            wrong.add(property, properties::UNKNOWN);
            continue;
        }
        // What the server says may be said again (RFC 8620 §5.3).
        if before.get(&property) != Some(&value) {
            wrong.note(properties::apply(&mut response, &property, &value, own))?;
        }
    }
    wrong.finish()?;
    if let (Some(from), Some(to)) = (response.from_date, response.to_date)
        && from >= to
    {
        let both = vec!["fromDate".into(), "toDate".into()];
        return Err(SetError::InvalidProperties(both, "it would end before it begins".into()));
    }
    Ok(response)
}
