//! EmailSubmission/query and EmailSubmission/queryChanges (RFC 8621 §7.3, §7.4).

use std::collections::BTreeSet;

use serde::Deserialize;

use crate::jmap::standard::value::UtcDate;
use crate::jmap::standard::{NoArguments, ObjectQuery, QueryObjects, StoredReader};
use crate::model::{EmailSubmission, ObjectId};
use crate::wire::jmap::MethodError;

/// A condition of EmailSubmission/query (RFC 8621 §7.3).
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::jmap) enum SubmissionCondition {
    IdentityIds(Vec<String>),
    EmailIds(Vec<String>),
    ThreadIds(Vec<String>),
    UndoStatus(String),
    Before(UtcDate),
    After(UtcDate),
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::jmap) enum SubmissionSortProperty {
    EmailId,
    ThreadId,
    /// RFC 8621 §7.3 calls the sort property `sentAt`, although the property is `sendAt`.
    #[serde(alias = "sentAt")]
    SendAt,
}

impl QueryObjects for EmailSubmission {
    type Condition = SubmissionCondition;
    type Sort = SubmissionSortProperty;
    type ExtraArgs = NoArguments;

    fn results(
        reader: &StoredReader<'_>,
        query: &ObjectQuery<Self>,
    ) -> Result<Vec<String>, MethodError> {
        let all = reader.all::<EmailSubmission>()?;
        let mut found: Vec<&(ObjectId, EmailSubmission)> = all
            .iter()
            .filter(|(_, one)| query.filter.holds(&|condition| condition.matches(one)))
            .collect();
        found.sort_by(|(one_id, one), (two_id, two)| {
            let order = query.compare(|property, _| match property {
                SubmissionSortProperty::EmailId => {
                    one.email.to_string().cmp(&two.email.to_string())
                }
                SubmissionSortProperty::ThreadId => {
                    one.thread.to_string().cmp(&two.thread.to_string())
                }
                SubmissionSortProperty::SendAt => one.send_at.cmp(&two.send_at),
            });
            order.then_with(|| one_id.cmp(two_id))
        });
        Ok(found.iter().map(|(id, _)| id.to_string()).collect())
    }

    fn changed_ids(
        reader: &StoredReader<'_>,
        since: &str,
    ) -> Result<Option<BTreeSet<String>>, MethodError> {
        reader.changed_ids::<EmailSubmission>(since)
    }
}

impl SubmissionCondition {
    fn matches(&self, submission: &EmailSubmission) -> bool {
        match self {
            Self::IdentityIds(ids) => ids.contains(&submission.identity.to_string()),
            Self::EmailIds(ids) => ids.contains(&submission.email.to_string()),
            Self::ThreadIds(ids) => ids.contains(&submission.thread.to_string()),
            Self::UndoStatus(status) => status == submission.undo.name(),
            Self::Before(UtcDate(at)) => submission.send_at < *at,
            Self::After(UtcDate(at)) => submission.send_at >= *at,
        }
    }
}
