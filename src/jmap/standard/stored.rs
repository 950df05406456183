//! Reads the objects of four types that are `store::Object`s: identities, submissions, share
//! notifications and Sieve scripts.

use std::collections::BTreeSet;

use super::object_type::{ChangedObjects, parse_state};
use super::state::newest_state;
use crate::jmap::context::{Account, Context};
use crate::jmap::method::Call;
use crate::model::{DataType, ObjectId};
use crate::store::{Object, Snapshot};
use crate::wire::jmap::MethodError;

/// Reads the objects of an account from one snapshot. `VacationResponse`, which is no
/// `store::Object`, uses the fields, and not the functions that read objects.
pub(in crate::jmap) struct StoredReader<'a> {
    pub(in crate::jmap) context: &'a Context,
    pub(in crate::jmap) account: &'a Account,
    pub(in crate::jmap) snapshot: Snapshot<'a>,
}

impl<'a> StoredReader<'a> {
    pub(in crate::jmap) fn new(call: &Call<'a>, account: &'a Account) -> Self {
        Self { context: call.context, account, snapshot: call.context.store.snapshot() }
    }

    pub(in crate::jmap) fn state(&self, data: DataType) -> Result<String, MethodError> {
        newest_state(&self.context.store, &self.snapshot, self.account.id, data)
    }

    pub(in crate::jmap) fn all<T: Object>(&self) -> Result<Vec<(ObjectId, T)>, MethodError> {
        Ok(self.snapshot.objects::<T>(self.account.id)?)
    }

    pub(in crate::jmap) fn ids<T: Object>(&self) -> Result<Vec<ObjectId>, MethodError> {
        Ok(self.all::<T>()?.into_iter().map(|(id, _)| id).collect())
    }

    pub(in crate::jmap) fn find<T: Object>(&self, id: ObjectId) -> Result<Option<T>, MethodError> {
        Ok(self.snapshot.object::<T>(self.account.id, id)?)
    }

    /// Returns up to `max_changes` objects that changed since a state; `None` if that cannot be
    /// calculated from this state.
    ///
    /// # Errors
    /// `CannotCalculateChanges` for a state that cannot be parsed; those of reading.
    pub(in crate::jmap) fn changes<T: Object>(
        &self,
        since: &str,
        max_changes: usize,
    ) -> Result<Option<ChangedObjects<ObjectId>>, MethodError> {
        let store = &self.context.store;
        let changes = self.snapshot.object_changes::<T>(
            self.account.id,
            parse_state(store, since)?,
            max_changes,
        )?;
        Ok(changes.map(|changes| ChangedObjects::from_store(store, changes)))
    }

    /// Returns the ids of all objects that changed since a state, for /queryChanges; otherwise as
    /// `changes`.
    pub(in crate::jmap) fn changed_ids<T: Object>(
        &self,
        since: &str,
    ) -> Result<Option<BTreeSet<String>>, MethodError> {
        let since = parse_state(&self.context.store, since)?;
        let changes = self.snapshot.object_changes::<T>(self.account.id, since, usize::MAX)?;
        Ok(changes.map(|changes| {
            let all = [changes.created, changes.updated, changes.destroyed].concat();
            all.iter().map(ToString::to_string).collect()
        }))
    }
}
