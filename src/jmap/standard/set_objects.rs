//! /set (RFC 8620 §5.3) for types whose objects are all changed in one commit.

use std::marker::PhantomData;

use serde_json::Value;

use super::object_type::ObjectType;
use super::set::SetArguments;
use crate::jmap::context::Account;
use crate::jmap::failure::{SetFailure, TxnResult};
use crate::jmap::method::{Call, Method};
use crate::model::DataType;
use crate::store::Txn;
use crate::wire::jmap::standard::{SetAnswer, SetArgs};
use crate::wire::jmap::{JsonObject, MethodError, SetError};

/// A type that has the standard /set.
///
/// - The objects are created first, then updated, then destroyed.
/// - `create`, `update` and `destroy` refuse an object before they write anything: a refusal does
///   not undo what was written. With `SetFailure::Call`, the whole commit fails.
/// - These three may be run more than once.
pub(in crate::jmap) trait SetObjects: ObjectType {
    const DATA: DataType;
    /// What the changes need besides the rows of the account.
    type Prepared;

    /// Runs before the account is locked.
    fn prepare(call: &Call<'_>, account: &Account) -> Result<Self::Prepared, MethodError>;

    /// Returns the `id` and the properties that the client did not set.
    fn create(
        txn: &mut Txn<'_>,
        prepared: &Self::Prepared,
        given: &JsonObject,
    ) -> TxnResult<JsonObject>;

    /// Returns the properties that changed beyond the patch.
    fn update(
        txn: &mut Txn<'_>,
        prepared: &Self::Prepared,
        id: Self::Id,
        patch: &Value,
    ) -> TxnResult<JsonObject>;

    fn destroy(txn: &mut Txn<'_>, prepared: &Self::Prepared, id: Self::Id) -> TxnResult<()>;
}

pub(in crate::jmap) struct SetMethod<T>(PhantomData<T>);

impl<T: SetObjects> Method for SetMethod<T> {
    type Args = SetArgs;
    type Answer = SetAnswer;

    fn call(call: &Call<'_>, args: SetArgs) -> Result<SetAnswer, MethodError> {
        let account = T::account(call, &args.account_id)?;
        set_in::<T>(call, &account, args)
    }
}

/// Runs a /set in an account that the caller may use.
///
/// # Errors
/// `RequestTooLarge`, `StateMismatch`, and those of `prepare` and of the commit.
pub(in crate::jmap) fn set_in<T: SetObjects>(
    call: &Call<'_>,
    account: &Account,
    args: SetArgs,
) -> Result<SetAnswer, MethodError> {
    let set = SetArguments::read(call.created, args)?;
    let prepared = T::prepare(call, account)?;
    let parse = |id: &str| id.parse::<T::Id>().map_err(|_| SetError::NotFound);
    let checkpoint = call.created.checkpoint();
    let (done, states, ()) = set.commit_each(call.context, account, T::DATA, |txn, done| {
        call.created.restore(&checkpoint);
        for (name, given) in &set.create {
            done.create(call.created, name, T::create(txn, &prepared, given))?;
        }
        for (id, patch) in &set.update {
            let updated = parse(id).map_err(SetFailure::from);
            done.update(id, updated.and_then(|id| T::update(txn, &prepared, id, patch)))?;
        }
        for id in &set.destroy {
            let destroyed = parse(id).map_err(SetFailure::from);
            done.destroy(id, destroyed.and_then(|id| T::destroy(txn, &prepared, id)))?;
        }
        Ok(())
    })?;
    Ok(done.into_answer(call.context, account, states))
}
