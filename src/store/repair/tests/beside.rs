//! Who looks while a repair begins.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use super::*;
use crate::store::engine::{Each, Read, Statistics, Table, Usage};

/// The first snapshot that is wanted of it lets a repair go ahead, and gives it time.
#[derive(Debug)]
struct Slow {
    inner: Memory,
    armed: AtomicBool,
    go: parking_lot::Mutex<Option<mpsc::Sender<()>>>,
    marked: parking_lot::Mutex<mpsc::Receiver<()>>,
}

impl Read for Slow {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.inner.get(table, key)
    }

    fn scan(&self, table: Table, from: &[u8], to: &[u8], reverse: bool, each: &mut Each<'_>) -> Result<(), Error> {
        self.inner.scan(table, from, to, reverse, each)
    }
}

impl Engine for Slow {
    fn snapshot(&self) -> Box<dyn Read + '_> {
        if self.armed.swap(false, Ordering::SeqCst)
            && let Some(go) = self.go.lock().take()
        {
            go.send(()).unwrap();
            // Where the repair cannot come between it waits for us, and nobody says anything.
            let _told = self.marked.lock().recv_timeout(Duration::from_millis(300));
        }
        self.inner.snapshot()
    }

    fn write(&self, batches: &[Arc<Batch>]) -> Result<(), Error> {
        self.inner.write(batches)
    }

    fn checkpoint(&self, dir: &Path) -> Result<(), Error> {
        self.inner.checkpoint(dir)
    }

    fn statistics(&self) -> Statistics {
        self.inner.statistics()
    }

    fn usage(&self, table: Table) -> Usage {
        self.inner.usage(table)
    }
}

#[test]
fn no_view_is_of_a_repair_that_began_while_it_was_made() {
    let ((go, begin), (say, marked)) = (mpsc::channel(), mpsc::channel());
    let (go, marked) = (parking_lot::Mutex::new(Some(go)), parking_lot::Mutex::new(marked));
    let engine = Arc::new(Slow { inner: Memory::new(), armed: AtomicBool::new(false), go, marked });
    let store = open(engine.clone());
    life(&store);
    hurt(&*engine, &engine.inner);
    std::thread::scope(|scope| {
        let own = store.clone();
        scope.spawn(move || {
            begin.recv().unwrap();
            let mut told = false;
            let done = own.repair(Scope::Repair, None, &remake, &mut |_| {
                if !told && !own.unfinished().unwrap().is_empty() {
                    told = true;
                    say.send(()).unwrap_or_default();
                }
                true
            });
            assert_eq!(done.unwrap().left, []);
        });
        engine.armed.store(true, Ordering::SeqCst);
        let view = store.view();
        let is_marked = !version::unfinished(view.reader()).unwrap().is_empty();
        let read = view.emails(ANN, None, 9);
        assert!(!is_marked || read == Err(Error::Rebuilding(ANN)), "half a repair is seen");
        drop(view);
    });
    assert_eq!(deep(&store), []);
}
