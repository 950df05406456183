//! Tests that a check compares accounts and addresses, and a repair mends them.

use super::*;
use crate::store::engine::watched::CountingEngine;

/// A lost or damaged row of either table is noticed, and made anew from the other table.
#[test]
fn accounts_and_addresses_are_compared_both_ways_and_repaired() {
    for table in [Table::Addresses, Table::Accounts] {
        for damaged in [None, Some(vec![99])] {
            let engine = Arc::new(MemoryEngine::new());
            let clock = Arc::new(FixedClock::at(UtcMillis(1_700_000_000_000)));
            let store = Store::open_engine(engine.clone(), &Options::small(), clock).unwrap();
            let directory = Directory::new(store.clone(), Settings::default());
            let new = NewAccount {
                name: Some("ann".into()),
                ..NewAccount::at(address("ann@example.org"))
            };
            let ann = directory.add(&new).unwrap();
            directory.add_catch_all(ann, "shop.example").unwrap();
            assert_eq!(store.check().unwrap(), []);
            let key = if table == Table::Accounts {
                ann.0.to_be_bytes().to_vec()
            } else {
                b"ann@example.org".to_vec()
            };
            let puts = vec![Put { table, key, value: damaged.clone() }];
            engine.write(&[Arc::new(Batch::of(puts))]).unwrap();
            let named: Vec<String> =
                store.check().unwrap().into_iter().map(|breach| breach.to_string()).collect();
            assert!(named.iter().any(|breach| breach.contains(table.name())), "{named:?}");
            store
                .repair(RepairScope::Repair, None, &|_| MessageRows::default(), &mut |_| true)
                .unwrap();
            assert_eq!(store.check().unwrap(), []);
            assert_eq!(resolve(&directory, "ann@example.org"), Some((ann, None)));
            assert_eq!(resolve(&directory, "any@shop.example"), Some((ann, None)));
            // A recovered account has its address as its name.
            let name = if table == Table::Accounts { "ann@example.org" } else { "ann" };
            assert_eq!(directory.find_account("ann@example.org").unwrap().unwrap().1.name, name);
        }
    }
}

/// The check reports the account as being removed.
#[test]
fn interrupted_removal_is_not_undone_by_a_repair() {
    let directory = directory(Settings::default());
    let ann = directory.add(&NewAccount::at(address("ann@example.org"))).unwrap();
    let store = &directory.0.store;
    let cut = store.commit(ann, |txn| {
        let row = txn.snapshot().account(ann)?.unwrap();
        txn.set_account(&AccountRow { active: false, primary: Address::from_parts("", ""), ..row });
        Ok(())
    });
    cut.unwrap().1.wait_blocking().unwrap();
    let cut = store.commit(AccountId::SITE, |txn| {
        txn.set_address("ann@example.org", None);
        Ok(())
    });
    cut.unwrap().1.wait_blocking().unwrap();
    let named = store.check().unwrap();
    assert!(named.len() == 1 && named[0].what.contains("is being removed"), "{named:?}");
    store.repair(RepairScope::Repair, None, &|_| MessageRows::default(), &mut |_| true).unwrap();
    assert_eq!((resolve(&directory, "ann@example.org"), store.check().unwrap()), (None, named));
    directory.remove(ann).unwrap();
    assert_eq!(store.check().unwrap(), []);
}

/// If a check read all addresses for each account, the rows read would grow with the square.
#[test]
fn check_reads_rows_in_proportion_to_the_accounts() {
    let rows = |accounts: usize| {
        let engine = Arc::new(CountingEngine::default());
        let clock = Arc::new(FixedClock::at(UtcMillis(1_700_000_000_000)));
        let store = Store::open_engine(engine.clone(), &Options::small(), clock).unwrap();
        let directory = Directory::new(
            store.clone(),
            Settings { standard_mailboxes: false, ..Settings::default() },
        );
        for n in 0..accounts {
            let aliases = vec![address(&format!("b{n}@example.org"))];
            directory
                .add(&NewAccount {
                    aliases,
                    ..NewAccount::at(address(&format!("a{n}@example.org")))
                })
                .unwrap();
        }
        // Each call returns the number of rows read since the last one.
        engine.read();
        assert_eq!(store.check().unwrap(), []);
        engine.read()
    };
    // With eight times the accounts, about eight times the rows.
    let (few, many) = (rows(4), rows(32));
    assert!(many < few * 10, "{few} rows, then {many}");
}
