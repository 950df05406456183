//! VacationResponse/get and /set (RFC 8621 §8), and the same object with the vendor's properties.

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
use crate::model::{AccountId, DataType, VacationResponse};
use crate::store::{Error, Snapshot, Txn};
use crate::wire::jmap::admin::vacation::{SINGLETON, VacationProperty};
use crate::wire::jmap::json::members;
use crate::wire::jmap::{JsonObject, MethodError, Patch, Property as _, SetError};

/// The vacation response, with all properties or only with those of RFC 8621 §8.
pub(super) struct VacationObject<const WITH_VENDOR_PROPERTIES: bool>;

pub(super) type StandardVacation = VacationObject<false>;
pub(super) type VendorVacation = VacationObject<true>;

/// Stands for the id `singleton`.
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

impl<const WITH_VENDOR_PROPERTIES: bool> VacationObject<WITH_VENDOR_PROPERTIES> {
    const PROPERTIES: &'static [VacationProperty] =
        if WITH_VENDOR_PROPERTIES { VacationProperty::ALL } else { &VacationProperty::STANDARD };
}

impl<const WITH_VENDOR_PROPERTIES: bool> ObjectType for VacationObject<WITH_VENDOR_PROPERTIES> {
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

impl<const WITH_VENDOR_PROPERTIES: bool> GetObjects for VacationObject<WITH_VENDOR_PROPERTIES> {
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
        let response = stored(&reader.snapshot, reader.account.id)?;
        Ok(Some(object(&response, properties)?))
    }
}

impl<const WITH_VENDOR_PROPERTIES: bool> SetObjects for VacationObject<WITH_VENDOR_PROPERTIES> {
    const DATA: DataType = DataType::VacationResponse;
    type Prepared = OwnAddresses;

    fn prepare(call: &Call<'_>, account: &Account) -> Result<OwnAddresses, MethodError> {
        Ok(call.context.directory.own_addresses(account.id)?)
    }

    fn create(_: &mut Txn<'_>, _: &OwnAddresses, _: &JsonObject) -> TxnResult<JsonObject> {
        Err(SetError::Singleton.into())
    }

    /// Reads the response in the commit that changes it, so that no concurrent change is lost.
    fn update(
        txn: &mut Txn<'_>,
        own: &OwnAddresses,
        _: VacationId,
        patch: &Value,
    ) -> TxnResult<JsonObject> {
        let old = stored(&txn.snapshot(), txn.account()).map_err(SetFailure::Call)?;
        let new = patched(&old, patch, (Self::PROPERTIES, own))?;
        txn.set_vacation(&new).map_err(SetFailure::Call)?;
        Ok(JsonObject::new())
    }

    fn destroy(_: &mut Txn<'_>, _: &OwnAddresses, _: VacationId) -> TxnResult<()> {
        Err(SetError::Singleton.into())
    }
}

/// Returns the response of an account. A damaged one is shown as switched off: it answers nobody,
/// and no repair brings it back, so its owner must be able to set it anew.
fn stored(snapshot: &Snapshot<'_>, account: AccountId) -> Result<VacationResponse, Error> {
    match snapshot.vacation(account) {
        Err(Error::Corrupt { .. }) => Ok(VacationResponse::default()),
        response => response,
    }
}

/// Returns the named properties of a response.
fn object(
    response: &VacationResponse,
    properties: &[VacationProperty],
) -> serde_json::Result<JsonObject> {
    let mut values = members(serde_json::to_value(properties::all_properties(response))?);
    Ok(object_of(properties, |property| values.remove(property.name()).unwrap_or_default()))
}

/// Returns the response `old` after a patch. `known` are the properties that the client may name:
/// others are refused. `own` are the addresses of the account. The error names all invalid
/// properties, except that a period which does not end after its beginning is reported only if the
/// properties are valid by themselves.
fn patched(
    old: &VacationResponse,
    patch: &Value,
    (known, own): (&[VacationProperty], &OwnAddresses),
) -> Result<VacationResponse, SetError> {
    let before = object(old, VacationProperty::ALL)
        .map_err(|error| SetError::ServerFail(error.to_string()))?;
    let (mut response, mut problems) = (old.clone(), InvalidProperties::default());
    for (name, value) in Patch::new_values(patch, &before)? {
        let Some(property) =
            VacationProperty::from_name(&name).filter(|property| known.contains(property))
        else {
            problems.add(name, properties::UNKNOWN);
            continue;
        };
        // A client may send back properties unchanged (RFC 8620 §5.3).
        if before.get(property.name()) != Some(&value) {
            problems.note(properties::apply(&mut response, property, &value, own))?;
        }
    }
    problems.finish()?;
    if let (Some(from), Some(to)) = (response.from_date, response.to_date)
        && from >= to
    {
        let both = vec!["fromDate".into(), "toDate".into()];
        return Err(SetError::InvalidProperties(
            both,
            "the vacation must end after it begins".into(),
        ));
    }
    Ok(response)
}
