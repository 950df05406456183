//! The contract of an engine as a test that each engine passes. `run` panics at the first breach.
#![allow(clippy::unwrap_used, clippy::panic, reason = "test code that the engines' own tests and tests/it share")]

use std::sync::Arc;

use super::{Batch, Engine, Put, RowReader, Table, WalkStep, after};
use crate::store::error::Error;

fn put(table: Table, key: &[u8], value: Option<&[u8]>) -> Put {
    Put { table, key: key.to_vec(), value: value.map(<[u8]>::to_vec) }
}

fn batch(puts: Vec<Put>) -> Arc<Batch> {
    Arc::new(Batch { puts, asserts: Vec::new() })
}

fn keys(read: &dyn RowReader, table: Table, from: &[u8], to: &[u8], reverse: bool, limit: usize) -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    read.scan(table, from, to, reverse, &mut |key, _| {
        out.push(key.to_vec());
        Ok(out.len() < limit)
    })
    .unwrap();
    out
}

/// Where a walk stands after each of these steps, up to the one that ends it.
pub(super) fn walked(
    read: &dyn RowReader,
    table: Table,
    [from, to]: [&[u8]; 2],
    steps: &[WalkStep],
) -> Vec<Option<Vec<u8>>> {
    let (mut out, mut steps) = (Vec::new(), steps.iter().cloned());
    let first = steps.next().unwrap_or(WalkStep::End);
    read.walk(table, from, to, first, &mut |row| {
        out.push(row.map(|(key, value)| [key, b"=", value].concat()));
        Ok(steps.next().unwrap_or(WalkStep::End))
    })
    .unwrap();
    out
}

/// Holds an empty engine to the contract.
pub fn run(engine: &dyn Engine) {
    let table = Table::EmailMetadata;
    engine
        .write(&[batch(vec![
            put(table, b"a1", Some(b"one")),
            put(table, b"a2", Some(b"two")),
            put(table, b"b1", Some(b"three")),
            put(Table::Threads, b"a1", Some(b"elsewhere")),
        ])])
        .unwrap();
    assert_eq!(engine.get(table, b"a1").unwrap().as_deref(), Some(&b"one"[..]));
    assert_eq!(engine.get(table, b"a").unwrap(), None);
    assert_eq!(engine.get(Table::Threads, b"a1").unwrap().as_deref(), Some(&b"elsewhere"[..]));
    let many = [b"b1", b"a1", b"xx", b"a1"].map(|key| key.to_vec());
    let found = [Some(b"three".to_vec()), Some(b"one".to_vec()), None, Some(b"one".to_vec())];
    let get_many = |read: &dyn RowReader, keys: &[Vec<u8>]| {
        let mut rows = Vec::new();
        read.get_many(table, keys, &mut |key, row| {
            rows.push((key.to_vec(), row.map(<[u8]>::to_vec)));
            Ok(())
        })
        .map(|()| rows)
        .unwrap()
    };
    let found: Vec<_> = many.iter().cloned().zip(found).collect();
    assert_eq!(get_many(engine, &many), found);
    assert_eq!(get_many(engine, &[]), []);
    assert_eq!(keys(engine, table, b"a", &after(b"a"), false, 9), [b"a1", b"a2"]);
    assert_eq!(keys(engine, table, b"a", &after(b"a"), true, 9), [b"a2", b"a1"]);
    assert_eq!(keys(engine, table, b"a2", b"zz", true, 1), [b"b1"]);
    assert!(keys(engine, table, b"x", b"a", false, 9).is_empty());
    assert_eq!(keys(engine, table, b"", &after(&[0xff]), false, 9).len(), 3);

    let (at, before) = (|key: &[u8]| WalkStep::At(key.to_vec()), |key: &[u8]| WalkStep::Before(key.to_vec()));
    let steps = [
        before(b"zz"),
        WalkStep::Prev,
        WalkStep::Next,
        at(b"a"),
        WalkStep::Next,
        before(b"a2"),
        WalkStep::Prev,
        at(b"a2"),
        WalkStep::Prev,
    ];
    let row = |text: &str| Some(text.as_bytes().to_vec());
    let rows = [row("b1=three"), row("a2=two"), row("b1=three"), row("a1=one"), row("a2=two"), row("a1=one"), None];
    let wanted = [&rows[..], &[row("a2=two"), row("a1=one")]].concat();
    assert_eq!(walked(engine, table, [b"", b"z"], &steps), wanted);
    assert_eq!(walked(&*engine.snapshot(), table, [b"", b"z"], &steps), wanted);
    // What lies outside is not there, and where it stands at nothing a step ends it.
    let steps = [at(b""), WalkStep::Next, WalkStep::Next, before(b"zz"), at(b"b1"), WalkStep::Prev, at(b"a")];
    assert_eq!(walked(engine, table, [b"a2", b"b1"], &steps), [row("a2=two"), None]);
    assert_eq!(walked(engine, table, [b"a2", b"b1"], &steps[3..]), [row("a2=two"), None]);
    assert_eq!(walked(engine, table, [b"a2", b"a2"], &[at(b"a"), before(b"z")]), [None, None]);

    let before = engine.snapshot();
    engine.write(&[batch(vec![put(table, b"a1", None), put(table, b"a3", Some(b""))])]).unwrap();
    assert_eq!(before.get(table, b"a1").unwrap().as_deref(), Some(&b"one"[..]));
    assert_eq!(get_many(&*before, &many), found);
    assert_eq!(keys(&*before, table, b"a", b"b", false, 9), [b"a1", b"a2"]);
    assert_eq!(keys(engine, table, b"a", b"b", false, 9), [b"a2", b"a3"]);
    assert_eq!(engine.get(table, b"a3").unwrap().as_deref(), Some(&b""[..]));
    drop(before);

    // Of a key that several batches of one write set, the last value stands; a later batch may assert an earlier's.
    let mut second = Batch { puts: vec![put(table, b"k", Some(b"2"))], asserts: vec![put(table, b"k", Some(b"1"))] };
    engine.write(&[batch(vec![put(table, b"k", Some(b"1"))]), Arc::new(second.clone())]).unwrap();
    assert_eq!(engine.get(table, b"k").unwrap().as_deref(), Some(&b"2"[..]));
    // A failed assertion writes nothing at all.
    second.puts = vec![put(table, b"k", Some(b"3"))];
    let failed = engine.write(&[batch(vec![put(table, b"other", Some(b"x"))]), Arc::new(second)]);
    assert!(matches!(failed, Err(Error::Conflict(_))), "{failed:?}");
    assert_eq!(engine.get(table, b"other").unwrap(), None);
    assert_eq!(engine.get(table, b"k").unwrap().as_deref(), Some(&b"2"[..]));
    // An error of the caller ends a scan and comes back.
    let ended = engine.scan(table, b"", b"z", false, &mut |_, _| Err(Error::NotFound("enough")));
    assert_eq!(ended, Err(Error::NotFound("enough")));
    assert!(engine.statistics().syncs >= 3);
    assert!(engine.usage(table).rows > 0);
}

#[cfg(test)]
mod tests {
    #[test]
    fn memory_keeps_the_contract() {
        super::run(&crate::store::engine::memory::MemoryEngine::new());
    }

    #[test]
    #[cfg(feature = "rocksdb")]
    fn rocksdb_keeps_the_contract() {
        let dir = tempfile::tempdir().unwrap();
        let engine =
            crate::store::engine::rocks::RocksEngine::open(dir.path(), &crate::store::Options::small()).unwrap();
        super::run(&engine);
    }
}
