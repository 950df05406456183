//! Tests of the directory: addresses, accounts and their names, logins, and repairs of its rows.

use super::*;
use crate::model::clock::{Clock as _, FixedClock};
use crate::model::{MessageRows, UtcMillis};
use crate::store::Options;
use crate::store::engine::memory::MemoryEngine;
use crate::store::engine::{Batch, Engine as _, Put, Table};
use crate::store::repair::RepairScope;

mod accounts;
mod addresses;
mod damage;
mod logins;
mod repairs;

fn directory(settings: Settings) -> Directory {
    let clock = Arc::new(FixedClock::at(UtcMillis(1_700_000_000_000)));
    Directory::new(
        Store::open_engine(Arc::new(MemoryEngine::new()), &Options::small(), clock).unwrap(),
        settings,
    )
}

fn address(text: &str) -> Address {
    Address::parse(text).unwrap()
}

/// The account and the detail to which an address resolves.
fn resolve(directory: &Directory, text: &str) -> Option<(AccountId, Option<String>)> {
    directory.resolve(&address(text)).unwrap().map(|target| (target.account, target.detail))
}
