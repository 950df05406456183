//! A repair that is killed or stopped leaves its mark, and the next one finishes it.

use super::*;

#[test]
fn killed_at_any_write_the_mark_stays_and_the_next_repair_ends_it() {
    for full in 0..200 {
        let engine = Arc::new(FaultyEngine::new(MemoryEngine::new()));
        let store = open(engine.clone());
        life(&store);
        hurt(&*engine, engine.inner());
        engine.fail_after(full, Error::Full);
        let done = store.repair(RepairScope::Repair, None, &remake, &mut |_| true);
        engine.heal();
        if done.is_ok() {
            assert!(full >= 4, "hardly any write");
            return;
        }
        assert_eq!(done, Err(Error::Full));
        // As after a restart.
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
            "after {full}"
        );
        deliver(&store, ANN, 202).unwrap();
        assert_eq!(store.snapshot().emails(ANN, None, 99).unwrap().len(), 38);
    }
    panic!("it never ends");
}

#[test]
fn stopped_it_stays_marked_and_who_wrote_before_the_mark_is_seen() {
    let engine = Arc::new(MemoryEngine::new());
    let store = open(engine.clone());
    life(&store);
    hurt(&*engine, &engine);
    let mut seen = Vec::new();
    let stopped = store.repair(RepairScope::Repair, None, &remake, &mut |at| {
        if store.accounts_under_repair().unwrap().is_empty() {
            return true;
        }
        seen.push((
            deliver(&store, ANN, 99),
            deliver(&store, BOB, 100 + u32::try_from(at.rows % 100).unwrap()).map(drop),
        ));
        seen.len() < 3
    });
    assert_eq!(stopped, Err(Error::Stopped));
    assert!(
        seen.iter().all(|(ann, bob)| *ann == Err(Error::Rebuilding(ANN)) && bob.is_ok()),
        "{seen:?}"
    );
    assert_eq!(store.accounts_under_repair().unwrap(), [(ANN, RepairScope::Rebuild)]);
    assert!(store.snapshot().account(ANN).unwrap().is_some(), "who it is stays to be seen");
    repair(&store, RepairScope::Repair);
    assert_eq!(deep(&store), []);
    deliver(&store, ANN, 99).unwrap();
}
