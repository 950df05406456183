//! EmailSubmission/get and EmailSubmission/changes (RFC 8621 §7.1, §7.2).

use super::{SubmissionProperty, object};
use crate::jmap::context::Account;
use crate::jmap::method::Call;
use crate::jmap::standard::{ChangedObjects, GetObjects, ObjectChanges, ObjectType, StoredReader};
use crate::model::{DataType, EmailSubmission, ObjectId};
use crate::wire::jmap::{JsonObject, MethodError};

impl ObjectType for EmailSubmission {
    type Id = ObjectId;
    type Property = SubmissionProperty;
    type Reader<'a> = StoredReader<'a>;

    fn reader<'a>(call: &Call<'a>, account: &'a Account) -> Result<StoredReader<'a>, MethodError> {
        Ok(StoredReader::new(call, account))
    }

    fn state(reader: &StoredReader<'_>) -> Result<String, MethodError> {
        reader.state(DataType::EmailSubmission)
    }
}

impl GetObjects for EmailSubmission {
    fn properties(_: &Call<'_>) -> Vec<SubmissionProperty> {
        SubmissionProperty::ALL.to_vec()
    }

    fn ids(reader: &StoredReader<'_>) -> Result<Vec<ObjectId>, MethodError> {
        reader.ids::<EmailSubmission>()
    }

    fn object(
        reader: &StoredReader<'_>,
        id: &ObjectId,
        properties: &[SubmissionProperty],
    ) -> Result<Option<JsonObject>, MethodError> {
        let found = reader.find::<EmailSubmission>(*id)?;
        Ok(found.map(|found| object(*id, &found, properties)))
    }
}

impl ObjectChanges for EmailSubmission {
    fn changes(
        reader: &StoredReader<'_>,
        since: &str,
        max_changes: usize,
    ) -> Result<Option<ChangedObjects<ObjectId>>, MethodError> {
        reader.changes::<EmailSubmission>(since, max_changes)
    }
}
