//! Snapshots that are taken while a repair begins.

use std::sync::mpsc;
use std::time::Duration;

use super::*;
use crate::store::engine::watched::CountingEngine;

#[test]
fn a_snapshot_never_shows_a_half_repaired_account() {
    let ((go, begin), (say, marked)) = (mpsc::channel(), mpsc::channel());
    let engine = Arc::new(CountingEngine::default());
    let store = open(engine.clone());
    fill(&store);
    damage_ann(&*engine, engine.inner());
    std::thread::scope(|scope| {
        let own = store.clone();
        scope.spawn(move || {
            begin.recv().unwrap();
            let mut is_announced = false;
            let done = own.repair(RepairScope::Repair, None, &make_rows, &mut |_| {
                if !is_announced && !own.accounts_under_repair().unwrap().is_empty() {
                    is_announced = true;
                    say.send(()).unwrap_or_default();
                }
                true
            });
            assert_eq!(done.unwrap().unrepaired, []);
        });
        // Before the next snapshot is taken, starts the repair and gives it time to mark Ann.
        engine.before_snapshot(move || {
            go.send(()).unwrap();
            // If the repair has to wait for this snapshot, nothing is sent.
            let _announced = marked.recv_timeout(Duration::from_millis(300));
        });
        let snapshot = store.snapshot();
        let is_marked = !version::accounts_under_repair(snapshot.reader()).unwrap().is_empty();
        let read = snapshot.emails(ANN, None, 9);
        assert!(
            !is_marked || read == Err(Error::Rebuilding(ANN)),
            "the snapshot shows a half repaired account"
        );
        drop(snapshot);
    });
    assert_eq!(deep(&store), []);
}
