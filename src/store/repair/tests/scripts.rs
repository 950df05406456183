//! A source that was altered in the store is kept for its owner, but the script is not active.

use super::*;

#[test]
fn altered_source_stays_and_is_not_active() {
    let engine = Arc::new(MemoryEngine::new());
    let clock = Arc::new(FixedClock::at(UtcMillis(1_700_000_000_000)));
    let store = Store::open_engine(engine.clone(), &Options::small(), clock).unwrap();
    make(&store, ANN, "ann");
    let id = done(&store, ANN, |txn| {
        let id = txn.create_script("a", b"keep;")?;
        txn.activate_script(Some(id)).map(|_| id)
    });
    let (key, mut row) = rows_of(&engine, Table::ScriptSources, ANN).remove(0);
    let at = row.windows(5).position(|bytes| bytes == b"keep;").unwrap();
    row[at] = b'K';
    write(&*engine, Table::ScriptSources, &key, Some(row));
    // The script has another hash than its source, and so must not be active.
    assert_eq!(deep(&store).len(), 2, "{:?}", deep(&store));
    repair(&store, RepairScope::Repair);
    assert_eq!(deep(&store), []);
    let snapshot = store.snapshot();
    assert_eq!(snapshot.active_script(ANN), Ok(None));
    assert_eq!(snapshot.script_source(ANN, id).unwrap().as_deref(), Some(&b"Keep;"[..]));
    assert_eq!(snapshot.scripts(ANN).unwrap().len(), 1);
}
