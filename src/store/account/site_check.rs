//! Checks the rows of the site in two tables of accounts, `account_state` and `sweeps`.
//!
//! - The site's state has the newest account id (`AccountStateRow::last_account`). If the row is
//!   lost or says too little, the ids of erased accounts are given again, and what still names an
//!   erased account counts for the new one. A repair of all accounts writes the row anew.
//! - A sweep whose row cannot be read fails at each step. A repair of all accounts deletes the row,
//!   and the sweep begins anew.
//! - It also deletes the rows of `sweeps` whose keys are damaged, except for those that begin with
//!   an existing account: the check of that account reports them.

use crate::model::{AccountId, AddressRow, Mailbox, ModSeq, ShareNotification};
use crate::store::account::directory::{highest_account_in, highest_existing_account};
use crate::store::account::mailboxes_check::MODSEQ_LEAP;
use crate::store::engine::typed::{KeyRange, TypedRead as _};
use crate::store::engine::{RowReader, Table};
use crate::store::error::Error;
use crate::store::repair::check::rows::RowCursor;
use crate::store::repair::check::{CheckObserver, FaultFn, RowFault, RowFix};
use crate::store::row::{AccountStateRow, Object as _, ObjectRow, Row as _, RowFormat as _};
use crate::store::table::codec::Prefix as _;
use crate::store::table::keys::{AccountKey, SweepKey, UploadKey};
use crate::store::table::{
    AccountState, Accounts, Addresses, Home, Mailboxes, Objects, Subscriptions, Sweeps, Uploads,
    decode_key,
};
use crate::store::version;

/// An id that is higher by more than this than that of every account is taken for damage, and not
/// for one of an erased account: account ids would soon be used up.
const MAX_IDS_OF_ERASED: u32 = 1 << 20;

const SITE_KEY: AccountKey = AccountKey { account: AccountId::SITE };

/// Returns the fault of the site's state, whose fix is the right row; `None` if the row is right,
/// or if it is missing and no row has the id of an account.
pub(in crate::store) fn site_state_fault(read: &dyn RowReader) -> Result<Option<RowFault>, Error> {
    let highest = highest_account(read)?.0;
    let (what, wanted) = match read.row_if_any::<AccountState>(&SITE_KEY)? {
        Some(Ok(found)) => {
            let marks = found.high.iter().chain(&found.low).max().copied().unwrap_or_default();
            let wanted = AccountStateRow {
                last_account: found.last_account.max(highest),
                modseq: found.modseq.max(marks),
                ..found.clone()
            };
            if wanted == found {
                return Ok(None);
            }
            let what = format!(
                "says that the newest account id is {} and the newest change {}, should say {} \
                 and {}",
                found.last_account, found.modseq.0, wanted.last_account, wanted.modseq.0
            );
            (what, wanted)
        }
        None if highest == 0 => return Ok(None),
        lost => {
            let problem = match lost {
                Some(Err(error)) => error.to_string(),
                _ => "the row of the site is missing".to_owned(),
            };
            // No row of the site has a change number.
            let wanted = AccountStateRow {
                last_account: highest,
                modseq: ModSeq(MODSEQ_LEAP),
                ..AccountStateRow::fresh()
            };
            (format!("{problem}: account ids go on above {highest}, the highest in use"), wanted)
        }
    };
    Ok(Some(RowFault {
        account: AccountId::SITE,
        table: Table::AccountState,
        key: SITE_KEY.encode(),
        what,
        fix: RowFix::Put(wanted.to_bytes()),
        seen_by_clients: false,
    }))
}

/// Returns the highest account id that a row of any table has; 0 if there is none. Damaged rows and
/// rows of the tables whose strays a repair deletes (`RepairMethod::Strays`) do not count, and
/// neither do ids far above those of all accounts.
fn highest_account(read: &dyn RowReader) -> Result<AccountId, Error> {
    let mut highest = highest_existing_account(read)?;
    let most = AccountId(highest.0.saturating_add(MAX_IDS_OF_ERASED));
    let higher =
        |highest: AccountId, id: AccountId| if id > most { highest } else { highest.max(id) };
    // The keys of these tables begin with an account.
    for table in Table::ALL.iter().copied().filter(|table| table.home() == Home::Account) {
        if !matches!(table, Table::Accounts | Table::AccountState) {
            highest = highest.max(highest_account_in(read, table, most)?);
        }
    }
    let marked = version::accounts_under_repair(read)?.into_iter().map(|(account, _)| account);
    highest = marked.fold(highest, higher);
    read.raw_rows(&KeyRange::<Addresses>::under(&()), |key, value| {
        let row = AddressRow::from_bytes(Table::Addresses, key, value).ok();
        highest = row.and_then(|row| row.account()).map_or(highest, |id| higher(highest, id));
        Ok(true)
    })?;
    read.raw_rows(&KeyRange::<Mailboxes>::under(&()), |key, value| {
        let row = Mailbox::decode(key, value).unwrap_or_default();
        highest = row.shares.into_keys().fold(highest, higher);
        Ok(true)
    })?;
    read.keys_or_damage::<Subscriptions>(&KeyRange::under(&()), |key, _| {
        highest = key.map_or(highest, |key| higher(highest, key.subscriber));
        Ok(true)
    })?;
    read.keys_or_damage::<Uploads>(&KeyRange::under(&()), |key, _| {
        highest = key.map_or(highest, |UploadKey { user, .. }| higher(highest, user));
        Ok(true)
    })?;
    read.raw_rows(&KeyRange::<Objects>::under(&()), |key, value| {
        let kind = decode_key::<Objects>(key).ok().map(|key| key.kind);
        if kind == Some(ShareNotification::KIND)
            && let Ok(row) = ObjectRow::<ShareNotification>::decode(key, value)
            && let Some(told) = row.object
        {
            let by = told.by.account.unwrap_or_default();
            highest = higher(higher(highest, told.account), by);
        }
        Ok(true)
    })?;
    Ok(highest)
}

/// Reports the rows of `sweeps` that the check of no account reads: those of the site that cannot
/// be read, and those whose keys are damaged and begin with no existing account.
pub(in crate::store) fn check_sweeps(
    read: &dyn RowReader,
    run: &dyn CheckObserver,
    on_fault: &mut FaultFn<'_>,
) -> Result<(), Error> {
    let mut rows = RowCursor::<Sweeps>::of_table(read, run);
    while let Some(found) = rows.next()? {
        let what = match (found.id(), found.row()) {
            (None, _) if !begins_with_account(read, &found.key)? => {
                "the key names no sweep".to_owned()
            }
            (Some(SweepKey { account: AccountId::SITE, .. }), Err(error)) => {
                format!("{error}: the sweep begins anew")
            }
            _ => continue,
        };
        on_fault(RowFault {
            account: AccountId::SITE,
            table: Table::Sweeps,
            key: found.key,
            what,
            fix: RowFix::Delete,
            seen_by_clients: false,
        })?;
    }
    Ok(())
}

/// Whether a key begins with the id of an account that has a row or a state.
fn begins_with_account(read: &dyn RowReader, key: &[u8]) -> Result<bool, Error> {
    let Some(id) = key.first_chunk() else { return Ok(false) };
    let own = AccountKey { account: AccountId(u32::from_be_bytes(*id)) };
    Ok(own.account != AccountId::SITE
        && (read.bytes::<Accounts>(&own)?.is_some() || read.bytes::<AccountState>(&own)?.is_some()))
}
