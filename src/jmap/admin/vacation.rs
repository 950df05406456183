//! Vacation/get and Vacation/set: the standard methods over the vacation response with the vendor's
//! properties. The account is named as in other vendor methods.

use super::AdminMethod;
use crate::jmap::context::Account;
use crate::jmap::method::Call;
use crate::jmap::standard::{get_from, set_in};
use crate::jmap::vacation::VendorVacation;
use crate::wire::jmap::admin::vacation::{
    VacationGet, VacationGetAnswer, VacationGetArguments, VacationSet, VacationSetArguments,
};
use crate::wire::jmap::admin::{AccountRef, OfAccount};
use crate::wire::jmap::standard::{GetAnswer, SetAnswer, SetArgs};
use crate::wire::jmap::{MethodError, With};

impl AdminMethod for VacationGet {
    fn call(
        call: &Call<'_>,
        With(account_ref, args): OfAccount<VacationGetArguments>,
    ) -> Result<VacationGetAnswer, MethodError> {
        let account = managed_account(call, &account_ref)?;
        let GetAnswer { account_id, state, list, not_found } =
            get_from::<VendorVacation>(call, &account, args.ids, args.properties)?;
        let list =
            list.into_iter().map(serde_json::from_value).collect::<serde_json::Result<_>>()?;
        Ok(VacationGetAnswer { account_id, state, list, not_found })
    }
}

impl AdminMethod for VacationSet {
    fn call(
        call: &Call<'_>,
        With(account_ref, args): OfAccount<VacationSetArguments>,
    ) -> Result<SetAnswer, MethodError> {
        let account = managed_account(call, &account_ref)?;
        let VacationSetArguments { if_in_state, create, update, destroy } = args;
        let args =
            SetArgs { account_id: account.id.to_string(), if_in_state, create, update, destroy };
        set_in::<VendorVacation>(call, &account, args)
    }
}

/// Finds the account by `Context::account_of`, as other vendor methods do, so the caller is no
/// guest.
fn managed_account(call: &Call<'_>, account_ref: &AccountRef) -> Result<Account, MethodError> {
    let (id, row) = call.context.account_of(account_ref)?;
    Ok(Account { id, row, guest: None })
}
