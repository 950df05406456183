//! VacationResponse/get and /set, exactly as RFC 8621 §8 has them; and under the vendor capability
//! Vacation/get and /set, the same object with all that an owner may say of an absence beyond that
//! (`properties`).

mod properties;

use std::fmt;
use std::str::FromStr;

use serde_json::Value;

use super::context::Account;
use super::failure::{SetFailure, TxnResult};
use super::method::Call;
use super::standard::{
    GetObjects, InvalidProperties, ObjectType, SetObjects, StoredReader, object_of,
};
use crate::account::OwnAddresses;
use crate::model::{DataType, VacationResponse};
use crate::store::Txn;
use crate::wire::jmap::admin::vacation::{SINGLETON, VacationProperty};
use crate::wire::jmap::json::members;
use crate::wire::jmap::{JsonObject, MethodError, Patch, Property as _, SetError};

/// The one vacation of an account: `WHOLE` with all properties, else with those of RFC 8621 §8.
pub(super) struct VacationObject<const WHOLE: bool>;

pub(super) type StandardVacation = VacationObject<false>;
pub(super) type WholeVacation = VacationObject<true>;

/// The id of a vacation: `singleton`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct VacationId;

impl FromStr for VacationId {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        if text == SINGLETON { Ok(Self) } else { Err(()) }
    }
}

impl fmt::Display for VacationId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(SINGLETON)
    }
}

impl<const WHOLE: bool> VacationObject<WHOLE> {
    const PROPERTIES: &'static [VacationProperty] =
        if WHOLE { VacationProperty::ALL } else { &VacationProperty::STANDARD };
}

impl<const WHOLE: bool> ObjectType for VacationObject<WHOLE> {
    type Id = VacationId;
    type Property = VacationProperty;
    type Reader<'a> = StoredReader<'a>;

    fn reader<'a>(call: &Call<'a>, account: &'a Account) -> Result<StoredReader<'a>, MethodError> {
        Ok(StoredReader::new(call, account))
    }

    fn state(reader: &StoredReader<'_>) -> Result<String, MethodError> {
        reader.state(DataType::VacationResponse)
    }
}

impl<const WHOLE: bool> GetObjects for VacationObject<WHOLE> {
    fn properties(_: &Call<'_>) -> Vec<VacationProperty> {
        Self::PROPERTIES.to_vec()
    }

    fn ids(_: &StoredReader<'_>) -> Result<Vec<VacationId>, MethodError> {
        Ok(vec![VacationId])
    }

    fn object(
        reader: &StoredReader<'_>,
        _: &VacationId,
        properties: &[VacationProperty],
    ) -> Result<Option<JsonObject>, MethodError> {
        let response = reader.snapshot.vacation(reader.account.id)?;
        Ok(Some(object(&response, properties)?))
    }
}

impl<const WHOLE: bool> SetObjects for VacationObject<WHOLE> {
    const DATA: DataType = DataType::VacationResponse;
    type Prepared = OwnAddresses;

    fn prepare(call: &Call<'_>, account: &Account) -> Result<OwnAddresses, MethodError> {
        Ok(call.context.directory.own_addresses(account.id)?)
    }

    fn create(_: &mut Txn<'_>, _: &OwnAddresses, _: &JsonObject) -> TxnResult<JsonObject> {
        Err(SetError::Singleton.into())
    }

    /// Reads the vacation in the commit that changes it: of two who set at once neither loses what
    /// the other set.
    fn update(
        txn: &mut Txn<'_>,
        own: &OwnAddresses,
        _: VacationId,
        patch: &Value,
    ) -> TxnResult<JsonObject> {
        let old = txn.snapshot().vacation(txn.account()).map_err(SetFailure::Call)?;
        let new = patched(&old, patch, (Self::PROPERTIES, own))?;
        txn.set_vacation(&new).map_err(SetFailure::Call)?;
        Ok(JsonObject::new())
    }

    fn destroy(_: &mut Txn<'_>, _: &OwnAddresses, _: VacationId) -> TxnResult<()> {
        Err(SetError::Singleton.into())
    }
}

fn object(
    response: &VacationResponse,
    properties: &[VacationProperty],
) -> serde_json::Result<JsonObject> {
    let mut facts = members(serde_json::to_value(properties::facts(response))?);
    Ok(object_of(properties, |property| facts.remove(property.name()).unwrap_or_default()))
}

fn patched(
    old: &VacationResponse,
    patch: &Value,
    (known, own): (&[VacationProperty], &OwnAddresses),
) -> Result<VacationResponse, SetError> {
    let before = object(old, VacationProperty::ALL)
        .map_err(|error| SetError::ServerFail(error.to_string()))?;
    let (mut response, mut wrong) = (old.clone(), InvalidProperties::default());
    for (name, value) in Patch::wishes(patch, &before)? {
        let Some(property) =
            VacationProperty::from_name(&name).filter(|property| known.contains(property))
        else {
            wrong.add(name, properties::UNKNOWN);
            continue;
        };
        // What the server says may be said again (RFC 8620 §5.3).
        if before.get(property.name()) != Some(&value) {
            wrong.note(properties::apply(&mut response, property, &value, own))?;
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
