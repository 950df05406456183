//! A repair that failed or was stopped after it marked the account leaves it marked, and the next
//! one finishes it.

use super::*;

#[test]
fn a_repair_that_fails_at_any_write_is_finished_by_the_next_one() {
    for writes in 0..200 {
        let engine = Arc::new(FaultyEngine::new(MemoryEngine::new()));
        let store = open(engine.clone());
        fill(&store);
        damage_ann(&*engine, engine.inner());
        engine.fail_after(writes, Error::Full);
        let done = store.repair(RepairScope::Repair, None, &make_rows, &mut |_| true);
        engine.heal();
        if done.is_ok() {
            // The mark, the end, and several batches between.
            assert!(writes >= 4, "the repair made too few writes");
            return;
        }
        assert_eq!(done, Err(Error::Full));
        drop(store);
        let store = open(engine.clone());
        let marked = store.accounts_under_repair().unwrap();
        if !marked.is_empty() {
            assert_eq!(marked[0].0, ANN);
            assert_eq!(deliver(&store, ANN, 201), Err(Error::Rebuilding(ANN)));
            assert_eq!(store.snapshot().emails(ANN, None, 9), Err(Error::Rebuilding(ANN)));
            assert!(deep(&store).iter().any(|breach| breach.what.contains("not finished")));
        }
        deliver(&store, BOB, 201).unwrap();
        repair(&store, RepairScope::Repair);
        assert_eq!(
            (deep(&store), store.accounts_under_repair().unwrap()),
            (vec![], vec![]),
            "after {writes}"
        );
        deliver(&store, ANN, 202).unwrap();
        // `fill` delivered 40 and destroyed 3, and one was delivered now.
        assert_eq!(store.snapshot().emails(ANN, None, 99).unwrap().len(), 38);
    }
    panic!("the repair never succeeds");
}

#[test]
fn a_stopped_repair_leaves_its_account_marked_and_no_other() {
    let engine = Arc::new(MemoryEngine::new());
    let store = open(engine.clone());
    fill(&store);
    damage_ann(&*engine, &engine);
    let mut seen = Vec::new();
    let stopped = store.repair(RepairScope::Repair, None, &make_rows, &mut |_| {
        if store.accounts_under_repair().unwrap().is_empty() {
            return true;
        }
        seen.push((
            deliver(&store, ANN, 99),
            deliver(&store, BOB, 100 + u32::try_from(seen.len()).unwrap()).map(drop),
        ));
        seen.len() < 3
    });
    assert_eq!(stopped, Err(Error::Stopped));
    assert!(
        seen.iter().all(|(ann, bob)| *ann == Err(Error::Rebuilding(ANN)) && bob.is_ok()),
        "{seen:?}"
    );
    // Clients may have seen the damage, so the repair became a rebuild.
    assert_eq!(store.accounts_under_repair().unwrap(), [(ANN, RepairScope::Rebuild)]);
    assert!(
        store.snapshot().account(ANN).unwrap().is_some(),
        "the account's own row stays readable"
    );
    repair(&store, RepairScope::Repair);
    assert_eq!(deep(&store), []);
    deliver(&store, ANN, 99).unwrap();
}
