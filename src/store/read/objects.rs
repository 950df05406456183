//! Small objects: all of a kind, one, and what changed.

use super::changes::Marks;
use super::{Changes, Since, View};
use crate::model::{AccountId, EmailSubmission, ObjectId, Returned};
use crate::store::engine::Table;
use crate::store::error::Error;
use crate::store::key::{self, Parts};
use crate::store::row::{Object, Stored};

impl View<'_> {
    /// All objects of a kind, the first made first.
    ///
    /// # Errors
    /// Those of reading; so for every function here.
    pub fn objects<T: Object>(&self, account: AccountId) -> Result<Vec<(ObjectId, T)>, Error> {
        let mut out = Vec::new();
        self.rows::<Stored<T>>(&key::objects(account, T::KIND), |key, row| {
            if let Some(object) = row.object {
                out.push((ObjectId(Parts::of(Table::Objects, key).u64()?), object));
            }
            Ok(true)
        })?;
        Ok(out)
    }

    /// One of them.
    ///
    /// # Errors
    /// Those of reading.
    pub fn object<T: Object>(&self, account: AccountId, id: ObjectId) -> Result<Option<T>, Error> {
        Ok(self.row::<Stored<T>>(&key::object(account, T::KIND, id))?.and_then(|row| row.object))
    }

    /// The newest submission that a report is about. It reads all that the account remembers (`limits::SUBMISSIONS`), one
    /// after the other.
    ///
    /// # Errors
    /// Those of reading.
    pub fn submission_meant(&self, account: AccountId, report: &Returned) -> Result<Option<ObjectId>, Error> {
        let mut found = None;
        self.rows::<Stored<EmailSubmission>>(&key::objects(account, EmailSubmission::KIND), |key, row| {
            if row.object.is_some_and(|submission| submission.is_meant(report)) {
                found = Some(ObjectId(Parts::of(Table::Objects, key).u64()?));
            }
            Ok(true)
        })?;
        Ok(found)
    }

    /// What changed of them, as `email_changes` has it. Kinds without a state have no changes.
    ///
    /// # Errors
    /// Those of reading.
    pub fn object_changes<T: Object>(
        &self,
        account: AccountId,
        since: Since,
        most: usize,
    ) -> Result<Option<Changes<ObjectId>>, Error> {
        let Some(data) = T::KIND.data() else { return Ok(None) };
        let prefix = key::objects(account, T::KIND);
        self.changes(account, (data, Table::ObjectByModseq, &prefix), since, most, |number| {
            let row = self.row::<Stored<T>>(&key::object(account, T::KIND, ObjectId(number)))?;
            let marks = |row: &Stored<T>| Marks { created: row.created, updated: row.updated };
            Ok(row.map(|row| (ObjectId(number), marks(&row), row.object.is_none())))
        })
    }
}
