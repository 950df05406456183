//! What a check and a repair say of their progress.

use super::*;

#[test]
fn a_check_tells_how_far_it_is_and_stops_when_it_is_told() {
    let store = open(Arc::new(MemoryEngine::new()));
    life(&store);
    let mut all = Vec::new();
    let report = store.check_deep(None, &mut |at| {
        all.push(*at);
        true
    });
    let report = report.unwrap();
    assert_eq!((report.accounts, report.count), (2, 0));
    assert!(
        all.iter().any(|at| (at.number, at.account, at.table) == (2, BOB, "threads")),
        "{all:?}"
    );
    assert!(
        all.windows(2).all(|two| two[0].rows < two[1].rows)
            && report.rows >= all.last().unwrap().rows
    );
    assert_eq!(store.check_deep(None, &mut |at| at.number < 2), Err(Error::Stopped));
}

#[test]
fn a_repair_tells_which_account_it_is_at_however_often_it_looks() {
    let engine = Arc::new(MemoryEngine::new());
    let store = open(engine.clone());
    life(&store);
    hurt(&*engine, &engine);
    let mut all = BTreeSet::new();
    let done = store.repair(RepairScope::Repair, None, &remake, &mut |at| {
        all.insert((at.number, at.account));
        true
    });
    assert_eq!(done.unwrap().mended, [ANN]);
    assert_eq!(all, [(1, ANN), (2, BOB), (3, AccountId::SITE)].into());
}
