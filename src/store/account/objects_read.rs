//! Reads small objects and their changes.

use crate::model::{AccountId, EmailSubmission, ObjectId, ReturnedReport};
use crate::store::engine::typed::{KeyRange, TypedRead as _};
use crate::store::error::Error;
use crate::store::row::{Object, ObjectRow, Row as _};
use crate::store::table::keys::{ObjectKey, ObjectModSeqKey};
use crate::store::table::{ObjectByModseq, Objects};
use crate::store::txn::changes::{ChangeIndex, ChangeMarks};
use crate::store::txn::snapshot::{Changes, ClientState, Snapshot};

impl Snapshot<'_> {
    /// Returns the objects of a kind that are not destroyed, oldest first.
    pub fn objects<T: Object>(&self, account: AccountId) -> Result<Vec<(ObjectId, T)>, Error> {
        let mut out = Vec::new();
        let range = KeyRange::under(&(account, T::KIND));
        self.read.rows_with::<Objects, _>(&range, ObjectRow::<T>::decode, |key, row| {
            if let Some(object) = row.object {
                out.push((key.object, object));
            }
            Ok(true)
        })?;
        Ok(out)
    }

    /// Returns an object; `None` if it is destroyed or does not exist.
    pub fn object<T: Object>(&self, account: AccountId, id: ObjectId) -> Result<Option<T>, Error> {
        Ok(self.stored::<T>(account, id)?.and_then(|row| row.object))
    }

    /// Returns the newest submission that a report is about (`matches_report`). Reads all
    /// submissions of the account.
    pub fn submission_for_report(
        &self,
        account: AccountId,
        report: &ReturnedReport,
    ) -> Result<Option<ObjectId>, Error> {
        let mut found = None;
        let range = KeyRange::under(&(account, EmailSubmission::KIND));
        self.read.rows_with::<Objects, _>(
            &range,
            ObjectRow::<EmailSubmission>::decode,
            |key, row| {
                if row.object.is_some_and(|submission| submission.matches_report(report)) {
                    found = Some(key.object);
                }
                Ok(true)
            },
        )?;
        Ok(found)
    }

    /// Returns at most `limit` objects of a kind that changed since a state (Foo/changes). `None`
    /// if the kind has no state, if the state is below the low mark or from the future, or if its
    /// `base` is above its `mark`.
    pub fn object_changes<T: Object>(
        &self,
        account: AccountId,
        since: ClientState,
        limit: usize,
    ) -> Result<Option<Changes<ObjectId>>, Error> {
        let Some(data) = T::KIND.data_type() else { return Ok(None) };
        let first = ObjectModSeqKey { account, kind: T::KIND, modseq: since.mark.next() };
        let range = KeyRange::from(&(account, T::KIND), &first);
        let index = ChangeIndex::<ObjectByModseq> { data, range, modseq: |key| key.modseq };
        self.changes(account, index, since, limit, |id| {
            let row = self.stored::<T>(account, id)?;
            Ok(row.map(|row| {
                (ChangeMarks { created: row.created, updated: row.updated }, row.object.is_none())
            }))
        })
    }

    /// Returns the row of an object or of its tombstone.
    fn stored<T: Object>(
        &self,
        account: AccountId,
        object: ObjectId,
    ) -> Result<Option<ObjectRow<T>>, Error> {
        self.read.row_with::<Objects, _>(
            &ObjectKey { account, kind: T::KIND, object },
            ObjectRow::<T>::decode,
        )
    }
}
