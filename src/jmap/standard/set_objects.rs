//! /set (RFC 8620 §5.3) of types whose objects are changed in one commit.

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

/// A type that has /set, and changes in one commit.
pub(in crate::jmap) trait SetObjects: ObjectType {
    /// The type whose state moves.
    const DATA: DataType;
    /// What the changes need that is read before the account is locked.
    type Prepared;

    fn prepare(call: &Call<'_>, account: &Account) -> Result<Self::Prepared, MethodError>;

    /// Creates an object; gives its `id` and all that the client does not know of it.
    fn create(
        txn: &mut Txn<'_>,
        prepared: &Self::Prepared,
        given: &JsonObject,
    ) -> TxnResult<JsonObject>;

    /// Changes an object; gives what changed of it beside what was asked.
    fn update(
        txn: &mut Txn<'_>,
        prepared: &Self::Prepared,
        id: Self::Id,
        patch: &Value,
    ) -> TxnResult<JsonObject>;

    fn destroy(txn: &mut Txn<'_>, prepared: &Self::Prepared, id: Self::Id) -> TxnResult<()>;
}

/// /set of a type.
pub(in crate::jmap) struct SetMethod<T>(PhantomData<T>);

impl<T: SetObjects> Method for SetMethod<T> {
    type Args = SetArgs;
    type Answer = SetAnswer;

    fn call(call: &Call<'_>, args: SetArgs) -> Result<SetAnswer, MethodError> {
        let account = call.open(&args.account_id, T::GUESTS)?;
        set_in::<T>(call, &account, args)
    }
}

/// The answer of /set in an account that is open.
///
/// # Errors
/// `requestTooLarge`, `stateMismatch`, and those of the commit.
pub(in crate::jmap) fn set_in<T: SetObjects>(
    call: &Call<'_>,
    account: &Account,
    args: SetArgs,
) -> Result<SetAnswer, MethodError> {
    let set = SetArguments::of(call.created, args)?;
    let prepared = T::prepare(call, account)?;
    // What no object can be called is not there.
    let known = |id: &str| id.parse::<T::Id>().map_err(|_| SetError::NotFound);
    let earlier = call.created.checkpoint();
    let (done, states, ()) = set.commit_each(call.context, account, T::DATA, |txn, done| {
        call.created.restore(&earlier);
        for (name, given) in &set.create {
            done.create(call.created, name, T::create(txn, &prepared, given))?;
        }
        for (id, patch) in &set.update {
            let updated = known(id).map_err(SetFailure::from);
            done.update(id, updated.and_then(|id| T::update(txn, &prepared, id, patch)))?;
        }
        for id in &set.destroy {
            let gone = known(id).map_err(SetFailure::from);
            done.destroy(id, gone.and_then(|id| T::destroy(txn, &prepared, id)))?;
        }
        Ok(())
    })?;
    Ok(done.into_answer(call.context, account, states))
}
