//! Finds rows whose keys name no account, in the tables that have one row for each account:
//! `accounts`, `account_state`, `vacation`, `active_script` and `script_errors`.
//!
//! - Other code looks rows up by the right key, or skips a row with a damaged key: the account is
//!   without this row.
//! - A row of `accounts` tells by its primary address whose it is: `unplaced_row_of` finds it, and
//!   a repair writes it under its right key.
//! - A repair of all accounts deletes those of these rows that are of no use any more: the ones of
//!   `account_state`, for every state is counted again (that of the site by `site_check`);
//!   one of `accounts` if it cannot be read, or if its account has another that can be read; and
//!   the ones of the two tables of scripts, since nothing in them tells whose they are. A vacation
//!   response stays: a person may know whose it is.

use crate::model::{AccountId, AccountRow, AddressRow};
use crate::store::engine::typed::{KeyRange, TypedRead as _};
use crate::store::engine::{RowReader, Table as TableId};
use crate::store::error::Error;
use crate::store::repair::check::rows::{Found, RowCursor};
use crate::store::repair::check::{CheckObserver, FaultFn, RowFault, RowFix};
use crate::store::row::RowFormat;
use crate::store::table::keys::{AccountKey, AddressKey};
use crate::store::table::{
    AccountState, Accounts, ActiveScript, Addresses, ScriptErrors, Table, Vacation,
};

/// Returns the first row of `accounts` under a damaged key that can be read and is the account's:
/// the row of its primary address names the account. `None` if there is none.
pub(in crate::store) fn unplaced_row_of(
    read: &dyn RowReader,
    account: AccountId,
) -> Result<Option<AccountRow>, Error> {
    let mut found = None;
    read.keys_or_damage::<Accounts>(&KeyRange::under(&()), |key, bytes| {
        if key.is_err()
            && let Ok(row) = AccountRow::from_bytes(Accounts::ID, &[], bytes)
            && account_of(read, &row)? == Some(account)
        {
            found = Some(row);
        }
        Ok(found.is_none())
    })?;
    Ok(found)
}

/// Reports the rows whose keys are damaged in the tables that have one row for each account.
pub(in crate::store) fn check_unplaced_rows(
    read: &dyn RowReader,
    run: &dyn CheckObserver,
    on_fault: &mut FaultFn<'_>,
) -> Result<(), Error> {
    check_table::<Accounts>(read, run, on_fault, account_fault)?;
    check_table::<AccountState>(read, run, on_fault, |_, _| {
        Ok(("a repair counts the state of the account again".to_owned(), RowFix::Delete))
    })?;
    check_table::<Vacation>(read, run, on_fault, |_, _| {
        Ok(("a vacation response of an unknown account".to_owned(), RowFix::Nothing))
    })?;
    check_table::<ActiveScript>(read, run, on_fault, |_, _| {
        let what = "the script of an unknown account is no longer active: its owner must activate \
                    it again";
        Ok((what.to_owned(), RowFix::Delete))
    })?;
    check_table::<ScriptErrors>(read, run, on_fault, |_, _| {
        Ok(("failed runs of scripts of an unknown account".to_owned(), RowFix::Delete))
    })
}

/// Reports the rows of a table whose keys are damaged. `judge` returns what is said of a row, and
/// the fix.
fn check_table<T: Table>(
    read: &dyn RowReader,
    run: &dyn CheckObserver,
    on_fault: &mut FaultFn<'_>,
    judge: impl Fn(&dyn RowReader, &Found<T>) -> Result<(String, RowFix), Error>,
) -> Result<(), Error> {
    let mut rows = RowCursor::<T>::of_table(read, run);
    while let Some(found) = rows.next()? {
        if found.id().is_some() {
            continue;
        }
        let (what, fix) = judge(read, &found)?;
        let (account, table): (_, TableId) = (AccountId::SITE, T::ID);
        let what = format!("the key names no account: {what}");
        on_fault(RowFault { account, table, key: found.key, what, fix, seen_by_clients: false })?;
    }
    Ok(())
}

/// Judges a row of `accounts` under a damaged key. It stays unless it cannot be read, or its
/// account has another row that can be read.
fn account_fault(read: &dyn RowReader, found: &Found<Accounts>) -> Result<(String, RowFix), Error> {
    let Ok(row) = found.row() else {
        return Ok(("the row cannot be read either".to_owned(), RowFix::Delete));
    };
    let Some(account) = account_of(read, &row)? else {
        let what = format!("it is the row of {}, whose address leads to no account", row.primary);
        return Ok((what, RowFix::Nothing));
    };
    Ok(match read.row_if_any::<Accounts>(&AccountKey { account })? {
        Some(Ok(_)) => (format!("account {account} has a row of its own"), RowFix::Delete),
        _ => (format!("a repair of account {account} takes its row from here"), RowFix::Nothing),
    })
}

/// Returns the account whose primary address is that of `row`, by the row of the address; `None` if
/// the address has no row or a damaged one, or is no primary address.
fn account_of(read: &dyn RowReader, row: &AccountRow) -> Result<Option<AccountId>, Error> {
    let address = read.row_if_any::<Addresses>(&AddressKey(row.primary.to_string()))?;
    Ok(match address {
        Some(Ok(AddressRow::Primary(account))) => Some(account),
        _ => None,
    })
}
