//! Who looks while a repair begins.

use std::sync::mpsc;
use std::time::Duration;

use super::*;
use crate::store::engine::watched::CountingEngine;

#[test]
fn no_view_is_of_a_repair_that_began_while_it_was_made() {
    let ((go, begin), (say, marked)) = (mpsc::channel(), mpsc::channel());
    let engine = Arc::new(CountingEngine::default());
    let store = open(engine.clone());
    life(&store);
    hurt(&*engine, engine.inner());
    std::thread::scope(|scope| {
        let own = store.clone();
        scope.spawn(move || {
            begin.recv().unwrap();
            let mut told = false;
            let done = own.repair(RepairScope::Repair, None, &remake, &mut |_| {
                if !told && !own.accounts_under_repair().unwrap().is_empty() {
                    told = true;
                    say.send(()).unwrap_or_default();
                }
                true
            });
            assert_eq!(done.unwrap().left, []);
        });
        // The first snapshot that is wanted lets the repair go ahead, and gives it time.
        engine.before_snapshot(move || {
            go.send(()).unwrap();
            // Where the repair cannot come between it waits for us, and nobody says anything.
            let _told = marked.recv_timeout(Duration::from_millis(300));
        });
        let snapshot = store.snapshot();
        let is_marked = !version::accounts_under_repair(snapshot.reader()).unwrap().is_empty();
        let read = snapshot.emails(ANN, None, 9);
        assert!(!is_marked || read == Err(Error::Rebuilding(ANN)), "half a repair is seen");
        drop(snapshot);
    });
    assert_eq!(deep(&store), []);
}
