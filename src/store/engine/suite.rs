//! Tests of the contract of engines.
//!
//! Every engine must pass `check_engine`, and an engine that several processes may share must pass
//! `check_shared_engine`, too. Both functions panic at the first failure.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "test code that the tests of several engines share"
)]

use std::sync::Arc;

use super::{Base, Batch, Engine, Put, RowReader, Table, WalkStep, after};
use crate::model::AccountId;
use crate::store::error::Error;

fn put(table: Table, key: &[u8], value: Option<&[u8]>) -> Put {
    Put { table, key: key.to_vec(), value: value.map(<[u8]>::to_vec) }
}

fn batch(puts: Vec<Put>) -> Arc<Batch> {
    Arc::new(Batch::of(puts))
}

fn keys(
    read: &dyn RowReader,
    table: Table,
    from: &[u8],
    to: &[u8],
    reverse: bool,
    limit: usize,
) -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    read.scan(table, from, to, reverse, &mut |key, _| {
        out.push(key.to_vec());
        Ok(out.len() < limit)
    })
    .unwrap();
    out
}

/// Returns the row where a walk stands after each of these steps, up to the step that ends it.
pub(super) fn walk_rows(
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

/// Checks that an empty engine keeps the contract.
pub fn check_engine(engine: &dyn Engine) {
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

    let (at, before) =
        (|key: &[u8]| WalkStep::At(key.to_vec()), |key: &[u8]| WalkStep::Before(key.to_vec()));
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
    let rows = [
        row("b1=three"),
        row("a2=two"),
        row("b1=three"),
        row("a1=one"),
        row("a2=two"),
        row("a1=one"),
        None,
    ];
    let wanted = [&rows[..], &[row("a2=two"), row("a1=one")]].concat();
    assert_eq!(walk_rows(engine, table, [b"", b"z"], &steps), wanted);
    assert_eq!(walk_rows(&*engine.snapshot(), table, [b"", b"z"], &steps), wanted);
    // A walk does not see rows outside its range, and `Next` or `Prev` from no row ends it. So the
    // first of these walks ends with the third step. The second walk begins with the fourth.
    let steps = [
        at(b""),
        WalkStep::Next,
        WalkStep::Next,
        before(b"zz"),
        at(b"b1"),
        WalkStep::Prev,
        at(b"a"),
    ];
    assert_eq!(walk_rows(engine, table, [b"a2", b"b1"], &steps), [row("a2=two"), None]);
    assert_eq!(walk_rows(engine, table, [b"a2", b"b1"], &steps[3..]), [row("a2=two"), None]);
    assert_eq!(walk_rows(engine, table, [b"a2", b"a2"], &[at(b"a"), before(b"z")]), [None, None]);

    let before = engine.snapshot();
    engine.write(&[batch(vec![put(table, b"a1", None), put(table, b"a3", Some(b""))])]).unwrap();
    assert_eq!(before.get(table, b"a1").unwrap().as_deref(), Some(&b"one"[..]));
    assert_eq!(get_many(&*before, &many), found);
    assert_eq!(keys(&*before, table, b"a", b"b", false, 9), [b"a1", b"a2"]);
    assert_eq!(keys(engine, table, b"a", b"b", false, 9), [b"a2", b"a3"]);
    assert_eq!(engine.get(table, b"a3").unwrap().as_deref(), Some(&b""[..]));
    drop(before);

    // If several batches of one write set a key, the last value stands. A later batch may assert
    // the value of an earlier one.
    let mut second = Batch {
        asserts: vec![put(table, b"k", Some(b"1"))],
        ..Batch::of(vec![put(table, b"k", Some(b"2"))])
    };
    engine.write(&[batch(vec![put(table, b"k", Some(b"1"))]), Arc::new(second.clone())]).unwrap();
    assert_eq!(engine.get(table, b"k").unwrap().as_deref(), Some(&b"2"[..]));
    // A batch whose assertion fails is not written, nor a later one that names one of its accounts.
    // The others are written.
    second.puts = vec![put(table, b"k", Some(b"3"))];
    let of = |account| vec![Base { account: AccountId(account), version: 0 }];
    second.bases = of(7);
    let behind = Batch { bases: of(7), ..Batch::of(vec![put(table, b"behind", Some(b"x"))]) };
    let other = Batch { bases: of(8), ..Batch::of(vec![put(table, b"other", Some(b"x"))]) };
    let written = engine.write(&[Arc::new(second), Arc::new(behind), Arc::new(other)]);
    assert_eq!(written, Ok(vec![0, 1]));
    assert_eq!(engine.get(table, b"k").unwrap().as_deref(), Some(&b"2"[..]));
    assert_eq!(engine.get(table, b"behind").unwrap(), None);
    assert_eq!(engine.get(table, b"other").unwrap().as_deref(), Some(&b"x"[..]));
    // An assertion does not see what a stale batch before it would have set.
    let first = |value: &[u8]| Batch {
        asserts: vec![put(table, b"k", Some(value))],
        ..Batch::of(vec![put(table, b"k", Some(b"4")), put(table, b"l", Some(b"4"))])
    };
    let blind = Batch {
        asserts: vec![put(table, b"k", Some(b"2"))],
        ..Batch::of(vec![put(table, b"m", Some(b"5"))])
    };
    assert_eq!(engine.write(&[Arc::new(first(b"1")), Arc::new(blind)]), Ok(vec![0]));
    assert_eq!(engine.get(table, b"l").unwrap(), None);
    assert_eq!(engine.get(table, b"m").unwrap().as_deref(), Some(&b"5"[..]));
    // Shared rows are written if one of the batches that share them is.
    let shared = Some(Arc::new(vec![put(Table::Blobs, b"message", Some(b"z"))]));
    let holder = |asserted: &[u8], key: &[u8]| {
        let asserts = vec![put(table, b"k", Some(asserted))];
        Arc::new(Batch {
            shared: shared.clone(),
            asserts,
            ..Batch::of(vec![put(table, key, Some(b"z"))])
        })
    };
    assert_eq!(engine.write(&[holder(b"1", b"p")]), Ok(vec![0]));
    assert_eq!(engine.get(Table::Blobs, b"message").unwrap(), None);
    assert_eq!(engine.write(&[holder(b"1", b"p"), holder(b"2", b"q")]), Ok(vec![0]));
    assert_eq!(engine.get(Table::Blobs, b"message").unwrap().as_deref(), Some(&b"z"[..]));
    // An assertion may say that a row does not exist.
    let creation = |value: &[u8]| {
        let asserts = vec![put(table, b"first", None)];
        Arc::new(Batch { asserts, ..Batch::of(vec![put(table, b"first", Some(value))]) })
    };
    assert_eq!(engine.write(&[creation(b"1"), creation(b"2")]), Ok(vec![1]));
    assert_eq!(engine.write(&[creation(b"3")]), Ok(vec![0]));
    assert_eq!(engine.get(table, b"first").unwrap().as_deref(), Some(&b"1"[..]));
    // An error of the callback ends a scan and is returned.
    let ended = engine.scan(table, b"", b"z", false, &mut |_, _| Err(Error::NotFound("enough")));
    assert_eq!(ended, Err(Error::NotFound("enough")));
    assert!(engine.statistics().syncs >= 3);
    assert!(engine.usage(table).rows > 0);
}

/// Checks that two handles on one empty store keep the contract of shared engines.
pub fn check_shared_engine(one: &dyn Engine, other: &dyn Engine) {
    assert!(one.is_shared() && other.is_shared());
    let (ann, bob) = (AccountId(1), AccountId(2));
    let table = Table::EmailMetadata;
    let change = |account, version, puts| {
        Arc::new(Batch { bases: vec![Base { account, version }], ..Batch::of(puts) })
    };
    let row = |key: &[u8]| one.get(table, key).unwrap();
    let base = one.base(ann).unwrap();
    assert_eq!(other.base(ann).unwrap(), base);

    // Every batch raises the version of its account, whatever it writes, and of no other account:
    // `bob` keeps `base`, the version with which both accounts begin.
    let before = other.snapshot();
    assert_eq!(one.write(&[change(ann, base, vec![put(table, b"a", Some(b"1"))])]), Ok(vec![]));
    assert_eq!((one.base(ann).unwrap(), other.base(ann).unwrap()), (base + 1, base + 1));
    assert_eq!(other.base(bob).unwrap(), base);
    assert_eq!(other.get(table, b"a").unwrap().as_deref(), Some(&b"1"[..]));
    assert_eq!((before.base(ann).unwrap(), before.get(table, b"a").unwrap()), (base, None));
    drop(before);

    // A batch with a stale base writes nothing, neither its own rows nor the shared ones.
    let shared = Some(Arc::new(vec![put(Table::Blobs, b"message", Some(b"z"))]));
    let bases = vec![Base { account: ann, version: base }];
    let late = Batch {
        bases,
        shared,
        ..Batch::of(vec![put(table, b"a", Some(b"2")), put(table, b"late", Some(b"x"))])
    };
    assert_eq!(other.write(&[Arc::new(late)]), Ok(vec![0]));
    assert_eq!((row(b"a").as_deref(), row(b"late")), (Some(&b"1"[..]), None));
    assert_eq!(one.get(Table::Blobs, b"message").unwrap(), None);
    assert_eq!(one.base(ann).unwrap(), base + 1, "a batch that is not written raises no version");

    // A change that was undone in the meantime is noticed: the rows are as before, but the version
    // is not.
    let read = one.base(ann).unwrap();
    assert_eq!(other.write(&[change(ann, read, vec![put(table, b"a", Some(b"7"))])]), Ok(vec![]));
    assert_eq!(
        other.write(&[change(ann, read + 1, vec![put(table, b"a", Some(b"1"))])]),
        Ok(vec![])
    );
    assert_eq!(one.write(&[change(ann, read, vec![put(table, b"aba", Some(b"x"))])]), Ok(vec![0]));
    assert_eq!(row(b"aba"), None);

    // A stale batch does not stop the others. A batch that was built on it is stale, too, even if
    // its base fits by chance.
    let (now, of_bob) = (one.base(ann).unwrap(), one.base(bob).unwrap());
    let group = [
        change(ann, now - 1, vec![put(table, b"stale", Some(b"x"))]),
        change(bob, of_bob, vec![put(table, b"b1", Some(b"x"))]),
        change(ann, now, vec![put(table, b"built", Some(b"x"))]),
        change(bob, of_bob + 1, vec![put(table, b"b2", Some(b"x"))]),
    ];
    assert_eq!(one.write(&group), Ok(vec![0, 2]));
    assert_eq!((row(b"stale"), row(b"built")), (None, None));
    assert!(row(b"b1").is_some() && row(b"b2").is_some());
    assert_eq!((other.base(ann).unwrap(), other.base(bob).unwrap()), (now, of_bob + 2));

    // A batch of two accounts is written whole or not at all.
    let both = |of_ann, of_bob| {
        let bases =
            vec![Base { account: ann, version: of_ann }, Base { account: bob, version: of_bob }];
        Arc::new(Batch { bases, ..Batch::of(vec![put(table, b"ab", Some(b"x"))]) })
    };
    assert_eq!(other.write(&[both(now, of_bob)]), Ok(vec![0]));
    assert_eq!((row(b"ab"), one.base(ann).unwrap()), (None, now));
    assert_eq!(other.write(&[both(now, of_bob + 2)]), Ok(vec![]));
    assert_eq!((one.base(ann).unwrap(), one.base(bob).unwrap()), (now + 1, of_bob + 3));

    // The first writer creates the store's own row.
    let creation = |value: &[u8]| {
        let asserts = vec![put(Table::Site, b"own", None)];
        Arc::new(Batch { asserts, ..Batch::of(vec![put(Table::Site, b"own", Some(value))]) })
    };
    assert_eq!(one.write(&[creation(b"1")]), Ok(vec![]));
    assert_eq!(other.write(&[creation(b"2")]), Ok(vec![0]));
    assert_eq!(other.get(Table::Site, b"own").unwrap().as_deref(), Some(&b"1"[..]));
}

#[cfg(test)]
mod tests {
    use crate::store::engine::memory::MemoryEngine;

    #[test]
    fn memory_engine_keeps_the_contract() {
        super::check_engine(&MemoryEngine::new());
    }

    #[test]
    fn memory_engine_with_two_handles_keeps_the_contract_of_shared_engines() {
        // Each check needs an empty engine. While `other` exists, the first one is shared, too.
        let one = MemoryEngine::new();
        let other = one.share();
        super::check_engine(&one);
        drop(other);
        let one = MemoryEngine::new();
        super::check_shared_engine(&one, &one.share());
    }

    #[test]
    #[cfg(feature = "rocksdb")]
    fn rocksdb_keeps_the_contract() {
        let dir = tempfile::tempdir().unwrap();
        let engine = crate::store::engine::rocks::RocksEngine::open(
            dir.path(),
            &crate::store::Options::small(),
        )
        .unwrap();
        super::check_engine(&engine);
    }
}
