//! The rows of the site: its state, which has the newest account id, and its sweeps.

use std::time::Duration;

use super::*;

fn site_key() -> Vec<u8> {
    AccountKey { account: AccountId::SITE }.encode()
}

fn site_state(store: &Store) -> AccountStateRow {
    store.snapshot().account_state(AccountId::SITE).unwrap()
}

#[expect(
    clippy::redundant_closure_for_method_calls,
    reason = "the method itself is not general over the lifetime of `Txn`"
)]
fn try_next_account(store: &Store) -> Result<AccountId, Error> {
    let (account, ticket) = store.commit(AccountId::SITE, |txn| txn.next_account())?;
    ticket.wait_blocking().map(|()| account)
}

fn next_account(store: &Store) -> AccountId {
    try_next_account(store).unwrap()
}

#[test]
fn lost_damaged_or_low_state_of_the_site_is_reported_and_written_anew() {
    type DamageFn = fn(AccountStateRow) -> Option<Vec<u8>>;
    let damages: [(&str, DamageFn); 4] = [
        ("lost", |_| None),
        ("unreadable", |_| Some(vec![99])),
        ("low id", |found| Some(AccountStateRow { last_account: 1, ..found }.encode())),
        ("low modseq", |found| {
            Some(AccountStateRow { modseq: crate::model::ModSeq(0), ..found }.encode())
        }),
    ];
    for (name, damage) in damages {
        let engine = Arc::new(MemoryEngine::new());
        let store = open(engine.clone());
        fill(&store);
        let before = site_state(&store);
        assert_eq!((before.last_account, deep(&store)), (BOB.0, vec![]), "{name}");
        write(&*engine, Table::AccountState, &site_key(), damage(before.clone()));
        let named = deep(&store);
        assert!(
            named.len() == 1
                && (named[0].account, named[0].table) == (AccountId::SITE, "account_state"),
            "{name}: {named:?}"
        );
        // Only a repair of all accounts mends the rows of the site.
        store.repair(RepairScope::Repair, Some(&[ANN]), &make_rows, &mut |_| true).unwrap();
        assert_eq!(deep(&store), named, "{name}");
        let report = repair(&store, RepairScope::Repair);
        assert_eq!((report.repaired, report.written), (vec![], 1), "{name}");
        assert_eq!(deep(&store), [], "{name}");
        let after = site_state(&store);
        assert_eq!(after.last_account, BOB.0, "{name}");
        assert!(after.modseq >= before.modseq, "{name}");
        assert_eq!(next_account(&store), AccountId(3), "{name}");
        assert_eq!(repair(&store, RepairScope::Repair).written, 0, "{name}");
    }
}

#[test]
fn readable_account_id_of_the_site_is_not_lowered_by_a_repair() {
    let engine = Arc::new(MemoryEngine::new());
    let store = open(engine.clone());
    fill(&store);
    let found = site_state(&store);
    let high = AccountStateRow { last_account: 50, modseq: crate::model::ModSeq(0), ..found };
    write(&*engine, Table::AccountState, &site_key(), Some(high.encode()));
    assert_eq!(repair(&store, RepairScope::Repair).written, 1);
    assert_eq!(next_account(&store), AccountId(51));
}

#[test]
fn id_of_an_erased_account_that_a_row_still_names_is_not_given_again() {
    let engine = Arc::new(MemoryEngine::new());
    let store = open(engine.clone());
    fill(&store);
    let subscribe = |subscriber: u32| {
        let (mut key, value) = rows_of(&engine, Table::Subscriptions, ANN).remove(0);
        let at = key.len() - 4;
        key[at..].copy_from_slice(&subscriber.to_be_bytes());
        write(&*engine, Table::Subscriptions, &key, Some(value));
    };
    let share = |guest: u32| {
        let (key, row) = rows_of(&engine, Table::Mailboxes, ANN).remove(0);
        let mut row = Mailbox::decode(&key, &row).unwrap();
        row.shares.insert(AccountId(guest), 1);
        write(&*engine, Table::Mailboxes, &key, Some(row.encode()));
    };
    let write_alias = |account: u32| {
        let row = AddressRow::Alias(AccountId(account)).encode();
        write(&*engine, Table::Addresses, b"gone@example.org", Some(row));
    };
    let damages: [(&dyn Fn(u32), u32); 3] = [(&subscribe, 7), (&share, 9), (&write_alias, 11)];
    for (name_account, id) in damages {
        write(&*engine, Table::AccountState, &site_key(), None);
        name_account(id);
        repair(&store, RepairScope::Repair);
        assert_eq!(site_state(&store).last_account, id);
    }
    assert_eq!(next_account(&store), AccountId(12));
}

#[test]
fn id_of_a_row_is_not_given_again_before_a_repair() {
    let engine = Arc::new(MemoryEngine::new());
    let store = open(engine.clone());
    fill(&store);
    write(&*engine, Table::AccountState, &site_key(), None);
    // A damaged key behind all others is passed over.
    write(&*engine, Table::Accounts, &[0xff; 5], Some(vec![99]));
    assert_eq!(next_account(&store), AccountId(3));
    let (_, state) = rows_of(&engine, Table::AccountState, ANN).remove(0);
    let five = AccountKey { account: AccountId(5) }.encode();
    write(&*engine, Table::AccountState, &five, Some(state));
    assert_eq!(next_account(&store), AccountId(6));
    let full = AccountStateRow { last_account: u32::MAX, ..site_state(&store) };
    write(&*engine, Table::AccountState, &site_key(), Some(full.encode()));
    assert!(matches!(try_next_account(&store), Err(Error::Conflict(_))));
}

#[test]
fn damaged_sweeps_of_the_site_and_of_no_account_are_reported_and_deleted() {
    let engine = Arc::new(MemoryEngine::new());
    let store = open(engine.clone());
    fill(&store);
    let sweep =
        || store.commit(AccountId::SITE, |txn| txn.sweep_blobs(Duration::from_secs(3600), 5));
    sweep().unwrap().1.wait_blocking().unwrap();
    assert_eq!(deep(&store), []);
    let (key, value) = rows_of(&engine, Table::Sweeps, AccountId::SITE).remove(0);
    write(&*engine, Table::Sweeps, &key, Some([&value[..], &[7]].concat()));
    // Of the site, too short, of account 9, which does not exist, and of Ann.
    for damaged in [&[0, 0, 0, 0, 2, 1][..], &[0, 0, 0], &[0, 0, 0, 9, 1, 1], &[0, 0, 0, 1, 1, 1]] {
        write(&*engine, Table::Sweeps, damaged, Some(value.clone()));
    }
    assert!(matches!(sweep(), Err(Error::Corrupt { .. })));
    let mut named: Vec<(AccountId, &str)> =
        deep(&store).iter().map(|breach| (breach.account, breach.table)).collect();
    named.sort_unstable();
    let site = (AccountId::SITE, "sweeps");
    assert_eq!(named, [site, site, site, site, (ANN, "sweeps")]);
    repair(&store, RepairScope::Repair);
    assert_eq!(deep(&store), []);
    let left = engine.rows(Table::Sweeps).into_iter().map(|(key, _)| key);
    assert_eq!(left.collect::<Vec<_>>(), [[0, 0, 0, 1, 1], [0, 0, 0, 2, 1]]);
    // The sweep begins anew.
    sweep().unwrap().1.wait_blocking().unwrap();
    assert_eq!(rows_of(&engine, Table::Sweeps, AccountId::SITE).len(), 1);
}
