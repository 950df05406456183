//! Writes the small objects of an account: identities, submissions, push subscriptions, share
//! notifications (RFC 8621 §6, §7, RFC 8620 §7.2, RFC 9670 §3), and scripts (`store::script`).
//!
//! - An object's id is the number of the change that created it.
//! - An object of a kind with a state (`ObjectKind::data_type`) has one row in `object_by_modseq`,
//!   at its last change, and leaves a tombstone. Others are deleted at once.

use crate::model::sender::{IdentityChange, identity_changes};
use crate::model::{
    Address, EmailSubmission, ModSeq, ObjectId, ObjectKind, PushSubscription, SenderIdentity,
    UndoStatus, UtcMillis, limits,
};
use crate::store::engine::typed::{KeyRange, TypedRead as _};
use crate::store::error::Error;
use crate::store::row::{FieldWriter, Object, ObjectRow, Row as _, is_live_object};
use crate::store::table::keys::{ObjectKey, ObjectModSeqKey};
use crate::store::table::{ObjectByModseq, Objects};
use crate::store::txn::Txn;

impl Txn<'_> {
    /// Creates an object, and returns its id.
    ///
    /// # Errors
    /// `Quota` if the account has `T::MAX_OBJECTS` of the kind; `Conflict` if the object is larger
    /// than `limits::MAX_OBJECT_BYTES`; those of reading.
    pub fn create_object<T: Object>(&mut self, object: &T) -> Result<ObjectId, Error> {
        check_size(object)?;
        let mut count = 0;
        self.keys(&KeyRange::<Objects>::under(&(self.account, T::KIND)), |_, row| {
            count += usize::from(is_live_object(row));
            Ok(true)
        })?;
        if count >= T::MAX_OBJECTS {
            return Err(Error::Quota);
        }
        let modseq = self.next_modseq();
        let id = ObjectId(modseq.0);
        self.write_object(
            id,
            None,
            &ObjectRow { created: modseq, updated: modseq, object: Some(object.clone()) },
        );
        Ok(id)
    }

    /// Replaces an object by one that a client gives. Returns whether anything changed.
    ///
    /// # Errors
    /// `NotFound` if there is no such object; `Conflict` as for `create_object`; those of reading.
    pub fn replace_object<T: Object>(&mut self, id: ObjectId, new: T) -> Result<bool, Error> {
        check_size(&new)?;
        self.update_object(id, |object| *object = new)
    }

    /// Changes an object by what the service learned. Returns whether anything changed. The size of
    /// the object is not checked: what became of a submission must not be lost.
    ///
    /// # Errors
    /// `NotFound` if there is no such object; those of reading.
    pub fn update_object<T: Object>(
        &mut self,
        id: ObjectId,
        change: impl FnOnce(&mut T),
    ) -> Result<bool, Error> {
        let (old, before) = self.live_object::<T>(id)?;
        let mut object = before.clone();
        change(&mut object);
        if object == before {
            return Ok(false);
        }
        let updated = self.next_modseq();
        self.write_object(
            id,
            Some(old.updated),
            &ObjectRow { updated, object: Some(object), ..old },
        );
        Ok(true)
    }

    /// Gives an object a new modseq, though nothing else in its row changes. Clients see whether a
    /// script is active as a property of the script, but another row says it (`activate_script`).
    ///
    /// # Errors
    /// `NotFound` if there is no such object; those of reading.
    pub(in crate::store) fn renumber_object<T: Object>(
        &mut self,
        id: ObjectId,
    ) -> Result<(), Error> {
        let (old, _) = self.live_object::<T>(id)?;
        let before = old.updated;
        let updated = self.next_modseq();
        self.write_object(id, Some(before), &ObjectRow { updated, ..old });
        Ok(())
    }

    /// Destroys an object, and returns it as it was. An object of a kind with a state leaves a
    /// tombstone.
    ///
    /// # Errors
    /// `NotFound` if there is no such object; those of reading.
    pub fn destroy_object<T: Object>(&mut self, id: ObjectId) -> Result<T, Error> {
        let (old, before) = self.live_object::<T>(id)?;
        let updated = self.next_modseq();
        if T::KIND.data_type().is_some() {
            self.write_object::<T>(
                id,
                Some(old.updated),
                &ObjectRow { updated, object: None, ..old },
            );
        } else {
            self.delete::<Objects>(&self.object_key(T::KIND, id));
        }
        Ok(before)
    }

    /// Brings the identities that the server made for the account up to date with the account's
    /// `addresses`, in their order, and the `name` of the owner (`identity_changes`). Returns
    /// whether anything changed.
    ///
    /// # Errors
    /// Those of `create_object`.
    pub fn update_own_identities(
        &mut self,
        addresses: &[Address],
        name: &str,
    ) -> Result<bool, Error> {
        let identities = self.snapshot().objects::<SenderIdentity>(self.account)?;
        let changes = identity_changes(&identities, addresses, name);
        let is_changed = !changes.is_empty();
        for change in changes {
            match change {
                IdentityChange::Make(identity) => drop(self.create_object(&identity)?),
                IdentityChange::Rename(id, name) => {
                    self.update_object(id, |identity: &mut SenderIdentity| {
                        (identity.default_name, identity.name) = (Some(name.clone()), name);
                    })?;
                }
                IdentityChange::Release(id) => {
                    self.update_object(id, |identity: &mut SenderIdentity| {
                        identity.default_name = None;
                    })?;
                }
                IdentityChange::Drop(id) => drop(self.destroy_object::<SenderIdentity>(id)?),
            }
        }
        Ok(is_changed)
    }

    /// Destroys up to `limit` submissions that ended at `settled` or before and can no longer be
    /// undone, and all expired push subscriptions. Returns whether more submissions may be left.
    pub fn expire_objects(&mut self, settled: UtcMillis, limit: usize) -> Result<bool, Error> {
        let snapshot = self.snapshot();
        let submissions = snapshot.objects::<EmailSubmission>(self.account)?.into_iter();
        let is_settled = |one: &EmailSubmission| {
            one.undo != UndoStatus::Pending && one.ended.is_some_and(|at| at <= settled)
        };
        let old: Vec<ObjectId> =
            submissions.filter(|(_, one)| is_settled(one)).map(|(id, _)| id).take(limit).collect();
        let pushes = snapshot.objects::<PushSubscription>(self.account)?.into_iter();
        let expired: Vec<ObjectId> =
            pushes.filter(|(_, one)| one.expires <= self.now).map(|(id, _)| id).collect();
        drop(snapshot);
        for id in &old {
            self.destroy_object::<EmailSubmission>(*id)?;
        }
        for id in expired {
            self.destroy_object::<PushSubscription>(id)?;
        }
        Ok(old.len() >= limit)
    }

    /// Deletes the tombstones of up to `limit` objects that were destroyed by change `bound` or
    /// before, and raises the low marks of their data types. Returns how many objects.
    pub(in crate::store) fn purge_objects(
        &mut self,
        bound: ModSeq,
        limit: usize,
    ) -> Result<usize, Error> {
        let mut purged = 0;
        for kind in ObjectKind::ALL {
            let Some(data) = kind.data_type() else { continue };
            let mut changed = Vec::new();
            let after = self.object_modseq_key(kind, bound.next());
            self.rows(
                &KeyRange::<ObjectByModseq>::before(&(self.account, kind), &after),
                |key, id| {
                    changed.push((key, id));
                    Ok(true)
                },
            )?;
            for (by_modseq, id) in changed {
                if purged >= limit {
                    return Ok(purged);
                }
                let own = self.object_key(kind, id);
                if self.bytes::<Objects>(&own)?.is_some_and(|row| !is_live_object(&row)) {
                    self.raise_low_mark(data, by_modseq.modseq);
                    self.delete::<ObjectByModseq>(&by_modseq);
                    self.delete::<Objects>(&own);
                    purged += 1;
                }
            }
        }
        Ok(purged)
    }

    /// Returns an object that is not destroyed, with its row; `NotFound` if there is none.
    fn live_object<T: Object>(&self, id: ObjectId) -> Result<(ObjectRow<T>, T), Error> {
        let row =
            self.row_with::<Objects, _>(&self.object_key(T::KIND, id), ObjectRow::<T>::decode)?;
        row.and_then(|row| row.object.clone().map(|object| (row, object)))
            .ok_or(Error::NotFound("object"))
    }

    /// Writes the row of an object, and moves its row in `object_by_modseq`, if the kind has a
    /// state, from the change `before` (`None`: the object is new) to `row.updated`.
    fn write_object<T: Object>(
        &mut self,
        id: ObjectId,
        before: Option<ModSeq>,
        row: &ObjectRow<T>,
    ) {
        self.put_bytes::<Objects>(&self.object_key(T::KIND, id), row.encode());
        let Some(data) = T::KIND.data_type() else { return };
        if let Some(before) = before {
            self.delete::<ObjectByModseq>(&self.object_modseq_key(T::KIND, before));
        }
        self.put::<ObjectByModseq>(&self.object_modseq_key(T::KIND, row.updated), &id);
        self.touch(data);
    }

    fn object_key(&self, kind: ObjectKind, object: ObjectId) -> ObjectKey {
        ObjectKey { account: self.account, kind, object }
    }

    fn object_modseq_key(&self, kind: ObjectKind, modseq: ModSeq) -> ObjectModSeqKey {
        ObjectModSeqKey { account: self.account, kind, modseq }
    }
}

/// Checks the size of an object that a client gives.
///
/// # Errors
/// `Conflict` if the object has more than `limits::MAX_OBJECT_BYTES`.
fn check_size<T: Object>(object: &T) -> Result<(), Error> {
    let mut encoded = FieldWriter(Vec::new());
    object.write(&mut encoded);
    if encoded.0.len() > limits::MAX_OBJECT_BYTES {
        return Err(Error::Conflict(format!(
            "it has more than {} bytes",
            limits::MAX_OBJECT_BYTES
        )));
    }
    Ok(())
}
