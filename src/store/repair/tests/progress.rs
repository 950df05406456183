//! The progress that a check and a repair report.

use super::*;

#[test]
fn a_check_reports_its_progress_and_stops_on_request() {
    let store = open(Arc::new(MemoryEngine::new()));
    fill(&store);
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
fn a_repair_counts_an_account_once_over_all_its_rounds() {
    let engine = Arc::new(MemoryEngine::new());
    let store = open(engine.clone());
    fill(&store);
    damage_ann(&*engine, &engine);
    let mut all = BTreeSet::new();
    let done = store.repair(RepairScope::Repair, None, &make_rows, &mut |at| {
        all.insert((at.number, at.account));
        true
    });
    assert_eq!(done.unwrap().repaired, [ANN]);
    assert_eq!(all, [(1, ANN), (2, BOB), (3, AccountId::SITE)].into());
}
