//! JMAP for Sieve scripts (RFC 9661): the scripts that ManageSieve manages, too.
//!
//! - The content of a script is a blob. The id of this blob is the one that an upload of the same
//!   bytes has, so the id changes with the content.
//! - A guest sees neither the scripts of an account nor their blobs.
//! - With the vendor capability, a script has its last failed runs. They are not part of its state.
//! - RFC 9661 has no /changes and no /queryChanges.

mod set;
mod source;

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::{Value, json};

use super::context::{Account, date_or_null};
use super::method::Call;
use super::standard::{
    GetObjects, NoArguments, ObjectQuery, ObjectType, QueryObjects, StoredReader, object_of,
};
use crate::model::{BlobId, DataType, ObjectId, ScriptError, SieveScript};
use crate::query::Collation;
use crate::wire::jmap::{ADMIN, JsonObject, MethodError, properties};

pub(super) use set::ScriptSet;
pub(super) use source::ScriptValidate;

properties! {
    pub(super) enum ScriptProperty {
        Id = "id",
        Name = "name",
        BlobId = "blobId",
        IsActive = "isActive",
        LastErrors = "lastErrors",
    }
}

impl ScriptProperty {
    /// The properties of RFC 9661 §2.1.
    const STANDARD: [Self; 4] = [Self::Id, Self::Name, Self::BlobId, Self::IsActive];
}

pub(super) struct ScriptReader<'a> {
    stored: StoredReader<'a>,
    /// The active script; `None` if there is none.
    active: Option<ObjectId>,
    /// The last failed runs of all scripts, newest first. Each has the name that its script had, so
    /// a renamed script shows none of its earlier ones. `prepare` reads them if the client asks for
    /// `lastErrors`; otherwise this is empty.
    errors: Vec<ScriptError>,
}

impl ObjectType for SieveScript {
    type Id = ObjectId;
    type Property = ScriptProperty;
    type Reader<'a> = ScriptReader<'a>;

    fn reader<'a>(call: &Call<'a>, account: &'a Account) -> Result<ScriptReader<'a>, MethodError> {
        let stored = StoredReader::new(call, account);
        let active = stored.snapshot.active_script(account.id)?;
        Ok(ScriptReader { stored, active, errors: Vec::new() })
    }

    fn state(reader: &ScriptReader<'_>) -> Result<String, MethodError> {
        reader.stored.state(DataType::SieveScript)
    }
}

impl GetObjects for SieveScript {
    fn properties(call: &Call<'_>) -> Vec<ScriptProperty> {
        let all = if call.uses(ADMIN) { ScriptProperty::ALL } else { &ScriptProperty::STANDARD };
        all.to_vec()
    }

    fn prepare(
        reader: &mut ScriptReader<'_>,
        _: Option<&[String]>,
        properties: &[ScriptProperty],
    ) -> Result<(), MethodError> {
        if properties.contains(&ScriptProperty::LastErrors) {
            reader.errors = reader.stored.snapshot.script_errors(reader.stored.account.id)?;
        }
        Ok(())
    }

    fn ids(reader: &ScriptReader<'_>) -> Result<Vec<ObjectId>, MethodError> {
        reader.stored.ids::<SieveScript>()
    }

    fn object(
        reader: &ScriptReader<'_>,
        id: &ObjectId,
        properties: &[ScriptProperty],
    ) -> Result<Option<JsonObject>, MethodError> {
        let script = reader.stored.find::<SieveScript>(*id)?;
        let is_active = reader.active == Some(*id);
        Ok(script.map(|script| {
            let mut object = object(*id, &script, is_active, properties);
            if properties.contains(&ScriptProperty::LastErrors) {
                let errors = reader.errors.iter().filter(|error| error.script == script.name);
                object.insert("lastErrors".into(), errors.map(error_object).collect());
            }
            object
        }))
    }
}

/// Returns the properties of a script. `lastErrors` is null: `GetObjects::object` fills it in.
fn object(
    id: ObjectId,
    script: &SieveScript,
    is_active: bool,
    properties: &[ScriptProperty],
) -> JsonObject {
    object_of(properties, |property| match property {
        ScriptProperty::Id => id.to_string().into(),
        ScriptProperty::Name => script.name.clone().into(),
        ScriptProperty::BlobId => BlobId::upload(script.hash).to_string().into(),
        ScriptProperty::IsActive => is_active.into(),
        ScriptProperty::LastErrors => Value::Null,
    })
}

fn error_object(error: &ScriptError) -> Value {
    json!({
        "at": date_or_null(Some(error.at)),
        "line": (error.line > 0).then_some(error.line),
        "message": error.message,
        "emailId": error.email.map(|id| id.to_string()),
    })
}

/// A condition of SieveScript/query (RFC 9661 §2.5).
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum ScriptCondition {
    /// The name contains this text, in any case of letters.
    Name(String),
    IsActive(bool),
}

/// A property by which SieveScript/query sorts (RFC 9661 §2.5).
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum ScriptSort {
    Name,
    IsActive,
}

impl QueryObjects for SieveScript {
    type Condition = ScriptCondition;
    type Sort = ScriptSort;
    type ExtraArgs = NoArguments;

    const CAN_CALCULATE_CHANGES: bool = false;

    fn results(
        reader: &ScriptReader<'_>,
        query: &ObjectQuery<Self>,
    ) -> Result<Vec<String>, MethodError> {
        let key = |text: &str| String::from(Collation::UnicodeCasemap.key(text));
        let is_active = |id: &ObjectId| reader.active == Some(*id);
        let mut found = reader.stored.all::<SieveScript>()?;
        found.retain(|(id, script)| {
            query.filter.holds(&|condition| match condition {
                ScriptCondition::Name(part) => key(&script.name).contains(&key(part)),
                ScriptCondition::IsActive(wanted) => is_active(id) == *wanted,
            })
        });
        found.sort_by(|(id, script), (other_id, other)| {
            let order = query.compare(|property, collation| match property {
                ScriptSort::Name => collation.key(&script.name).cmp(&collation.key(&other.name)),
                ScriptSort::IsActive => is_active(id).cmp(&is_active(other_id)),
            });
            order.then_with(|| id.cmp(other_id))
        });
        Ok(found.iter().map(|(id, _)| id.to_string()).collect())
    }

    fn changed_ids(_: &ScriptReader<'_>, _: &str) -> Result<Option<BTreeSet<String>>, MethodError> {
        Ok(None)
    }
}
